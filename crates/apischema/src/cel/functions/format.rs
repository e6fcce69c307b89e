//! `'%s has %d'.format([…])`.

use regex::Regex;

use super::super::time::duration_text;
use super::super::value::{Evaluated, Val};
use super::{fail, no_such_overload};
use crate::go_text;

pub(super) fn format<'a>(values: &[Val<'a>], _: Option<&Regex>) -> Evaluated<'a> {
    let [Val::String(template), Val::List(list)] = values else { return no_such_overload() };
    let mut arguments = list.iter().enumerate();
    let mut text = String::new();
    let mut rest = &**template;
    while let Some(percent) = rest.find('%') {
        text.push_str(&rest[..percent]);
        rest = &rest[percent + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            text.push('%');
            rest = after;
            continue;
        }
        let (precision, after) = match precision(rest) {
            Ok(found) => found,
            Err(message) => return fail(message),
        };
        let Some(clause) = after.chars().next() else { return fail("unexpected end of string") };
        rest = &after[clause.len_utf8()..];
        let Some((_, argument)) = arguments.next() else {
            return fail(format!("index {} out of range", list.len()));
        };
        match written(clause, precision, &argument?) {
            Ok(written) => text.push_str(&written),
            Err(message) => return fail(message),
        }
    }
    text.push_str(rest);
    Ok(Val::text(text))
}

fn precision(rest: &str) -> Result<(Option<usize>, &str), String> {
    let Some(after) = rest.strip_prefix('.') else { return Ok((None, rest)) };
    let end = after.find(|character: char| !character.is_ascii_digit()).unwrap_or(after.len());
    if end == after.len() {
        return Err("could not find end of precision specifier".to_owned());
    }
    let digits = after[..end].parse().map_err(|_| "error while parsing precision".to_owned())?;
    // More digits than a number has say nothing.
    Ok((Some(std::cmp::min(digits, 300)), &after[end..]))
}

fn written(clause: char, precision: Option<usize>, value: &Val<'_>) -> Result<String, String> {
    let refuse = |wanted: &str| Err(format!("{wanted}, was given {}", value.type_name()));
    match clause {
        's' => Ok(plain(value)),
        'd' => match value {
            Val::Int(_) | Val::Uint(_) => Ok(plain(value)),
            _ => refuse("decimal clause can only be used on integers"),
        },
        'f' => match value {
            Val::Double(number) => Ok(fixed(*number, precision.unwrap_or(6))),
            _ => refuse("fixed-point clause can only be used on doubles"),
        },
        'e' => match value {
            Val::Double(number) => Ok(scientific(*number)),
            _ => refuse("scientific clause can only be used on doubles"),
        },
        'b' => match value {
            Val::Int(number) => Ok(signed(*number, |size| format!("{size:b}"))),
            Val::Uint(number) => Ok(format!("{number:b}")),
            Val::Bool(flag) => Ok(u8::from(*flag).to_string()),
            _ => refuse("only integers and bools can be formatted as binary"),
        },
        'o' => match value {
            Val::Int(number) => Ok(signed(*number, |size| format!("{size:o}"))),
            Val::Uint(number) => Ok(format!("{number:o}")),
            _ => refuse("octal clause can only be used on integers"),
        },
        'x' | 'X' => {
            let hex = match value {
                Val::Int(number) => signed(*number, |size| format!("{size:x}")),
                Val::Uint(number) => format!("{number:x}"),
                Val::String(text) => text.bytes().map(|byte| format!("{byte:02x}")).collect(),
                Val::Bytes(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
                _ => return refuse("only integers, byte buffers, and strings can be formatted as hex"),
            };
            Ok(if clause == 'X' { hex.to_uppercase() } else { hex })
        }
        other => {
            Err(format!("could not parse formatting clause: unrecognized formatting clause \"{other}\""))
        }
    }
}

/// A number with digits in groups of three, as Americans write it.
fn fixed(number: f64, precision: usize) -> String {
    if !number.is_finite() {
        return non_finite(number);
    }
    let text = format!("{number:.precision$}");
    let (sign, size) = text.strip_prefix('-').map_or(("", &*text), |size| ("-", size));
    let (whole, fraction) = size.split_once('.').map_or((size, None), |(whole, rest)| (whole, Some(rest)));
    let mut grouped = sign.to_owned();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    if let Some(fraction) = fraction {
        grouped.push('.');
        grouped.push_str(fraction);
    }
    grouped
}

/// A number times a power of ten, as printed books have it.
fn scientific(number: f64) -> String {
    if !number.is_finite() {
        return non_finite(number);
    }
    let text = format!("{number:.6e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let digits = format!("{}{:02}", if exponent < 0 { "-" } else { "" }, exponent.abs());
    let raised = digits.chars().map(|digit| match digit {
        '-' => '⁻',
        '0' => '⁰',
        '1' => '¹',
        '2' => '²',
        '3' => '³',
        other => char::from_u32('⁴' as u32 + other as u32 - '4' as u32).unwrap_or(other),
    });
    format!("{mantissa}×10{}", raised.collect::<String>())
}

fn non_finite(number: f64) -> String {
    if number.is_nan() { "NaN".to_owned() } else { format!("{}∞", if number < 0.0 { "-" } else { "" }) }
}

fn signed(number: i64, write: impl Fn(u64) -> String) -> String {
    let sign = if number < 0 { "-" } else { "" };
    format!("{sign}{}", write(number.unsigned_abs()))
}

/// A value as text.
pub(super) fn plain(value: &Val<'_>) -> String {
    match value {
        Val::Null => "null".to_owned(),
        Val::Bool(flag) => flag.to_string(),
        Val::Int(number) => number.to_string(),
        Val::Uint(number) => number.to_string(),
        Val::Double(number) => go_text::float(*number),
        Val::String(text) => text.to_string(),
        Val::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Val::Timestamp(time) => time.to_text(),
        Val::Duration(nanoseconds) => duration_text(*nanoseconds),
        Val::Type(name) => (*name).to_owned(),
        Val::Ip(address) => address.to_string(),
        Val::Cidr(address, length) => format!("{address}/{length}"),
        Val::List(list) => {
            let items: Vec<String> =
                list.iter().map(|item| item.as_ref().map_or_else(ToString::to_string, plain)).collect();
            format!("[{}]", items.join(", "))
        }
        Val::Map(map) => {
            let mut entries: Vec<String> = map
                .entries()
                .iter()
                .map(|(key, value)| {
                    format!("{}: {}", plain(key), value.as_ref().map_or_else(ToString::to_string, plain))
                })
                .collect();
            entries.sort();
            format!("{{{}}}", entries.join(", "))
        }
        Val::Optional(Some(inner)) => format!("optional.of({})", plain(inner)),
        Val::Optional(None) => "optional.none()".to_owned(),
        Val::Url(_) | Val::Quantity(_) | Val::Semver(_) | Val::Format(_) | Val::Preserved(_) => {
            value.type_name().to_owned()
        }
    }
}
