//! Reading the bodies of patch requests.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use apischema::{Schema, Type};
use serde_json::Value;

use super::{JsonPatch, PatchError};
use crate::fieldvalidation::{self, Decoded, StrictError};
use crate::options::FieldValidation;

/// What an operation of a JSON patch may have.
static OPERATIONS: LazyLock<Schema> = LazyLock::new(|| {
    let text = Arc::new(Schema { kind: Some(Type::String), ..Schema::default() });
    let anything = Arc::new(Schema { preserve_unknown_fields: true, ..Schema::default() });
    let texts = ["op", "path", "from"].map(|name| (name.to_owned(), text.clone()));
    let properties: BTreeMap<_, _> = texts.into_iter().chain([("value".to_owned(), anything)]).collect();
    let operation = Schema { kind: Some(Type::Object), properties, ..Schema::default() };
    Schema { kind: Some(Type::Array), items: Some(Arc::new(operation)), ..Schema::default() }
});

/// Reads a JSON patch, and what a strict reader would refuse in it.
pub fn decode_json_patch(
    body: &[u8],
    validation: FieldValidation,
) -> Result<(JsonPatch, Vec<StrictError>), PatchError> {
    if validation == FieldValidation::Ignore {
        return Ok((JsonPatch::parse(body)?, Vec::new()));
    }
    let malformed = |message: String| PatchError::Malformed(format!("error decoding patch: {message}"));
    let decoded = fieldvalidation::decode_json_as(body, &OPERATIONS).map_err(malformed)?;
    if let Some(message) = wrong_type(&decoded.value) {
        return Err(malformed(message));
    }
    let strict_errors =
        decoded.strict_errors.into_iter().map(|error| StrictError::InJsonPatch(Box::new(error)));
    Ok((JsonPatch::from_value(decoded.value)?, strict_errors.collect()))
}

/// Reads a merge patch, and what a strict reader would refuse in it.
pub fn decode_merge_patch(body: &[u8], validation: FieldValidation) -> Result<Decoded, PatchError> {
    let decoded = decode_object(body);
    match validation {
        FieldValidation::Ignore => {
            decoded.map_err(|_| PatchError::Malformed("Invalid JSON Patch".to_owned()))
        }
        FieldValidation::Warn | FieldValidation::Strict => {
            decoded.map_err(|message| PatchError::Malformed(format!("error decoding patch: {message}")))
        }
    }
}

/// Reads a strategic merge patch, and what a strict reader would refuse in it.
pub fn decode_strategic_patch(body: &[u8]) -> Result<Decoded, PatchError> {
    decode_object(body).map_err(PatchError::Malformed)
}

/// An object, or null, which the patches that are objects take for nothing.
fn decode_object(body: &[u8]) -> Result<Decoded, String> {
    let decoded = fieldvalidation::decode_json(body)?;
    match &decoded.value {
        Value::Object(_) | Value::Null => Ok(decoded),
        other => Err(mismatch(other, "Go value of type map[string]interface {}")),
    }
}

fn wrong_type(patch: &Value) -> Option<String> {
    let operations = match patch {
        Value::Array(operations) => operations,
        Value::Null => return None,
        other => return Some(mismatch(other, "Go value of type []handlers.jsonPatchOp")),
    };
    operations.iter().find_map(|operation| match operation {
        Value::Object(fields) => ["op", "path", "from"].into_iter().find_map(|name| {
            let value = fields.get(name).filter(|value| !(value.is_string() || value.is_null()))?;
            Some(mismatch(value, &format!("Go struct field jsonPatchOp.{name} of type string")))
        }),
        Value::Null => None,
        other => Some(mismatch(other, "Go value of type handlers.jsonPatchOp")),
    })
}

/// What Go says about a value that is not of the type that it should be.
pub(super) fn mismatch(value: &Value, wanted: &str) -> String {
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    format!("json: cannot unmarshal {kind} into {wanted}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refused<T: std::fmt::Debug>(outcome: Result<T, PatchError>) -> String {
        match outcome.unwrap_err() {
            PatchError::Malformed(message) => message,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn bodies_that_are_no_patches_are_refused_in_the_words_of_kubernetes() {
        let json = |body: &str| refused(decode_json_patch(body.as_bytes(), FieldValidation::Warn));
        assert_eq!(
            json("{}"),
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"
        );
        assert_eq!(
            json("[1]"),
            "error decoding patch: json: cannot unmarshal number into Go value of type handlers.jsonPatchOp"
        );
        assert_eq!(
            json(r#"[{"op": 5}]"#),
            "error decoding patch: json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string"
        );
        assert_eq!(json("["), "error decoding patch: unexpected end of JSON input");
        assert_eq!(
            refused(decode_json_patch(b"{}", FieldValidation::Ignore)),
            "json: cannot unmarshal object into Go value of type jsonpatch.Patch"
        );

        let merge = |body: &str, validation| refused(decode_merge_patch(body.as_bytes(), validation));
        assert_eq!(
            merge("[]", FieldValidation::Strict),
            "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"
        );
        assert_eq!(merge("{", FieldValidation::Ignore), "Invalid JSON Patch");
        assert_eq!(
            refused(decode_strategic_patch(b"5")),
            "json: cannot unmarshal number into Go value of type map[string]interface {}"
        );
    }

    #[test]
    fn what_a_strict_reader_refuses_is_noticed() {
        let body = br#"[{"op": "add", "path": "/a", "value": {"x": {"any": 1}}, "oops": 1, "op": "add"}]"#;
        let (patch, errors) = decode_json_patch(body, FieldValidation::Strict).unwrap();
        let told: Vec<_> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [r#"json patch unknown field "[0].oops""#, r#"json patch duplicate field "[0].op""#]
        );
        assert_eq!(patch.apply(json!({})), Ok(json!({"a": {"x": {"any": 1}}})));
        let (_, errors) = decode_json_patch(body, FieldValidation::Ignore).unwrap();
        assert_eq!(errors, []);

        let decoded = decode_merge_patch(br#"{"a": {"b": 1, "b": 2}}"#, FieldValidation::Warn).unwrap();
        assert_eq!(decoded.strict_errors, [StrictError::Duplicate("a.b".to_owned())]);
        assert_eq!(decode_strategic_patch(b"{}").unwrap().value, json!({}));
    }
}
