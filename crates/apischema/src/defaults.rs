//! Filling in what a schema says stands where nothing does.

use serde_json::{Map, Value};

use crate::schema::{AdditionalProperties, Schema};

/// Fills in a schema's defaults. A `null` where none may be counts as nothing: it becomes the default, or goes.
///
/// This is for custom resources. What core kinds' OpenAPI calls a default is often just a zero; theirs are filled in by
/// [`core::default`](crate::core::default).
pub fn default(value: &mut Value, schema: &Schema) {
    match value {
        Value::Object(fields) => {
            drop_nulls(fields, schema);
            insert_missing(fields, schema);
            for (name, value) in fields {
                if let Some(schema) = field(schema, name) {
                    default(value, schema);
                }
            }
        }
        Value::Array(items) => {
            let Some(schema) = &schema.items else { return };
            for item in items {
                if let (true, Some(instead)) = (is_wrong_null(item, schema), &schema.default) {
                    *item = instead.clone();
                }
                default(item, schema);
            }
        }
        _ => {}
    }
}

fn field<'a>(schema: &'a Schema, name: &str) -> Option<&'a Schema> {
    match (schema.properties.get(name), &schema.additional) {
        (Some(property), _) => Some(property),
        (None, AdditionalProperties::Of(values)) => Some(values),
        (None, AdditionalProperties::Any | AdditionalProperties::None) => None,
    }
}

fn is_wrong_null(value: &Value, schema: &Schema) -> bool {
    value.is_null() && !schema.nullable
}

fn drop_nulls(fields: &mut Map<String, Value>, schema: &Schema) {
    // Nulls are rare, so look before going through the map with the means to change it.
    if fields.values().any(Value::is_null) {
        fields.retain(|name, value| {
            field(schema, name).is_none_or(|schema| !is_wrong_null(value, schema) || schema.default.is_some())
        });
    }
}

fn insert_missing(fields: &mut Map<String, Value>, schema: &Schema) {
    for (name, property) in &schema.properties {
        let Some(default) = &property.default else { continue };
        if fields.get(name).is_none_or(|value| is_wrong_null(value, property)) {
            fields.insert(name.clone(), default.clone());
        }
    }
    let AdditionalProperties::Of(values) = &schema.additional else { return };
    let Some(default) = &values.default else { return };
    for (name, value) in fields {
        if is_wrong_null(value, values) && !schema.properties.contains_key(name) {
            *value = default.clone();
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(schema: &Value, before: Value, after: &Value) {
        let schema = Schema::from_json(schema).unwrap();
        let mut object = before;
        default(&mut object, &schema);
        assert_eq!(object, *after);
        default(&mut object, &schema);
        assert_eq!(object, *after);
    }

    #[test]
    fn what_is_missing_is_filled_in_down_to_the_bottom() {
        let schema = json!({"type": "object", "properties": {
            "a": {"type": "object", "default": {}, "properties": {"b": {"type": "integer", "default": 3}}},
            "list": {"type": "array", "items": {"type": "object", "properties": {"c": {"type": "string", "default": "x"}}}},
            "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"d": {"default": true}}}},
            "none": {"type": "object", "properties": {"e": {"type": "string", "default": "y"}}},
        }});
        check(
            &schema,
            json!({"list": [{}, {"c": "z"}], "map": {"k": {}}}),
            &json!({"a": {"b": 3}, "list": [{"c": "x"}, {"c": "z"}], "map": {"k": {"d": true}}}),
        );
    }

    #[test]
    fn a_null_that_may_not_be_counts_as_nothing() {
        let schema = json!({"type": "object", "properties": {
            "plain": {"type": "string"},
            "defaulted": {"type": "string", "default": "x"},
            "nullable": {"type": "string", "nullable": true},
            "both": {"type": "string", "nullable": true, "default": "x"},
            "list": {"type": "array", "items": {"type": "string", "default": "i"}},
            "bare": {"type": "array", "items": {"type": "string"}},
            "map": {"type": "object", "additionalProperties": {"type": "string", "default": "v"}},
            "gone": {"type": "object", "additionalProperties": {"type": "string"}},
        }});
        check(
            &schema,
            json!({
                "plain": null, "defaulted": null, "nullable": null, "both": null, "list": [null], "bare": [null],
                "map": {"k": null}, "gone": {"k": null}, "unknown": null,
            }),
            &json!({
                "defaulted": "x", "nullable": null, "both": null, "list": ["i"], "bare": [null], "map": {"k": "v"},
                "gone": {}, "unknown": null,
            }),
        );
    }
}
