//! What is wrong with a field, in the words that Kubernetes uses.

use std::fmt;

use serde_json::{Map, Value};

use crate::go_text::{self, quote};

/// What kind of wrong a field is. The names are those of a Status's causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
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

impl FieldErrorKind {
    /// The reason of the cause in a Status.
    pub fn reason(self) -> &'static str {
        match self {
            FieldErrorKind::NotFound => "FieldValueNotFound",
            FieldErrorKind::Required => "FieldValueRequired",
            FieldErrorKind::Duplicate => "FieldValueDuplicate",
            FieldErrorKind::Invalid => "FieldValueInvalid",
            FieldErrorKind::NotSupported => "FieldValueNotSupported",
            FieldErrorKind::Forbidden => "FieldValueForbidden",
            FieldErrorKind::TooLong => "FieldValueTooLong",
            FieldErrorKind::TooMany => "FieldValueTooMany",
            FieldErrorKind::TypeInvalid => "FieldValueTypeInvalid",
            FieldErrorKind::Internal => "InternalError",
        }
    }

    fn words(self) -> &'static str {
        match self {
            FieldErrorKind::NotFound => "Not found",
            FieldErrorKind::Required => "Required value",
            FieldErrorKind::Duplicate => "Duplicate value",
            FieldErrorKind::Invalid | FieldErrorKind::TypeInvalid => "Invalid value",
            FieldErrorKind::NotSupported => "Unsupported value",
            FieldErrorKind::Forbidden => "Forbidden",
            FieldErrorKind::TooLong => "Too long",
            FieldErrorKind::TooMany => "Too many",
            FieldErrorKind::Internal => "Internal error",
        }
    }

    fn shows_value(self) -> bool {
        !matches!(
            self,
            FieldErrorKind::Required
                | FieldErrorKind::Forbidden
                | FieldErrorKind::TooLong
                | FieldErrorKind::Internal
        )
    }
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

impl FieldError {
    /// A value that is not what it should be.
    pub fn invalid(path: impl Into<String>, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Invalid, path, value, detail)
    }

    /// A value of a wrong type.
    pub fn type_invalid(path: impl Into<String>, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::TypeInvalid, path, value, detail)
    }

    /// A value that is missing.
    pub fn required(path: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Required, path, "", detail)
    }

    /// A value that may not be there.
    pub fn forbidden(path: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Forbidden, path, "", detail)
    }

    /// A value that is there twice.
    pub fn duplicate(path: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::new(FieldErrorKind::Duplicate, path, value, "")
    }

    /// The name of something that is not there.
    pub fn not_found(path: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::new(FieldErrorKind::NotFound, path, value, "")
    }

    /// A value that is not one of those that are allowed.
    pub fn not_supported<S: AsRef<str>>(
        path: impl Into<String>,
        value: impl Into<Value>,
        supported: &[S],
    ) -> Self {
        let mut detail = String::new();
        for value in supported {
            detail.push_str(if detail.is_empty() { "supported values: " } else { ", " });
            detail.push_str(&quote(value.as_ref()));
        }
        Self::new(FieldErrorKind::NotSupported, path, value, detail)
    }

    /// A string of more bytes than allowed.
    pub fn too_long(path: impl Into<String>, limit: u64) -> Self {
        let bytes = if limit == 1 { "byte" } else { "bytes" };
        let detail = format!("may not be more than {limit} {bytes}");
        Self::new(FieldErrorKind::TooLong, path, "<value omitted>", detail)
    }

    /// A list of more elements than allowed.
    pub fn too_many(path: impl Into<String>, actual: u64, limit: u64) -> Self {
        let items = if limit == 1 { "item" } else { "items" };
        Self::new(FieldErrorKind::TooMany, path, actual, format!("must have at most {limit} {items}"))
    }

    /// Something that is not the client's fault.
    pub fn internal(path: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Internal, path, Value::Null, detail)
    }

    fn new(
        kind: FieldErrorKind,
        path: impl Into<String>,
        value: impl Into<Value>,
        detail: impl Into<String>,
    ) -> Self {
        FieldError { kind, path: path.into(), value: value.into(), detail: detail.into() }
    }

    /// The reason of the cause in a Status.
    pub fn reason(&self) -> &'static str {
        self.kind.reason()
    }

    /// The message without the path, as the cause in a Status has it.
    pub fn body(&self) -> impl fmt::Display {
        Body(self)
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.path, Body(self))
    }
}

impl std::error::Error for FieldError {}

struct Body<'a>(&'a FieldError);

