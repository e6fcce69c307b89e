//! Resources inside of a resource have a version, a kind and metadata.

use serde_json::{Map, Value};

use crate::field_error::FieldError;
use crate::path::Path;
use crate::schema::{AdditionalProperties, Schema};

/// What is wrong with the resources embedded in an object; the object itself is not looked at.
pub(crate) fn embedded_errors(object: &Value, schema: &Schema) -> Vec<FieldError> {
    let mut errors = Vec::new();
    inside(object, schema, &Path::ROOT, &mut errors);
    errors
}

/// Whether there is anything to look for; most schemas embed nothing.
pub(crate) fn holds_resources(schema: &Schema) -> bool {
    let is = |schema: &Schema| schema.embedded_resource || holds_resources(schema);
    schema.properties.values().any(|property| is(property))
        || schema.items.as_deref().is_some_and(is)
        || matches!(&schema.additional, AdditionalProperties::Of(values) if is(values))
}

fn check(value: &Value, schema: &Schema, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    if let (true, Value::Object(fields)) = (schema.embedded_resource, value) {
        resource(fields, path, errors);
    }
    inside(value, schema, path, errors);
}

fn inside(value: &Value, schema: &Schema, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                if let Some(property) = schema.properties.get(name) {
                    check(value, property, &path.field(name), errors);
                } else if let AdditionalProperties::Of(values) = &schema.additional {
                    check(value, values, &path.key(name), errors);
                }
            }
        }
        Value::Array(items) => {
            let Some(schema) = &schema.items else { return };
            for (index, item) in items.iter().enumerate() {
                check(item, schema, &path.index(index), errors);
            }
        }
        _ => {}
    }
}

fn resource(fields: &Map<String, Value>, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    for name in ["apiVersion", "kind"] {
        let path = || path.field(name).to_field_path();
        match fields.get(name) {
            None => errors.push(FieldError::required(path(), "")),
            Some(Value::String(text)) if text.is_empty() => {
                errors.push(FieldError::invalid(path(), "", "must not be empty"));
            }
            Some(Value::String(text)) => {
                if let Some(detail) = name_error(name, text) {
                    errors.push(FieldError::invalid(path(), text.as_str(), detail));
                }
            }
            Some(other) => errors.push(FieldError::invalid(path(), other.clone(), "must be a string")),
        }
    }
}

fn name_error(field: &str, text: &str) -> Option<String> {
    if field == "apiVersion" {
        let slashes = text.matches('/').count();
        return (slashes > 1).then(|| format!("unexpected GroupVersion string: {text}"));
    }
    let letter = |byte: u8| byte.is_ascii_alphabetic();
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    let label = text.bytes().next().is_some_and(letter)
        && text.bytes().all(inner)
        && !text.ends_with('-')
        && text.len() <= 63;
    (!label).then(|| {
        "may have mixed case, but should otherwise match: a DNS-1035 label must consist of lower case alphanumeric \
         characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. \
         'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
            .to_owned()
    })
}
