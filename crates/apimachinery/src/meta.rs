//! The metadata of an object: reading and writing it in place, what a server sets, and what it refuses.
//!
//! Readers never fail. A field of a wrong type reads as absent; [`type_error`] finds those.

use serde_json::{Map, Value};

mod decode;
mod names;
mod prepare;
mod validate;

pub use decode::type_error;
pub use names::{NameRule, generate_name};
pub use prepare::{
    adopt_namespace, dedup_owner_references, fill_system_fields, prepare_update, wipe_system_fields,
};
pub use validate::{ANNOTATIONS_LIMIT, Scope, annotations_size, validate_create, validate_update};

/// The metadata, if the object has any.
pub fn metadata(object: &Value) -> Option<&Map<String, Value>> {
    object.get("metadata")?.as_object()
}

/// The metadata, to change it; made if it is not there. Only what is no object has none.
pub fn metadata_mut(object: &mut Value) -> Option<&mut Map<String, Value>> {
    let metadata = object.as_object_mut()?.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    if metadata.is_null() {
        *metadata = Value::Object(Map::new());
    }
    metadata.as_object_mut()
}

/// `apiVersion`; empty if absent.
pub fn api_version(object: &Value) -> &str {
    object.get("apiVersion").and_then(Value::as_str).unwrap_or_default()
}

/// `kind`; empty if absent.
pub fn kind(object: &Value) -> &str {
    object.get("kind").and_then(Value::as_str).unwrap_or_default()
}

/// A string of the metadata; empty if absent.
fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    metadata(object).and_then(|metadata| metadata.get(field)).and_then(Value::as_str).unwrap_or_default()
}

/// `metadata.name`; empty if absent.
pub fn name(object: &Value) -> &str {
    text(object, "name")
}

/// `metadata.generateName`; empty if absent.
pub fn generate_name_base(object: &Value) -> &str {
    text(object, "generateName")
}

/// `metadata.namespace`; empty if absent.
pub fn namespace(object: &Value) -> &str {
    text(object, "namespace")
}

/// `metadata.uid`; empty if absent.
pub fn uid(object: &Value) -> &str {
    text(object, "uid")
}

/// `metadata.resourceVersion`; empty if absent.
pub fn resource_version(object: &Value) -> &str {
    text(object, "resourceVersion")
}

/// `metadata.creationTimestamp`; empty if absent.
pub fn creation_timestamp(object: &Value) -> &str {
    text(object, "creationTimestamp")
}

/// `metadata.deletionTimestamp`, once the object is being deleted.
pub fn deletion_timestamp(object: &Value) -> Option<&str> {
    metadata(object)?.get("deletionTimestamp")?.as_str()
}

/// `metadata.deletionGracePeriodSeconds`.
pub fn deletion_grace_period_seconds(object: &Value) -> Option<i64> {
    metadata(object)?.get("deletionGracePeriodSeconds")?.as_i64()
}

/// `metadata.generation`; 0 if absent.
pub fn generation(object: &Value) -> i64 {
    metadata(object)
        .and_then(|metadata| metadata.get("generation"))
        .and_then(Value::as_i64)
        .unwrap_or_default()
}

/// `metadata.labels`.
pub fn labels(object: &Value) -> Option<&Map<String, Value>> {
    metadata(object)?.get("labels")?.as_object()
}

/// `metadata.annotations`.
pub fn annotations(object: &Value) -> Option<&Map<String, Value>> {
    metadata(object)?.get("annotations")?.as_object()
}

/// One annotation.
pub fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    annotations(object)?.get(key)?.as_str()
}

/// `metadata.finalizers`.
pub fn finalizers(object: &Value) -> impl Iterator<Item = &str> {
    list(object, "finalizers").iter().filter_map(Value::as_str)
}

/// `metadata.ownerReferences`.
pub fn owner_references(object: &Value) -> &[Value] {
    list(object, "ownerReferences")
}

/// `metadata.managedFields`.
pub fn managed_fields(object: &Value) -> Option<&Vec<Value>> {
    metadata(object)?.get("managedFields")?.as_array()
}

fn list<'a>(object: &'a Value, field: &str) -> &'a [Value] {
    let list = metadata(object).and_then(|metadata| metadata.get(field)).and_then(Value::as_array);
    list.map(Vec::as_slice).unwrap_or_default()
}

/// Sets a field of the metadata, or removes it with [`Value::Null`] or an empty string.
pub fn set(object: &mut Value, field: &str, value: impl Into<Value>) {
    let value = value.into();
    let Some(metadata) = metadata_mut(object) else { return };
    if value.is_null() || value.as_str() == Some("") {
        metadata.remove(field);
    } else {
        metadata.insert(field.to_owned(), value);
    }
}

/// Sets `metadata.name`.
pub fn set_name(object: &mut Value, name: &str) {
    set(object, "name", name);
}

/// Sets `metadata.namespace`; empty removes it.
pub fn set_namespace(object: &mut Value, namespace: &str) {
    set(object, "namespace", namespace);
}

/// Sets `metadata.resourceVersion`; empty removes it.
pub fn set_resource_version(object: &mut Value, version: &str) {
    set(object, "resourceVersion", version);
}

/// Sets `metadata.generation`; 0 removes it.
pub fn set_generation(object: &mut Value, generation: i64) {
    set(object, "generation", if generation == 0 { Value::Null } else { generation.into() });
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn metadata_is_read_in_place() {
        let object = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": "n", "namespace": "ns", "uid": "u", "resourceVersion": "5", "generation": 3,
                "labels": {"a": "b"}, "annotations": {"c": "d"}, "finalizers": ["f", 1],
                "ownerReferences": [{"uid": "o"}], "deletionTimestamp": "2024-01-01T00:00:00Z"
            }
        });
        assert_eq!((name(&object), namespace(&object), uid(&object)), ("n", "ns", "u"));
        assert_eq!((resource_version(&object), generation(&object)), ("5", 3));
        assert_eq!((api_version(&object), kind(&object)), ("v1", "Pod"));
        assert_eq!(annotation(&object, "c"), Some("d"));
        assert_eq!(labels(&object).unwrap()["a"], "b");
        assert_eq!(finalizers(&object).collect::<Vec<_>>(), ["f"]);
        assert_eq!(owner_references(&object).len(), 1);
        assert!(deletion_timestamp(&object).is_some());
    }

    #[test]
    fn what_is_not_there_reads_as_empty() {
        for object in
            [json!({}), json!({"metadata": null}), json!({"metadata": {"name": 1}}), json!([]), json!(1)]
        {
            assert_eq!((name(&object), generation(&object), deletion_timestamp(&object)), ("", 0, None));
            assert_eq!((finalizers(&object).count(), owner_references(&object).len()), (0, 0));
        }
    }

    #[test]
    fn metadata_is_written_in_place() {
        let mut object = json!({"metadata": null});
        set_name(&mut object, "n");
        set_generation(&mut object, 2);
        set_resource_version(&mut object, "7");
        assert_eq!(object, json!({"metadata": {"name": "n", "generation": 2, "resourceVersion": "7"}}));
        set_generation(&mut object, 0);
        set_resource_version(&mut object, "");
        assert_eq!(object, json!({"metadata": {"name": "n"}}));
        let mut scalar = json!(1);
        set_name(&mut scalar, "n");
        assert_eq!(scalar, json!(1), "what is no object has no metadata");
    }
}
