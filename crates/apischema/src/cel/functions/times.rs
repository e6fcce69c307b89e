//! The calendar, the clock and durations.

use regex::Regex;

use super::super::time::{Civil, parse_zone};
use super::super::value::{Evaluated, Val};
use super::{Implementation, constant, fail, no_such_overload};

pub(super) const SIGNATURES: &str = "
    timestamp .getFullYear() int
    timestamp .getFullYear(string) int
    timestamp .getMonth() int
    timestamp .getMonth(string) int
    timestamp .getDate() int
    timestamp .getDate(string) int
    timestamp .getDayOfMonth() int
    timestamp .getDayOfMonth(string) int
    timestamp .getDayOfWeek() int
    timestamp .getDayOfWeek(string) int
    timestamp .getDayOfYear() int
    timestamp .getDayOfYear(string) int
    timestamp .getHours() int
    timestamp .getHours(string) int
    timestamp .getMinutes() int
    timestamp .getMinutes(string) int
    timestamp .getSeconds() int
    timestamp .getSeconds(string) int
    timestamp .getMilliseconds() int
    timestamp .getMilliseconds(string) int
    duration .getHours() int
    duration .getMinutes() int
    duration .getSeconds() int
    duration .getMilliseconds() int
";

pub(super) const FUNCTIONS: &[(&str, Implementation)] = &[
    ("getFullYear", constant(|values, _| part(values, |civil| civil.year))),
    ("getMonth", constant(|values, _| part(values, |civil| civil.month - 1))),
    ("getDate", constant(|values, _| part(values, |civil| civil.day))),
    ("getDayOfMonth", constant(|values, _| part(values, |civil| civil.day - 1))),
    ("getDayOfWeek", constant(|values, _| part(values, |civil| civil.day_of_week))),
    ("getDayOfYear", constant(|values, _| part(values, |civil| civil.day_of_year))),
    ("getHours", constant(|values, _| clock(values, 3_600_000_000_000, |civil| civil.second_of_day / 3600))),
    (
        "getMinutes",
        constant(|values, _| clock(values, 60_000_000_000, |civil| civil.second_of_day / 60 % 60)),
    ),
    ("getSeconds", constant(|values, _| clock(values, 1_000_000_000, |civil| civil.second_of_day % 60))),
    ("getMilliseconds", constant(milliseconds)),
];

fn part<'a>(values: &[Val<'a>], part: fn(&Civil) -> i64) -> Evaluated<'a> {
    let (time, offset) = match values {
        [Val::Timestamp(time)] => (time, 0),
        [Val::Timestamp(time), Val::String(zone)] => match parse_zone(zone) {
            Some(offset) => (time, offset),
            None => return fail(format!("unknown time zone {zone}")),
        },
        _ => return no_such_overload(),
    };
    Ok(Val::Int(part(&time.civil(offset))))
}

fn clock<'a>(values: &[Val<'a>], unit: i64, of_time: fn(&Civil) -> i64) -> Evaluated<'a> {
    match values {
        [Val::Duration(nanoseconds)] => Ok(Val::Int(nanoseconds / unit)),
        _ => part(values, of_time),
    }
}

fn milliseconds<'a>(values: &[Val<'a>], _: Option<&Regex>) -> Evaluated<'a> {
    clock(values, 1_000_000, |civil| civil.milliseconds)
}
