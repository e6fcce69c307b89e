//! From one type to another.

use regex::Regex;

use super::super::time::{Timestamp, duration_text, parse_duration};
use super::super::value::{Evaluated, Val};
use super::{Implementation, constant, fail, no_such_overload, traversal};
use crate::go_text;

pub(super) const SIGNATURES: &str = "
    type(A) type
    dyn(A) dyn
    bool(bool) bool
    bool(string) bool
    int(int) int
    int(uint) int
    int(double) int
    int(string) int
    int(timestamp) int
    int(duration) int
    uint(uint) uint
    uint(int) uint
    uint(double) uint
    uint(string) uint
    double(double) double
    double(int) double
    double(uint) double
    double(string) double
    string(string) string
    string(bool) string
    string(int) string
    string(uint) string
    string(double) string
    string(bytes) string
    string(timestamp) string
    string(duration) string
    string(IP) string
    string(CIDR) string
    bytes(bytes) bytes
    bytes(string) bytes
    timestamp(timestamp) timestamp
    timestamp(string) timestamp
    timestamp(int) timestamp
    duration(duration) duration
    duration(string) duration
    duration(int) duration
";

pub(super) const FUNCTIONS: &[(&str, Implementation)] = &[
    ("type", constant(type_of)),
    ("dyn", constant(|values, _| values.first().cloned().map_or_else(no_such_overload, Ok))),
    ("bool", constant(to_bool)),
    ("int", constant(to_int)),
    ("uint", constant(to_uint)),
    ("double", constant(to_double)),
    ("string", traversal(to_string)),
    ("bytes", traversal(to_bytes)),
    ("timestamp", constant(to_timestamp)),
    ("duration", constant(to_duration)),
];

fn type_of<'a>(values: &[Val<'a>], _: Option<&Regex>) -> Evaluated<'a> {
    match values {
        [value] => Ok(Val::Type(value.type_name())),
        _ => no_such_overload(),
    }
}

fn to_bool<'a>(values: &[Val<'a>], _: Option<&Regex>) -> Evaluated<'a> {
    match values {
        [Val::Bool(value)] => Ok(Val::Bool(*value)),
        [Val::String(text)] => match &**text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Val::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Val::Bool(false)),
            _ => fail("type conversion error from 'string' to 'bool'"),
        },
        _ => no_such_overload(),
    }
}

fn to_int<'a>(values: &[Val<'a>], _: Option<&Regex>) -> Evaluated<'a> {
    let overflow = || fail("integer overflow");
    match values {
        [Val::Int(value)] => Ok(Val::Int(*value)),
        [Val::Uint(value)] => i64::try_from(*value).map_or_else(|_| overflow(), |value| Ok(Val::Int(value))),
        // The ends cannot be told from what is just beyond them.
        [Val::Double(value)] if *value > i64::MIN as f64 && *value < i64::MAX as f64 => {
            Ok(Val::Int(*value as i64))
        }
        [Val::Double(_)] => overflow(),
        [Val::String(text)] => text.parse().map_or_else(
            |_| fail("type conversion error from 'string' to 'int'"),
            |value| Ok(Val::Int(value)),
        ),
        [Val::Timestamp(time)] => Ok(Val::Int(time.seconds())),
        [Val::Duration(nanoseconds)] => Ok(Val::Int(*nanoseconds)),
        _ => no_such_overload(),
    }
}

fn to_uint<'a>(values: &[Val<'a>], _: Option<&Regex>) -> Evaluated<'a> {
    let overflow = || fail("unsigned integer overflow");
    match values {
        [Val::Uint(value)] => Ok(Val::Uint(*value)),
        [Val::Int(value)] => u64::try_from(*value).map_or_else(|_| overflow(), |value| Ok(Val::Uint(value))),
        [Val::Double(value)] if *value >= 0.0 && *value < u64::MAX as f64 => Ok(Val::Uint(*value as u64)),
        [Val::Double(_)] => overflow(),
        [Val::String(text)] => text.parse().map_or_else(
            |_| fail("type conversion error from 'string' to 'uint'"),
            |value| Ok(Val::Uint(value)),
        ),
        _ => no_such_overload(),
    }
}

fn to_double<'a>(values: &[Val<'a>], _: Option<&Regex>) -> Evaluated<'a> {
    match values {
        [Val::Double(value)] => Ok(Val::Double(*value)),
        [Val::Int(value)] => Ok(Val::Double(*value as f64)),
        [Val::Uint(value)] => Ok(Val::Double(*value as f64)),
        [Val::String(text)] => text.parse().map_or_else(
            |_| fail("type conversion error from 'string' to 'double'"),
            |value| Ok(Val::Double(value)),
        ),
        _ => no_such_overload(),
    }
}

fn to_string<'a>(values: &[Val<'a>], _: Option<&Regex>) -> Evaluated<'a> {
    Ok(Val::text(match values {
        [Val::String(text)] => return Ok(Val::String(text.clone())),
        [Val::Bool(value)] => value.to_string(),
        [Val::Int(value)] => value.to_string(),
        [Val::Uint(value)] => value.to_string(),
        [Val::Double(value)] => go_text::float(*value),
        [Val::Bytes(bytes)] => match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => return fail("invalid UTF-8 in bytes, cannot convert to string"),
        },
        [Val::Timestamp(time)] => time.to_text(),
        [Val::Duration(nanoseconds)] => duration_text(*nanoseconds),
        [Val::Ip(address)] => address.to_string(),
        [Val::Cidr(address, length)] => format!("{address}/{length}"),
        _ => return no_such_overload(),
    }))
}

fn to_bytes<'a>(values: &[Val<'a>], _: Option<&Regex>) -> Evaluated<'a> {
    match values {
        [Val::Bytes(bytes)] => Ok(Val::Bytes(bytes.clone())),
        [Val::String(text)] => Ok(Val::Bytes(text.as_bytes().into())),
        _ => no_such_overload(),
    }
}

fn to_timestamp<'a>(values: &[Val<'a>], _: Option<&Regex>) -> Evaluated<'a> {
    match values {
        [Val::Timestamp(time)] => Ok(Val::Timestamp(*time)),
        [Val::String(text)] => Timestamp::parse(text).map_or_else(
            || fail("type conversion error from 'string' to 'google.protobuf.Timestamp'"),
            |time| Ok(Val::Timestamp(time)),
        ),
        [Val::Int(seconds)] => {
            let time = Timestamp::from_seconds(*seconds);
            time.map_or_else(|| fail("timestamp overflow"), |time| Ok(Val::Timestamp(time)))
        }
        _ => no_such_overload(),
    }
}

fn to_duration<'a>(values: &[Val<'a>], _: Option<&Regex>) -> Evaluated<'a> {
    match values {
        [Val::Duration(nanoseconds) | Val::Int(nanoseconds)] => Ok(Val::Duration(*nanoseconds)),
        [Val::String(text)] => parse_duration(text).map_or_else(
            || fail("type conversion error from 'string' to 'google.protobuf.Duration'"),
            |duration| Ok(Val::Duration(duration)),
        ),
        _ => no_such_overload(),
    }
}
