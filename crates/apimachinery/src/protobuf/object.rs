//! Messages as JSON has them.

use std::cell::Cell;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Value};

use super::messages::{Element, Field, Message, MessageId, Messages, Shape};
use super::special;
use super::wire::{Fields, WireError, WireValue, packed};

/// How many objects and arrays may be in one another. Readers of JSON stop at 128, and a server adds some of its own.
const MOST_NESTED: usize = 100;

/// How many messages an object may have. An empty one takes two bytes, and half a thousand times that in memory: without a limit
/// a small body fills it. Real objects have fewer by far.
const MOST_MESSAGES: usize = 1 << 17;

/// The fields of a kind's object.
pub(super) fn decode(
    messages: &Messages,
    id: MessageId,
    bytes: &[u8],
) -> Result<Map<String, Value>, WireError> {
    let decoder = Decoder { messages, left: Cell::new(MOST_MESSAGES) };
    decoder.object(messages.message(id), bytes, Depth(MOST_NESTED))
}

/// How many objects and arrays more may be in one another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Depth(pub(super) usize);

impl Depth {
    pub(super) fn deeper(self) -> Result<Depth, WireError> {
        self.0.checked_sub(1).map(Depth).ok_or(WireError::Depth)
    }
}

pub(super) struct Decoder<'m> {
    messages: &'m Messages,
    /// How many messages more there may be.
    left: Cell<usize>,
}

