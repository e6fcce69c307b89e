//! The scalars of YAML 1.1, as the library that Kubernetes uses tells them apart.

use serde_json::{Number, Value};

use apischema::go_text;

/// The value of a scalar. `tag` is what a core tag (`!!int`) says, or empty for a tag of someone else's.
pub(super) fn resolve(text: &str, is_plain: bool, tag: Option<&str>) -> Result<Value, String> {
    match tag {
        None if !is_plain => Ok(Value::String(text.to_owned())),
        None => plain(text),
        Some("bool" | "int" | "float" | "null" | "timestamp") => tagged(text, tag.unwrap_or_default()),
        Some(_) => Ok(Value::String(text.to_owned())),
    }
}

fn tagged(text: &str, tag: &str) -> Result<Value, String> {
    let value = plain(text)?;
    let fits = match &value {
        Value::Bool(_) => tag == "bool",
        Value::Null => tag == "null",
        Value::Number(number) => tag == "float" || (tag == "int" && number.as_f64().is_some()),
        _ => tag == "timestamp",
    };
    let found = match &value {
        Value::Bool(_) => "bool",
        Value::Null => "null",
        Value::Number(_) => "int",
        _ => "str",
    };
    if fits { Ok(value) } else { Err(format!("cannot decode !!{found} `{text}` as a !!{tag}")) }
}

fn plain(text: &str) -> Result<Value, String> {
    let value = match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            Value::Bool(true)
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Value::Bool(false)
        }
        ".nan" | ".NaN" | ".NAN" => return Err("json: unsupported value: NaN".to_owned()),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => {
            return Err("json: unsupported value: +Inf".to_owned());
        }
        "-.inf" | "-.Inf" | "-.INF" => return Err("json: unsupported value: -Inf".to_owned()),
        other => number(other).unwrap_or_else(|| Value::String(other.to_owned())),
    };
    Ok(value)
}

fn number(text: &str) -> Option<Value> {
    match text.as_bytes().first()? {
        b'.' => float(text),
        b'0'..=b'9' | b'+' | b'-' => {
            let text = if text.contains('_') { &text.replace('_', "") } else { text };
            integer(text).or_else(|| float(text))
        }
        _ => None,
    }
}

/// An integer of base 2, 8, 10 or 16, by its prefix. A leading zero means base 8.
fn integer(text: &str) -> Option<Value> {
    let (is_negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (radix, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &digits[2..]),
        [b'0', b'o' | b'O', ..] => (8, &digits[2..]),
        [b'0', b'b' | b'B', ..] => (2, &digits[2..]),
        [b'0', _, ..] => (8, &digits[1..]),
        _ => (10, digits),
    };
    if !digits.bytes().all(|digit| char::from(digit).is_digit(radix)) {
        return None;
    }
    let magnitude = u64::from_str_radix(digits, radix).ok()?;
    if is_negative {
        0i64.checked_sub_unsigned(magnitude).map(Value::from)
    } else {
        Some(Value::from(magnitude))
    }
}

/// A decimal number. One that is whole becomes an integer, as it does on its way through Go's JSON.
fn float(text: &str) -> Option<Value> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
        Some(at) => (&unsigned[..at], Some(&unsigned[at + 1..])),
        None => (unsigned, None),
    };
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let is_mantissa = is_digits(whole) && is_digits(fraction) && !(whole.is_empty() && fraction.is_empty());
    let is_exponent = exponent.is_none_or(|exponent| {
        let digits = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
        !digits.is_empty() && is_digits(digits)
    });
    if !(is_mantissa && is_exponent) {
        return None;
    }
    let float: f64 = text.parse().ok().filter(|float: &f64| float.is_finite())?;
    if float.fract() == 0.0 && float.abs() < 9.2e18 {
        #[allow(clippy::cast_possible_truncation, reason = "whole, and within the range")]
        return Some(Value::from(float as i64));
    }
    Number::from_f64(float).map(Value::Number)
}

/// A key as text, and as Go shows it.
pub(super) fn key(key: &Value) -> Result<(String, String), String> {
    match key {
        Value::String(text) => Ok((text.clone(), go_text::quote(text))),
        Value::Bool(truth) => Ok((truth.to_string(), truth.to_string())),
        Value::Number(number) => Ok((go_text::number(number), go_text::number(number))),
        other => Err(format!("invalid map key: {}", go_text::syntax(other))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn plain_scalars_have_the_types_of_yaml_1_1() {
        let cases = [
            ("yes", json!(true)),
            ("Off", json!(false)),
            ("y", json!(true)),
            ("oN", json!("oN")),
            ("~", json!(null)),
            ("", json!(null)),
            ("nil", json!("nil")),
            ("5", json!(5)),
            ("+5", json!(5)),
            ("-5", json!(-5)),
            ("1_000", json!(1000)),
            ("0x1F", json!(31)),
            ("-0x1F", json!(-31)),
            ("0o17", json!(15)),
            ("017", json!(15)),
            ("0b101", json!(5)),
            ("08", json!(8)),
            ("0", json!(0)),
            ("9223372036854775807", json!(i64::MAX)),
            ("-9223372036854775808", json!(i64::MIN)),
            ("18446744073709551615", json!(u64::MAX)),
            ("1.5", json!(1.5)),
            ("1.0", json!(1)),
            ("1e3", json!(1000)),
            (".5", json!(0.5)),
            ("5.", json!(5)),
            ("1e-2", json!(0.01)),
            ("-", json!("-")),
            (".", json!(".")),
            ("1.2.3", json!("1.2.3")),
            ("1e", json!("1e")),
            ("0x", json!("0x")),
            ("0xg", json!("0xg")),
            ("2024-01-01", json!("2024-01-01")),
            ("10.0.0.1", json!("10.0.0.1")),
            ("12:30", json!("12:30")),
            ("100m", json!("100m")),
            ("nan", json!("nan")),
            ("é", json!("é")),
        ];
        for (text, value) in cases {
            assert_eq!(resolve(text, true, None), Ok(value), "{text}");
        }
        assert_eq!(resolve("5", false, None), Ok(json!("5")));
        assert!(resolve(".inf", true, None).is_err());
    }

    #[test]
    fn tags_say_what_a_scalar_is() {
        assert_eq!(resolve("5", true, Some("str")), Ok(json!("5")));
        assert_eq!(resolve("5", false, Some("int")), Ok(json!(5)));
        assert_eq!(resolve("5", true, Some("float")), Ok(json!(5)));
        assert_eq!(resolve("5", true, Some("")), Ok(json!("5")));
        assert_eq!(resolve("x", true, Some("int")), Err("cannot decode !!str `x` as a !!int".to_owned()));
    }
}
