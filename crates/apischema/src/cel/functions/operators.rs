//! Operators, and the functions that are as basic.

use std::cmp::Ordering;
use std::rc::Rc;

use regex::Regex;

use super::super::EvalError;
use super::super::equality::{compare, equal, key_text, map_key};
use super::super::value::{Evaluated, List, Val};
use super::{Implementation, constant, fail, no_such_overload, traversal};
use crate::schema::ListType;

pub(super) const SIGNATURES: &str = "
    _==_(A, A) bool
    _!=_(A, A) bool
    _<_(bool, bool) bool
    _<_(int, int) bool
    _<_(int, uint) bool
    _<_(int, double) bool
    _<_(uint, int) bool
    _<_(uint, uint) bool
    _<_(uint, double) bool
    _<_(double, int) bool
    _<_(double, uint) bool
    _<_(double, double) bool
    _<_(string, string) bool
    _<_(bytes, bytes) bool
    _<_(timestamp, timestamp) bool
    _<_(duration, duration) bool
    _<=_(bool, bool) bool
    _<=_(int, int) bool
    _<=_(int, uint) bool
    _<=_(int, double) bool
    _<=_(uint, int) bool
    _<=_(uint, uint) bool
    _<=_(uint, double) bool
    _<=_(double, int) bool
    _<=_(double, uint) bool
    _<=_(double, double) bool
    _<=_(string, string) bool
    _<=_(bytes, bytes) bool
    _<=_(timestamp, timestamp) bool
    _<=_(duration, duration) bool
    _>_(bool, bool) bool
    _>_(int, int) bool
    _>_(int, uint) bool
    _>_(int, double) bool
    _>_(uint, int) bool
    _>_(uint, uint) bool
    _>_(uint, double) bool
    _>_(double, int) bool
    _>_(double, uint) bool
    _>_(double, double) bool
    _>_(string, string) bool
    _>_(bytes, bytes) bool
    _>_(timestamp, timestamp) bool
    _>_(duration, duration) bool
    _>=_(bool, bool) bool
    _>=_(int, int) bool
    _>=_(int, uint) bool
    _>=_(int, double) bool
    _>=_(uint, int) bool
    _>=_(uint, uint) bool
    _>=_(uint, double) bool
    _>=_(double, int) bool
    _>=_(double, uint) bool
    _>=_(double, double) bool
    _>=_(string, string) bool
    _>=_(bytes, bytes) bool
    _>=_(timestamp, timestamp) bool
    _>=_(duration, duration) bool
    _+_(int, int) int
    _+_(uint, uint) uint
    _+_(double, double) double
    _+_(string, string) string
    _+_(bytes, bytes) bytes
    _+_(list<A>, list<A>) list<A>
    _+_(timestamp, duration) timestamp
    _+_(duration, timestamp) timestamp
    _+_(duration, duration) duration
    _-_(int, int) int
    _-_(uint, uint) uint
    _-_(double, double) double
    _-_(timestamp, timestamp) duration
    _-_(timestamp, duration) timestamp
    _-_(duration, duration) duration
    _*_(int, int) int
    _*_(uint, uint) uint
    _*_(double, double) double
    _/_(int, int) int
    _/_(uint, uint) uint
    _/_(double, double) double
    _%_(int, int) int
    _%_(uint, uint) uint
    -_(int) int
    -_(double) double
    !_(bool) bool
    @in(A, list<A>) bool
    @in(A, map<A, B>) bool
    _[_](list<A>, int) A
    _[_](map<A, B>, A) B
    _[_](optional<list<A>>, int) optional<A>
    _[_](optional<map<A, B>>, A) optional<B>
    _[?_](list<A>, int) optional<A>
    _[?_](map<A, B>, A) optional<B>
    _[?_](optional<list<A>>, int) optional<A>
    _[?_](optional<map<A, B>>, A) optional<B>
    size(string) int
    size(bytes) int
    size(list<A>) int
    size(map<A, B>) int
    string .size() int
    bytes .size() int
    list<A> .size() int
    map<A, B> .size() int
";

