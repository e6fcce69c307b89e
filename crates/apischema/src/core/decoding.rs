//! Why Go could not read an object.

use serde_json::Value;

use super::go_types;
use crate::cel::Timestamp;
use crate::go_text::{self, quote};
use crate::path::Path;
use crate::quantity::Quantity;
use crate::schema::{AdditionalProperties, Schema, Type};

/// What reads an object into its Go type, and says in its own words what does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reader {
    /// Go's decoder of JSON.
    Json,
    /// Kubernetes' converter of maps, which reads what a strategic merge patch made. It does not say where it is.
    Converter,
}

/// The first thing that does not fit its Go type.
pub(super) fn error(object: &Value, schema: &Schema, reader: Reader) -> Option<String> {
    let name = schema.type_name.as_deref().and_then(|name| name.rsplit('.').next()).unwrap_or_default();
    check(object, schema, &At { reader, owner: None, path: Path::ROOT, go_type: &format!("v1.{name}") })
}

/// The first thing that does not fit, in a value of a Go type.
pub(super) fn error_of_type(value: &Value, schema: &Schema, go_type: &str) -> Option<String> {
    check(value, schema, &At { reader: Reader::Json, owner: None, path: Path::ROOT, go_type })
}

/// Where the reader is: in which struct, at which field of which type. It counts no elements of lists.
#[derive(Clone, Copy)]
struct At<'a> {
    reader: Reader,
    owner: Option<&'a str>,
    path: Path<'a>,
    go_type: &'a str,
}

impl<'a> At<'a> {
    /// In a value of this type that reads itself. From the converter it gets JSON of its own.
    fn within(&self, go_type: &'a str) -> At<'a> {
        let owner = self.owner.filter(|_| self.reader == Reader::Json);
        At { reader: Reader::Json, owner, go_type, ..*self }
    }
}

fn check(value: &Value, schema: &Schema, at: &At<'_>) -> Option<String> {
    if value.is_null() {
        return None;
    }
    match schema.type_name.as_deref().and_then(|name| name.rsplit('.').next()) {
        Some("Quantity") => return check_quantity(value),
        Some("Time") => return check_time(value, schema, "2006-01-02T15:04:05Z07:00", at),
        Some("MicroTime") => return check_time(value, schema, "2006-01-02T15:04:05.000000Z07:00", at),
        Some("IntOrString") => {
            let fits =
                value.is_string() || value.as_i64().is_some_and(|number| i32::try_from(number).is_ok());
            return (!fits).then(|| mismatch(value, schema, &at.within("int32"), value.is_number()));
        }
        _ => {}
    }
    if let Some(schema) = super::continued(schema, value) {
        return check(value, &schema, at);
    }
    if schema.preserve_unknown_fields && schema.properties.is_empty() {
        return None;
    }
    match (schema.kind?, value) {
        (Type::Object, Value::Object(fields)) => {
            let component = schema.type_name.as_deref();
            let owner = component.and_then(|name| name.rsplit('.').next());
            let known = component.and_then(go_types::of);
            fields.iter().find_map(|(name, value)| {
                if let (Some(known), Some(property)) = (known, schema.properties.get(name)) {
                    let go_type = known.get(name).map_or("", |field| &field.go_type);
                    return check(value, property, &At { owner, path: at.path.field(name), go_type, ..*at });
                }
                let AdditionalProperties::Of(values) = &schema.additional else { return None };
                // Its values are of the type behind the brackets.
                let element = at.go_type.split_once(']').map_or(at.go_type, |(_, element)| element);
                let element = if at.go_type.starts_with("map[") { element } else { "string" };
                check(value, values, &At { go_type: element, ..*at })
            })
        }
        (Type::Array, Value::Array(items)) => {
            let element = at.go_type.strip_prefix("[]").unwrap_or(at.go_type);
            let schema = schema.items.as_deref()?;
            items.iter().find_map(|item| check(item, schema, &At { go_type: element, ..*at }))
        }
        (Type::String, Value::String(text)) => {
            let bytes = schema.format == "byte";
            (bytes && !text.is_empty() && !crate::formats::matches("byte", text)).then(|| {
                let place = text
                    .find(|c: char| !c.is_ascii_alphanumeric() && !"+/".contains(c))
                    .unwrap_or(text.len());
                format!("illegal base64 data at input byte {}", place.min(text.len() / 4 * 4))
            })
        }
        (Type::Boolean, Value::Bool(_)) => None,
        (Type::Integer, Value::Number(number)) => {
            let fits = match at.go_type {
                "int32" => number.as_i64().is_some_and(|number| i32::try_from(number).is_ok()),
                _ => number.is_i64(),
            };
            (!fits).then(|| mismatch(value, schema, at, true))
        }
        (Type::Number, Value::Number(_)) => None,
        _ => Some(mismatch(value, schema, at, false)),
    }
}

fn mismatch(value: &Value, schema: &Schema, at: &At<'_>, is_number: bool) -> String {
    if at.reader == Reader::Converter {
        return not_converted(value, schema, at.go_type.trim_start_matches('*'));
    }
    let found = described(value, is_number);
    let go_type = at.go_type.trim_start_matches('*');
    match at.owner {
        Some(owner) => {
            let path = at.path.to_dotted();
            format!("json: cannot unmarshal {found} into Go struct field {owner}.{path} of type {go_type}")
        }
        None => format!("json: cannot unmarshal {found} into Go value of type {go_type}"),
    }
}

/// What the converter says about a value that it cannot make one of a Go type.
fn not_converted(value: &Value, schema: &Schema, go_type: &str) -> String {
    let found = match value {
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
        plain => go_text::type_name(plain),
    };
    match schema.kind {
        Some(Type::Object) if go_type.starts_with("map[") => format!("cannot restore map from {found}"),
        Some(Type::Object) => format!("cannot restore struct from: {found}"),
        Some(Type::Array) => format!("cannot restore slice from {found}"),
        Some(Type::String) if schema.format == "byte" => format!("cannot restore slice from {found}"),
        // In Go an integer can become a string, of one character: what could be converted and is not is told from what cannot.
        Some(Type::String) if found == "int64" => format!("cannot convert {found} to {go_type}"),
        Some(Type::Integer | Type::Number) if value.is_number() => {
            format!("cannot convert {found} to {go_type}")
        }
        Some(Type::String) => "unrecognized type: string".to_owned(),
        Some(Type::Boolean) => "unrecognized type: bool".to_owned(),
        Some(Type::Integer | Type::Number) | None => format!("unrecognized type: {go_type}"),
    }
}

/// A value as Go's decoder calls it; a number that does not fit is shown.
fn described(value: &Value, shown: bool) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => "bool".to_owned(),
        Value::Number(number) if shown => format!("number {number}"),
        Value::Number(_) => "number".to_owned(),
        Value::String(_) => "string".to_owned(),
        Value::Array(_) => "array".to_owned(),
        Value::Object(_) => "object".to_owned(),
    }
}

