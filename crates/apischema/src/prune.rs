//! Dropping what a schema does not know.

use serde_json::Value;

use crate::core;
use crate::path::Path;
use crate::schema::{AdditionalProperties, Schema};

/// Drops the fields that an object's schema does not know, and tells their paths, such as `spec.foo`: first those in its
/// metadata, then the others in order.
///
/// A custom resource's `apiVersion`, `kind` and `metadata` are known whatever its schema says, and so are those of the
/// resources embedded in it.
pub fn prune(object: &mut Value, schema: &Schema) -> Vec<String> {
    let mut pruning = Pruning::default();
    // The types of core kinds say all about their metadata themselves.
    let root = if schema.type_name.is_some() { Resource::No } else { Resource::Yes };
    pruning.prune(object, Some(schema), root, Unknown::Dropped, &Path::ROOT);
    pruning.fields.sort_unstable();
    pruning.metadata.sort_unstable();
    pruning.root_metadata.extend(pruning.fields);
    pruning.root_metadata.extend(pruning.metadata);
    pruning.root_metadata
}

/// Drops the fields that the schema of a value inside an object does not know.
pub(crate) fn prune_value(value: &mut Value, schema: &Schema) {
    Pruning::default().prune_inside(value, Some(schema), &Path::ROOT);
}

/// Whether a value is a resource, with metadata that its schema need not mention.
#[derive(Clone, Copy, PartialEq)]
enum Resource {
    Yes,
    No,
}

/// What becomes of fields that a value's own schema does not know.
#[derive(Clone, Copy, PartialEq)]
enum Unknown {
    Dropped,
    Kept,
}

impl Resource {
    fn embedded(schema: &Schema) -> Resource {
        if schema.embedded_resource { Resource::Yes } else { Resource::No }
    }
}

/// What was dropped.
#[derive(Default)]
struct Pruning {
    root_metadata: Vec<String>,
    fields: Vec<String>,
    metadata: Vec<String>,
}

impl Pruning {
    fn prune(
        &mut self,
        value: &mut Value,
        schema: Option<&Schema>,
        resource: Resource,
        outer: Unknown,
        path: &Path<'_>,
    ) {
        if let Some(continued) = schema.and_then(|schema| core::continued(schema, value)) {
            return self.prune(value, Some(&continued), resource, Unknown::Dropped, path);
        }
        let preserve = schema.is_some_and(|schema| schema.preserve_unknown_fields);
        let unknown = if preserve { Unknown::Kept } else { outer };
        match value {
            Value::Object(fields) => fields.retain(|name, value| {
                if resource == Resource::Yes && self.is_metadata(name, value, path) {
                    return true;
                }
                let property = schema.and_then(|schema| schema.properties.get(name));
                let additional = schema.map_or(&AdditionalProperties::None, |schema| &schema.additional);
                match (property, additional) {
                    (Some(property), _) => self.prune_inside(value, Some(property), &path.field(name)),
                    (None, AdditionalProperties::Of(values)) => {
                        self.prune_inside(value, Some(values), &path.key(name));
                    }
                    (None, AdditionalProperties::Any) => self.prune_inside(value, None, &path.key(name)),
                    (None, AdditionalProperties::None) if unknown == Unknown::Kept => {}
                    (None, AdditionalProperties::None) => {
                        self.fields.push(path.field(name).to_dotted());
                        return false;
                    }
                }
                true
            }),
            Value::Array(items) => {
                let schema = schema.and_then(|schema| schema.items.as_deref());
                let resource = schema.map_or(Resource::No, Resource::embedded);
                for (index, item) in items.iter_mut().enumerate() {
                    // A list that keeps what is unknown keeps it in its elements too; they have no fields otherwise.
                    self.prune(item, schema, resource, unknown, &path.index(index));
                }
            }
            _ => {}
        }
    }

    fn prune_inside(&mut self, value: &mut Value, schema: Option<&Schema>, path: &Path<'_>) {
        let resource = schema.map_or(Resource::No, Resource::embedded);
        self.prune(value, schema, resource, Unknown::Dropped, path);
    }

