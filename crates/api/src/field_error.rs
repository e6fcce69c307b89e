//! What is wrong with a user's object, where, and how to put it right.
//!
//! Every check in this crate is a total function that adds to a [`FieldErrors`] and goes on, so that one
//! apply shows a user all mistakes at once. A [`FieldPath`] lives on the stack and becomes text only when
//! an error is made: checking a good object allocates nothing for paths.

use std::borrow::Cow;
use std::fmt;

/// Longest value quoted in an error; the rest of a longer one is cut off.
const QUOTED_LENGTH: usize = 80;

/// Most errors kept for one object. Hostile input could otherwise make the report larger than the object.
const MAX_ERRORS: usize = 64;

/// The class of a field error; its name is the `reason` of a Kubernetes status cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The field must be set.
    Required,
    /// The value cannot be understood, or contradicts another field.
    Invalid,
    /// The value appears twice where it may appear once.
    Duplicate,
    /// The value is well formed, but is none that Portolan knows or can act on.
    NotSupported,
    /// The value is well formed, but the author may not say it.
    Forbidden,
    /// Too many elements, or too long a text.
    TooLong,
}

impl Reason {
    /// The name Kubernetes uses in `status.details.causes[].reason`.
    pub fn cause_type(self) -> &'static str {
        match self {
            Reason::Required => "FieldValueRequired",
            Reason::Invalid => "FieldValueInvalid",
            Reason::Duplicate => "FieldValueDuplicate",
            Reason::NotSupported => "FieldValueNotSupported",
            Reason::Forbidden => "FieldValueForbidden",
            Reason::TooLong => "FieldValueTooLong",
        }
    }
}

/// One thing wrong with one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// Where, in kubectl's notation: `spec.staticRoutes[1].cidr`.
    pub path: String,
    /// The offending value, cut to a readable length. `None` if the field is absent or its value says nothing.
    pub value: Option<String>,
    /// The class of the error.
    pub reason: Reason,
    /// What is wrong and how to fix it; completes the sentence that the quoted value begins.
    pub message: String,
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Some(value) => write!(f, "{}: {value:?} {}", self.path, self.message),
            None => write!(f, "{}: {}", self.path, self.message),
        }
    }
}

impl std::error::Error for FieldError {}

/// All errors of one object, in the order of its fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldErrors {
    errors: Vec<FieldError>,
    omitted: usize,
}

impl FieldErrors {
    /// No errors yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an error about a value that is there.
    pub fn add(
        &mut self,
        path: &FieldPath<'_>,
        value: impl AsRef<str>,
        reason: Reason,
        message: impl Into<String>,
    ) {
        let value = Some(quoted(value.as_ref()));
        self.push(path, value, reason, message.into());
    }

    /// Adds an error that no value illustrates: something is missing, or there is too much of it.
    pub fn add_bare(&mut self, path: &FieldPath<'_>, reason: Reason, message: impl Into<String>) {
        self.push(path, None, reason, message.into());
    }

    /// Adds a [`Problem`] that a value's own parser found.
    pub fn add_problem(&mut self, path: &FieldPath<'_>, value: impl AsRef<str>, problem: &Problem) {
        self.add(path, value, problem.reason, problem.message.clone());
    }

    fn push(&mut self, path: &FieldPath<'_>, value: Option<String>, reason: Reason, message: String) {
        if self.errors.len() < MAX_ERRORS {
            self.errors.push(FieldError { path: path.to_string(), value, reason, message });
        } else {
            self.omitted += 1;
        }
    }

    /// True if nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.errors.is_empty()
    }

    /// The errors kept, in order.
    pub fn iter(&self) -> std::slice::Iter<'_, FieldError> {
        self.errors.iter()
    }

    /// How many errors there were beyond those kept.
    pub fn omitted(&self) -> usize {
        self.omitted
    }

    /// Appends the errors of another check of the same object.
    pub fn extend(&mut self, other: FieldErrors) {
        for error in other.errors {
            if self.errors.len() < MAX_ERRORS {
                self.errors.push(error);
            } else {
                self.omitted += 1;
            }
        }
        self.omitted += other.omitted;
    }

    /// The value if nothing is wrong with it, otherwise the errors.
    pub fn into_result<T>(self, value: T) -> Result<T, FieldErrors> {
        if self.is_empty() { Ok(value) } else { Err(self) }
    }
}

