//! How custom resources behave.

use apimachinery::apply::FieldSet;
use apimachinery::format::qualified_name;
use apimachinery::{Status, meta};
use apischema::{CompiledSchema, FieldError, default, prune};
use serde_json::Value;

use super::{accessor_error, nested};
use crate::registry::{Action, Generation, ScalePaths, Strategy, take_field};
use crate::verbs::{spec_field, status_field};

/// Custom resources take no strategic merge patches: nothing says how to merge their lists.
const PATCH_TYPES: [&str; 3] =
    ["application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"];

/// Finalizers that Kubernetes itself uses.
const STANDARD_FINALIZERS: [&str; 3] = ["orphan", "foregroundDeletion", "kubernetes"];

/// How the objects of one definition behave.
#[derive(Debug)]
pub(super) struct CustomResourceStrategy {
    versions: Vec<VersionBehaviour>,
}

/// How they behave in one version.
#[derive(Debug)]
pub(super) struct VersionBehaviour {
    pub(super) api_version: String,
    pub(super) schema: CompiledSchema,
    pub(super) has_status: bool,
    pub(super) scale: Option<ScalePaths>,
}

impl CustomResourceStrategy {
    pub(super) fn new(versions: Vec<VersionBehaviour>) -> CustomResourceStrategy {
        CustomResourceStrategy { versions }
    }

    /// How an object behaves, by its apiVersion.
    fn version(&self, object: &Value) -> Option<&VersionBehaviour> {
        self.of(meta::api_version(object))
    }

    fn of(&self, api_version: &str) -> Option<&VersionBehaviour> {
        self.versions.iter().find(|version| version.api_version == api_version)
    }
}

impl Strategy for CustomResourceStrategy {
    fn prepare_for_create(&self, object: &mut Value, _action: Action<'_>) {
        if self.version(object).is_some_and(|version| version.has_status)
            && let Some(fields) = object.as_object_mut()
        {
            fields.remove("status");
        }
    }

    fn prepare_for_update(&self, object: &mut Value, old: &Value, _action: Action<'_>) {
        if self.version(object).is_some_and(|version| version.has_status) {
            take_field(object, old, "status");
        }
    }

    fn prepare_for_status_update(&self, object: &mut Value, old: &Value, _action: Action<'_>) {
        let status = object.as_object_mut().and_then(|fields| fields.remove("status"));
        let managed_fields = meta::managed_fields(object).cloned();
        *object = old.clone();
        meta::set(object, "managedFields", managed_fields.map_or(Value::Null, Value::Array));
        let Some(fields) = object.as_object_mut() else { return };
        match status {
            Some(status) => fields.insert("status".into(), status),
            None => fields.remove("status"),
        };
    }

    fn validate(&self, object: &Value, _action: Action<'_>) -> Vec<FieldError> {
        let Some(version) = self.version(object) else { return vec![wrong_version(object)] };
        let mut errors = version.schema.validate(object, None);
        errors.extend(scale_spec_errors(object, version.scale.as_ref()));
        errors.extend(scale_status_errors(object, version.scale.as_ref()));
        errors
    }

    fn validate_update(&self, object: &Value, old: &Value, action: Action<'_>) -> Vec<FieldError> {
        let Some(version) = self.version(object) else { return vec![wrong_version(object)] };
        let scale = version.scale.as_ref();
        let mut errors;
        if action.subresource == "status" {
            errors = version.schema.validate_status(object, old);
        } else {
            errors = version.schema.validate(object, Some(old));
            errors.extend(scale_spec_errors(object, scale));
        }
        errors.extend(scale_status_errors(object, scale));
        errors
    }

    fn warnings(&self, object: &Value, old: Option<&Value>, action: Action<'_>) -> Vec<String> {
        if action.subresource == "status" {
            return Vec::new();
        }
        let known: Vec<&str> = old.into_iter().flat_map(meta::finalizers).collect();
        let mut added: Vec<&str> =
            meta::finalizers(object).filter(|finalizer| !known.contains(finalizer)).collect();
        added.sort_unstable();
        added.dedup();
        added.into_iter().flat_map(finalizer_warnings).collect()
    }

