//! Text as Go prints it.
//!
//! Clients and their tests compare messages, and the messages of Kubernetes hold strings and whole values in the notation of
//! the language it is written in.

use std::fmt::Write;

use serde_json::{Number, Value};

/// A string between quotation marks, as `%q` has it.
pub fn quote(text: &str) -> String {
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
            printable if is_print(printable) => quoted.push(printable),
            hidden => {
                // Writing to a String cannot fail.
                let _ = match u32::from(hidden) {
                    code @ (..0x20 | 0x7f) => write!(quoted, "\\x{code:02x}"),
                    code @ ..0x1_0000 => write!(quoted, "\\u{code:04x}"),
                    code => write!(quoted, "\\U{code:08x}"),
                };
            }
        }
    }
    quoted.push('"');
    quoted
}

/// A list of strings, as `%q` has it.
pub fn quote_list<S: AsRef<str>>(texts: &[S]) -> String {
    let quoted: Vec<_> = texts.iter().map(|text| quote(text.as_ref())).collect();
    format!("[{}]", quoted.join(" "))
}

/// Letters, marks, numbers, punctuation, symbols and the plain space.
pub fn is_print(character: char) -> bool {
    if character.is_ascii() {
        return matches!(character, ' '..='~');
    }
    // The standard library knows which characters are printable, but tells so only by how it escapes a string. A letter goes
    // first, because it also escapes a combining mark that has nothing to combine with.
    let mut buffer = String::with_capacity(8);
    buffer.push('a');
    buffer.push(character);
    buffer.escape_debug().nth(1) == Some(character)
}

/// The name of the type that Go decodes this value to.
pub fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "%!s(<nil>)",
        Value::Bool(_) => "bool",
        Value::Number(number) if is_integer(number) => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// Whether Go decodes this number to an integer: the others, even whole ones, become floats.
pub fn is_integer(number: &Number) -> bool {
    number.is_i64()
}

/// A value as `%v` has it.
pub fn plain(value: &Value) -> String {
    let mut text = String::new();
    write_plain(&mut text, value);
    text
}

/// A list of values as `%v` has it.
pub fn plain_list(values: &[Value]) -> String {
    let mut text = String::new();
    write_plain_list(&mut text, values);
    text
}

fn write_plain(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("<nil>"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => write_number(out, number, Exponent::Short),
        Value::String(text) => out.push_str(text),
        Value::Array(items) => write_plain_list(out, items),
        Value::Object(fields) => {
            out.push_str("map[");
            for (at, (name, field)) in fields.iter().enumerate() {
                if at > 0 {
                    out.push(' ');
                }
                out.push_str(name);
                out.push(':');
                write_plain(out, field);
            }
            out.push(']');
        }
    }
}

fn write_plain_list(out: &mut String, values: &[Value]) {
    out.push('[');
    for (at, item) in values.iter().enumerate() {
        if at > 0 {
            out.push(' ');
        }
        write_plain(out, item);
    }
    out.push(']');
}

/// A value as `%#v` has it.
pub fn syntax(value: &Value) -> String {
    let mut text = String::new();
    write_syntax(&mut text, value);
    text
}

fn write_syntax(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("interface {}(nil)"),
        Value::String(text) => out.push_str(&quote(text)),
        Value::Array(items) => {
            out.push_str("[]interface {}{");
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push_str(", ");
                }
                write_syntax(out, item);
            }
            out.push('}');
        }
        Value::Object(fields) => {
            out.push_str("map[string]interface {}{");
            for (at, (name, field)) in fields.iter().enumerate() {
                if at > 0 {
                    out.push_str(", ");
                }
                out.push_str(&quote(name));
                out.push(':');
                write_syntax(out, field);
            }
            out.push('}');
        }
        scalar => write_plain(out, scalar),
    }
}

/// A value as `encoding/json` writes it.
pub fn json(value: &Value) -> String {
    let mut text = String::new();
    write_json(&mut text, value);
    text
}

/// Appends a value as `encoding/json` writes it: fields in order, and nothing that could be taken for HTML.
pub fn write_json(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => write_number(out, number, Exponent::Long),
        Value::String(text) => write_json_string(out, text),
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_json(out, item);
            }
            out.push(']');
        }
        Value::Object(fields) => {
            out.push('{');
            for (at, (name, field)) in fields.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_json_string(out, name);
                out.push(':');
                write_json(out, field);
            }
            out.push('}');
        }
    }
}

/// Appends a string as `encoding/json` writes it.
pub fn write_json_string(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\u{0}'..='\u{1f}' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                // Writing to a String cannot fail.
                let _ = write!(out, "\\u{:04x}", u32::from(character));
            }
            plain => out.push(plain),
        }
    }
    out.push('"');
}