impl fmt::Display for Body<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FieldError { kind, value, detail, .. } = self.0;
        formatter.write_str(kind.words())?;
        if kind.shows_value() {
            match value {
                Value::String(text) => write!(formatter, ": {}", quote(text))?,
                Value::Number(number) if number.is_f64() => {
                    write!(formatter, ": {}", go_text::float(number.as_f64().unwrap_or_default()))?;
                }
                other => write!(formatter, ": {}", struct_json(other))?,
            }
        }
        if !detail.is_empty() {
            write!(formatter, ": {detail}")?;
        }
        Ok(())
    }
}

/// The names of a CEL rule's fields in kube-apiserver, which shows rules by them when they do not compile.
pub(crate) const RULE_FIELDS: [&str; 6] =
    ["Rule", "Message", "MessageExpression", "Reason", "FieldPath", "OptionalOldSelf"];

/// The fields of an owner reference; the first four are always there.
const OWNER_REFERENCE_FIELDS: [&str; 6] =
    ["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"];

/// A value as JSON. The fields of what kube-apiserver has as structs are in their order, which JSON's own objects do not keep.
fn struct_json(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            format!("[{}]", items.iter().map(struct_json).collect::<Vec<_>>().join(","))
        }
        Value::Object(fields) => match struct_fields(fields) {
            Some(order) => {
                let field = |name: &&str| Some(format!("\"{name}\":{}", go_text::json(fields.get(*name)?)));
                format!("{{{}}}", order.iter().filter_map(field).collect::<Vec<_>>().join(","))
            }
            None => go_text::json(value),
        },
        _ => go_text::json(value),
    }
}

/// The order of an object's fields, if it is one of the structs that errors show.
fn struct_fields(fields: &Map<String, Value>) -> Option<&'static [&'static str]> {
    let is = |all: &[&str], needed: usize| {
        all[..needed].iter().all(|name| fields.contains_key(*name))
            && fields.keys().all(|name| all.contains(&name.as_str()))
    };
    if is(&RULE_FIELDS, RULE_FIELDS.len()) {
        return Some(&RULE_FIELDS);
    }
    is(&OWNER_REFERENCE_FIELDS, 4).then_some(&OWNER_REFERENCE_FIELDS)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_kind_is_said_as_kubernetes_says_it() {
        let cases = [
            (
                FieldError::invalid("spec.x", "a\"b", "must be c"),
                "spec.x: Invalid value: \"a\\\"b\": must be c",
            ),
            (FieldError::invalid("a", 3, "must be 4"), "a: Invalid value: 3: must be 4"),
            (
                FieldError::invalid("a", json!({"b": [1, null]}), "no"),
                "a: Invalid value: {\"b\":[1,null]}: no",
            ),
            (FieldError::type_invalid("a", true, "no"), "a: Invalid value: true: no"),
            (
                FieldError::invalid(
                    "a",
                    json!([{"uid": "u", "name": "n", "kind": "K", "controller": true, "apiVersion": "v1"}]),
                    "no",
                ),
                "a: Invalid value: [{\"apiVersion\":\"v1\",\"kind\":\"K\",\"name\":\"n\",\"uid\":\"u\",\"controller\":true}]: no",
            ),
            (FieldError::required("a", ""), "a: Required value"),
            (FieldError::required("a", "name or generateName"), "a: Required value: name or generateName"),
            (FieldError::forbidden("a", "not now"), "a: Forbidden: not now"),
            (FieldError::duplicate("a[1]", "x"), "a[1]: Duplicate value: \"x\""),
            (FieldError::not_found("a", "x"), "a: Not found: \"x\""),
            (
                FieldError::not_supported("a", "x", &["b", "c"]),
                "a: Unsupported value: \"x\": supported values: \"b\", \"c\"",
            ),
            (FieldError::not_supported::<&str>("a", "x", &[]), "a: Unsupported value: \"x\""),
            (FieldError::too_long("a", 5), "a: Too long: may not be more than 5 bytes"),
            (FieldError::too_long("a", 1), "a: Too long: may not be more than 1 byte"),
            (FieldError::too_many("a", 6, 5), "a: Too many: 6: must have at most 5 items"),
            (FieldError::internal("a", "oops"), "a: Internal error: oops"),
        ];
        for (error, message) in cases {
            assert_eq!(error.to_string(), message);
            assert_eq!(format!("a: {}", error.body()).len(), message.len() - error.path.len() + 1);
        }
    }

    #[test]
    fn reasons_are_those_of_status_causes() {
        assert_eq!(FieldError::required("a", "").reason(), "FieldValueRequired");
        assert_eq!(FieldError::type_invalid("a", 1, "").reason(), "FieldValueTypeInvalid");
        assert_eq!(FieldError::internal("a", "").reason(), "InternalError");
    }
}
