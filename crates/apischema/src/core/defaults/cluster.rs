//! What belongs to the cluster rather than to what runs on it.

use base64::Engine;
use serde_json::{Value, json};

use super::{Fields, add_missing, each, inside, present, set, text};

pub(super) fn namespace(object: &mut Fields) {
    set(inside(object, "status"), "phase", "Active");
    let metadata = inside(object, "metadata");
    let name = text(metadata, "name").to_owned();
    if !name.is_empty() {
        inside(metadata, "labels").insert("kubernetes.io/metadata.name".to_owned(), name.into());
    }
}

pub(super) fn node(object: &mut Fields) {
    let Some(status) = present(object, "status") else { return };
    if let Some(capacity) = status.get("capacity").cloned() {
        set(status, "allocatable", capacity);
    }
}

/// What is given as text is kept as bytes.
pub(super) fn secret(object: &mut Fields) {
    set(object, "type", "Opaque");
    let Some(Value::Object(texts)) = object.remove("stringData") else { return };
    let data = inside(object, "data");
    for (key, value) in texts {
        let bytes = base64::engine::general_purpose::STANDARD.encode(value.as_str().unwrap_or_default());
        data.insert(key, bytes.into());
    }
}

pub(super) fn limit_range(object: &mut Fields) {
    for limit in each(inside(object, "spec"), "limits") {
        if text(limit, "type") != "Container" {
            continue;
        }
        let copy = |limit: &mut Fields, name: &str| {
            present(limit, name).map(|list| list.clone()).unwrap_or_default()
        };
        let (most, least) = (copy(limit, "max"), copy(limit, "min"));
        add_missing(inside(limit, "default"), &most);
        let default = copy(limit, "default");
        add_missing(inside(limit, "defaultRequest"), &default);
        add_missing(inside(limit, "defaultRequest"), &least);
        // Lists that stayed empty are not written out.
        limit.retain(|_, value| value.as_object().is_none_or(|list| !list.is_empty()));
    }
}

pub(super) fn role_binding(object: &mut Fields) {
    set_group(inside(object, "roleRef"));
    each(object, "subjects")
        .filter(|subject| matches!(text(subject, "kind"), "User" | "Group"))
        .for_each(set_group);
}

fn set_group(reference: &mut Fields) {
    if text(reference, "apiGroup").is_empty() {
        reference.insert("apiGroup".to_owned(), "rbac.authorization.k8s.io".into());
    }
}

pub(super) fn custom_resource_definition(object: &mut Fields) {
    let spec = inside(object, "spec");
    let names = inside(spec, "names");
    let kind = text(names, "kind").to_owned();
    if !kind.is_empty() {
        set(names, "singular", kind.to_lowercase());
        set(names, "listKind", format!("{kind}List"));
    }
    set(spec, "conversion", json!({"strategy": "None"}));
    if let Some(webhook) = present(spec, "conversion").and_then(|conversion| present(conversion, "webhook"))
        && let Some(config) = present(webhook, "clientConfig")
    {
        service_port(config);
    }
    let stored = each(spec, "versions")
        .find(|version| version.get("storage") == Some(&Value::Bool(true)))
        .map(|version| text(version, "name").to_owned());
    let status = inside(object, "status");
    let known = status.get("storedVersions").and_then(Value::as_array).is_some_and(|known| !known.is_empty());
    if let (Some(stored), false) = (stored, known) {
        status.insert("storedVersions".to_owned(), json!([stored]));
    }
}

pub(super) fn api_service(object: &mut Fields) {
    service_port(inside(object, "spec"));
}

/// The port of a service that is called over HTTPS.
pub(super) fn service_port(config: &mut Fields) {
    if let Some(service) = present(config, "service") {
        set(service, "port", 443);
    }
}
