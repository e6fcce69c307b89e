//! Values that may be missing.

use regex::Regex;

use super::super::value::{Evaluated, Val};
use super::{Implementation, constant, fail, no_such_overload};

pub(super) const SIGNATURES: &str = "
    optional.of(A) optional<A>
    optional.ofNonZeroValue(A) optional<A>
    optional.none() optional<A>
    optional<A> .hasValue() bool
    optional<A> .value() A
    optional<A> .or(optional<A>) optional<A>
    optional<A> .orValue(A) A
";

pub(super) const FUNCTIONS: &[(&str, Implementation)] = &[
    ("optional.of", constant(|values, _| Ok(Val::optional(values.first().cloned())))),
    ("optional.ofNonZeroValue", constant(of_non_zero)),
    ("optional.none", constant(|_, _| Ok(Val::Optional(None)))),
    ("hasValue", constant(has_value)),
    ("value", constant(value)),
    ("or", constant(or)),
    ("orValue", constant(or_value)),
];

fn of_non_zero<'a>(values: &[Val<'a>], _: Option<&Regex>) -> Evaluated<'a> {
    let [value] = values else { return no_such_overload() };
    let zero = match value {
        Val::Null
        | Val::Bool(false)
        | Val::Int(0)
        | Val::Uint(0)
        | Val::Duration(0)
        | Val::Optional(None) => true,
        // The first moment of the first year is what no time is in Go.
        Val::Timestamp(time) => time.to_text() == "0001-01-01T00:00:00Z",
        Val::Double(number) => *number == 0.0,
        Val::String(text) => text.is_empty(),
        Val::Bytes(bytes) => bytes.is_empty(),
        Val::List(list) => list.len() == 0,
        Val::Map(map) => map.len() == 0,
        _ => false,
    };
    Ok(Val::optional((!zero).then(|| value.clone())))
}

fn has_value<'a>(values: &[Val<'a>], _: Option<&Regex>) -> Evaluated<'a> {
    match values {
        [Val::Optional(inner)] => Ok(Val::Bool(inner.is_some())),
        _ => no_such_overload(),
    }
}

fn value<'a>(values: &[Val<'a>], _: Option<&Regex>) -> Evaluated<'a> {
    match values {
        [Val::Optional(Some(inner))] => Ok((**inner).clone()),
        [Val::Optional(None)] => fail("optional.none() dereference"),
        _ => no_such_overload(),
    }
}

fn or<'a>(values: &[Val<'a>], _: Option<&Regex>) -> Evaluated<'a> {
    match values {
        [first @ Val::Optional(Some(_)), _] => Ok(first.clone()),
        [Val::Optional(None), second @ Val::Optional(_)] => Ok(second.clone()),
        _ => no_such_overload(),
    }
}

fn or_value<'a>(values: &[Val<'a>], _: Option<&Regex>) -> Evaluated<'a> {
    match values {
        [Val::Optional(Some(inner)), _] => Ok((**inner).clone()),
        [Val::Optional(None), second] => Ok(second.clone()),
        _ => no_such_overload(),
    }
}
