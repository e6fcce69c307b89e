//! Lists as sets.

use regex::Regex;

use super::super::EvalError;
use super::super::equality::equal;
use super::super::value::{Evaluated, List, Val};
use super::{Implementation, no_such_overload, traversal};

pub(super) const SIGNATURES: &str = "
    sets.contains(list<A>, list<A>) bool
    sets.equivalent(list<A>, list<A>) bool
    sets.intersects(list<A>, list<A>) bool
";

pub(super) const FUNCTIONS: &[(&str, Implementation)] = &[
    ("sets.contains", traversal(|values, _| both(values, contains))),
    ("sets.equivalent", traversal(|values, _| both(values, |a, b| Ok(contains(a, b)? && contains(b, a)?)))),
    ("sets.intersects", traversal(intersects)),
];

/// Pairs of elements that are compared at most; more would take too long.
const MAX_PAIRS: usize = 1_000_000;

type Relation = for<'a> fn(&List<'a>, &List<'a>) -> Result<bool, EvalError>;

fn both<'a>(values: &[Val<'a>], holds: Relation) -> Evaluated<'a> {
    let [Val::List(a), Val::List(b)] = values else { return no_such_overload() };
    if a.len().saturating_mul(b.len()) > MAX_PAIRS {
        return Err(EvalError::cancelled());
    }
    Ok(Val::Bool(holds(a, b)?))
}

fn has<'a>(list: &List<'a>, wanted: &Val<'a>) -> Result<bool, EvalError> {
    for item in list.iter() {
        if equal(&item?, wanted)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn contains<'a>(a: &List<'a>, b: &List<'a>) -> Result<bool, EvalError> {
    for item in b.iter() {
        if !has(a, &item?)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn intersects<'a>(values: &[Val<'a>], _: Option<&Regex>) -> Evaluated<'a> {
    both(values, |a, b| {
        for item in b.iter() {
            if has(a, &item?)? {
                return Ok(true);
            }
        }
        Ok(false)
    })
}