impl Decoder<'_> {
    fn object(&self, message: &Message, bytes: &[u8], depth: Depth) -> Result<Map<String, Value>, WireError> {
        self.left.set(self.left.get().checked_sub(1).ok_or(WireError::TooMany)?);
        let mut fields = Map::new();
        self.read(&mut fields, message, bytes, depth.deeper()?)?;
        self.complete(&mut fields, message);
        Ok(fields)
    }

    /// A message as a value: an object, or an array if it is nothing but its items.
    pub(super) fn message(&self, id: MessageId, bytes: &[u8], depth: Depth) -> Result<Value, WireError> {
        let message = self.messages.message(id);
        let Some(items) = message.items() else {
            return self.object(message, bytes, depth).map(Value::Object);
        };
        let mut found = Value::Null;
        let mut values = Fields::of(message.name, bytes);
        while let Some((number, value)) = values.next()? {
            if number == items.number {
                self.add_item(&mut found, items, value, depth.deeper()?)?;
            }
        }
        Ok(found)
    }

    /// Reads the fields of a message into an object that may have some already: what is there twice is merged.
    fn read(
        &self,
        fields: &mut Map<String, Value>,
        message: &Message,
        bytes: &[u8],
        depth: Depth,
    ) -> Result<(), WireError> {
        let mut values = Fields::of(message.name, bytes);
        while let Some((number, value)) = values.next()? {
            // A client may be newer than this.
            let Some(field) = message.field(number) else { continue };
            match (field.shape, field.element) {
                (Shape::One, Element::Message(inner)) if field.name.is_empty() => {
                    let inner = self.messages.message(inner);
                    // It is no deeper in JSON, and messages are in their own places only a few deep.
                    self.read(fields, inner, value.bytes(inner.name)?, depth)?;
                }
                (Shape::One, Element::Message(inner)) => match fields.get_mut(field.name) {
                    Some(Value::Object(present)) => {
                        let message = self.messages.message(inner);
                        self.read(present, message, value.bytes(field.name)?, depth.deeper()?)?;
                    }
                    _ => self.set(fields, field, value, depth)?,
                },
                (Shape::One, _) => self.set(fields, field, value, depth)?,
                (Shape::Many, _) => {
                    let items = fields.entry(field.name).or_insert(Value::Null);
                    self.add_item(items, field, value, depth.deeper()?)?;
                }
                (Shape::Named, _) => {
                    let (key, value) = self.entry(field, value.bytes(field.name)?, depth.deeper()?)?;
                    let present = fields.entry(field.name).or_insert(Value::Null);
                    match present {
                        Value::Object(present) => {
                            present.insert(key, value);
                        }
                        _ => *present = Value::Object(Map::from_iter([(key, value)])),
                    }
                }
            }
        }
        Ok(())
    }

    /// Go writes all that is not behind a pointer as protobuf, but not as JSON.
    fn set(
        &self,
        fields: &mut Map<String, Value>,
        field: &Field,
        value: WireValue<'_>,
        depth: Depth,
    ) -> Result<(), WireError> {
        let value = self.element(field, value, depth)?;
        if field.always || field.pointer || !is_zero(&value) {
            fields.insert(field.name.to_owned(), value);
        } else {
            fields.remove(field.name);
        }
        Ok(())
    }

    fn add_item(
        &self,
        items: &mut Value,
        field: &Field,
        value: WireValue<'_>,
        depth: Depth,
    ) -> Result<(), WireError> {
        if !items.is_array() {
            *items = Value::Array(Vec::new());
        }
        let Value::Array(items) = items else { return Ok(()) };
        match (field.element, value) {
            (Element::Bool | Element::Int32 | Element::Int64, WireValue::Bytes(numbers)) => {
                for number in packed(numbers) {
                    items.push(self.element(field, WireValue::Varint(number?), depth)?);
                }
            }
            _ => items.push(self.element(field, value, depth)?),
        }
        Ok(())
    }

    /// A key and its value are a message of two.
    fn entry(&self, field: &Field, bytes: &[u8], depth: Depth) -> Result<(String, Value), WireError> {
        let mut key = String::new();
        let mut found = None;
        let mut values = Fields::of(field.name, bytes);
        while let Some((number, value)) = values.next()? {
            match number {
                1 => key = special::text(value.bytes(field.name)?),
                2 => found = Some(self.element(field, value, depth)?),
                _ => {}
            }
        }
        let value = match (found, field.element) {
            (Some(value), _) => value,
            (None, Element::Bytes) => "".into(),
            (None, element) => self.zero(element),
        };
        Ok((key, value))
    }

    fn element(&self, field: &Field, value: WireValue<'_>, depth: Depth) -> Result<Value, WireError> {
        let name = field.name;
        Ok(match field.element {
            Element::Bool => (value.varint(name)? != 0).into(),
            // Negative ones have 64 bits too.
            Element::Int32 => (value.varint(name)? as i32).into(),
            Element::Int64 => (value.varint(name)? as i64).into(),
            Element::Double => special::double(value.double(name)?)?,
            Element::String => special::text(value.bytes(name)?).into(),
            Element::Bytes => BASE64.encode(value.bytes(name)?).into(),
            Element::Time => special::time(value.bytes(name)?)?,
            Element::MicroTime => special::micro_time(value.bytes(name)?)?,
            Element::Quantity => special::quantity(value.bytes(name)?)?,
            Element::IntOrString => special::int_or_string(value.bytes(name)?)?,
            Element::RawJson => special::raw_json(value.bytes(name)?, depth)?,
            Element::SchemaOrBool(schema) => {
                special::schema_or_bool(self, schema, value.bytes(name)?, depth)?
            }
            Element::SchemaOrArray(schema) => {
                special::schema_or_array(self, schema, value.bytes(name)?, depth)?
            }
            Element::SchemaOrStrings(schema) => {
                special::schema_or_strings(self, schema, value.bytes(name)?, depth)?
            }
            Element::Message(id) => self.message(id, value.bytes(name)?, depth)?,
        })
    }

    /// Adds what JSON always has.
    fn complete(&self, fields: &mut Map<String, Value>, message: &Message) {
        for field in &message.always {
            if !fields.contains_key(field.name) {
                let is_nothing = field.pointer || field.shape != Shape::One;
                let zero = if is_nothing { Value::Null } else { self.zero(field.element) };
                fields.insert(field.name.to_owned(), zero);
            }
        }
    }

    /// What JSON has of something that is not set.
    fn zero(&self, element: Element) -> Value {
        match element {
            Element::Bool | Element::SchemaOrBool(_) => false.into(),
            Element::Int32 | Element::Int64 | Element::Double | Element::IntOrString => 0.into(),
            Element::String => "".into(),
            Element::Quantity => "0".into(),
            Element::Bytes
            | Element::Time
            | Element::MicroTime
            | Element::RawJson
            | Element::SchemaOrArray(_)
            | Element::SchemaOrStrings(_) => Value::Null,
            Element::Message(id) => {
                let message = self.messages.message(id);
                if message.items().is_some() {
                    return Value::Null;
                }
                let mut fields = Map::new();
                self.complete(&mut fields, message);
                Value::Object(fields)
            }
        }
    }
}

/// Whether Go takes it for zero, which structs never are but for times.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(_) | Value::Object(_) => false,
    }
}
