//! Values that are written as messages, but are no objects in JSON.

use serde_json::{Number, Value};

use super::messages::MessageId;
use super::object::{Decoder, Depth};
use super::wire::{Fields, WireError};
use crate::time;

/// Text. What is no UTF-8 is taken over as Go takes it over into JSON, byte by byte: the kubelet and others cut messages at a length,
/// wherever that is in a character.
pub(super) fn text(bytes: &[u8]) -> String {
    if let Ok(text) = str::from_utf8(bytes) {
        return text.to_owned();
    }
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    text
}

/// Go writes whole numbers without a point.
pub(super) fn double(number: f64) -> Result<Value, WireError> {
    let is_whole = number.trunc() == number && number.abs() < 2f64.powi(63);
    if is_whole {
        return Ok((number as i64).into());
    }
    Number::from_f64(number).map(Value::Number).ok_or(WireError::Number(number))
}

/// A time in whole seconds.
pub(super) fn time(bytes: &[u8]) -> Result<Value, WireError> {
    let Some(Timestamp { seconds, .. }) = Timestamp::read(bytes)? else { return Ok(Value::Null) };
    if seconds == Timestamp::FIRST {
        return Ok(Value::Null);
    }
    Ok(Timestamp::written(seconds)?.into())
}

/// A time in microseconds.
pub(super) fn micro_time(bytes: &[u8]) -> Result<Value, WireError> {
    let Some(Timestamp { seconds, nanos }) = Timestamp::read(bytes)? else { return Ok(Value::Null) };
    let micros = nanos / 1000;
    let seconds = seconds.saturating_add(i64::from(micros.div_euclid(1_000_000)));
    let micros = micros.rem_euclid(1_000_000);
    if (seconds, micros) == (Timestamp::FIRST, 0) {
        return Ok(Value::Null);
    }
    let mut written = Timestamp::written(seconds)?;
    written.pop();
    Ok(format!("{written}.{micros:06}Z").into())
}

#[derive(Default)]
struct Timestamp {
    seconds: i64,
    nanos: i32,
}

impl Timestamp {
    /// The first second of the year 1, which stands for no time at all.
    const FIRST: i64 = -62_135_596_800;
    /// The last second of the year 9999, the last year of four digits.
    const LAST: i64 = 253_402_300_799;

    fn read(bytes: &[u8]) -> Result<Option<Timestamp>, WireError> {
        let mut timestamp = Timestamp::default();
        let mut fields = Fields::of("Timestamp", bytes);
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => timestamp.seconds = value.varint("Seconds")? as i64,
                2 => timestamp.nanos = value.varint("Nanos")? as i32,
                _ => {}
            }
        }
        Ok((!bytes.is_empty()).then_some(timestamp))
    }

    fn written(seconds: i64) -> Result<String, WireError> {
        let is_writable = (Self::FIRST..=Self::LAST).contains(&seconds);
        is_writable.then(|| time::written(seconds)).ok_or(WireError::Time(seconds))
    }
}

pub(super) fn quantity(bytes: &[u8]) -> Result<Value, WireError> {
    let mut quantity = None;
    let mut fields = Fields::of("Quantity", bytes);
    while let Some((number, value)) = fields.next()? {
        if number == 1 {
            quantity = Some(text(value.bytes("String_")?));
        }
    }
    Ok(quantity.map_or_else(|| "0".into(), Value::String))
}

pub(super) fn int_or_string(bytes: &[u8]) -> Result<Value, WireError> {
    let (mut kind, mut int, mut string) = (0, 0, String::new());
    let mut fields = Fields::of("IntOrString", bytes);
    while let Some((number, value)) = fields.next()? {
        match number {
            1 => kind = value.varint("Type")?,
            2 => int = value.varint("IntVal")? as i32,
            3 => string = text(value.bytes("StrVal")?),
            _ => {}
        }
    }
    match kind {
        0 => Ok(int.into()),
        1 => Ok(string.into()),
        _ => Err(WireError::IntOrString),
    }
}

/// Bytes that are JSON, in a message of their own.
pub(super) fn raw_json(bytes: &[u8], depth: Depth) -> Result<Value, WireError> {
    let mut raw: &[u8] = &[];
    let mut fields = Fields::of("RawExtension", bytes);
    while let Some((number, value)) = fields.next()? {
        if number == 1 {
            raw = value.bytes("Raw")?;
        }
    }
    if raw.is_empty() {
        return Ok(Value::Null);
    }
    let value = serde_json::from_slice(raw).map_err(|error| WireError::Json(error.to_string()))?;
    fits(&value, depth)?;
    Ok(value)
}

fn fits(value: &Value, depth: Depth) -> Result<(), WireError> {
    match value {
        Value::Array(items) => {
            let depth = depth.deeper()?;
            items.iter().try_for_each(|item| fits(item, depth))
        }
        Value::Object(fields) => {
            let depth = depth.deeper()?;
            fields.values().try_for_each(|value| fits(value, depth))
        }
        _ => Ok(()),
    }
}

pub(super) fn schema_or_bool(
    decoder: &Decoder<'_>,
    schema: MessageId,
    bytes: &[u8],
    depth: Depth,
) -> Result<Value, WireError> {
    let (mut allows, mut found) = (false, None);
    let mut fields = Fields::of("JSONSchemaPropsOrBool", bytes);
    while let Some((number, value)) = fields.next()? {
        match number {
            1 => allows = value.varint("Allows")? != 0,
            2 => found = Some(decoder.message(schema, value.bytes("Schema")?, depth)?),
            _ => {}
        }
    }
    Ok(found.unwrap_or(Value::Bool(allows)))
}

pub(super) fn schema_or_array(
    decoder: &Decoder<'_>,
    schema: MessageId,
    bytes: &[u8],
    depth: Depth,
) -> Result<Value, WireError> {
    let (mut found, mut schemas) = (Value::Null, Vec::new());
    let mut fields = Fields::of("JSONSchemaPropsOrArray", bytes);
    while let Some((number, value)) = fields.next()? {
        match number {
            1 => found = decoder.message(schema, value.bytes("Schema")?, depth)?,
            2 => schemas.push(decoder.message(schema, value.bytes("JSONSchemas")?, depth.deeper()?)?),
            _ => {}
        }
    }
    Ok(if schemas.is_empty() { found } else { Value::Array(schemas) })
}

pub(super) fn schema_or_strings(
    decoder: &Decoder<'_>,
    schema: MessageId,
    bytes: &[u8],
    depth: Depth,
) -> Result<Value, WireError> {
    let (mut found, mut names) = (Value::Null, Vec::new());
    let mut fields = Fields::of("JSONSchemaPropsOrStringArray", bytes);
    while let Some((number, value)) = fields.next()? {
        match number {
            1 => found = decoder.message(schema, value.bytes("Schema")?, depth)?,
            2 => names.push(Value::String(text(value.bytes("Property")?))),
            _ => {}
        }
    }
    Ok(if names.is_empty() { found } else { Value::Array(names) })
}
