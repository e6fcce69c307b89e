//! What is wrong with a CustomResourceDefinition, in the words of kube-apiserver.
//!
//! kube-apiserver moves what is the same in all versions out of them, and names fields as they are then: the schema of a
//! definition with one version is `spec.validation`, and not `spec.versions[0].schema`. So it is here.

mod approval;
mod names;
mod version;

use apimachinery::format;
use apischema::FieldError;
use serde_json::Value;

use super::condition::ESTABLISHED;
use super::definition::{Conversion, Definition, Spec, State};

/// What is wrong with a new definition.
pub(super) fn create_errors(object: &Value, definition: &Definition) -> Vec<FieldError> {
    let Definition { metadata, spec, status } = definition;
    let mut errors = Vec::new();
    if metadata.name != format!("{}.{}", spec.names.plural, spec.group) {
        let detail = "must be spec.names.plural+\".\"+spec.group";
        errors.push(FieldError::invalid("metadata.name", metadata.name.as_str(), detail));
    }
    errors.extend(spec_errors(object, spec, None));
    errors.extend(status_errors(status));
    errors.extend(stored_version_errors(spec, status));
    errors.extend(approval::errors(definition, None));
    errors.extend(preserve_errors(spec, None));
    errors
}

/// What is wrong with a changed definition.
pub(super) fn update_errors(object: &Value, definition: &Definition, old: &Definition) -> Vec<FieldError> {
    let Definition { spec, status, .. } = definition;
    let mut errors = spec_errors(object, spec, Some(&old.spec));
    let mut immutable = |path: &str, new: &str, old: &str| {
        if new != old {
            errors.push(FieldError::invalid(path, new, "field is immutable"));
        }
    };
    if old.is(ESTABLISHED) {
        immutable("spec.scope", &spec.scope, &old.spec.scope);
        immutable("spec.names.kind", &spec.names.kind, &old.spec.names.kind);
    }
    immutable("spec.group", &spec.group, &old.spec.group);
    immutable("spec.names.plural", &spec.names.plural, &old.spec.names.plural);
    errors.extend(status_errors(status));
    errors.extend(stored_version_errors(spec, status));
    errors.extend(approval::errors(definition, Some(old)));
    errors.extend(preserve_errors(spec, Some(&old.spec)));
    errors
}

/// What is wrong with a status that is written by itself.
pub(super) fn status_errors(status: &State) -> Vec<FieldError> {
    names::errors(&status.accepted_names, "status.acceptedNames")
}

fn spec_errors(object: &Value, spec: &Spec, old: Option<&Spec>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    group_errors(&spec.group, &mut errors);
    match spec.scope.as_str() {
        "" => errors.push(FieldError::required("spec.scope", "")),
        "Cluster" | "Namespaced" => {}
        other => errors.push(FieldError::not_supported("spec.scope", other, &["Cluster", "Namespaced"])),
    }
    for (index, version) in spec.versions.iter().enumerate() {
        if version.open_api_schema().is_none() {
            errors.push(FieldError::required(format!("spec.versions[{index}].schema.openAPIV3Schema"), ""));
        }
    }
    if spec.preserve_unknown_fields && version::has_defaults(spec) {
        let detail = "must be false in order to use defaults in the schema";
        errors.push(FieldError::invalid("spec.preserveUnknownFields", true, detail));
    }
    errors.extend(version::own_errors(spec, old));
    errors.extend(version_list_errors(object, spec));
    errors.extend(names::required_errors(&spec.names, "spec.names"));
    errors.extend(names::errors(&spec.names, "spec.names"));
    errors.extend(version::shared_errors(spec, old));
    if let Some(conversion) = &spec.conversion {
        conversion_errors(conversion, &mut errors);
    }
    errors
}

fn group_errors(group: &str, errors: &mut Vec<FieldError>) {
    if group.is_empty() {
        errors.push(FieldError::required("spec.group", ""));
        return;
    }
    let wrong = format::dns1123_subdomain(group);
    if !wrong.is_empty() {
        errors.push(FieldError::invalid("spec.group", group, wrong.join(",")));
    } else if !group.contains('.') {
        errors.push(FieldError::invalid("spec.group", group, "should be a domain with at least one dot"));
    }
}

fn version_list_errors(object: &Value, spec: &Spec) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let versions = || object.pointer("/spec/versions").cloned().unwrap_or_default();
    let names: Vec<&str> = spec.versions.iter().map(|version| version.name.as_str()).collect();
    if names.iter().enumerate().any(|(index, name)| names[..index].contains(name)) {
        errors.push(FieldError::invalid("spec.versions", versions(), "must contain unique version names"));
    }
    if spec.versions.iter().filter(|version| version.storage).count() != 1 {
        let detail = "must have exactly one version marked as storage version";
        errors.push(FieldError::invalid("spec.versions", versions(), detail));
    }
    // The first version is also kept as the version, as it was called when there was one.
    if let Some(first) = names.first() {
        let wrong = format::dns1035_label(first);
        if !first.is_empty() && !wrong.is_empty() {
            errors.push(FieldError::invalid("spec.version", *first, wrong.join(",")));
        }
    }
    errors
}

fn conversion_errors(conversion: &Conversion, errors: &mut Vec<FieldError>) {
    let path = "spec.conversion.strategy";
    match conversion.strategy.as_str() {
        "" => errors.push(FieldError::required(path, "")),
        "None" => {
            if let Some(webhook) = &conversion.webhook {
                let detail = "should not be set when strategy is not set to Webhook";
                if webhook.get("clientConfig").is_some() {
                    errors.push(FieldError::forbidden("spec.conversion.webhookClientConfig", detail));
                }
                if webhook
                    .get("conversionReviewVersions")
                    .and_then(Value::as_array)
                    .is_some_and(|all| !all.is_empty())
                {
                    errors.push(FieldError::forbidden("spec.conversion.conversionReviewVersions", detail));
                }
            }
        }
        "Webhook" => {
            let detail = "conversion by webhook is not available in this server, only None is";
            errors.push(FieldError::invalid(path, "Webhook", detail));
        }
        other => errors.push(FieldError::not_supported(path, other, &["None", "Webhook"])),
    }
}

/// Objects are stored in these versions: none may go from the spec before its objects were rewritten.
fn stored_version_errors(spec: &Spec, status: &State) -> Vec<FieldError> {
    let path = "status.storedVersions";
    let stored = &status.stored_versions;
    if stored.is_empty() {
        return vec![FieldError::invalid(path, Value::Null, "must have at least one stored version")];
    }
    let mut errors = Vec::new();
    let mut missing: Vec<(usize, &str)> = stored.iter().map(String::as_str).enumerate().collect();
    for version in &spec.versions {
        let known = missing.iter().any(|(_, name)| *name == version.name);
        if version.storage && !known {
            let detail = format!("must have the storage version {}", version.name);
            errors.push(FieldError::invalid(path, stored.clone(), detail));
        }
        missing.retain(|(_, name)| *name != version.name);
    }
    for (index, name) in missing {
        let detail = format!(
            "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a \
             storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions"
        );
        errors.push(FieldError::invalid(format!("{path}[{index}]"), name, detail));
    }
    errors
}

fn preserve_errors(spec: &Spec, old: Option<&Spec>) -> Option<FieldError> {
    let had = old.is_some_and(|old| old.preserve_unknown_fields);
    (spec.preserve_unknown_fields && !had).then(|| {
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        FieldError::invalid("spec.preserveUnknownFields", true, detail)
    })
}

#[cfg(test)]
mod tests;
