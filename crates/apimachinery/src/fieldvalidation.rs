//! Reading bodies, and noticing what a lenient reader would not: fields that are there twice, and fields that nobody knows.
//!
//! Neither makes a body unreadable. What a server does about them is up to
//! [`FieldValidation`](crate::options::FieldValidation): nothing, a warning for each, or an error with all of them.

use std::fmt;

use apischema::go_text::quote;

mod json;
mod syntax;
mod yaml;

pub use json::{decode_json, decode_json_as};
pub use syntax::syntax_error;
pub use yaml::decode_yaml;

use serde_json::Value;

/// A body that has been read.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    /// What it says. Of fields that are there twice the last counts.
    pub value: Value,
    /// What a strict reader would refuse.
    pub strict_errors: Vec<StrictError>,
}

/// Something that only a strict reader refuses.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum StrictError {
    /// A field that the kind does not have.
    Unknown(String),
    /// A field that is there twice.
    Duplicate(String),
    /// What YAML has twice, by its line.
    Yaml(Vec<String>),
    /// The same of an operation of a JSON patch.
    InJsonPatch(Box<StrictError>),
}

/// As an error has it.
impl fmt::Display for StrictError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StrictError::Unknown(path) => write!(formatter, "unknown field {}", quote(path)),
            StrictError::Duplicate(path) => write!(formatter, "duplicate field {}", quote(path)),
            StrictError::Yaml(lines) => {
                write!(formatter, "yaml: unmarshal errors:\n  {}", lines.join("\n  "))
            }
            StrictError::InJsonPatch(error) => write!(formatter, "json patch {error}"),
        }
    }
}

/// The message with which a strict server refuses a body.
pub fn strict_message(errors: &[StrictError]) -> String {
    let errors: Vec<_> = errors.iter().map(StrictError::to_string).collect();
    format!("strict decoding error: {}", errors.join(", "))
}

/// The warnings of a server that is not strict.
pub fn warnings(errors: &[StrictError]) -> Vec<String> {
    let mut warnings = Vec::with_capacity(errors.len());
    for error in errors {
        match error {
            StrictError::Yaml(lines) => warnings.extend_from_slice(lines),
            other => warnings.push(other.to_string()),
        }
    }
    warnings
}

/// The most strict errors of a body that are told.
const MAX_STRICT_ERRORS: usize = 100;

/// Strict errors as they are found: each once, and not too many.
#[derive(Default)]
struct Collector(Vec<StrictError>);

impl Collector {
    fn add(&mut self, error: StrictError) {
        if self.0.len() < MAX_STRICT_ERRORS && !self.0.contains(&error) {
            self.0.push(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_errors_are_told_together() {
        let errors = [
            StrictError::Unknown("spec.a".to_owned()),
            StrictError::Duplicate("spec.b".to_owned()),
            StrictError::Yaml(vec!["line 2: key \"x\" already set in map".to_owned()]),
            StrictError::InJsonPatch(Box::new(StrictError::Unknown("[0].c".to_owned()))),
        ];
        assert_eq!(
            strict_message(&errors),
            "strict decoding error: unknown field \"spec.a\", duplicate field \"spec.b\", yaml: unmarshal errors:\n  line \
             2: key \"x\" already set in map, json patch unknown field \"[0].c\""
        );
        assert_eq!(
            warnings(&errors),
            [
                "unknown field \"spec.a\"",
                "duplicate field \"spec.b\"",
                "line 2: key \"x\" already set in map",
                "json patch unknown field \"[0].c\""
            ]
        );
    }
}