    /// Whether a field of a resource is metadata, which is pruned by its own schema.
    fn is_metadata(&mut self, name: &str, value: &mut Value, path: &Path<'_>) -> bool {
        if name == "metadata" {
            let mut inside = Pruning::default();
            inside.prune_inside(value, Some(core::object_meta()), &path.field(name));
            if path.is_root() { &mut self.root_metadata } else { &mut self.metadata }.extend(inside.fields);
        }
        matches!(name, "apiVersion" | "kind" | "metadata")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(schema: &Value, before: Value, after: &Value, dropped: &[&str]) {
        let schema = Schema::from_json(schema).unwrap();
        let mut object = before;
        assert_eq!(prune(&mut object, &schema), dropped);
        assert_eq!(object, *after);
        assert_eq!(prune(&mut object, &schema), [""; 0]);
        assert_eq!(object, *after);
    }

    #[test]
    fn unknown_fields_go_and_are_named() {
        check(
            &json!({"type": "object", "properties": {
                "spec": {"type": "object", "properties": {
                    "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
                    "map": {"type": "object", "additionalProperties": {"type": "object"}},
                }},
            }}),
            json!({
                "apiVersion": "v1", "kind": "K", "metadata": {"name": "n", "foo": 1, "ownerReferences": [{"bar": 1}]},
                "spec": {"list": [{"a": "x"}, {"b": 1}], "map": {"k": {"c": 1}}, "zzz": null}, "extra": {},
            }),
            &json!({
                "apiVersion": "v1", "kind": "K", "metadata": {"name": "n", "ownerReferences": [{}]},
                "spec": {"list": [{"a": "x"}, {}], "map": {"k": {}}},
            }),
            &[
                "metadata.foo",
                "metadata.ownerReferences[0].bar",
                "extra",
                "spec.list[1].b",
                "spec.map.k.c",
                "spec.zzz",
            ],
        );
    }

    #[test]
    fn preserving_stops_where_the_schema_goes_on() {
        check(
            &json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
                "known": {"type": "object", "properties": {"a": {"type": "string"}}},
                "list": {"type": "array", "x-kubernetes-preserve-unknown-fields": true, "items": {
                    "type": "object", "properties": {"y": {"type": "object"}},
                }},
            }}),
            json!({"known": {"a": "x", "b": 1}, "other": {"deep": {"er": 1}}, "list": [{"x": {"z": 1}, "y": {"z": 1}}]}),
            &json!({"known": {"a": "x"}, "other": {"deep": {"er": 1}}, "list": [{"x": {"z": 1}, "y": {}}]}),
            &["known.b", "list[0].y.z"],
        );
    }

    #[test]
    fn any_additional_property_is_kept_but_not_what_is_inside() {
        check(
            &json!({"type": "object", "properties": {"m": {"type": "object", "additionalProperties": true}}}),
            json!({"m": {"a": 1, "b": {"c": 1}, "d": [{"e": 1}]}}),
            &json!({"m": {"a": 1, "b": {}, "d": [{}]}}),
            &["m.b.c", "m.d[0].e"],
        );
    }

    #[test]
    fn embedded_resources_keep_their_metadata() {
        check(
            &json!({"type": "object", "properties": {"e": {
                "type": "object", "x-kubernetes-embedded-resource": true, "properties": {"spec": {"type": "object"}},
            }}}),
            json!({"e": {"apiVersion": "v1", "kind": "K", "metadata": {"name": "n", "x": 1}, "spec": {"a": 1}, "b": 1}}),
            &json!({"e": {"apiVersion": "v1", "kind": "K", "metadata": {"name": "n"}, "spec": {}}}),
            &["e.b", "e.spec.a", "e.metadata.x"],
        );
    }

    #[test]
    fn core_kinds_know_their_own_metadata() {
        let pod = core::schema("", "v1", "Pod").unwrap();
        let mut object = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "n", "x": 1, "managedFields": [{"fieldsV1": {"f:spec": {}}}]},
            "spec": {"containers": [{"name": "c", "imag": "x", "resources": {"limits": {"cpu": 1}}}]},
        });
        assert_eq!(prune(&mut object, &pod), ["metadata.x", "spec.containers[0].imag"]);
        assert_eq!(object["metadata"]["managedFields"], json!([{"fieldsV1": {"f:spec": {}}}]));
        assert_eq!(object["spec"]["containers"][0]["resources"], json!({"limits": {"cpu": 1}}));
        let list = core::schema("", "v1", "PodList").unwrap();
        let mut object = json!({"metadata": {"resourceVersion": "1", "name": "n"}, "items": []});
        assert_eq!(prune(&mut object, &list), ["metadata.name"]);
    }
}
