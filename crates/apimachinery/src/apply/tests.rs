use std::sync::LazyLock;

use serde_json::{Value, json};

use super::*;

mod lists;
mod ownership;
mod properties;
mod tracking;

/// A kind with every sort of field.
pub(super) static SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
    let schema = json!({
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": {
                "replicas": {"type": "integer"},
                "name": {"type": "string"},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "selector": {
                    "type": "object", "additionalProperties": {"type": "string"}, "x-kubernetes-map-type": "atomic"
                },
                "ports": {
                    "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"],
                    "items": {"type": "object", "properties": {
                        "port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"},
                        "name": {"type": "string"}
                    }}
                },
                "hosts": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                "args": {"type": "array", "items": {"type": "string"}},
                "nested": {"type": "object", "properties": {
                    "a": {"type": "string"}, "b": {"type": "object", "properties": {"c": {"type": "string"}}}
                }},
                "raw": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}
            }},
            "status": {"type": "object", "properties": {"phase": {"type": "string"}}}
        }
    });
    Schema::from_json(&schema).unwrap()
});

/// What `manager` writes.
fn by(manager: &str) -> Write<'_> {
    Write {
        manager,
        api_version: "example.com/v1",
        subresource: "",
        now: "2024-01-01T00:00:00Z",
        reset_fields: None,
        versions: None,
        empty: None,
    }
}

/// An object with this spec.
fn foo(spec: &Value) -> Value {
    json!({
        "apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "n", "namespace": "ns"}, "spec": spec
    })
}

fn apply_by(live: Option<&Value>, manager: &str, spec: &Value) -> Result<Value, ApplyError> {
    apply(live, &foo(spec), &SCHEMA, "Foo", &by(manager), Force::No)
}

fn force_by(live: &Value, manager: &str, spec: &Value) -> Value {
    apply(Some(live), &foo(spec), &SCHEMA, "Foo", &by(manager), Force::Yes).unwrap()
}

/// The object as it is after `manager` changed it.
fn update_by(live: &Value, manager: &str, change: impl FnOnce(&mut Value)) -> Value {
    let mut new = live.clone();
    change(&mut new);
    track_update(Some(live), &mut new, &SCHEMA, &by(manager));
    new
}

fn create_by(manager: &str, spec: &Value) -> Value {
    let mut new = foo(spec);
    track_update(None, &mut new, &SCHEMA, &by(manager));
    stored(new)
}

/// The object as the server keeps it.
fn stored(mut object: Value) -> Value {
    meta::set(&mut object, "uid", "u");
    object
}

/// What `manager` owns, as `FieldsV1`; null if nothing.
fn owned_by(object: &Value, manager: &str) -> Value {
    let entries = meta::managed_fields(object).into_iter().flatten();
    let mut own = entries.filter(|entry| entry["manager"] == manager).map(|entry| entry["fieldsV1"].clone());
    let fields = own.next().unwrap_or_default();
    assert_eq!(own.next(), None, "{manager} has two entries");
    fields
}
