//! The document as a protobuf message: that of the tools that Kubernetes' clients are made with, where every keyword is a field
//! and what has no fixed form is YAML.

use serde_json::{Map, Value};

/// A document of version 2 as a message.
pub(super) fn encode(document: &Value) -> Vec<u8> {
    let mut message = Message::default();
    message.text(1, &document["swagger"]);
    let mut info = Message::default();
    info.text(1, &document["info"]["title"]);
    info.text(2, &document["info"]["version"]);
    message.message(2, &info);
    let mut paths = Message::default();
    for (path, item) in fields(&document["paths"]) {
        paths.named(2, path, &path_item(item));
    }
    message.message(8, &paths);
    message.message(9, &schemas(&document["definitions"]));
    message.0
}

fn schemas(by_name: &Value) -> Message {
    let mut message = Message::default();
    for (name, value) in fields(by_name) {
        message.named(1, name, &schema(value));
    }
    message
}

fn schema(value: &Value) -> Message {
    let mut message = Message::default();
    for (keyword, value) in fields(value) {
        match keyword.as_str() {
            "$ref" => message.text(1, value),
            "format" => message.text(2, value),
            "title" => message.text(3, value),
            "description" => message.text(4, value),
            "default" => message.any(5, value),
            "multipleOf" => message.double(6, value),
            "maximum" => message.double(7, value),
            "exclusiveMaximum" => message.flag(8, value),
            "minimum" => message.double(9, value),
            "exclusiveMinimum" => message.flag(10, value),
            "maxLength" => message.number(11, value),
            "minLength" => message.number(12, value),
            "pattern" => message.text(13, value),
            "maxItems" => message.number(14, value),
            "minItems" => message.number(15, value),
            "uniqueItems" => message.flag(16, value),
            "maxProperties" => message.number(17, value),
            "minProperties" => message.number(18, value),
            "required" => items(value).for_each(|name| message.text(19, name)),
            "enum" => items(value).for_each(|value| message.any(20, value)),
            "additionalProperties" => {
                let mut additional = Message::default();
                match value {
                    Value::Bool(_) => additional.flag(2, value),
                    value => additional.message(1, &schema(value)),
                }
                message.message(21, &additional);
            }
            "type" => {
                let mut types = Message::default();
                types.text(1, value);
                message.message(22, &types);
            }
            "items" => {
                let mut items = Message::default();
                items.message(1, &schema(value));
                message.message(23, &items);
            }
            "properties" => message.message(25, &schemas(value)),
            extension if extension.starts_with("x-") => message.extension(31, extension, value),
            // Nothing else is in this language.
            _ => {}
        }
    }
    message
}

fn path_item(item: &Value) -> Message {
    let mut message = Message::default();
    for (method, operation) in fields(item) {
        let field = match method.as_str() {
            "get" => 2,
            "put" => 3,
            "post" => 4,
            "delete" => 5,
            "patch" => 8,
            _ => continue,
        };
        message.message(field, &self::operation(operation));
    }
    message
}

fn operation(operation: &Value) -> Message {
    let mut message = Message::default();
    items(&operation["consumes"]).for_each(|media_type| message.text(7, media_type));
    for parameter in items(&operation["parameters"]) {
        let mut item = Message::default();
        item.message(1, &self::parameter(parameter));
        message.message(8, &item);
    }
    let mut responses = Message::default();
    for (code, response) in fields(&operation["responses"]) {
        let (mut answer, mut body, mut value) = (Message::default(), Message::default(), Message::default());
        answer.text(1, &response["description"]);
        body.message(1, &schema(&response["schema"]));
        answer.message(2, &body);
        value.message(1, &answer);
        responses.named(1, code, &value);
    }
    message.message(9, &responses);
    for (name, value) in fields(operation).filter(|(name, _)| name.starts_with("x-")) {
        message.extension(13, name, value);
    }
    message
}

fn parameter(parameter: &Value) -> Message {
    let (mut message, mut inner) = (Message::default(), Message::default());
    if parameter["in"] == "body" {
        inner.text(2, &parameter["name"]);
        inner.text(3, &parameter["in"]);
        inner.flag(4, &parameter["required"]);
        inner.message(5, &schema(&parameter["schema"]));
        message.message(1, &inner);
        return message;
    }
    inner.text(2, &parameter["in"]);
    inner.text(4, &parameter["name"]);
    inner.text(6, &parameter["type"]);
    inner.flag(20, &parameter["uniqueItems"]);
    let mut plain = Message::default();
    plain.message(3, &inner);
    message.message(2, &plain);
    message
}

fn fields(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// A message. Values that are not of their field's type are left out.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push((number & 0x7f) as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn message(&mut self, field: u64, message: &Message) {
        self.bytes(field, &message.0);
    }

    fn text(&mut self, field: u64, value: &Value) {
        if let Value::String(text) = value {
            self.bytes(field, text.as_bytes());
        }
    }

    fn flag(&mut self, field: u64, value: &Value) {
        if *value == Value::Bool(true) {
            self.varint(field << 3);
            self.varint(1);
        }
    }

    fn number(&mut self, field: u64, value: &Value) {
        if let Some(number) = value.as_i64() {
            self.varint(field << 3);
            self.varint(number.cast_unsigned());
        }
    }

    fn double(&mut self, field: u64, value: &Value) {
        if let Some(number) = value.as_f64() {
            self.varint(field << 3 | 1);
            self.0.extend_from_slice(&number.to_le_bytes());
        }
    }

    /// A value of any form, as YAML, of which JSON is a part.
    fn any(&mut self, field: u64, value: &Value) {
        let mut any = Message::default();
        any.bytes(2, value.to_string().as_bytes());
        self.message(field, &any);
    }

    fn named(&mut self, field: u64, name: &str, value: &Message) {
        let mut named = Message::default();
        named.bytes(1, name.as_bytes());
        named.message(2, value);
        self.message(field, &named);
    }

    fn extension(&mut self, field: u64, name: &str, value: &Value) {
        let mut named = Message::default();
        named.bytes(1, name.as_bytes());
        named.any(2, value);
        self.message(field, &named);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_keyword_of_a_schema_becomes_a_field_of_the_message() {
        let message = schema(&json!({"type": "object", "description": "d", "x-a": true, "maxLength": 300}));
        let expected: &[&[u8]] = &[
            // 4: description
            b"\x22\x01d",
            // 11: maxLength
            b"\x58\xac\x02",
            // 22: type
            b"\xb2\x01\x08\x0a\x06object",
            // 31: an extension
            b"\xfa\x01\x0d\x0a\x03x-a\x12\x06\x12\x04true",
        ];
        assert_eq!(message.0, expected.concat());
    }
}
