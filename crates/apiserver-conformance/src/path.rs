//! Where in a JSON value: `.metadata.annotations['a.b/c']`, `.items[*].data`, `.items[metadata.name={{id}}].status`.

use std::fmt;

use serde::{Deserialize, Deserializer, de};
use serde_json::Value;

use crate::error::Error;
use crate::template::Variables;

/// A path in a JSON value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path {
    text: String,
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Field(String),
    Index(usize),
    Each,
    With(String, String),
}

impl Path {
    /// Reads a path.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no path");
        let mut parts = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            if let Some(after) = rest.strip_prefix('.') {
                let end = after.find(['.', '[']).unwrap_or(after.len());
                if end > 0 {
                    parts.push(Part::Field(after[..end].to_owned()));
                } else if !after.is_empty() && !after.starts_with('[') {
                    return Err(wrong());
                }
                rest = &after[end..];
            } else if let Some(after) = rest.strip_prefix("['") {
                let (field, after) = after.split_once("']").ok_or_else(wrong)?;
                parts.push(Part::Field(field.to_owned()));
                rest = after;
            } else if let Some(after) = rest.strip_prefix('[') {
                let (inside, after) = after.split_once(']').ok_or_else(wrong)?;
                parts.push(match inside.split_once('=') {
                    Some((field, value)) => Part::With(field.to_owned(), value.to_owned()),
                    None if inside == "*" => Part::Each,
                    None => Part::Index(inside.parse().map_err(|_| wrong())?),
                });
                rest = after;
            } else {
                return Err(wrong());
            }
        }
        Ok(Self { text: text.to_owned(), parts })
    }

    /// The path with its variables filled in.
    pub(crate) fn filled(&self, variables: &Variables) -> Result<Self, Error> {
        let text = variables.fill(&self.text)?;
        Self::parse(&text).map_err(|problem| Error::Malformed { file: self.text.clone(), problem })
    }

    /// All values at this path.
    pub fn all<'v>(&self, value: &'v Value) -> Vec<&'v Value> {
        self.parts
            .iter()
            .fold(vec![value], |values, part| values.into_iter().flat_map(|value| part.of(value)).collect())
    }

    /// The first value at this path.
    pub fn first<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        self.all(value).first().copied()
    }

    /// What is at this path: a list if the path may lead to several values, null if there is nothing.
    pub(crate) fn pick(&self, value: &Value) -> Value {
        let found = self.all(value);
        if self.parts.contains(&Part::Each) {
            return Value::Array(found.into_iter().cloned().collect());
        }
        found.first().map_or(Value::Null, |value| (*value).clone())
    }
}

impl Part {
    fn of<'v>(&self, value: &'v Value) -> Vec<&'v Value> {
        let elements = || value.as_array().map(Vec::as_slice).unwrap_or_default();
        match self {
            Part::Field(field) => value.get(field).into_iter().collect(),
            Part::Index(index) => value.get(*index).into_iter().collect(),
            Part::Each => elements().iter().collect(),
            Part::With(field, wanted) => elements()
                .iter()
                .filter(|element| nested(element, field).and_then(Value::as_str) == Some(wanted))
                .collect(),
        }
    }
}

fn nested<'v>(value: &'v Value, fields: &str) -> Option<&'v Value> {
    fields.split('.').try_fold(value, |value, field| value.get(field))
}

impl fmt::Display for Path {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Path {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Path::parse(&text).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Path;

    #[test]
    fn paths_lead_through_fields_lists_and_quoted_names() {
        let value = json!({"a": {"x.y/z": [{"type": "T", "v": 1}, {"type": "U", "v": 2}]}});
        let pick = |path: &str| Path::parse(path).unwrap().pick(&value);
        assert_eq!(pick(".a['x.y/z'][1].v"), json!(2));
        assert_eq!(pick(".a['x.y/z'][type=T].v"), json!(1));
        assert_eq!(pick(".a['x.y/z'][*].v"), json!([1, 2]));
        assert_eq!(pick(".a.b"), json!(null));
        assert_eq!(pick("."), value);
        assert!(Path::parse("a").is_err());
        assert!(Path::parse(".a[").is_err());
        assert!(Path::parse("..a").is_err());
    }
}
