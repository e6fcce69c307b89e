//! Text.

use regex::Regex;

use super::super::EvalError;
use super::super::value::{Evaluated, Val};
use super::{Implementation, fail, format, no_such_overload, traversal};

pub(super) const SIGNATURES: &str = "
    string .contains(string) bool
    string .startsWith(string) bool
    string .endsWith(string) bool
    string .charAt(int) string
    string .indexOf(string) int
    string .indexOf(string, int) int
    string .lastIndexOf(string) int
    string .lastIndexOf(string, int) int
    string .lowerAscii() string
    string .upperAscii() string
    string .replace(string, string) string
    string .replace(string, string, int) string
    string .split(string) list<string>
    string .split(string, int) list<string>
    string .substring(int) string
    string .substring(int, int) string
    string .trim() string
    string .format(list<dyn>) string
    list<string> .join() string
    list<string> .join(string) string
    strings.quote(string) string
";

pub(super) const FUNCTIONS: &[(&str, Implementation)] = &[
    ("contains", traversal(|values, _| test(values, |text, part| text.contains(part)))),
    ("startsWith", traversal(|values, _| test(values, |text, part| text.starts_with(part)))),
    ("endsWith", traversal(|values, _| test(values, |text, part| text.ends_with(part)))),
    ("charAt", traversal(char_at)),
    ("indexOf", traversal(index_of)),
    ("lastIndexOf", traversal(last_index_of)),
    ("lowerAscii", traversal(|values, _| change(values, str::to_ascii_lowercase))),
    ("upperAscii", traversal(|values, _| change(values, str::to_ascii_uppercase))),
    ("trim", traversal(|values, _| change(values, |text| text.trim().to_owned()))),
    ("replace", traversal(replace)),
    ("split", traversal(split)),
    ("substring", traversal(substring)),
    ("format", traversal(format::format)),
    ("join", traversal(join)),
    ("strings.quote", traversal(|values, _| change(values, crate::go_text::quote))),
];

/// No text gets longer than this, however often others are put into it.
const MAX_LENGTH: usize = 8 << 20;

fn test<'a>(values: &[Val<'a>], holds: fn(&str, &str) -> bool) -> Evaluated<'a> {
    match values {
        [Val::String(text), Val::String(part)] => Ok(Val::Bool(holds(text, part))),
        _ => no_such_overload(),
    }
}

fn change<'a>(values: &[Val<'a>], change: fn(&str) -> String) -> Evaluated<'a> {
    match values {
        [Val::String(text)] => Ok(Val::text(change(text))),
        _ => no_such_overload(),
    }
}

fn out_of_range<'a>(index: i64) -> Evaluated<'a> {
    fail(format!("index out of range: {index}"))
}

fn char_at<'a>(values: &[Val<'a>], _: Option<&Regex>) -> Evaluated<'a> {
    let [Val::String(text), Val::Int(index)] = values else { return no_such_overload() };
    let length = text.chars().count();
    match usize::try_from(*index) {
        Ok(place) if place <= length => Ok(Val::text(text.chars().skip(place).take(1).collect::<String>())),
        _ => out_of_range(*index),
    }
}

/// The place of a part, counted in characters; of a list, the place of an element.
fn index_of<'a>(values: &[Val<'a>], _: Option<&Regex>) -> Evaluated<'a> {
    let (text, part, from) = match values {
        [Val::List(list), item] => return super::lists::index_of(list, item),
        [Val::String(text), Val::String(part)] => (text, part, 0),
        [Val::String(text), Val::String(part), Val::Int(from)] => (text, part, *from),
        _ => return no_such_overload(),
    };
    if part.is_empty() {
        return Ok(Val::Int(from));
    }
    let Ok(start) = usize::try_from(from) else { return out_of_range(from) };
    let Some((offset, _)) = text.char_indices().nth(start) else { return Ok(Val::Int(-1)) };
    let found = text[offset..].find(&**part);
    Ok(Val::Int(found.map_or(-1, |found| (start + text[offset..offset + found].chars().count()) as i64)))
}

