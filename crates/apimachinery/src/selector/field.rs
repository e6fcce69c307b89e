//! Field selectors.

use std::borrow::Cow;
use std::fmt;

use super::SelectorError;

/// A choice of objects by the values of a few of their fields: all of the requirements hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    requirements: Vec<FieldRequirement>,
}

/// What one field must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldRequirement {
    /// `metadata.name`
    pub path: String,
    /// How it relates to the value.
    pub operator: FieldOperator,
    /// The value; a field that is not there counts as empty.
    pub value: String,
}

/// How a field relates to the value of a requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldOperator {
    /// `=` and `==`
    Equals,
    /// `!=`
    NotEquals,
}

impl FieldSelector {
    /// Selects every object.
    pub fn everything() -> Self {
        Self::default()
    }

    /// Selects by one field.
    pub fn of(path: impl Into<String>, value: impl Into<String>) -> Self {
        let (path, value) = (path.into(), value.into());
        FieldSelector {
            requirements: vec![FieldRequirement { path, operator: FieldOperator::Equals, value }],
        }
    }

    /// Reads the notation of the `fieldSelector` query parameter: `spec.nodeName=n1,status.phase!=Failed`. A backslash takes
    /// the meaning from a comma, an equals sign or a backslash in a value.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut terms = terms(text);
        terms.sort_unstable();
        let mut requirements = Vec::with_capacity(terms.len());
        for term in terms.into_iter().filter(|term| !term.is_empty()) {
            let Some((path, operator, value)) = split(term) else {
                let message = format!("invalid selector: '{text}'; can't understand '{term}'");
                return Err(SelectorError::Malformed(message));
            };
            let value = unescape(value).map_err(SelectorError::Malformed)?.into_owned();
            // A term about nothing says nothing.
            if !(path.is_empty() && value.is_empty()) {
                requirements.push(FieldRequirement { path: path.to_owned(), operator, value });
            }
        }
        Ok(FieldSelector { requirements })
    }

    /// Refuses a field that the kind cannot be selected by.
    pub fn check(&self, supported: impl Fn(&str) -> bool) -> Result<(), SelectorError> {
        match self.requirements.iter().find(|requirement| !supported(&requirement.path)) {
            None => Ok(()),
            Some(requirement) => Err(SelectorError::UnsupportedField(requirement.path.clone())),
        }
    }

    /// Refuses every field but `metadata.name` and `metadata.namespace`: for kinds that declare none.
    pub fn check_metadata_only(&self) -> Result<(), SelectorError> {
        let known = |path: &str| matches!(path, "metadata.name" | "metadata.namespace");
        match self.requirements.iter().find(|requirement| !known(&requirement.path)) {
            None => Ok(()),
            Some(requirement) => Err(SelectorError::UnknownField(requirement.path.clone())),
        }
    }

    /// Whether an object's fields, looked up one by one, are as this selector wants them.
    pub fn matches<'a>(&self, field: impl Fn(&str) -> Option<Cow<'a, str>>) -> bool {
        self.requirements.iter().all(|requirement| {
            let equal = field(&requirement.path).unwrap_or_default() == requirement.value;
            equal == (requirement.operator == FieldOperator::Equals)
        })
    }

    /// Whether it selects every object.
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    /// What must hold.
    pub fn requirements(&self) -> &[FieldRequirement] {
        &self.requirements
    }

    /// The one value that this field must have, if it must have one: an index can use it.
    pub fn equals(&self, path: &str) -> Option<&str> {
        let wanted = |requirement: &&FieldRequirement| {
            requirement.path == path && requirement.operator == FieldOperator::Equals
        };
        self.requirements.iter().find(wanted).map(|requirement| requirement.value.as_str())
    }
}

/// In the notation of the query parameter.
impl fmt::Display for FieldSelector {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, FieldRequirement { path, operator, value }) in self.requirements.iter().enumerate() {
            if at > 0 {
                formatter.write_str(",")?;
            }
            let sign = if *operator == FieldOperator::Equals { "=" } else { "!=" };
            write!(formatter, "{path}{sign}")?;
            for character in value.chars() {
                if matches!(character, '\\' | ',' | '=') {
                    formatter.write_str("\\")?;
                }
                write!(formatter, "{character}")?;
            }
        }
        Ok(())
    }
}

/// Splits at the commas that no backslash precedes.
fn terms(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let mut start = 0;
    let mut escaped = false;
    for (at, character) in text.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                terms.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[start..]);
    terms
}

/// Splits at the first operator. Paths know no escapes.
fn split(term: &str) -> Option<(&str, FieldOperator, &str)> {
    for (at, _) in term.char_indices() {
        let (path, rest) = term.split_at(at);
        if let Some(value) = rest.strip_prefix("!=") {
            return Some((path, FieldOperator::NotEquals, value));
        }
        if let Some(value) = rest.strip_prefix("==").or_else(|| rest.strip_prefix('=')) {
            return Some((path, FieldOperator::Equals, value));
        }
    }
    None
}