fn check_quantity(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) => text.trim().to_owned(),
        other => other.to_string(),
    };
    let wrong = Quantity::parse(&text).is_none();
    wrong.then(|| {
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
            .to_owned()
    })
}

/// A time has the parts of its layout one after another; how Go reads it is seen in what it says.
fn check_time(value: &Value, schema: &Schema, layout: &str, at: &At<'_>) -> Option<String> {
    let Value::String(text) = value else {
        return Some(mismatch(value, schema, &at.within("string"), false));
    };
    let wrong = |rest: &str, part: &str| {
        let (text, layout, rest, part) = (quote(text), quote(layout), quote(rest), quote(part));
        Some(format!("parsing time {text} as {layout}: cannot parse {rest} as {part}"))
    };
    let mut rest = &**text;
    for part in ["2006", "-", "01", "-", "02", "T", "15", ":", "04", ":", "05"] {
        let digits = part.bytes().all(|byte| byte.is_ascii_digit());
        let fits = |found: &str| {
            if digits { found.bytes().all(|byte| byte.is_ascii_digit()) } else { found == part }
        };
        match rest.split_at_checked(part.len()).filter(|(found, _)| fits(found)) {
            Some((_, after)) => rest = after,
            None => return wrong(rest, part),
        }
    }
    let fraction =
        rest.strip_prefix('.').map_or(0, |rest| rest.bytes().take_while(u8::is_ascii_digit).count());
    if layout.contains(".000000") && fraction != 6 {
        return wrong(rest, ".000000");
    }
    if fraction > 0 {
        rest = &rest[fraction + 1..];
    }
    if rest != "Z" && crate::cel::parse_zone(rest).is_none() {
        return wrong(rest, "Z07:00");
    }
    // What is left to be wrong is a number that is too great.
    Timestamp::parse(text).is_none().then(|| format!("parsing time {}: day out of range", quote(text)))
}
