//! Text and numbers as Go prints them: clients compare messages.

use std::fmt::Write;

use serde_json::Value;

/// The text between quotation marks, as Go's `%q` has it.
pub(crate) fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{b}' => quoted.push_str("\\v"),
            control if control.is_control() && (control as u32) < 0x80 => {
                let _ = write!(quoted, "\\x{:02x}", control as u32);
            }
            hidden if hidden.is_control() || is_invisible(hidden) => {
                let code = hidden as u32;
                let _ = if code > 0xffff {
                    write!(quoted, "\\U{code:08x}")
                } else {
                    write!(quoted, "\\u{code:04x}")
                };
            }
            plain => quoted.push(plain),
        }
    }
    quoted.push('"');
    quoted
}

/// What Go does not count as printable: spaces other than the plain one, and marks of format.
fn is_invisible(character: char) -> bool {
    character != ' ' && character.is_whitespace()
        || matches!(character, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e000}'..='\u{f8ff}' | '\u{fffe}' | '\u{ffff}')
}

/// A number as Go's `%v` has it: `1.5`, `1e+06`.
pub(crate) fn float(number: f64) -> String {
    let scientific = format!("{number:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return non_finite(number) };
    match exponent.parse::<i32>() {
        Ok(-4..=5) => number.to_string(),
        Ok(exponent) => format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs()),
        Err(_) => non_finite(number),
    }
}

fn non_finite(number: f64) -> String {
    match number {
        f64::INFINITY => "+Inf".to_owned(),
        f64::NEG_INFINITY => "-Inf".to_owned(),
        _ => "NaN".to_owned(),
    }
}

/// JSON as Go writes it: whole numbers without a point, and nothing that a browser could take for markup.
pub(crate) fn json(value: &Value) -> String {
    let mut text = String::new();
    push_json(&mut text, value);
    text
}

fn push_json(text: &mut String, value: &Value) {
    match value {
        Value::Number(number) => match number.as_f64().filter(|_| number.is_f64()) {
            Some(float) => push_json_float(text, float),
            None => text.push_str(&number.to_string()),
        },
        Value::String(string) => push_json_string(text, string),
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                push_json(text, item);
            }
            text.push(']');
        }
        Value::Object(fields) => {
            text.push('{');
            for (index, (name, field)) in fields.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                push_json_string(text, name);
                text.push(':');
                push_json(text, field);
            }
            text.push('}');
        }
        Value::Null | Value::Bool(_) => text.push_str(&value.to_string()),
    }
}

fn push_json_float(text: &mut String, number: f64) {
    let size = number.abs();
    if size != 0.0 && !(1e-6..1e21).contains(&size) {
        text.push_str(&format!("{number:e}").replace('e', if size >= 1.0 { "e+" } else { "e" }));
    } else {
        text.push_str(&number.to_string());
    }
}

fn push_json_string(text: &mut String, string: &str) {
    text.push('"');
    for character in string.chars() {
        match character {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\u{8}' => text.push_str("\\b"),
            '\u{c}' => text.push_str("\\f"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\u{0}'..='\u{1f}' => {
                let _ = write!(text, "\\u{:04x}", character as u32);
            }
            plain => text.push(plain),
        }
    }
    text.push('"');
}

#[cfg(test)]
mod tests {
    use serde_json::json as value;

    use super::*;

    #[test]
    fn numbers_are_written_as_go_writes_them() {
        for (number, text) in [
            (1.0, "1"),
            (1.5, "1.5"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (100_000.0, "100000"),
            (1_000_000.0, "1e+06"),
            (-1_234_567.5, "-1.2345675e+06"),
            (f64::INFINITY, "+Inf"),
        ] {
            assert_eq!(float(number), text);
        }
    }

    #[test]
    fn json_is_written_as_go_writes_it() {
        let value = value!({"b": [1, 2.0, 1e30, 1e-9, null, true], "a": "<&>\n\u{1}\"é"});
        assert_eq!(json(&value), r#"{"a":"\u003c\u0026\u003e\n\u0001\"é","b":[1,2,1e+30,1e-9,null,true]}"#);
    }

    #[test]
    fn text_is_quoted_as_go_quotes_it() {
        assert_eq!(
            quote("a\"b\\c\n\t\u{1}\u{7f}é\u{a0}\u{feff}😀"),
            r#""a\"b\\c\n\t\x01\x7fé\u00a0\ufeff😀""#
        );
    }
}