impl IntoIterator for FieldErrors {
    type Item = FieldError;
    type IntoIter = std::vec::IntoIter<FieldError>;
    fn into_iter(self) -> Self::IntoIter {
        self.errors.into_iter()
    }
}

impl<'a> IntoIterator for &'a FieldErrors {
    type Item = &'a FieldError;
    type IntoIter = std::slice::Iter<'a, FieldError>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for FieldErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, error) in self.errors.iter().enumerate() {
            if i > 0 {
                f.write_str("; ")?;
            }
            write!(f, "{error}")?;
        }
        if self.omitted > 0 {
            write!(f, "; and {} more", self.omitted)?;
        }
        Ok(())
    }
}

impl std::error::Error for FieldErrors {}

/// Why a text is not a value of some type: what [`FromStr`](std::str::FromStr) of this crate's types answers.
///
/// The message completes a sentence that begins with the quoted text, and says how to fix it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The class of the error.
    pub reason: Reason,
    /// What is wrong and how to fix it.
    pub message: Cow<'static, str>,
}

impl Problem {
    /// A malformed value.
    pub fn invalid(message: impl Into<Cow<'static, str>>) -> Self {
        Self { reason: Reason::Invalid, message: message.into() }
    }

    /// A well-formed value that Portolan cannot act on.
    pub fn not_supported(message: impl Into<Cow<'static, str>>) -> Self {
        Self { reason: Reason::NotSupported, message: message.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Problem {}

/// A place in an object, as a chain of borrowed segments.
#[derive(Clone, Copy, Debug)]
pub struct FieldPath<'a> {
    parent: Option<&'a FieldPath<'a>>,
    segment: Segment<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Segment<'a> {
    Field(&'a str),
    Index(usize),
    Key(&'a str),
}

impl<'a> FieldPath<'a> {
    /// The object's `spec`.
    pub const SPEC: FieldPath<'static> = FieldPath::root("spec");

    /// A path of one field at the top of an object.
    pub const fn root(name: &'a str) -> Self {
        Self { parent: None, segment: Segment::Field(name) }
    }

    /// A field of the struct at this path.
    pub const fn field(&'a self, name: &'a str) -> Self {
        Self { parent: Some(self), segment: Segment::Field(name) }
    }

    /// An element of the list at this path.
    pub const fn index(&'a self, index: usize) -> Self {
        Self { parent: Some(self), segment: Segment::Index(index) }
    }

    /// An entry of the map at this path.
    pub const fn key(&'a self, key: &'a str) -> Self {
        Self { parent: Some(self), segment: Segment::Key(key) }
    }
}

impl fmt::Display for FieldPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            write!(f, "{parent}")?;
        }
        match self.segment {
            Segment::Field(name) if self.parent.is_some() => write!(f, ".{name}"),
            Segment::Field(name) => f.write_str(name),
            Segment::Index(index) => write!(f, "[{index}]"),
            Segment::Key(key) => write!(f, "[{}]", quoted(key)),
        }
    }
}

fn quoted(value: &str) -> String {
    match value.char_indices().nth(QUOTED_LENGTH) {
        Some((cut, _)) => format!("{}…", &value[..cut]),
        None => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_reads_as_kubectl_writes_it() {
        let spec = FieldPath::SPEC;
        let routes = spec.field("staticRoutes");
        let second = routes.index(1);
        assert_eq!(second.field("cidr").to_string(), "spec.staticRoutes[1].cidr");
        let metadata = FieldPath::root("metadata");
        let annotations = metadata.field("annotations");
        assert_eq!(annotations.key("a.b/c").to_string(), "metadata.annotations[a.b/c]");
    }

    #[test]
    fn long_and_binary_values_stay_readable() {
        let mut errors = FieldErrors::new();
        errors.add(&FieldPath::SPEC, "é\u{0}".repeat(1000), Reason::Invalid, "is wrong");
        let text = errors.to_string();
        assert!(text.len() < 600, "{text}");
        assert!(!text.contains('\u{0}'));
    }

    #[test]
    fn a_flood_of_errors_is_counted_not_kept() {
        let mut errors = FieldErrors::new();
        for _ in 0..1000 {
            errors.add_bare(&FieldPath::SPEC, Reason::Required, "is required");
        }
        assert_eq!(errors.iter().count(), MAX_ERRORS);
        assert_eq!(errors.omitted(), 1000 - MAX_ERRORS);
        assert!(errors.to_string().ends_with("; and 936 more"));
    }
}