fn last_index_of<'a>(values: &[Val<'a>], _: Option<&Regex>) -> Evaluated<'a> {
    let (text, part, from) = match values {
        [Val::List(list), item] => return super::lists::last_index_of(list, item),
        [Val::String(text), Val::String(part)] => (text, part, None),
        [Val::String(text), Val::String(part), Val::Int(from)] => (text, part, Some(*from)),
        _ => return no_such_overload(),
    };
    let length = text.chars().count();
    if part.is_empty() {
        return Ok(Val::Int(from.unwrap_or(length as i64)));
    }
    let from = from.unwrap_or(length as i64);
    let Ok(last) = usize::try_from(from) else { return out_of_range(from) };
    if last > length {
        return Ok(Val::Int(-1));
    }
    // A part may start at that place, and so ends behind it.
    let end = text.char_indices().nth(last + part.chars().count()).map_or(text.len(), |(offset, _)| offset);
    let found = text[..end].rfind(&**part);
    Ok(Val::Int(found.map_or(-1, |found| text[..found].chars().count() as i64)))
}

fn replace<'a>(values: &[Val<'a>], _: Option<&Regex>) -> Evaluated<'a> {
    let (text, old, new, limit) = match values {
        [Val::String(text), Val::String(old), Val::String(new)] => (text, old, new, -1),
        [Val::String(text), Val::String(old), Val::String(new), Val::Int(limit)] => (text, old, new, *limit),
        _ => return no_such_overload(),
    };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let count = text.matches(&**old).take(limit).count();
    if text.len() + count * new.len() > MAX_LENGTH {
        return Err(EvalError::cancelled());
    }
    Ok(Val::text(text.replacen(&**old, new, limit)))
}

fn split<'a>(values: &[Val<'a>], _: Option<&Regex>) -> Evaluated<'a> {
    let (text, separator, limit) = match values {
        [Val::String(text), Val::String(separator)] => (text, separator, -1),
        [Val::String(text), Val::String(separator), Val::Int(limit)] => (text, separator, *limit),
        _ => return no_such_overload(),
    };
    let part = |part: &str| Val::text(part);
    let limit = match limit {
        0 => return Ok(Val::list(vec![])),
        limit => usize::try_from(limit).unwrap_or(usize::MAX),
    };
    if !separator.is_empty() {
        return Ok(Val::list(text.splitn(limit, &**separator).map(part).collect()));
    }
    // Without a separator each character is a part.
    let mut parts = Vec::new();
    let mut rest = &**text;
    while let Some(first) = rest.chars().next() {
        let end = if parts.len() + 1 == limit { rest.len() } else { first.len_utf8() };
        parts.push(part(&rest[..end]));
        rest = &rest[end..];
    }
    Ok(Val::list(parts))
}

fn substring<'a>(values: &[Val<'a>], _: Option<&Regex>) -> Evaluated<'a> {
    let (text, start, end) = match values {
        [Val::String(text), Val::Int(start)] => (text, *start, text.chars().count() as i64),
        [Val::String(text), Val::Int(start), Val::Int(end)] => (text, *start, *end),
        _ => return no_such_overload(),
    };
    let length = text.chars().count() as i64;
    if start > end && values.len() == 3 {
        return fail(format!("invalid substring range. start: {start}, end: {end}"));
    }
    if !(0..=length).contains(&start) {
        return out_of_range(start);
    }
    if !(0..=length).contains(&end) {
        return out_of_range(end);
    }
    Ok(Val::text(text.chars().skip(start as usize).take((end - start) as usize).collect::<String>()))
}

fn join<'a>(values: &[Val<'a>], _: Option<&Regex>) -> Evaluated<'a> {
    let (list, separator) = match values {
        [Val::List(list)] => (list, ""),
        [Val::List(list), Val::String(separator)] => (list, &**separator),
        _ => return no_such_overload(),
    };
    let mut joined = String::new();
    for (index, item) in list.iter().enumerate() {
        let Val::String(item) = item? else { return fail("join: invalid input") };
        if index > 0 {
            joined.push_str(separator);
        }
        joined.push_str(&item);
        if joined.len() > MAX_LENGTH {
            return Err(EvalError::cancelled());
        }
    }
    Ok(Val::text(joined))
}
