//! Reading JSON that users put into annotations and CNI configurations, with errors that name the place.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::field_error::{FieldErrors, FieldPath, Reason};

/// Kubernetes' own limit for all annotations of an object.
const MAX_LENGTH: usize = 256 * 1024;

/// Parses a text at `path`. A key given twice is an error: one of the two would be lost.
pub(crate) fn parse_json(text: &str, path: &FieldPath<'_>, errors: &mut FieldErrors) -> Option<Value> {
    if text.len() > MAX_LENGTH {
        errors.add_bare(path, Reason::TooLong, format!("has more than {MAX_LENGTH} bytes"));
        return None;
    }
    match serde_json::from_str::<Strict>(text) {
        Ok(Strict(value)) => Some(value),
        Err(error) => {
            errors.add(path, text, Reason::Invalid, format!("is not valid JSON: {error}"));
            None
        }
    }
}

/// An object whose fields are read by name and type.
#[derive(Clone, Copy)]
pub(crate) struct JsonReader<'a> {
    object: &'a Map<String, Value>,
    path: &'a FieldPath<'a>,
}

impl<'a> JsonReader<'a> {
    /// Reads an object, if the value is one.
    pub(crate) fn new(value: &'a Value, path: &'a FieldPath<'a>, errors: &mut FieldErrors) -> Option<Self> {
        match value {
            Value::Object(object) => Some(Self { object, path }),
            other => {
                errors.add_bare(
                    path,
                    Reason::Invalid,
                    format!("is {}; write an object {{…}}", type_name(other)),
                );
                None
            }
        }
    }

    /// The field as it is; null counts as absent.
    pub(crate) fn value(&self, key: &str) -> Option<&'a Value> {
        self.object.get(key).filter(|value| !value.is_null())
    }

    /// A field that holds a text; an empty one counts as absent, as Go clients write it.
    pub(crate) fn text(&self, key: &str, errors: &mut FieldErrors) -> Option<&'a str> {
        match self.value(key)? {
            Value::String(text) => Some(text.as_str()).filter(|text| !text.is_empty()),
            other => {
                let message = format!("is {}; write a text in quotes", type_name(other));
                errors.add_bare(&self.path.field(key), Reason::Invalid, message);
                None
            }
        }
    }

    /// A field that holds a list.
    pub(crate) fn list(&self, key: &str, errors: &mut FieldErrors) -> &'a [Value] {
        match self.value(key) {
            None => &[],
            Some(Value::Array(items)) => items,
            Some(other) => {
                let message = format!("is {}; write a list […]", type_name(other));
                errors.add_bare(&self.path.field(key), Reason::Invalid, message);
                &[]
            }
        }
    }

    /// A field that holds a list of texts, each parsed by `parse`; what it refuses is left out.
    pub(crate) fn texts<T>(
        &self,
        key: &str,
        errors: &mut FieldErrors,
        parse: impl Fn(&str) -> Result<T, crate::Problem>,
    ) -> Vec<T> {
        let path = self.path.field(key);
        let mut values = Vec::new();
        for (i, item) in self.list(key, errors).iter().enumerate() {
            match item {
                Value::String(text) => match parse(text) {
                    Ok(value) => values.push(value),
                    Err(problem) => errors.add_problem(&path.index(i), text, &problem),
                },
                other => {
                    let message = format!("is {}; write a text in quotes", type_name(other));
                    errors.add_bare(&path.index(i), Reason::Invalid, message);
                }
            }
        }
        values
    }

    /// A field that holds a text, parsed by `parse`.
    pub(crate) fn parsed<T>(
        &self,
        key: &str,
        errors: &mut FieldErrors,
        parse: impl Fn(&str) -> Result<T, crate::Problem>,
    ) -> Option<T> {
        let text = self.text(key, errors)?;
        parse(text).map_err(|problem| errors.add_problem(&self.path.field(key), text, &problem)).ok()
    }

    /// The fields whose names are not among `known`.
    pub(crate) fn others(&self, known: &'a [&str]) -> impl Iterator<Item = (&'a String, &'a Value)> {
        self.object.iter().filter(|(key, _)| !known.contains(&key.as_str()))
    }
}

/// What a JSON value is, in words.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// A JSON value in which no object has a key twice.
struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(Strict)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }
    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }
    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(Strict(item)) = seq.next_element()? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            if object.contains_key(&key) {
                return Err(de::Error::custom(format!("the key {key:?} appears twice")));
            }
            let Strict(value) = map.next_value()?;
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_given_twice_is_an_error() {
        let mut errors = FieldErrors::new();
        assert!(parse_json(r#"[{"a": 1, "b": {"a": 2}, "a": 3}]"#, &FieldPath::SPEC, &mut errors).is_none());
        assert!(errors.to_string().contains(r#"the key "a" appears twice"#), "{errors}");
    }

    #[test]
    fn deep_nesting_is_refused_not_overflowed() {
        let mut errors = FieldErrors::new();
        let deep = "[".repeat(100_000);
        assert!(parse_json(&deep, &FieldPath::SPEC, &mut errors).is_none());
        assert!(errors.to_string().contains("recursion limit"), "{errors}");
    }

    #[test]
    fn absurd_sizes_are_refused() {
        let mut errors = FieldErrors::new();
        assert!(parse_json(&" ".repeat(MAX_LENGTH + 1), &FieldPath::SPEC, &mut errors).is_none());
        assert_eq!(errors.to_string(), "spec: has more than 262144 bytes");
    }
}
