//! Reading JSON.

use std::cell::RefCell;
use std::fmt;

use apischema::{AdditionalProperties, Schema};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::map::Entry;
use serde_json::{Map, Number, Value};

use super::{Collector, Decoded, StrictError, syntax_error};

/// Reads JSON and notices fields that are there twice.
pub fn decode_json(body: &[u8]) -> Result<Decoded, String> {
    decode(body, None)
}

/// Reads JSON as an object of this schema: fields that it does not have are noticed and left out.
pub fn decode_json_as(body: &[u8], schema: &Schema) -> Result<Decoded, String> {
    decode(body, Some(schema))
}

fn decode(body: &[u8], schema: Option<&Schema>) -> Result<Decoded, String> {
    let errors = RefCell::default();
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let value = Reader { schema, place: None, errors: &errors }
        .deserialize(&mut deserializer)
        .and_then(|value| deserializer.end().map(|()| value))
        .map_err(|_| syntax_error(body))?;
    Ok(Decoded { value, strict_errors: errors.into_inner().0 })
}

/// Where in a body a reader is.
enum Place<'p> {
    Field(&'p str, Option<&'p Place<'p>>),
    Element(usize, Option<&'p Place<'p>>),
}

/// The path of a field of the object at a place.
fn path(place: Option<&Place<'_>>, field: &str) -> String {
    let mut steps = Vec::new();
    let mut next = place;
    while let Some(place) = next {
        steps.push(place);
        next = match place {
            Place::Field(_, outer) | Place::Element(_, outer) => *outer,
        };
    }
    let mut path = String::new();
    for step in steps.into_iter().rev() {
        match step {
            Place::Field(name, _) => {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(name);
            }
            Place::Element(at, _) => path.push_str(&format!("[{at}]")),
        }
    }
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(field);
    path
}

struct Reader<'r> {
    schema: Option<&'r Schema>,
    place: Option<&'r Place<'r>>,
    errors: &'r RefCell<Collector>,
}

