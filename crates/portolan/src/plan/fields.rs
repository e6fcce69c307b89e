//! Which field of an object is wrong, where decoding says only what is.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// What stands in for a value of a type that is not known.
fn stand_ins() -> [Value; 6] {
    [Value::Null, json!("text"), json!(1), json!(false), json!([]), json!({})]
}

fn decodes<K: DeserializeOwned>(object: &Value) -> bool {
    serde_json::from_value::<K>(object.clone()).is_ok()
}

/// An object with something else at a place.
fn with(object: &Value, at: &str, value: Value) -> Value {
    let mut object = object.clone();
    if let Some(place) = object.pointer_mut(at) {
        *place = value;
    }
    object
}

/// The deepest place of an object that a test finds, as Kubernetes writes fields.
fn deepest(object: &Value, test: &dyn Fn(&str, &Value) -> Option<String>) -> Option<String> {
    fn find(value: &Value, at: &str, test: &dyn Fn(&str, &Value) -> Option<String>) -> Option<String> {
        let inside = |(part, value): (String, &Value)| find(value, &format!("{at}/{part}"), test);
        let found = match value {
            Value::Object(map) => map
                .iter()
                .map(|(key, value)| (key.replace('~', "~0").replace('/', "~1"), value))
                .find_map(inside),
            Value::Array(items) => {
                items.iter().enumerate().map(|(index, value)| (index.to_string(), value)).find_map(inside)
            }
            _ => None,
        };
        found.or_else(|| test(at, value))
    }
    find(object, "", test).map(|pointer| dotted(&pointer))
}

/// Where a field is missing: with it, the object can be decoded.
pub(super) fn required<K: DeserializeOwned>(object: &Value, field: &str) -> Option<String> {
    deepest(object, &|at, value| {
        let lacks = value.as_object().is_some_and(|map| !map.contains_key(field));
        let completed = |stand_in: Value| {
            let mut value = value.clone();
            value[field] = stand_in;
            decodes::<K>(&with(object, at, value))
        };
        (lacks && stand_ins().into_iter().any(completed)).then(|| format!("{at}/{field}"))
    })
}

/// The deepest field that cannot be decoded: with something else in its place the object can.
pub(super) fn culprit<K: DeserializeOwned>(object: &Value) -> Option<String> {
    deepest(object, &|at, _| {
        let replaced = |stand_in: Value| decodes::<K>(&with(object, at, stand_in));
        stand_ins().into_iter().any(replaced).then(|| at.to_owned())
    })
}

/// A field of the spec that says something and that decoding loses: a misspelt one.
pub(super) fn unknown_field<K: Serialize>(object: &Value, decoded: &K) -> Option<String> {
    fn lost(given: &Value, kept: &Value, at: &str) -> Option<String> {
        let Value::Object(given) = given else { return None };
        given.iter().find_map(|(key, value)| {
            let here = format!("{at}/{key}");
            let says_something = match value {
                Value::Null | Value::Bool(false) => false,
                Value::String(text) => !text.is_empty(),
                Value::Array(items) => !items.is_empty(),
                Value::Object(map) => !map.is_empty(),
                _ => true,
            };
            match kept.get(key) {
                None => says_something.then_some(here),
                Some(kept) => lost(value, kept, &here),
            }
        })
    }
    let kept = serde_json::to_value(decoded).ok()?;
    lost(&object["spec"], &kept["spec"], "/spec").map(|pointer| dotted(&pointer))
}

/// A JSON pointer as Kubernetes writes fields: `spec.routes[0].dst`.
fn dotted(pointer: &str) -> String {
    let mut text = String::new();
    for part in pointer.split('/').skip(1) {
        if part.parse::<usize>().is_ok() {
            text.push_str(&format!("[{part}]"));
        } else {
            if !text.is_empty() {
                text.push('.');
            }
            text.push_str(&part.replace("~1", "/").replace("~0", "~"));
        }
    }
    text
}