/// From where on a number is written with an exponent.
#[derive(Clone, Copy, PartialEq)]
enum Exponent {
    /// From a million on, as `%v` does.
    Short,
    /// From 1e21 on, as JSON does.
    Long,
}

/// A float as `%v` has it: `1.5`, `1e+06`.
pub fn float(float: f64) -> String {
    let mut text = String::new();
    write_float(&mut text, float, Exponent::Short);
    text
}

/// A number as `%v` has it.
pub fn number(number: &Number) -> String {
    let mut text = String::new();
    write_number(&mut text, number, Exponent::Short);
    text
}

fn write_number(out: &mut String, number: &Number, exponent: Exponent) {
    // Writing to a String cannot fail.
    let _ = match number.as_i64() {
        Some(integer) => write!(out, "{integer}"),
        None => {
            write_float(out, number.as_f64().unwrap_or_default(), exponent);
            Ok(())
        }
    };
}

fn write_float(out: &mut String, float: f64, exponent: Exponent) {
    let scientific = format!("{float:e}");
    let Some((mantissa, power)) = scientific.split_once('e') else {
        return out.push_str(match float {
            f64::INFINITY => "+Inf",
            f64::NEG_INFINITY => "-Inf",
            _ => "NaN",
        });
    };
    let power: i32 = power.parse().unwrap_or_default();
    let written_out = match exponent {
        Exponent::Short => (-4..6).contains(&power),
        Exponent::Long => (-6..21).contains(&power),
    };
    // Writing to a String cannot fail.
    let _ = if float == 0.0 || written_out {
        write!(out, "{float}")
    } else if exponent == Exponent::Short {
        write!(out, "{mantissa}e{}{:02}", if power < 0 { '-' } else { '+' }, power.abs())
    } else {
        write!(out, "{mantissa}e{}{}", if power < 0 { '-' } else { '+' }, power.abs())
    };
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn strings_are_quoted_as_go_quotes_them() {
        assert_eq!(
            quote("a\"b\\c\n\t\u{1}\u{7f}é\u{a0}\u{feff}😀\u{e000}"),
            r#""a\"b\\c\n\t\x01\x7fé\u00a0\ufeff😀\ue000""#
        );
        assert_eq!(quote("e\u{301}\u{301}"), "\"e\u{301}\u{301}\"", "combining marks are printable");
        assert_eq!(quote("\u{301}"), "\"\u{301}\"", "even alone");
        assert_eq!(quote_list(&["a", "b"]), r#"["a" "b"]"#);
    }

    #[test]
    fn values_are_printed_as_go_prints_them() {
        let value = json!({"b": [1, 1.5, null, "x"], "a": {"c": true}});
        assert_eq!(plain(&value), "map[a:map[c:true] b:[1 1.5 <nil> x]]");
        assert_eq!(
            syntax(&value),
            r#"map[string]interface {}{"a":map[string]interface {}{"c":true}, "b":[]interface {}{1, 1.5, interface {}(nil), "x"}}"#
        );
        assert_eq!(type_name(&json!(1)), "int64");
        assert_eq!(type_name(&json!(u64::MAX)), "float64");
    }

    #[test]
    fn numbers_are_printed_as_go_prints_them() {
        let cases = [
            (json!(0), "0"),
            (json!(-5), "-5"),
            (json!(0.5), "0.5"),
            (json!(1.0), "1"),
            (json!(123456.0), "123456"),
            (json!(1e6), "1e+06"),
            (json!(123456789.0), "1.23456789e+08"),
            (json!(1e21), "1e+21"),
            (json!(0.0001), "0.0001"),
            (json!(1.5e-5), "1.5e-05"),
            (json!(-2.5e30), "-2.5e+30"),
        ];
        for (value, text) in cases {
            assert_eq!(plain(&value), text);
        }
    }

    #[test]
    fn floats_are_printed_as_go_prints_them() {
        for (number, text) in [
            (1.0, "1"),
            (0.00001, "1e-05"),
            (100_000.0, "100000"),
            (1_000_000.0, "1e+06"),
            (-1_234_567.5, "-1.2345675e+06"),
            (f64::INFINITY, "+Inf"),
            (f64::NEG_INFINITY, "-Inf"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(float(number), text);
        }
    }

    #[test]
    fn json_is_written_as_go_writes_it() {
        let mut out = String::new();
        write_json(
            &mut out,
            &json!({"b": "<a&b>\u{1}\u{2028}\n\"", "a": [1.0, 1e-7, 1e21, 12345678.0, null, true]}),
        );
        assert_eq!(
            out,
            r#"{"a":[1,1e-7,1e+21,12345678,null,true],"b":"\u003ca\u0026b\u003e\u0001\u2028\n\""}"#
        );
    }
}
