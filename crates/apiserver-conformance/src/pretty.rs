//! A transcript as a person wants to review it: what fits on a line is on a line, and what was asked is before the answer.

use serde_json::{Map, Value};

const WIDTH: usize = 120;

/// The text of a value, with a line feed at its end.
pub(crate) fn pretty(value: &Value) -> String {
    let mut text = String::new();
    write(value, 0, 0, &mut text);
    text.push('\n');
    text
}

fn write(value: &Value, depth: usize, before: usize, text: &mut String) {
    let indent = |depth: usize| "  ".repeat(depth);
    let flat = flat(value);
    if 2 * depth + before + flat.chars().count() <= WIDTH {
        text.push_str(&flat);
        return;
    }
    match value {
        Value::Array(elements) => {
            text.push('[');
            for (position, element) in elements.iter().enumerate() {
                text.push_str(if position == 0 { "\n" } else { ",\n" });
                text.push_str(&indent(depth + 1));
                write(element, depth + 1, 1, text);
            }
            text.push('\n');
            text.push_str(&indent(depth));
            text.push(']');
        }
        Value::Object(fields) => {
            text.push('{');
            for (position, (field, value)) in in_order(fields).enumerate() {
                text.push_str(if position == 0 { "\n" } else { ",\n" });
                let name = Value::from(field.as_str()).to_string();
                text.push_str(&indent(depth + 1));
                text.push_str(&name);
                text.push_str(": ");
                write(value, depth + 1, name.chars().count() + 3, text);
            }
            text.push('\n');
            text.push_str(&indent(depth));
            text.push('}');
        }
        _ => text.push_str(&flat),
    }
}

/// In alphabetical order, but for the head of a record.
fn in_order(fields: &Map<String, Value>) -> impl Iterator<Item = (&String, &Value)> {
    let head =
        |field: &str| fields.contains_key("request") && ["request", "status", "headers"].contains(&field);
    let request = fields.get_key_value("request");
    let status = fields.get_key_value("status").filter(|_| request.is_some());
    let headers = fields.get_key_value("headers").filter(|_| request.is_some());
    let rest = fields.iter().filter(move |(field, _)| !head(field));
    request.into_iter().chain(status).chain(headers).chain(rest)
}

fn flat(value: &Value) -> String {
    match value {
        Value::Array(elements) => {
            format!("[{}]", elements.iter().map(flat).collect::<Vec<_>>().join(", "))
        }
        Value::Object(fields) => {
            let fields = fields
                .iter()
                .map(|(field, value)| format!("{}: {}", Value::from(field.as_str()), flat(value)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::pretty;

    #[test]
    fn pretty_text_is_the_same_value_in_short_lines() {
        let value = json!({"a": [{"b": "c".repeat(60)}, {"d": ["e".repeat(60), {}, []]}], "f": null});
        let text = pretty(&value);
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
        assert!(text.lines().all(|line| line.len() <= 120), "{text}");
        assert!(text.contains("    {\"b\": "), "{text}");
    }
}