impl<'de> DeserializeSeed<'de> for Reader<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reader<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Value, A::Error> {
        let schema = self.schema.and_then(|schema| schema.items.as_deref());
        let mut items = Vec::new();
        loop {
            let place = Place::Element(items.len(), self.place);
            let reader = Reader { schema, place: Some(&place), errors: self.errors };
            match sequence.next_element_seed(reader)? {
                Some(item) => items.push(item),
                None => return Ok(Value::Array(items)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(name) = map.next_key::<String>()? {
            let schema = match field(self.schema, &name) {
                Field::Schema(schema) => schema,
                Field::Unknown => {
                    self.errors.borrow_mut().add(StrictError::Unknown(path(self.place, &name)));
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            let mut read = |name: &str| {
                let place = Place::Field(name, self.place);
                map.next_value_seed(Reader { schema, place: Some(&place), errors: self.errors })
            };
            match fields.entry(name) {
                Entry::Vacant(entry) => {
                    let value = read(entry.key())?;
                    entry.insert(value);
                }
                Entry::Occupied(mut entry) => {
                    self.errors.borrow_mut().add(StrictError::Duplicate(path(self.place, entry.key())));
                    let value = read(entry.key())?;
                    entry.insert(value);
                }
            }
        }
        Ok(Value::Object(fields))
    }
}

enum Field<'s> {
    Schema(Option<&'s Schema>),
    Unknown,
}

/// What a schema says about a field.
fn field<'s>(schema: Option<&'s Schema>, name: &str) -> Field<'s> {
    let Some(schema) = schema else { return Field::Schema(None) };
    match (schema.properties.get(name), &schema.additional) {
        (Some(field), _) => Field::Schema(Some(field.as_ref())),
        (None, AdditionalProperties::Of(field)) => Field::Schema(Some(field.as_ref())),
        (None, AdditionalProperties::Any) => Field::Schema(None),
        (None, AdditionalProperties::None) => {
            let is_open = schema.preserve_unknown_fields || schema.properties.is_empty();
            if is_open { Field::Schema(None) } else { Field::Unknown }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::test_values::json_value;

    fn told(body: &str) -> Vec<String> {
        decode_json(body.as_bytes()).unwrap().strict_errors.iter().map(StrictError::to_string).collect()
    }

    #[test]
    fn fields_that_are_there_twice_are_noticed() {
        assert_eq!(told(r#"{"a": 1, "b": {"a": 1}}"#), Vec::<String>::new());
        assert_eq!(told(r#"{"a": 1, "a": 2}"#), [r#"duplicate field "a""#]);
        assert_eq!(
            told(r#"{"spec": {"list": [{"x": 1}, {"x": 1, "x": {"y": 1, "y": 2}}]}, "spec": {}}"#),
            [
                r#"duplicate field "spec.list[1].x""#,
                r#"duplicate field "spec.list[1].x.y""#,
                r#"duplicate field "spec""#
            ]
        );
        assert_eq!(told(r#"[{"a": 1, "a": 1, "a": 1}]"#), [r#"duplicate field "[0].a""#], "told once");
        let decoded = decode_json(br#"{"a": {"b": 1}, "a": {"c": 2}}"#).unwrap();
        assert_eq!(decoded.value, json!({"a": {"c": 2}}), "the last counts");
    }

    #[test]
    fn fields_that_a_schema_does_not_have_are_noticed_and_left_out() {
        let schema = Schema::from_json(&json!({
            "type": "object",
            "properties": {
                "spec": {"type": "object", "properties": {
                    "list": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "integer"}}}},
                    "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"y": {}}}},
                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}
                }}
            }
        }))
        .unwrap();
        let body = br#"{"z": 1, "spec": {"w": {"deep": []}, "list": [{"x": 1, "v": 2}], "map": {"k": {"y": {"any": 1}, "u": 1}},
            "free": {"t": {"s": 1}}, "w": 1}}"#;
        let decoded = decode_json_as(body, &schema).unwrap();
        let told: Vec<_> = decoded.strict_errors.iter().map(StrictError::to_string).collect();
        assert_eq!(
            told,
            [
                r#"unknown field "z""#,
                r#"unknown field "spec.w""#,
                r#"unknown field "spec.list[0].v""#,
                r#"unknown field "spec.map.k.u""#
            ],
            "in the order of the body"
        );
        assert_eq!(
            decoded.value,
            json!({"spec": {"list": [{"x": 1}], "map": {"k": {"y": {"any": 1}}}, "free": {"t": {"s": 1}}}})
        );
    }

    #[test]
    fn errors_are_not_told_without_end() {
        let fields: Vec<_> = (0..1000).map(|number| format!(r#""a{number}": 1, "a{number}": 1"#)).collect();
        assert_eq!(told(&format!("{{{}}}", fields.join(","))).len(), 100);
    }

    #[test]
    fn what_is_no_json_is_refused_in_the_words_of_kubernetes() {
        let error = |body: &str| decode_json(body.as_bytes()).unwrap_err();
        assert_eq!(error(""), "unexpected end of JSON input");
        assert_eq!(error("{}x"), "invalid character 'x' after top-level value");
        assert_eq!(error(&"[".repeat(100_000)), "exceeded max depth");
        assert_eq!(error(&format!("{}{}", "[".repeat(1000), "]".repeat(1000))), "exceeded max depth");
    }

    proptest! {
        #[test]
        fn what_is_read_is_what_was_written(value in json_value()) {
            let decoded = decode_json(value.to_string().as_bytes()).unwrap();
            prop_assert_eq!(decoded, Decoded { value, strict_errors: Vec::new() });
        }

        #[test]
        fn it_reads_what_others_read(body in "[\\[\\]{}:,\"a-c0-9.e\\\\ +-]{0,30}") {
            let expected = serde_json::from_str::<Value>(&body).ok();
            prop_assert_eq!(decode_json(body.as_bytes()).ok().map(|decoded| decoded.value), expected);
        }
    }
}
