//! What is wrong with a field, in the words that Kubernetes uses.

use std::fmt;

use serde_json::Value;

/// What kind of wrong a field is. The names are those of a Status's causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldErrorKind {
    /// `FieldValueNotFound`
    NotFound,
    /// `FieldValueRequired`
    Required,
    /// `FieldValueDuplicate`
    Duplicate,
    /// `FieldValueInvalid`
    Invalid,
    /// `FieldValueNotSupported`
    NotSupported,
    /// `FieldValueForbidden`
    Forbidden,
    /// `FieldValueTooLong`
    TooLong,
    /// `FieldValueTooMany`
    TooMany,
    /// `FieldValueTypeInvalid`
    TypeInvalid,
    /// `InternalError`
    Internal,
}

/// One thing that is wrong with one field of an object.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    /// The kind.
    pub kind: FieldErrorKind,
    /// Where: `spec.ports[0].name`, `metadata.labels[a/b]`.
    pub path: String,
    /// The value there, for the kinds whose message shows it.
    pub value: Value,
    /// What would be right.
    pub detail: String,
}

impl fmt::Display for FieldError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The message proper belongs to whoever fills this file in.
        write!(formatter, "{}: {}", self.path, self.detail)
    }
}