fn unescape(value: &str) -> Result<Cow<'_, str>, String> {
    if !value.contains(['\\', ',', '=']) {
        return Ok(Cow::Borrowed(value));
    }
    let mut plain = String::with_capacity(value.len());
    let mut characters = value.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some(escaped @ ('\\' | ',' | '=')) => plain.push(escaped),
                other => {
                    let sequence: String = ['\\'].into_iter().chain(other).collect();
                    return Err(format!("invalid field selector: invalid escape sequence: {sequence}"));
                }
            },
            ',' | '=' => {
                // By number, as Kubernetes says it.
                let number = u32::from(character);
                return Err(format!("invalid field selector: unescaped character in value: {number}"));
            }
            plain_character => plain.push(plain_character),
        }
    }
    Ok(Cow::Owned(plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requirements(text: &str) -> Vec<(String, FieldOperator, String)> {
        let selector = FieldSelector::parse(text).unwrap();
        selector.requirements.into_iter().map(|it| (it.path, it.operator, it.value)).collect()
    }

    #[test]
    fn the_grammar_has_three_operators_and_escapes() {
        let (equals, not) = (FieldOperator::Equals, FieldOperator::NotEquals);
        let owned = |items: &[(&str, FieldOperator, &str)]| {
            items
                .iter()
                .map(|(path, op, value)| ((*path).to_owned(), *op, (*value).to_owned()))
                .collect::<Vec<_>>()
        };
        type Case<'a> = (&'a str, &'a [(&'a str, FieldOperator, &'a str)]);
        let cases: [Case<'_>; 10] = [
            ("", &[]),
            (",,", &[]),
            ("a=b", &[("a", equals, "b")]),
            ("a==b", &[("a", equals, "b")]),
            ("a!=b", &[("a", not, "b")]),
            ("b=1,a!=2,", &[("a", not, "2"), ("b", equals, "1")]),
            ("a=", &[("a", equals, "")]),
            (r"a=b\,c\=d\\", &[("a", equals, r"b,c=d\")]),
            ("=b", &[("", equals, "b")]),
            ("=", &[]),
        ];
        for (text, expected) in cases {
            assert_eq!(requirements(text), owned(expected), "{text}");
        }
        // A path knows no escapes, so the value starts at the first equals sign and has another one.
        assert_eq!(
            FieldSelector::parse(r"é\=x=y"),
            Err(SelectorError::Malformed(
                "invalid field selector: unescaped character in value: 61".to_owned()
            ))
        );
    }

    #[test]
    fn malformed_selectors_get_the_words_of_kubernetes() {
        let cases = [
            ("a", "invalid selector: 'a'; can't understand 'a'"),
            ("b=c,a", "invalid selector: 'b=c,a'; can't understand 'a'"),
            ("a=b=c", "invalid field selector: unescaped character in value: 61"),
            (r"a=b\c", r"invalid field selector: invalid escape sequence: \c"),
            ("a=b\\", "invalid field selector: invalid escape sequence: \\"),
        ];
        for (text, message) in cases {
            assert_eq!(
                FieldSelector::parse(text).map_err(|error| error.to_string()),
                Err(message.to_owned())
            );
        }
        let selector = FieldSelector::parse("spec.x=1").unwrap();
        assert_eq!(selector.check(|_| false).unwrap_err().to_string(), "field label not supported: spec.x");
        assert_eq!(
            selector.check_metadata_only().unwrap_err().to_string(),
            "\"spec.x\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
        );
        assert_eq!(selector.check(|path| path == "spec.x"), Ok(()));
        assert_eq!(FieldSelector::of("metadata.name", "x").check_metadata_only(), Ok(()));
    }

    #[test]
    fn a_field_that_is_not_there_counts_as_empty() {
        let field = |path: &str| (path == "a").then_some(Cow::Borrowed("1"));
        for (text, matches) in [
            ("a=1", true),
            ("a!=1", false),
            ("b=", true),
            ("b!=", false),
            ("b!=1,a=1", true),
            ("a=1,b=1", false),
        ] {
            assert_eq!(FieldSelector::parse(text).unwrap().matches(field), matches, "{text}");
        }
    }

    #[test]
    fn an_index_learns_the_value_that_a_field_must_have() {
        let selector = FieldSelector::parse("spec.nodeName=n1,status.phase!=Failed").unwrap();
        assert_eq!(selector.equals("spec.nodeName"), Some("n1"));
        assert_eq!(selector.equals("status.phase"), None);
        assert!(FieldSelector::everything().is_everything());
    }

    #[test]
    fn a_selector_is_written_as_it_is_read() {
        for text in ["", "a=b", "a!=b,c=d", r"a=\,\=\\"] {
            assert_eq!(FieldSelector::parse(text).unwrap().to_string(), text);
        }
    }
}
