//! Schemas in words, for doc comments.

use ovsdb_core::schema::{AtomicType, BaseType, ColumnSchema, Max, Strength, TableSchema};
use serde_json::Value;

use super::names;

/// What a table is: its name, keys and the life of its rows.
pub(super) fn table(name: &str, schema: &TableSchema, has_roots: bool) -> String {
    let mut text = format!("A row of the table `{name}`.");
    let mut facts = Vec::new();
    for index in &schema.indexes {
        let columns: Vec<String> = index.iter().map(|column| format!("`{column}`")).collect();
        match &columns[..] {
            [column] => facts.push(format!("No two rows have the same {column}.")),
            columns => facts.push(format!("No two rows have the same {} together.", columns.join(" and "))),
        }
    }
    if schema.max_rows == Some(1) {
        facts.push("There is at most one row.".to_owned());
    } else if let Some(rows) = schema.max_rows {
        facts.push(format!("There are at most {rows} rows."));
    }
    if has_roots && !schema.is_root {
        facts.push("A row to which no strong reference is left is deleted at commit.".to_owned());
    }
    if !facts.is_empty() {
        text += "\n\n";
        text += &facts.join(" ");
    }
    text
}

/// What a column holds. `tree` is its type as the schema's text has it.
pub(super) fn column(schema: &ColumnSchema, tree: &Value) -> String {
    let ty = &schema.column_type;
    let key = Words { base: &ty.key, tree: tree.get("key").unwrap_or(tree) };
    let mut text = match &ty.value {
        Some(value) => {
            let value = Words { base: value, tree: &tree["value"] };
            let mut text = format!("A map of {}{} to {}.", at_most(ty.max), key.several(), value.several());
            text += &key.permitted("Permitted keys");
            text += &value.permitted("Permitted values");
            text
        }
        None => {
            let noun = match (ty.min, ty.max) {
                (1, Max::Count(1)) => capitalized(&key.one()),
                (0, Max::Count(1)) => format!("An optional {}", key.noun()),
                (0, max) => format!("A set of {}{}", at_most(max), key.several()),
                (_, max) => format!("A set, never empty, of {}{}", at_most(max), key.several()),
            };
            format!("{noun}.{}", key.permitted("Permitted"))
        }
    };
    if schema.ephemeral {
        text += " Ephemeral: lost when the server restarts.";
    }
    if !schema.mutable {
        text += " Immutable: set by the insert and never changed.";
    }
    text
}

fn at_most(max: Max) -> String {
    match max {
        Max::Unlimited => String::new(),
        Max::Count(count) => format!("at most {count} "),
    }
}

struct Words<'a> {
    base: &'a BaseType,
    tree: &'a Value,
}

impl Words<'_> {
    fn one(&self) -> String {
        let article = if self.base.atomic_type == AtomicType::Integer { "an" } else { "a" };
        format!("{article} {}", self.noun())
    }

    fn noun(&self) -> String {
        self.counted("")
    }

    fn several(&self) -> String {
        self.counted("s")
    }

    fn counted(&self, plural: &str) -> String {
        if let Some(reference) = &self.base.reference {
            let strength = match reference.strength {
                Strength::Strong => "strong",
                Strength::Weak => "weak",
            };
            let row = names::row(&reference.table);
            return format!("{strength} reference{plural} to [`{row}`](super::{row})");
        }
        let noun = match self.base.atomic_type {
            AtomicType::Integer => "integer",
            AtomicType::Real => "real",
            AtomicType::Boolean => "boolean",
            AtomicType::String => "string",
            AtomicType::Uuid => "UUID",
        };
        format!("{noun}{plural}{}", self.limits())
    }

    fn limits(&self) -> String {
        let limit = |names: [&str; 2]| names.iter().find_map(|name| self.tree.get(name));
        let length = |name| self.tree.get(name);
        match (limit(["minInteger", "minReal"]), limit(["maxInteger", "maxReal"])) {
            (Some(min), Some(max)) => return format!(" ({min} to {max})"),
            (Some(min), None) => return format!(" (at least {min})"),
            (None, Some(max)) => return format!(" (at most {max})"),
            (None, None) => {}
        }
        match (length("minLength"), length("maxLength")) {
            (Some(min), Some(max)) => format!(" ({min} to {max} characters)"),
            (Some(min), None) => format!(" (at least {min} characters)"),
            (None, Some(max)) => format!(" (at most {max} characters)"),
            (None, None) => String::new(),
        }
    }

    /// The permitted values, which the schema gives as one value or as a set.
    fn permitted(&self, label: &str) -> String {
        let Some(permitted) = &self.base.permitted else { return String::new() };
        let values = match permitted.as_array().map(Vec::as_slice) {
            Some([Value::String(tag), Value::Array(values)]) if tag == "set" => values.as_slice(),
            _ => std::slice::from_ref(permitted),
        };
        let values: Vec<String> = values
            .iter()
            .map(|value| match value {
                Value::String(text) if text.is_empty() => "the empty string".to_owned(),
                Value::String(text) => format!("`{text}`"),
                other => format!("`{other}`"),
            })
            .collect();
        format!(" {label}: {}.", values.join(", "))
    }
}

fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(chars).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(json: &str) -> String {
        let tree: Value = serde_json::from_str(json).unwrap();
        column(&serde_json::from_value(tree.clone()).unwrap(), &tree["type"])
    }

    #[test]
    fn columns_in_words() {
        for (json, expected) in [
            (r#"{"type": "string"}"#, "A string."),
            (
                r#"{"type": {"key": {"type": "integer", "minInteger": 0, "maxInteger": 9}}}"#,
                "An integer (0 to 9).",
            ),
            (
                r#"{"type": {"key": {"type": "string", "maxLength": 63}, "min": 0}}"#,
                "An optional string (at most 63 characters).",
            ),
            (r#"{"type": {"key": "string", "min": 0, "max": 3}}"#, "A set of at most 3 strings."),
            (
                r#"{"type": {"key": {"type": "uuid", "refTable": "QoS"}, "min": 1, "max": "unlimited"}}"#,
                "A set, never empty, of strong references to [`QoS`](super::QoS).",
            ),
            (
                r#"{"type": {"key": {"type": "string", "enum": ["set", ["", "x"]]}, "value": "uuid", "max": "unlimited"}}"#,
                "A map of strings to UUIDs. Permitted keys: the empty string, `x`.",
            ),
            (
                r#"{"type": {"key": {"type": "integer", "enum": 5}}, "mutable": false}"#,
                "An integer. Permitted: `5`. Immutable: set by the insert and never changed.",
            ),
        ] {
            assert_eq!(words(json), expected);
        }
    }
}