pub(super) const FUNCTIONS: &[(&str, Implementation)] = &[
    ("_==_", traversal(|values, _| equality(values).map(Val::Bool))),
    ("_!=_", traversal(|values, _| equality(values).map(|equal| Val::Bool(!equal)))),
    ("_<_", traversal(|values, _| ordering(values, Ordering::is_lt))),
    ("_<=_", traversal(|values, _| ordering(values, Ordering::is_le))),
    ("_>_", traversal(|values, _| ordering(values, Ordering::is_gt))),
    ("_>=_", traversal(|values, _| ordering(values, Ordering::is_ge))),
    ("_+_", traversal(add)),
    ("_-_", constant(subtract)),
    ("_*_", constant(multiply)),
    ("_/_", constant(divide)),
    ("_%_", constant(remainder)),
    ("-_", constant(negate)),
    ("!_", constant(not)),
    ("@in", traversal(contains)),
    ("_[_]", constant(index)),
    ("_[?_]", constant(|values, _| optional_index(values))),
    ("size", constant(size)),
];

fn equality(values: &[Val<'_>]) -> Result<bool, EvalError> {
    match values {
        [a, b] => equal(a, b),
        _ => Err(EvalError::no_such_overload()),
    }
}

fn ordering<'a>(values: &[Val<'a>], holds: fn(Ordering) -> bool) -> Evaluated<'a> {
    let [a, b] = values else { return no_such_overload() };
    Ok(Val::Bool(compare(a, b)?.is_some_and(holds)))
}

fn overflow<'a>() -> Evaluated<'a> {
    fail("integer overflow")
}

fn int<'a>(value: Option<i64>) -> Evaluated<'a> {
    value.map_or_else(overflow, |value| Ok(Val::Int(value)))
}

fn uint<'a>(value: Option<u64>) -> Evaluated<'a> {
    value.map_or_else(|| fail("unsigned integer overflow"), |value| Ok(Val::Uint(value)))
}

fn duration<'a>(value: Option<i64>) -> Evaluated<'a> {
    value.map_or_else(|| fail("duration overflow"), |value| Ok(Val::Duration(value)))
}

fn add<'a>(values: &[Val<'a>], _: Option<&Regex>) -> Evaluated<'a> {
    match values {
        [Val::Int(a), Val::Int(b)] => int(a.checked_add(*b)),
        [Val::Uint(a), Val::Uint(b)] => uint(a.checked_add(*b)),
        [Val::Double(a), Val::Double(b)] => Ok(Val::Double(a + b)),
        [Val::String(a), Val::String(b)] => Ok(Val::text(format!("{a}{b}"))),
        [Val::Bytes(a), Val::Bytes(b)] => Ok(Val::Bytes([&**a, &**b].concat().into())),
        [Val::List(a), Val::List(b)] => add_lists(a, b),
        [Val::Timestamp(time), Val::Duration(by)] | [Val::Duration(by), Val::Timestamp(time)] => {
            time.plus(*by).map_or_else(|| fail("timestamp overflow"), |time| Ok(Val::Timestamp(time)))
        }
        [Val::Duration(a), Val::Duration(b)] => duration(a.checked_add(*b)),
        _ => no_such_overload(),
    }
}

/// Sets are united; of maps that are written as lists the second one's elements take the place of the first one's.
fn add_lists<'a>(a: &List<'a>, b: &List<'a>) -> Evaluated<'a> {
    let mut items: Vec<Val<'a>> = a.iter().collect::<Result<_, _>>()?;
    let kind = a.kind();
    let key = |item: &Val<'a>| match kind {
        ListType::Atomic => None,
        ListType::Set => Some(key_text(item)),
        ListType::Map(keys) => Some(map_key(item, keys)),
    };
    let mut places: std::collections::HashMap<String, usize> =
        items.iter().enumerate().filter_map(|(place, item)| Some((key(item)?, place))).collect();
    for item in b.iter() {
        let item = item?;
        match key(&item) {
            Some(key) => match places.get(&key) {
                Some(place) => items[*place] = item,
                None => {
                    places.insert(key, items.len());
                    items.push(item);
                }
            },
            None => items.push(item),
        }
    }
    Ok(Val::List(List::Values { items: Rc::new(items), kind }))
}

fn subtract<'a>(values: &[Val<'a>], _: Option<&Regex>) -> Evaluated<'a> {
    match values {
        [Val::Int(a), Val::Int(b)] => int(a.checked_sub(*b)),
        [Val::Uint(a), Val::Uint(b)] => uint(a.checked_sub(*b)),
        [Val::Double(a), Val::Double(b)] => Ok(Val::Double(a - b)),
        [Val::Timestamp(a), Val::Timestamp(b)] => duration(a.minus(*b)),
        [Val::Timestamp(time), Val::Duration(by)] => {
            let time = by.checked_neg().and_then(|by| time.plus(by));
            time.map_or_else(|| fail("timestamp overflow"), |time| Ok(Val::Timestamp(time)))
        }
        [Val::Duration(a), Val::Duration(b)] => duration(a.checked_sub(*b)),
        _ => no_such_overload(),
    }
}

