//! What may not stand at the root of a schema.

use serde_json::Value;

use super::{Place, StatusSubresource, json};
use crate::field_error::FieldError;

/// With a status subresource the status's schema is taken out of the tree, and what else the root says would be lost.
const ALLOWED_WITH_STATUS: &[(&str, &str)] = &[
    ("description", "Description"),
    ("type", "Type"),
    ("format", "Format"),
    ("title", "Title"),
    ("maximum", "Maximum"),
    ("exclusiveMaximum", "ExclusiveMaximum"),
    ("minimum", "Minimum"),
    ("exclusiveMinimum", "ExclusiveMinimum"),
    ("maxLength", "MaxLength"),
    ("minLength", "MinLength"),
    ("pattern", "Pattern"),
    ("maxItems", "MaxItems"),
    ("minItems", "MinItems"),
    ("uniqueItems", "UniqueItems"),
    ("multipleOf", "MultipleOf"),
    ("required", "Required"),
    ("items", "Items"),
    ("properties", "Properties"),
    ("externalDocs", "ExternalDocs"),
    ("example", "Example"),
    ("x-kubernetes-preserve-unknown-fields", "XPreserveUnknownFields"),
    ("x-kubernetes-validations", "XValidations"),
];

pub(super) fn errors(schema: &Value, place: Place<'_>, status: StatusSubresource) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let Place { prefix } = place;
    if status == StatusSubresource::Enabled {
        errors.extend(status_error(schema, prefix));
    }
    if json::flag(schema, "nullable") {
        errors
            .push(FieldError::forbidden(format!("{prefix}.nullable"), "nullable cannot be true at the root"));
    }
    errors
}

fn status_error(schema: &Value, prefix: &str) -> Option<FieldError> {
    let kind = json::text(schema, "type");
    if !kind.is_empty() && kind != "object" {
        let detail = "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
        return Some(FieldError::invalid(format!("{prefix}.type"), kind, detail));
    }
    let says_something = |value: &Value| match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        _ => true,
    };
    let allowed = |keyword: &str| ALLOWED_WITH_STATUS.iter().any(|(allowed, _)| *allowed == keyword);
    let mut used = schema.as_object()?.iter().filter(|(_, value)| says_something(value));
    used.any(|(keyword, _)| !allowed(keyword)).then(|| {
        let names: Vec<_> = ALLOWED_WITH_STATUS.iter().map(|(_, name)| *name).collect();
        let names = names.join(" ");
        let detail = format!(
            "only [{names}] fields are allowed at the root of the schema if the status subresource is enabled"
        );
        FieldError::invalid(prefix, schema.clone(), detail)
    })
}
