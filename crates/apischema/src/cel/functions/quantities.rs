//! Quantities of resources.

use std::cmp::Ordering;

use regex::Regex;

use super::super::value::{Evaluated, Val};
use super::{Implementation, fail, no_such_overload, traversal};
use crate::quantity::Quantity;

pub(super) const SIGNATURES: &str = "
    isQuantity(string) bool
    quantity(string) Quantity
    sign(Quantity) int
    Quantity .sign() int
    Quantity .isInteger() bool
    Quantity .asInteger() int
    Quantity .asApproximateFloat() double
    Quantity .add(Quantity) Quantity
    Quantity .add(int) Quantity
    Quantity .sub(Quantity) Quantity
    Quantity .sub(int) Quantity
    Quantity .isGreaterThan(Quantity) bool
    Quantity .isLessThan(Quantity) bool
    Quantity .compareTo(Quantity) int
";

pub(super) const FUNCTIONS: &[(&str, Implementation)] = &[
    ("isQuantity", traversal(is_quantity)),
    ("quantity", traversal(quantity)),
    ("sign", traversal(sign)),
    ("isInteger", traversal(is_integer)),
    ("asInteger", traversal(as_integer)),
    ("asApproximateFloat", traversal(as_float)),
    ("add", traversal(|values, _| arithmetic(values, Quantity::plus))),
    ("sub", traversal(|values, _| arithmetic(values, Quantity::minus))),
    ("isGreaterThan", traversal(|values, _| comparison(values, |order| Val::Bool(order.is_gt())))),
    ("isLessThan", traversal(|values, _| comparison(values, |order| Val::Bool(order.is_lt())))),
    ("compareTo", traversal(|values, _| comparison(values, |order| Val::Int(order as i64)))),
];

fn is_quantity<'a>(values: &[Val<'a>], _: Option<&Regex>) -> Evaluated<'a> {
    match values {
        [Val::String(text)] => Ok(Val::Bool(Quantity::parse(text).is_some())),
        _ => no_such_overload(),
    }
}

fn quantity<'a>(values: &[Val<'a>], _: Option<&Regex>) -> Evaluated<'a> {
    let [Val::String(text)] = values else { return no_such_overload() };
    let message =
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
    Quantity::parse(text).map_or_else(|| fail(message), |quantity| Ok(Val::Quantity(quantity)))
}

fn sign<'a>(values: &[Val<'a>], _: Option<&Regex>) -> Evaluated<'a> {
    match values {
        [Val::Quantity(quantity)] => Ok(Val::Int(quantity.sign())),
        _ => no_such_overload(),
    }
}

fn is_integer<'a>(values: &[Val<'a>], _: Option<&Regex>) -> Evaluated<'a> {
    match values {
        [Val::Quantity(quantity)] => Ok(Val::Bool(quantity.as_int().is_some())),
        _ => no_such_overload(),
    }
}

fn as_integer<'a>(values: &[Val<'a>], _: Option<&Regex>) -> Evaluated<'a> {
    let [Val::Quantity(quantity)] = values else { return no_such_overload() };
    quantity.as_int().map_or_else(|| fail("cannot convert value to integer"), |value| Ok(Val::Int(value)))
}

fn as_float<'a>(values: &[Val<'a>], _: Option<&Regex>) -> Evaluated<'a> {
    match values {
        [Val::Quantity(quantity)] => Ok(Val::Double(quantity.as_float())),
        _ => no_such_overload(),
    }
}

fn arithmetic<'a>(values: &[Val<'a>], operate: fn(Quantity, Quantity) -> Quantity) -> Evaluated<'a> {
    match values {
        [Val::Quantity(a), Val::Quantity(b)] => Ok(Val::Quantity(operate(*a, *b))),
        [Val::Quantity(a), Val::Int(b)] => Ok(Val::Quantity(operate(*a, Quantity::from_int(*b)))),
        _ => no_such_overload(),
    }
}

/// Versions are compared by functions of the same names.
fn comparison<'a>(values: &[Val<'a>], of: fn(Ordering) -> Val<'a>) -> Evaluated<'a> {
    match values {
        [Val::Quantity(a), Val::Quantity(b)] => Ok(of(a.cmp(b))),
        [Val::Semver(a), Val::Semver(b)] => Ok(of(a.cmp(b))),
        _ => no_such_overload(),
    }
}