fn multiply<'a>(values: &[Val<'a>], _: Option<&Regex>) -> Evaluated<'a> {
    match values {
        [Val::Int(a), Val::Int(b)] => int(a.checked_mul(*b)),
        [Val::Uint(a), Val::Uint(b)] => uint(a.checked_mul(*b)),
        [Val::Double(a), Val::Double(b)] => Ok(Val::Double(a * b)),
        _ => no_such_overload(),
    }
}

fn divide<'a>(values: &[Val<'a>], _: Option<&Regex>) -> Evaluated<'a> {
    match values {
        [Val::Int(_), Val::Int(0)] | [Val::Uint(_), Val::Uint(0)] => fail("division by zero"),
        [Val::Int(a), Val::Int(b)] => int(a.checked_div(*b)),
        [Val::Uint(a), Val::Uint(b)] => uint(a.checked_div(*b)),
        [Val::Double(a), Val::Double(b)] => Ok(Val::Double(a / b)),
        _ => no_such_overload(),
    }
}

fn remainder<'a>(values: &[Val<'a>], _: Option<&Regex>) -> Evaluated<'a> {
    match values {
        [Val::Int(_), Val::Int(0)] | [Val::Uint(_), Val::Uint(0)] => fail("modulus by zero"),
        [Val::Int(a), Val::Int(b)] => int(a.checked_rem(*b)),
        [Val::Uint(a), Val::Uint(b)] => uint(a.checked_rem(*b)),
        _ => no_such_overload(),
    }
}

fn negate<'a>(values: &[Val<'a>], _: Option<&Regex>) -> Evaluated<'a> {
    match values {
        [Val::Int(value)] => int(value.checked_neg()),
        [Val::Double(value)] => Ok(Val::Double(-value)),
        _ => no_such_overload(),
    }
}

fn not<'a>(values: &[Val<'a>], _: Option<&Regex>) -> Evaluated<'a> {
    match values {
        [Val::Bool(value)] => Ok(Val::Bool(!value)),
        _ => no_such_overload(),
    }
}

fn contains<'a>(values: &[Val<'a>], _: Option<&Regex>) -> Evaluated<'a> {
    match values {
        [value, Val::List(list)] => {
            for item in list.iter() {
                if equal(&item?, value)? {
                    return Ok(Val::Bool(true));
                }
            }
            Ok(Val::Bool(false))
        }
        [key, Val::Map(map)] => Ok(Val::Bool(map.get(key).transpose()?.is_some())),
        _ => no_such_overload(),
    }
}

fn index<'a>(values: &[Val<'a>], _: Option<&Regex>) -> Evaluated<'a> {
    match values {
        [Val::List(list), Val::Int(index)] => {
            let found = usize::try_from(*index).ok().and_then(|index| list.get(index));
            found.unwrap_or_else(|| fail(format!("index out of bounds: {index}")))
        }
        [Val::Map(map), key] => {
            let found = map.get(key);
            found.unwrap_or_else(|| fail(format!("no such key: {}", super::format::plain(key))))
        }
        [Val::Optional(_), _] => optional_index(values),
        _ => no_such_overload(),
    }
}

fn optional_index<'a>(values: &[Val<'a>]) -> Evaluated<'a> {
    match values {
        [Val::Optional(None), _] => Ok(Val::Optional(None)),
        [Val::Optional(Some(inner)), key] => optional_index(&[(**inner).clone(), key.clone()]),
        [Val::List(list), Val::Int(index)] => {
            let found = usize::try_from(*index).ok().and_then(|index| list.get(index));
            Ok(Val::optional(found.transpose()?))
        }
        [Val::Map(map), key] => Ok(Val::optional(map.get(key).transpose()?)),
        _ => no_such_overload(),
    }
}

fn size<'a>(values: &[Val<'a>], _: Option<&Regex>) -> Evaluated<'a> {
    let size = match values {
        [Val::String(text)] => text.chars().count(),
        [Val::Bytes(bytes)] => bytes.len(),
        [Val::List(list)] => list.len(),
        [Val::Map(map)] => map.len(),
        _ => return no_such_overload(),
    };
    Ok(Val::Int(size as i64))
}
