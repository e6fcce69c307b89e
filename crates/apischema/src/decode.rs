//! Why kube-apiserver could not read a custom resource. Of most of it it reads anything; metadata has Go types.

use serde_json::Value;

use crate::core;
use crate::field_error::FieldError;
use crate::path::Path;
use crate::schema::{AdditionalProperties, Schema};

/// Why a custom resource cannot be read, in kube-apiserver's words; nothing if it can.
///
/// For kinds of Kubernetes itself there is [`core::decode_error`].
pub fn decode_error(object: &Value, schema: &Schema) -> Option<String> {
    if let Some(error) = object.get("metadata").and_then(metadata_error) {
        return Some(error);
    }
    inside(object, schema, &Path::ROOT).map(|error| error.to_string())
}

fn metadata_error(metadata: &Value) -> Option<String> {
    core::metadata_decode_error(metadata)
}

fn embedded(value: &Value, schema: &Schema, path: &Path<'_>) -> Option<FieldError> {
    if let (true, Value::Object(fields)) = (schema.embedded_resource, value) {
        for name in ["apiVersion", "kind"] {
            if let Some(value) = fields.get(name).filter(|value| !value.is_string()) {
                let path = path.field(name).to_field_path();
                return Some(FieldError::invalid(path, value.clone(), "must be a string"));
            }
        }
        if let Some(metadata) = fields.get("metadata")
            && let Some(error) = metadata_error(metadata)
        {
            return Some(FieldError::invalid(
                path.field("metadata").to_field_path(),
                metadata.clone(),
                error,
            ));
        }
    }
    inside(value, schema, path)
}

fn inside(value: &Value, schema: &Schema, path: &Path<'_>) -> Option<FieldError> {
    match value {
        Value::Object(fields) => {
            fields.iter().find_map(|(name, value)| match (schema.properties.get(name), &schema.additional) {
                (Some(property), _) => embedded(value, property, &path.field(name)),
                (None, AdditionalProperties::Of(values)) => embedded(value, values, &path.key(name)),
                (None, AdditionalProperties::Any | AdditionalProperties::None) => None,
            })
        }
        Value::Array(items) => {
            let schema = schema.items.as_deref()?;
            items.iter().enumerate().find_map(|(index, item)| embedded(item, schema, &path.index(index)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn metadata_has_types_at_the_root_and_in_embedded_resources() {
        let schema = Schema::from_json(&json!({"type": "object", "properties": {"e": {"type": "array", "items": {
            "type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true,
        }}}}))
        .unwrap();
        for (object, error) in [
            (
                json!({"metadata": {"name": "x", "labels": {"a": "b"}}, "e": [{"kind": "K", "metadata": {}}]}),
                None,
            ),
            (
                json!({"metadata": {"labels": {"a": 1}}}),
                Some("json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string"),
            ),
            (
                json!({"metadata": "x"}),
                Some("json: cannot unmarshal string into Go value of type v1.ObjectMeta"),
            ),
            (json!({"e": [{"kind": 3}]}), Some("e[0].kind: Invalid value: 3: must be a string")),
            (
                json!({"e": [{"metadata": {"name": 1}}]}),
                Some(
                    "e[0].metadata: Invalid value: {\"name\":1}: json: cannot unmarshal number into Go struct field \
                     ObjectMeta.name of type string",
                ),
            ),
        ] {
            assert_eq!(decode_error(&object, &schema).as_deref(), error);
        }
    }
}
