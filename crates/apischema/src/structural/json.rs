//! Reading keywords of a schema's JSON. What has a wrong type counts as absent here; parsing tells about it.

use serde_json::{Map, Value};

pub(super) fn text<'a>(schema: &'a Value, keyword: &str) -> &'a str {
    schema.get(keyword).and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn flag(schema: &Value, keyword: &str) -> bool {
    schema.get(keyword).and_then(Value::as_bool).unwrap_or_default()
}

pub(super) fn present<'a>(schema: &'a Value, keyword: &str) -> Option<&'a Value> {
    schema.get(keyword).filter(|value| !value.is_null())
}

pub(super) fn list<'a>(schema: &'a Value, keyword: &str) -> &'a [Value] {
    schema.get(keyword).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

pub(super) fn fields<'a>(schema: &'a Value, keyword: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    schema.get(keyword).and_then(Value::as_object).into_iter().flatten()
}

pub(super) fn has_fields(schema: &Value, keyword: &str) -> bool {
    schema.get(keyword).and_then(Value::as_object).is_some_and(|fields| !fields.is_empty())
}

pub(super) fn property<'a>(schema: &'a Value, name: &str) -> Option<&'a Value> {
    schema.get("properties")?.get(name)
}

/// The schema that a keyword holds, and not the boolean or array that it may hold instead.
pub(super) fn schema<'a>(schema: &'a Value, keyword: &str) -> Option<&'a Value> {
    schema.get(keyword).filter(|value| value.is_object())
}

/// Whether the schema uses keywords that no structural schema can have. They are reported one by one elsewhere.
pub(super) fn unsupported(json: &Value) -> bool {
    let Some(fields) = json.as_object() else { return true };
    let here = ["id", "$schema", "$ref"].iter().any(|keyword| !text(json, keyword).is_empty())
        || ["patternProperties", "dependencies", "definitions"]
            .iter()
            .any(|keyword| has_fields(json, keyword))
        || present(json, "additionalItems").is_some()
        || json.get("items").is_some_and(Value::is_array)
        || fields.get(crate::schema::keywords::PRESERVE_UNKNOWN_FIELDS) == Some(&Value::Bool(false));
    here || children(fields).any(unsupported)
}

fn children(fields: &Map<String, Value>) -> impl Iterator<Item = &Value> {
    let single = ["items", "additionalProperties", "not"].iter().filter_map(|keyword| fields.get(*keyword));
    let lists =
        ["allOf", "anyOf", "oneOf"].iter().filter_map(|keyword| fields.get(*keyword)?.as_array()).flatten();
    let named = fields.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::values);
    single.filter(|value| value.is_object()).chain(lists).chain(named)
}

/// Whether a document nests deeper than a limit. It is looked into no further than that.
pub(super) fn is_deeper(json: &Value, limit: usize) -> bool {
    match json {
        Value::Object(fields) => limit == 0 || fields.values().any(|value| is_deeper(value, limit - 1)),
        Value::Array(items) => limit == 0 || items.iter().any(|item| is_deeper(item, limit - 1)),
        _ => false,
    }
}