    fn generation(&self) -> Generation {
        Generation::Content
    }

    fn updates_unconditionally(&self) -> bool {
        false
    }

    fn patch_types(&self) -> &'static [&'static str] {
        &PATCH_TYPES
    }

    fn reset_fields(&self, subresource: &str) -> Option<&FieldSet<'static>> {
        match subresource {
            "" if self.versions.iter().any(|version| version.has_status) => Some(status_field()),
            "status" => Some(spec_field()),
            _ => None,
        }
    }

    fn set_defaults(&self, object: &mut Value) {
        if let Some(metadata) = object.get_mut("metadata") {
            apischema::core::encode_metadata(metadata);
        }
        if let Some(version) = self.of(meta::api_version(object)) {
            default(object, version.schema.schema());
        }
    }

    fn convert(&self, object: &mut Value, api_version: &str) -> Result<(), Status> {
        let Some(version) = self.of(api_version) else {
            let why = format!("request to convert CR to an invalid group/version: {api_version}");
            return Err(Status::internal_error(why));
        };
        if let Some(fields) = object.as_object_mut() {
            fields.insert("apiVersion".into(), api_version.into());
        }
        // What this version does not have is not shown in it, and what it fills in is.
        prune(object, version.schema.schema());
        default(object, version.schema.schema());
        Ok(())
    }
}

/// Objects are of a version that their definition has; the endpoint has seen to that.
fn wrong_version(object: &Value) -> FieldError {
    FieldError::invalid("apiVersion", meta::api_version(object), "is not a version of the definition")
}

fn scale_spec_errors(object: &Value, scale: Option<&ScalePaths>) -> Option<FieldError> {
    replicas_error(object, &scale?.spec_replicas)
}

fn scale_status_errors(object: &Value, scale: Option<&ScalePaths>) -> Vec<FieldError> {
    let Some(scale) = scale else { return Vec::new() };
    let mut errors: Vec<FieldError> = replicas_error(object, &scale.status_replicas).into_iter().collect();
    if let Some(path) = &scale.label_selector {
        let error = match nested(object, path) {
            Ok(None | Some(Value::String(_))) => None,
            Ok(Some(other)) => Some(accessor_error(&fields_of(path), other, "string")),
            Err(error) => Some(error),
        };
        errors.extend(error.map(|error| FieldError::invalid(path.as_str(), "", error)));
    }
    errors
}

fn replicas_error(object: &Value, path: &str) -> Option<FieldError> {
    let replicas = match nested(object, path) {
        Ok(None) => return None,
        Ok(Some(value)) => value.as_i64().ok_or_else(|| accessor_error(&fields_of(path), value, "int64")),
        Err(error) => Err(error),
    };
    match replicas {
        Err(error) => Some(FieldError::invalid(path, 0, error)),
        Ok(replicas) if replicas < 0 => {
            Some(FieldError::invalid(path, replicas, "should be a non-negative integer"))
        }
        Ok(replicas) if replicas > i64::from(i32::MAX) => {
            let detail = format!("should be less than or equal to {}", i32::MAX);
            Some(FieldError::invalid(path, replicas, detail))
        }
        Ok(_) => None,
    }
}

fn fields_of(path: &str) -> Vec<&str> {
    path.strip_prefix('.').unwrap_or(path).split('.').collect()
}

fn finalizer_warnings(finalizer: &str) -> Vec<String> {
    let warning = |message: &str| format!("metadata.finalizers: {finalizer:?}: {message}");
    let mut warnings: Vec<String> =
        qualified_name(finalizer).iter().map(|message| warning(message)).collect();
    if !finalizer.contains('/') && !STANDARD_FINALIZERS.contains(&finalizer) {
        let path = if finalizer.contains('.') { " including a path (/)" } else { "" };
        warnings.push(warning(&format!(
            "prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with other finalizer writers"
        )));
    }
    warnings
}
