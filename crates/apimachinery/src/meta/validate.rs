//! What a server refuses in metadata.

use apischema::FieldError;
use serde_json::{Map, Value};

use super::NameRule;
use crate::group::GroupVersion;
use crate::options::validate_field_manager;
use crate::{format, time};
use apischema::go_text;

/// The most that all annotations of an object may take, keys included: 256 KiB.
pub const ANNOTATIONS_LIMIT: usize = 256 * 1024;

const IMMUTABLE: &str = "field is immutable";

/// Whether objects of a kind are in namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// They are.
    Namespaced,
    /// They are not.
    Cluster,
}

/// What is wrong with the metadata of a new object whose name has been made up if it had to be.
pub fn validate_create(object: &Value, scope: Scope, rule: NameRule) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let base = super::generate_name_base(object);
    if !base.is_empty() {
        let wrong = rule.check_prefix(base).into_iter();
        errors.extend(wrong.map(|why| FieldError::invalid("metadata.generateName", base, why)));
    }
    let name = super::name(object);
    if name.is_empty() {
        errors.push(FieldError::required("metadata.name", "name or generateName is required"));
    } else {
        let wrong = rule.check(name).into_iter();
        errors.extend(wrong.map(|why| FieldError::invalid("metadata.name", name, why)));
    }
    let namespace = super::namespace(object);
    match (scope, namespace) {
        (Scope::Namespaced, "") => errors.push(FieldError::required("metadata.namespace", "")),
        (Scope::Namespaced, namespace) => {
            let wrong = format::dns1123_label(namespace).into_iter();
            errors.extend(wrong.map(|why| FieldError::invalid("metadata.namespace", namespace, why)));
        }
        (Scope::Cluster, "") => {}
        (Scope::Cluster, _) => {
            errors.push(FieldError::forbidden("metadata.namespace", "not allowed on this type"));
        }
    }
    let generation = super::generation(object);
    if generation < 0 {
        errors.push(FieldError::invalid(
            "metadata.generation",
            generation,
            "must be greater than or equal to 0",
        ));
    }
    labels(&mut errors, object);
    annotations(&mut errors, object);
    owner_references(&mut errors, object);
    finalizers(&mut errors, object);
    managed_fields(&mut errors, object);
    errors
}

/// What is wrong with the metadata of an update, which [`prepare_update`](super::prepare_update) has seen.
pub fn validate_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if super::deletion_timestamp(old).is_some() {
        no_new_finalizers(&mut errors, new, old);
    }
    if super::resource_version(new).is_empty() {
        errors.push(FieldError::invalid("metadata.resourceVersion", "", "must be specified for an update"));
    }
    let generation = super::generation(new);
    if generation < super::generation(old) {
        errors.push(FieldError::invalid("metadata.generation", generation, "must not be decremented"));
    }
    for field in ["name", "namespace", "uid"] {
        let (new, old) = (super::text(new, field), super::text(old, field));
        if new != old {
            errors.push(FieldError::invalid(format!("metadata.{field}"), new, IMMUTABLE));
        }
    }
    let value = |object, field| super::metadata(object).and_then(|metadata: &Map<_, _>| metadata.get(field));
    for field in ["creationTimestamp", "deletionTimestamp"] {
        let seconds = |object| value(object, field).and_then(Value::as_str).and_then(time::seconds);
        if seconds(new) != seconds(old) {
            let shown = value(new, field).cloned().unwrap_or_default();
            errors.push(FieldError::invalid(format!("metadata.{field}"), shown, IMMUTABLE));
        }
    }
    let grace = super::deletion_grace_period_seconds(new);
    if grace != super::deletion_grace_period_seconds(old) {
        errors.push(FieldError::invalid("metadata.deletionGracePeriodSeconds", grace, IMMUTABLE));
    }
    labels(&mut errors, new);
    annotations(&mut errors, new);
    owner_references(&mut errors, new);
    managed_fields(&mut errors, new);
    errors
}

/// The bytes that annotations take, keys included.
pub fn annotations_size(annotations: &Map<String, Value>) -> usize {
    annotations.iter().map(|(key, value)| key.len() + value.as_str().unwrap_or_default().len()).sum()
}

fn labels(errors: &mut Vec<FieldError>, object: &Value) {
    for (key, value) in super::labels(object).into_iter().flatten() {
        let of_key = format::qualified_name(key).into_iter();
        errors.extend(of_key.map(|why| FieldError::invalid("metadata.labels", key.as_str(), why)));
        let value = value.as_str().unwrap_or_default();
        let of_value = format::label_value(value).into_iter();
        errors.extend(of_value.map(|why| FieldError::invalid("metadata.labels", value, why)));
    }
}

