//! Reading and changing objects the way Kubernetes' own types read: what is absent is empty.

use jiff::Timestamp;
use serde_json::{Map, Value};

/// The text of a value; empty if it is none.
pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The number of a value; zero if it is none.
pub(super) fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or_default()
}

/// Whether a value is `true`.
pub(super) fn is_true(value: &Value) -> bool {
    value.as_bool().unwrap_or_default()
}

/// Whether a value is there.
pub(super) fn is_set(value: &Value) -> bool {
    !value.is_null()
}

/// The elements of a list; none if it is none.
pub(super) fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The elements of a list of texts.
pub(super) fn texts(value: &Value) -> impl Iterator<Item = &str> {
    items(value).iter().map(text)
}

/// The entries of a map; none if it is none.
pub(super) fn entries(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    value.as_object().into_iter().flatten().map(|(key, value)| (key.as_str(), value))
}

/// How many elements or entries a value has.
pub(super) fn size(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.len(),
        Value::Object(fields) => fields.len(),
        _ => 0,
    }
}

/// The fields of a value that is to be changed; it becomes an object if it is none.
pub(super) fn fields_mut(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().expect("invariant: it was made an object above")
}

/// A field of a value that is to be changed; made if it is absent.
pub(super) fn field_mut<'a>(value: &'a mut Value, name: &str) -> &'a mut Value {
    fields_mut(value).entry(name).or_insert(Value::Null)
}

/// A field of a value that is to be changed; made an object if it is absent.
pub(super) fn object_mut<'a>(value: &'a mut Value, name: &str) -> &'a mut Map<String, Value> {
    fields_mut(field_mut(value, name))
}

/// The elements of a field of a value that is to be changed; nothing is made.
pub(super) fn items_mut<'a>(value: &'a mut Value, name: &str) -> &'a mut [Value] {
    value.get_mut(name).and_then(Value::as_array_mut).map_or(&mut [], Vec::as_mut_slice)
}

/// Sets a field, or takes it away.
pub(super) fn set(fields: &mut Map<String, Value>, name: &str, value: Option<Value>) {
    match value {
        Some(value) => fields.insert(name.into(), value),
        None => fields.remove(name),
    };
}

/// A time as Kubernetes writes it: whole seconds, UTC.
pub(super) fn time(at: Timestamp) -> Value {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string().into()
}

/// Whether two values mean the same: an empty list, map or text is as good as none, and so is `false`.
pub(super) fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Object(left), Value::Object(right)) => {
            left.iter().all(|(name, value)| same(value, right.get(name).unwrap_or(&Value::Null)))
                && right.iter().all(|(name, value)| left.contains_key(name) || is_empty(value))
        }
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| same(left, right))
        }
        (left, right) => left == right || (is_empty(left) && is_empty(right)),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(is_empty),
        Value::Bool(true) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_absent_is_empty() {
        let object = json!({"spec": {"ports": [1]}});
        assert_eq!(text(&object["spec"]["name"]), "");
        assert_eq!(number(&object["status"]["replicas"]), 0);
        assert_eq!(items(&object["spec"]["ports"]).len(), 1);
        assert_eq!(items(&object["nothing"]["at"]["all"]).len(), 0);
    }

    #[test]
    fn empty_and_absent_are_the_same() {
        assert!(same(&json!({"a": {}, "b": [], "c": "", "d": false}), &json!({})));
        assert!(same(&json!({"a": {"b": {}}}), &json!({"a": null})));
        assert!(!same(&json!({"a": 0}), &json!({})));
        assert!(!same(&json!({"a": [1]}), &json!({"a": [1, 2]})));
        assert!(!same(&json!({}), &json!({"a": "x"})));
        assert!(same(&json!({}), &json!({"a": {}})));
    }
}
