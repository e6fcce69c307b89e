//! What is wrong with an object, collected.

use apischema::{FieldError, FieldErrorKind};
use serde_json::Value;

use apischema::Path;

/// What is wrong with an object, in the order in which it was found.
#[derive(Debug, Default)]
pub(super) struct Errors(Vec<FieldError>);

impl Errors {
    pub(super) fn into_vec(self) -> Vec<FieldError> {
        self.0
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn push(&mut self, error: FieldError) {
        self.0.push(error);
    }

    pub(super) fn required(&mut self, path: Path<'_>, detail: &str) {
        self.push(FieldError::required(path.to_string(), detail));
    }

    pub(super) fn invalid(&mut self, path: Path<'_>, value: impl Into<Value>, detail: impl Into<String>) {
        self.push(FieldError::invalid(path.to_string(), value, detail));
    }

    pub(super) fn forbidden(&mut self, path: Path<'_>, detail: impl Into<String>) {
        self.push(FieldError::forbidden(path.to_string(), detail));
    }

    /// An error of something as a whole, which has no value to show.
    pub(super) fn invalid_unshown(&mut self, path: Path<'_>, detail: &str) {
        self.push(FieldError::invalid(path.to_string(), "", detail));
    }

    pub(super) fn duplicate(&mut self, path: Path<'_>, value: impl Into<Value>) {
        self.push(FieldError::duplicate(path.to_string(), value));
    }

    pub(super) fn not_found(&mut self, path: Path<'_>, value: impl Into<Value>) {
        self.push(FieldError::not_found(path.to_string(), value));
    }

    pub(super) fn not_supported(&mut self, path: Path<'_>, value: impl Into<Value>, supported: &[&str]) {
        self.push(FieldError::not_supported(path.to_string(), value, supported));
    }

    pub(super) fn too_long(&mut self, path: Path<'_>, limit: u64) {
        self.push(FieldError::too_long(path.to_string(), limit));
    }

    pub(super) fn too_many(&mut self, path: Path<'_>, actual: usize, limit: usize) {
        self.push(FieldError::too_many(path.to_string(), actual as u64, limit as u64));
    }

    /// A kind of error with a detail that such errors do not usually have.
    pub(super) fn explained(&mut self, kind: FieldErrorKind, path: Path<'_>, value: Value, detail: &str) {
        self.push(FieldError { kind, path: path.to_string(), value, detail: detail.into() });
    }

    /// Each of the messages, about the same value.
    pub(super) fn messages(&mut self, path: Path<'_>, value: &str, messages: Vec<String>) {
        for message in messages {
            self.invalid(path, value, message);
        }
    }

    /// A value that must be one of these; absent, it is missing.
    pub(super) fn one_of(&mut self, path: Path<'_>, value: &str, supported: &[&str]) {
        if value.is_empty() {
            self.required(path, "");
        } else if !supported.contains(&value) {
            self.not_supported(path, value, supported);
        }
    }

    /// A number that must not be negative.
    pub(super) fn nonnegative(&mut self, path: Path<'_>, value: Option<i64>) {
        if let Some(value) = value.filter(|value| *value < 0) {
            self.invalid(path, value, "must be greater than or equal to 0");
        }
    }
}
