//! Which values are equal, and which comes first.

use std::cmp::Ordering;
use std::collections::HashMap;

use serde_json::Value as Json;

use super::EvalError;
use super::value::{List, Map, Val, field_schema};
use crate::schema::ListType;

/// Whether two values are equal. Numbers are by what they are worth; sets and maps written as lists have no order.
pub(super) fn equal(a: &Val<'_>, b: &Val<'_>) -> Result<bool, EvalError> {
    Ok(match (a, b) {
        (Val::Null, Val::Null) => true,
        (Val::Bool(a), Val::Bool(b)) => a == b,
        (Val::String(a), Val::String(b)) => a == b,
        (Val::Bytes(a), Val::Bytes(b)) => a == b,
        (Val::Timestamp(a), Val::Timestamp(b)) => a == b,
        (Val::Duration(a), Val::Duration(b)) => a == b,
        (Val::List(a), Val::List(b)) => return lists_equal(a, b),
        (Val::Map(a), Val::Map(b)) => return maps_equal(a, b),
        (Val::Optional(Some(a)), Val::Optional(Some(b))) => return equal(a, b),
        (Val::Optional(a), Val::Optional(b)) => a.is_none() && b.is_none(),
        (Val::Type(a), Val::Type(b)) => a == b,
        (Val::Ip(a), Val::Ip(b)) => a == b,
        (Val::Cidr(a, x), Val::Cidr(b, y)) => (a, x) == (b, y),
        (Val::Url(a), Val::Url(b)) => a == b,
        (Val::Quantity(a), Val::Quantity(b)) => a == b,
        (Val::Semver(a), Val::Semver(b)) => a == b,
        (Val::Format(a), Val::Format(b)) => a == b,
        (Val::Preserved(a), Val::Preserved(b)) => a == b,
        (a, b) => compare_numbers(a, b) == Some(Ordering::Equal),
    })
}

/// The order of two numbers of whatever kinds; nothing if they are not numbers, or have none.
fn compare_numbers(a: &Val<'_>, b: &Val<'_>) -> Option<Ordering> {
    match (a, b) {
        (Val::Double(a), Val::Double(b)) => a.partial_cmp(b),
        (Val::Double(a), b) => integer(b).and_then(|b| compare_with_integer(*a, b)),
        (a, Val::Double(b)) => integer(a).and_then(|a| compare_with_integer(*b, a)).map(Ordering::reverse),
        (a, b) => Some(integer(a)?.cmp(&integer(b)?)),
    }
}

fn integer(value: &Val<'_>) -> Option<i128> {
    match value {
        Val::Int(number) => Some(i128::from(*number)),
        Val::Uint(number) => Some(i128::from(*number)),
        _ => None,
    }
}

/// Compares without rounding the integer.
fn compare_with_integer(float: f64, integer: i128) -> Option<Ordering> {
    if float.is_nan() {
        return None;
    }
    // Both ends are beyond every integer that there is.
    if float.abs() >= 1e30 {
        return float.partial_cmp(&0.0);
    }
    let whole = float.trunc();
    Some((whole as i128).cmp(&integer).then_with(|| (float - whole).total_cmp(&0.0)))
}

/// The order of two values that have one.
pub(super) fn compare(a: &Val<'_>, b: &Val<'_>) -> Result<Option<Ordering>, EvalError> {
    Ok(match (a, b) {
        (Val::Bool(a), Val::Bool(b)) => Some(a.cmp(b)),
        (Val::String(a), Val::String(b)) => Some(a.cmp(b)),
        (Val::Bytes(a), Val::Bytes(b)) => Some(a.cmp(b)),
        (Val::Timestamp(a), Val::Timestamp(b)) => Some(a.cmp(b)),
        (Val::Duration(a), Val::Duration(b)) => Some(a.cmp(b)),
        (Val::Int(_) | Val::Uint(_) | Val::Double(_), Val::Int(_) | Val::Uint(_) | Val::Double(_)) => {
            compare_numbers(a, b)
        }
        _ => return Err(EvalError::no_such_overload()),
    })
}

fn lists_equal<'a>(a: &List<'a>, b: &List<'a>) -> Result<bool, EvalError> {
    if a.len() != b.len() {
        return Ok(false);
    }
    match a.kind() {
        ListType::Atomic => {
            for (a, b) in a.iter().zip(b.iter()) {
                if !equal(&a?, &b?)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        ListType::Set => {
            let mut members = HashMap::new();
            for item in a.iter() {
                *members.entry(key_text(&item?)).or_insert(0) += 1;
            }
            for item in b.iter() {
                if !members.contains_key(&key_text(&item?)) {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        ListType::Map(keys) => {
            let mut by_key = HashMap::new();
            for item in a.iter() {
                let item = item?;
                by_key.insert(map_key(&item, keys), item);
            }
            for item in b.iter() {
                let item = item?;
                match by_key.get(&map_key(&item, keys)) {
                    Some(known) if equal(known, &item)? => {}
                    _ => return Ok(false),
                }
            }
            Ok(true)
        }
    }
}

fn maps_equal<'a>(a: &Map<'a>, b: &Map<'a>) -> Result<bool, EvalError> {
    if a.len() != b.len() {
        return Ok(false);
    }
    if let (Map::Json { fields, schema }, Map::Json { fields: others, .. }) = (a, b) {
        // The object before and the object now are mostly the same.
        if fields == others {
            return Ok(true);
        }
        for (name, value) in *fields {
            let Some(other) = others.get(name) else { return Ok(false) };
            if !json_equal(value, other, field_schema(schema, name))? {
                return Ok(false);
            }
        }
        return Ok(true);
    }
    for (key, value) in a.entries() {
        let Some(other) = b.get(&key) else { return Ok(false) };
        if !equal(&value?, &other?)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn json_equal<'a>(
    value: &'a Json,
    other: &'a Json,
    schema: Option<&'a crate::Schema>,
) -> Result<bool, EvalError> {
    match schema {
        Some(schema) if !value.is_null() && !other.is_null() => {
            equal(&Val::from_json(value, schema)?, &Val::from_json(other, schema)?)
        }
        _ => Ok(value == other),
    }
}

/// A text that tells the elements of a set apart.
pub(super) fn key_text(value: &Val<'_>) -> String {
    match value {
        Val::String(text) => format!("s{text}"),
        Val::Int(number) => format!("n{number}"),
        Val::Uint(number) => format!("n{number}"),
        Val::Double(number) => format!("n{number}"),
        Val::Bool(flag) => format!("b{flag}"),
        other => format!("{other:?}"),
    }
}

/// A text that tells the elements of a map that is written as a list apart.
pub(super) fn map_key(item: &Val<'_>, keys: &[String]) -> String {
    let Val::Map(map) = item else { return key_text(item) };
    let mut text = String::new();
    for key in keys {
        match map.field(key, Some(key)) {
            Some(Ok(value)) => text.push_str(&key_text(&value)),
            _ => text.push('-'),
        }
        text.push('\0');
    }
    text
}
