//! Lists of values that can be compared or added.

use std::cmp::Ordering;

use regex::Regex;

use super::super::equality::{compare, equal};
use super::super::value::{Evaluated, List, Val};
use super::{Implementation, fail, no_such_overload, traversal};

pub(super) const SIGNATURES: &str = "
    list<int> .isSorted() bool
    list<uint> .isSorted() bool
    list<double> .isSorted() bool
    list<bool> .isSorted() bool
    list<duration> .isSorted() bool
    list<timestamp> .isSorted() bool
    list<string> .isSorted() bool
    list<bytes> .isSorted() bool
    list<int> .sum() int
    list<uint> .sum() uint
    list<double> .sum() double
    list<duration> .sum() duration
    list<int> .min() int
    list<uint> .min() uint
    list<double> .min() double
    list<bool> .min() bool
    list<duration> .min() duration
    list<timestamp> .min() timestamp
    list<string> .min() string
    list<bytes> .min() bytes
    list<int> .max() int
    list<uint> .max() uint
    list<double> .max() double
    list<bool> .max() bool
    list<duration> .max() duration
    list<timestamp> .max() timestamp
    list<string> .max() string
    list<bytes> .max() bytes
    list<A> .indexOf(A) int
    list<A> .lastIndexOf(A) int
";

pub(super) const FUNCTIONS: &[(&str, Implementation)] = &[
    ("isSorted", traversal(is_sorted)),
    ("sum", traversal(sum)),
    ("min", traversal(|values, _| extreme(values, "min", Ordering::is_gt))),
    ("max", traversal(|values, _| extreme(values, "max", Ordering::is_lt))),
    // Those of strings and those of lists have the same name, and so the same implementation.
    ("indexOf", traversal(no_list)),
    ("lastIndexOf", traversal(no_list)),
];

fn no_list<'a>(_: &[Val<'a>], _: Option<&Regex>) -> Evaluated<'a> {
    no_such_overload()
}

fn is_sorted<'a>(values: &[Val<'a>], _: Option<&Regex>) -> Evaluated<'a> {
    let [Val::List(list)] = values else { return no_such_overload() };
    let mut last: Option<Val<'a>> = None;
    for item in list.iter() {
        let item = item?;
        if let Some(last) = &last
            && compare(last, &item)?.is_some_and(Ordering::is_gt)
        {
            return Ok(Val::Bool(false));
        }
        last = Some(item);
    }
    Ok(Val::Bool(true))
}

fn sum<'a>(values: &[Val<'a>], regex: Option<&Regex>) -> Evaluated<'a> {
    let [Val::List(list)] = values else { return no_such_overload() };
    let add = super::operators::FUNCTIONS.iter().find(|(name, _)| *name == "_+_").map(|(_, add)| add.run);
    let Some(add) = add else { return no_such_overload() };
    let mut total: Option<Val<'a>> = None;
    for item in list.iter() {
        let item = item?;
        total = Some(match total {
            Some(total) => add(&[total, item], regex)?,
            None => item,
        });
    }
    Ok(total.unwrap_or(Val::Int(0)))
}

fn extreme<'a>(values: &[Val<'a>], name: &str, beaten: fn(Ordering) -> bool) -> Evaluated<'a> {
    let [Val::List(list)] = values else { return no_such_overload() };
    let mut best: Option<Val<'a>> = None;
    for item in list.iter() {
        let item = item?;
        best = Some(match best {
            Some(best) if !compare(&best, &item)?.is_some_and(beaten) => best,
            _ => item,
        });
    }
    best.map_or_else(|| fail(format!("{name} called on empty list")), Ok)
}

pub(super) fn index_of<'a>(list: &List<'a>, wanted: &Val<'a>) -> Evaluated<'a> {
    for (index, item) in list.iter().enumerate() {
        if equal(&item?, wanted)? {
            return Ok(Val::Int(index as i64));
        }
    }
    Ok(Val::Int(-1))
}

pub(super) fn last_index_of<'a>(list: &List<'a>, wanted: &Val<'a>) -> Evaluated<'a> {
    for index in (0..list.len()).rev() {
        if let Some(item) = list.get(index)
            && equal(&item?, wanted)?
        {
            return Ok(Val::Int(index as i64));
        }
    }
    Ok(Val::Int(-1))
}
