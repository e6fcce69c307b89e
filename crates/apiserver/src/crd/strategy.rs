//! How CustomResourceDefinitions behave.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use apimachinery::apply::FieldSet;
use apimachinery::meta;
use apimachinery::normal_form::NormalForm;
use apischema::FieldError;
use serde_json::{Value, json};

use super::condition::{Condition, TERMINATING, field_mut, set_condition, status_mut, to_value};
use super::definition::{CLEANUP_FINALIZER, Definition, DefinitionVersion, Names};
use super::{json_schema, validation};
use crate::registry::{Action, Generation, Strategy, take_field};
use crate::verbs::{spec_field, status_field};

/// How CustomResourceDefinitions behave.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DefinitionStrategy;

/// What a definition has before anything is set.
static EMPTY: LazyLock<Option<Value>> = LazyLock::new(|| {
    let schema = apischema::core::schema(super::GROUP, "v1", "CustomResourceDefinition")?;
    Some(NormalForm::of(&schema).empty().clone())
});

impl Strategy for DefinitionStrategy {
    fn empty(&self) -> Option<&Value> {
        EMPTY.as_ref()
    }

    fn reset_fields(&self, subresource: &str) -> Option<&FieldSet<'static>> {
        match subresource {
            "" => Some(status_field()),
            "status" => Some(spec_field()),
            _ => None,
        }
    }

    fn set_defaults(&self, object: &mut Value) {
        set_defaults(object);
    }

    fn prepare_for_create(&self, object: &mut Value, _action: Action<'_>) {
        let stored: Vec<String> = storage_version(object).into_iter().collect();
        let stored = if stored.is_empty() { Value::Null } else { stored.into() };
        let names = to_value(&Names::default());
        let status = json!({"conditions": null, "acceptedNames": names, "storedVersions": stored});
        if let Some(fields) = object.as_object_mut() {
            fields.insert("status".into(), status);
        }
    }

    fn prepare_for_update(&self, object: &mut Value, old: &Value, _action: Action<'_>) {
        take_field(object, old, "status");
        let Some(storage) = storage_version(object) else { return };
        let stored = status_mut(object).entry("storedVersions").or_insert_with(|| json!([]));
        if stored.is_null() {
            *stored = json!([]);
        }
        if let Some(stored) =
            stored.as_array_mut().filter(|stored| !stored.iter().any(|name| *name == storage))
        {
            stored.push(storage.into());
        }
    }

    fn validate(&self, object: &Value, _action: Action<'_>) -> Vec<FieldError> {
        read(object)
            .map_or_else(|error| vec![error], |definition| validation::create_errors(object, &definition))
    }

    fn validate_update(&self, object: &Value, old: &Value, action: Action<'_>) -> Vec<FieldError> {
        let (definition, old) = match (read(object), read(old)) {
            (Ok(definition), Ok(old)) => (definition, old),
            (Err(error), _) | (_, Err(error)) => return vec![error],
        };
        if action.subresource == "status" {
            validation::status_errors(&definition.status)
        } else {
            validation::update_errors(object, &definition, &old)
        }
    }

    fn warnings(&self, object: &Value, old: Option<&Value>, action: Action<'_>) -> Vec<String> {
        if !action.subresource.is_empty() {
            return Vec::new();
        }
        let known: BTreeSet<String> = old.map(unrecognized_formats).unwrap_or_default().into_iter().collect();
        let new = unrecognized_formats(object).into_iter().filter(|format| !known.contains(format));
        new.map(|format| format!("unrecognized format {format:?}")).collect()
    }

    fn generation(&self) -> Generation {
        Generation::Spec
    }

    fn updates_unconditionally(&self) -> bool {
        false
    }

    fn holds_deletion(&self, object: &Value) -> bool {
        // The first word of deletion always finds something to do: objects go first. From then on a finalizer holds.
        meta::deletion_timestamp(object).is_none()
    }

    fn deletion_begins(&self, object: &mut Value) {
        let finalizers = field_mut(object, "metadata").entry("finalizers").or_insert_with(|| json!([]));
        if let Some(finalizers) =
            finalizers.as_array_mut().filter(|all| !all.iter().any(|one| one == CLEANUP_FINALIZER))
        {
            finalizers.push(CLEANUP_FINALIZER.into());
        }
        let message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
        let condition = Condition::new(TERMINATING, true, "InstanceDeletionPending", message);
        let now = meta::deletion_timestamp(object).unwrap_or_default().to_owned();
        set_condition(object, condition, &now);
    }
}

fn read(object: &Value) -> Result<Definition, FieldError> {
    Definition::read(object).map_err(|error| FieldError::invalid("spec", "", error.to_string()))
}

fn unrecognized_formats(object: &Value) -> Vec<String> {
    let definition = Definition::read(object).unwrap_or_default();
    let schemas = definition.spec.versions.iter().filter_map(DefinitionVersion::open_api_schema);
    schemas.flat_map(json_schema::unrecognized_formats).map(String::from).collect()
}

fn storage_version(object: &Value) -> Option<String> {
    let versions = object.pointer("/spec/versions")?.as_array()?;
    let storage = versions.iter().find(|version| version["storage"] == true)?;
    Some(storage["name"].as_str()?.to_owned())
}

fn set_defaults(object: &mut Value) {
    let spec = field_mut(object, "spec");
    spec.entry("conversion").or_insert_with(|| json!({"strategy": "None"}));
    if let Some(Value::Object(service)) = object.pointer_mut("/spec/conversion/webhook/clientConfig/service")
    {
        service.entry("port").or_insert_with(|| 443.into());
    }
    if let Some(storage) = storage_version(object)
        && let Some(Value::Object(status)) = object.get_mut("status")
        && status.get("storedVersions").and_then(Value::as_array).is_none_or(Vec::is_empty)
    {
        status.insert("storedVersions".into(), vec![storage].into());
    }
    let Some(spec) = object.get_mut("spec") else { return };
    let names = field_mut(spec, "names");
    let kind = names.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
    if kind.is_empty() {
        return;
    }
    let is_absent = |value: Option<&Value>| value.and_then(Value::as_str).is_none_or(str::is_empty);
    if is_absent(names.get("singular")) {
        names.insert("singular".into(), kind.to_lowercase().into());
    }
    if is_absent(names.get("listKind")) {
        names.insert("listKind".into(), format!("{kind}List").into());
    }
}