fn annotations(errors: &mut Vec<FieldError>, object: &Value) {
    let Some(annotations) = super::annotations(object) else { return };
    for key in annotations.keys() {
        // Case matters to nobody in the key of an annotation.
        let wrong = if key.bytes().any(|byte| !byte.is_ascii() || byte.is_ascii_uppercase()) {
            format::qualified_name(&key.to_lowercase())
        } else {
            format::qualified_name(key)
        };
        let wrong = wrong.into_iter();
        errors.extend(wrong.map(|why| FieldError::invalid("metadata.annotations", key.as_str(), why)));
    }
    if annotations_size(annotations) > ANNOTATIONS_LIMIT {
        errors.push(FieldError::too_long("metadata.annotations", ANNOTATIONS_LIMIT as u64));
    }
}

fn owner_references(errors: &mut Vec<FieldError>, object: &Value) {
    const PATH: &str = "metadata.ownerReferences";
    let mut controller: Option<String> = None;
    for reference in super::owner_references(object) {
        let text = |field| reference.get(field).and_then(Value::as_str).unwrap_or_default();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        let version = GroupVersion::parse(api_version).unwrap_or_default().version;
        if version.is_empty() {
            errors.push(FieldError::invalid(
                format!("{PATH}.apiVersion"),
                api_version,
                "version must not be empty",
            ));
        }
        for field in ["kind", "name", "uid"] {
            if text(field).is_empty() {
                errors.push(FieldError::invalid(format!("{PATH}.{field}"), "", "must not be empty"));
            }
        }
        if (api_version, kind) == ("v1", "Event") {
            let detail = "/v1, Kind=Event is disallowed from being an owner";
            errors.push(FieldError::invalid(PATH, reference.clone(), detail));
        }
        if reference.get("controller").and_then(Value::as_bool) == Some(true) {
            let this = format!("{kind}/{}", text("name"));
            match &controller {
                None => controller = Some(this),
                Some(first) => {
                    let detail = format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references for {first} \
                         and {this}"
                    );
                    errors.push(FieldError::invalid(PATH, super::owner_references(object), detail));
                }
            }
        }
    }
}

fn finalizers(errors: &mut Vec<FieldError>, object: &Value) {
    const PATH: &str = "metadata.finalizers";
    let (mut orphans, mut cascades) = (false, false);
    for finalizer in super::finalizers(object) {
        let wrong = format::qualified_name(finalizer).into_iter();
        errors.extend(wrong.map(|why| FieldError::invalid(PATH, finalizer, why)));
        orphans |= finalizer == "orphan";
        cascades |= finalizer == "foregroundDeletion";
    }
    if orphans && cascades {
        let all: Vec<_> = super::finalizers(object).collect();
        let detail = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.push(FieldError::invalid(PATH, all, detail));
    }
}

fn no_new_finalizers(errors: &mut Vec<FieldError>, new: &Value, old: &Value) {
    let known: std::collections::HashSet<_> = super::finalizers(old).collect();
    let mut added: Vec<_> = super::finalizers(new).filter(|finalizer| !known.contains(finalizer)).collect();
    added.sort_unstable();
    added.dedup();
    if !added.is_empty() {
        let quoted: Vec<_> = added.into_iter().map(go_text::quote).collect();
        let detail = format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
            quoted.join(", ")
        );
        errors.push(FieldError::forbidden("metadata.finalizers", detail));
    }
}

fn managed_fields(errors: &mut Vec<FieldError>, object: &Value) {
    const MAX_SUBRESOURCE: usize = 256;
    for (at, entry) in super::managed_fields(object).into_iter().flatten().enumerate() {
        let path = |field| format!("metadata.managedFields[{at}].{field}");
        let text = |field| entry.get(field).and_then(Value::as_str).unwrap_or_default();
        let operation = text("operation");
        if !matches!(operation, "Apply" | "Update") {
            errors.push(FieldError::invalid(path("operation"), operation, "must be `Apply` or `Update`"));
        }
        let fields_type = text("fieldsType");
        if !matches!(fields_type, "" | "FieldsV1") {
            errors.push(FieldError::invalid(path("fieldsType"), fields_type, "must be `FieldsV1`"));
        }
        errors.extend(validate_field_manager(text("manager"), &path("manager")));
        if text("subresource").len() > MAX_SUBRESOURCE {
            errors.push(FieldError::too_long(path("subresource"), MAX_SUBRESOURCE as u64));
        }
    }
}

#[cfg(test)]
mod tests;
