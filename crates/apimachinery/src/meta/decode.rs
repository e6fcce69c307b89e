//! Metadata whose fields have the wrong types.

use serde_json::Value;

use super::metadata;
use crate::time;

/// What a field of the metadata must be.
enum Expected {
    Text(&'static str),
    Integer,
    Time,
    TextMap,
    TextList,
    /// A list of objects of this type, with these fields.
    List(&'static str, &'static [(&'static str, Expected)]),
    Boolean,
    Any,
}

const OBJECT_META: &[(&str, Expected)] = &[
    ("name", Expected::Text("string")),
    ("generateName", Expected::Text("string")),
    ("namespace", Expected::Text("string")),
    ("selfLink", Expected::Text("string")),
    ("uid", Expected::Text("types.UID")),
    ("resourceVersion", Expected::Text("string")),
    ("generation", Expected::Integer),
    ("creationTimestamp", Expected::Time),
    ("deletionTimestamp", Expected::Time),
    ("deletionGracePeriodSeconds", Expected::Integer),
    ("labels", Expected::TextMap),
    ("annotations", Expected::TextMap),
    ("finalizers", Expected::TextList),
    ("ownerReferences", Expected::List("OwnerReference", OWNER_REFERENCE)),
    ("managedFields", Expected::List("ManagedFieldsEntry", MANAGED_FIELDS_ENTRY)),
];

const OWNER_REFERENCE: &[(&str, Expected)] = &[
    ("apiVersion", Expected::Text("string")),
    ("kind", Expected::Text("string")),
    ("name", Expected::Text("string")),
    ("uid", Expected::Text("types.UID")),
    ("controller", Expected::Boolean),
    ("blockOwnerDeletion", Expected::Boolean),
];

const MANAGED_FIELDS_ENTRY: &[(&str, Expected)] = &[
    ("manager", Expected::Text("string")),
    ("operation", Expected::Text("v1.ManagedFieldsOperationType")),
    ("apiVersion", Expected::Text("string")),
    ("time", Expected::Time),
    ("fieldsType", Expected::Text("string")),
    ("fieldsV1", Expected::Any),
    ("subresource", Expected::Text("string")),
];

/// The first field of the metadata that has a wrong type, said as Kubernetes says it when it cannot decode an object.
pub fn type_error(object: &Value) -> Option<String> {
    match object.get("metadata") {
        None | Some(Value::Null) => None,
        Some(Value::Object(_)) => {
            let metadata = metadata(object)?;
            metadata.iter().find_map(|(field, value)| {
                let (_, expected) = OBJECT_META.iter().find(|(name, _)| name == field)?;
                mismatch(value, expected, "ObjectMeta", &format!("metadata.{field}"))
            })
        }
        Some(other) => Some(format!(
            "json: cannot unmarshal {} into Go struct field {}.metadata of type v1.ObjectMeta",
            kind(other),
            super::kind(object)
        )),
    }
}

fn mismatch(value: &Value, expected: &Expected, of: &str, path: &str) -> Option<String> {
    let wrong = |value: &Value, wanted: &str| {
        Some(format!(
            "json: cannot unmarshal {} into Go struct field {of}.{path} of type {wanted}",
            kind(value)
        ))
    };
    match (expected, value) {
        (_, Value::Null) | (Expected::Any, _) => None,
        (Expected::Text(_), Value::String(_)) | (Expected::Boolean, Value::Bool(_)) => None,
        (Expected::Text(wanted), other) => wrong(other, wanted),
        (Expected::Boolean, other) => wrong(other, "bool"),
        (Expected::Integer, Value::Number(number)) if number.is_i64() => None,
        (Expected::Integer, Value::Number(number)) => Some(format!(
            "json: cannot unmarshal number {number} into Go struct field {of}.{path} of type int64"
        )),
        (Expected::Integer, other) => wrong(other, "int64"),
        (Expected::Time, Value::String(text)) => match time::seconds(text) {
            Some(_) => None,
            None => {
                let quoted = apischema::go_text::quote(text);
                Some(format!(
                    "parsing time {quoted} as \"2006-01-02T15:04:05Z07:00\": cannot parse {quoted} as \"2006\""
                ))
            }
        },
        (Expected::Time, other) => wrong(other, "string"),
        (Expected::TextMap, Value::Object(fields)) => fields
            .values()
            .find(|field| !(field.is_string() || field.is_null()))
            .and_then(|bad| wrong(bad, "string")),
        (Expected::TextMap, other) => wrong(other, "map[string]string"),
        (Expected::TextList, Value::Array(items)) => items
            .iter()
            .find(|item| !(item.is_string() || item.is_null()))
            .and_then(|bad| wrong(bad, "string")),
        (Expected::TextList, other) => wrong(other, "[]string"),
        (Expected::List(of_items, fields), Value::Array(items)) => items.iter().find_map(|item| match item {
            Value::Object(item) => item.iter().find_map(|(name, value)| {
                let (_, expected) = fields.iter().find(|(field, _)| field == name)?;
                mismatch(value, expected, of_items, &format!("{path}.{name}"))
            }),
            Value::Null => None,
            other => wrong(other, &format!("v1.{of_items}")),
        }),
        (Expected::List(of_items, _), other) => wrong(other, &format!("[]v1.{of_items}")),
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_of_wrong_types_are_found() {
        let cases = [
            (json!({"name": "n", "labels": {"a": "b", "c": null}, "generation": 5, "unknown": 1}), None),
            (
                json!({"labels": {"a": 1}}),
                Some(
                    "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string",
                ),
            ),
            (
                json!({"name": {}}),
                Some(
                    "json: cannot unmarshal object into Go struct field ObjectMeta.metadata.name of type string",
                ),
            ),
            (
                json!({"finalizers": "x"}),
                Some(
                    "json: cannot unmarshal string into Go struct field ObjectMeta.metadata.finalizers of type []string",
                ),
            ),
            (
                json!({"generation": 1.5}),
                Some(
                    "json: cannot unmarshal number 1.5 into Go struct field ObjectMeta.metadata.generation of type int64",
                ),
            ),
            (
                json!({"ownerReferences": [{"uid": true}]}),
                Some(
                    "json: cannot unmarshal bool into Go struct field OwnerReference.metadata.ownerReferences.uid of type \
                     types.UID",
                ),
            ),
            (
                json!({"creationTimestamp": "yesterday"}),
                Some(
                    "parsing time \"yesterday\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"yesterday\" as \"2006\"",
                ),
            ),
        ];
        for (metadata, message) in cases {
            assert_eq!(type_error(&json!({"metadata": metadata})).as_deref(), message);
        }
        assert_eq!(type_error(&json!({})), None);
        assert_eq!(
            type_error(&json!({"kind": "Pod", "metadata": []})).as_deref(),
            Some("json: cannot unmarshal array into Go struct field Pod.metadata of type v1.ObjectMeta")
        );
    }
}
