//! Schemas as definitions hold them: JSON, with schemas inside.

use serde_json::Value;

/// Whether something is so of a schema or of any inside it.
pub(super) fn any(schema: &Value, is: &dyn Fn(&Value) -> bool) -> bool {
    let mut found = false;
    visit(schema, &mut |schema| {
        found |= is(schema);
    });
    found
}

/// Shows a schema and all inside it, outer ones first.
pub(super) fn visit<'a>(schema: &'a Value, show: &mut dyn FnMut(&'a Value)) {
    let Some(fields) = schema.as_object() else { return };
    show(schema);
    for (keyword, value) in fields {
        match keyword.as_str() {
            "items" | "not" | "additionalProperties" | "additionalItems" => visit(value, show),
            "allOf" | "anyOf" | "oneOf" => {
                for schema in value.as_array().into_iter().flatten() {
                    visit(schema, show);
                }
            }
            "properties" | "patternProperties" | "definitions" | "dependencies" => {
                for schema in value.as_object().into_iter().flat_map(|schemas| schemas.values()) {
                    visit(schema, show);
                }
            }
            _ => {}
        }
    }
}

/// The formats of strings that are checked. A format of another name is not an error, it just means nothing.
const FORMATS: [&str; 24] = [
    "bsonobjectid",
    "uri",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "cidr",
    "mac",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
    "isbn",
    "isbn10",
    "isbn13",
    "creditcard",
    "ssn",
    "hexcolor",
    "rgbcolor",
    "byte",
    "password",
    "date",
    "duration",
    "datetime",
];

/// The formats in a schema that mean nothing.
pub(super) fn unrecognized_formats(schema: &Value) -> Vec<&str> {
    let mut unrecognized = Vec::new();
    visit(schema, &mut |schema| {
        let text = |name: &str| schema.get(name).and_then(Value::as_str).unwrap_or_default();
        let format = text("format");
        if text("type") == "string"
            && !format.is_empty()
            && !FORMATS.contains(&format.replace('-', "").as_str())
        {
            unrecognized.push(format);
        }
    });
    unrecognized
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn schemas_are_found_wherever_they_are() {
        let schema = json!({"type": "object", "properties": {"default": {"type": "string", "format": "date-time"}},
            "additionalProperties": {"type": "array", "items": {"anyOf": [{"default": 1}]}}});
        assert!(any(&schema, &|schema| schema.get("default").is_some()));
        let schema = json!({"type": "object", "properties": {"default": {"type": "string"}}});
        assert!(
            !any(&schema, &|schema| schema.get("default").is_some()),
            "a property of that name is no default"
        );
    }

    #[test]
    fn formats_that_mean_nothing_are_named() {
        let schema = json!({"properties": {
            "a": {"type": "string", "format": "date-time"}, "b": {"type": "string", "format": "datum"},
            "c": {"type": "integer", "format": "int7"}, "d": {"type": "string", "format": "k8s-short-name"},
        }});
        assert_eq!(unrecognized_formats(&schema), ["datum", "k8s-short-name"]);
    }
}
