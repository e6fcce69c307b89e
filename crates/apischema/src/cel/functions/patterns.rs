//! Regular expressions. They come compiled, be they literals or not.

use regex::Regex;

use super::super::value::{Evaluated, Val};
use super::{Implementation, no_such_overload, regex};

pub(super) const SIGNATURES: &str = "
    matches(string, string) bool
    string .matches(string) bool
    string .find(string) string
    string .findAll(string) list<string>
    string .findAll(string, int) list<string>
";

pub(super) const FUNCTIONS: &[(&str, Implementation)] =
    &[("matches", regex(matches)), ("find", regex(find)), ("findAll", regex(find_all))];

fn matches<'a>(values: &[Val<'a>], regex: Option<&Regex>) -> Evaluated<'a> {
    let ([Val::String(text), _], Some(regex)) = (values, regex) else { return no_such_overload() };
    Ok(Val::Bool(regex.is_match(text)))
}

fn find<'a>(values: &[Val<'a>], regex: Option<&Regex>) -> Evaluated<'a> {
    let ([Val::String(text), _], Some(regex)) = (values, regex) else { return no_such_overload() };
    Ok(Val::text(regex.find(text).map_or("", |found| found.as_str())))
}

fn find_all<'a>(values: &[Val<'a>], regex: Option<&Regex>) -> Evaluated<'a> {
    let (text, limit, regex) = match (values, regex) {
        ([Val::String(text), _], Some(regex)) => (text, -1, regex),
        ([Val::String(text), _, Val::Int(limit)], Some(regex)) => (text, *limit, regex),
        _ => return no_such_overload(),
    };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    Ok(Val::list(regex.find_iter(text).take(limit).map(|found| Val::text(found.as_str())).collect()))
}
