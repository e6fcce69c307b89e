//! Whether a value is what its schema wants, in the words of kube-apiserver.
//!
//! Values that are fine cost no allocation: the first walk only counts failures of branches that need not hold, and paths
//! become text when there is something to say about them.

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::Value;

use crate::field_error::{FieldError, FieldErrorKind};
use crate::path::{Path, ROOT_NAME};
use crate::schema::Schema;

mod check;
mod composition;
mod correlation;
mod embedded;
mod limits;
mod lists;

pub(crate) use correlation::{Correlated, OldItems, unchanged};
pub(crate) use embedded::{embedded_errors, holds_resources};
pub(crate) use lists::list_errors;

/// What is wrong with a value by its schema: types, formats, limits and what must hold beside.
///
/// With the value that was there before, what is wrong and has not changed is let pass. CEL rules, uniqueness in sets and
/// maps, and embedded resources are the business of [`CompiledSchema::validate`](crate::CompiledSchema::validate).
pub fn validate(new: &Value, old: Option<&Value>, schema: &Schema) -> Vec<FieldError> {
    validate_at(None, new, old, schema)
}

/// As [`validate`], for a value that is not the root of its object. Messages name fields as if it were.
pub(crate) fn validate_at(
    prefix: Option<&str>,
    new: &Value,
    old: Option<&Value>,
    schema: &Schema,
) -> Vec<FieldError> {
    let mut checker = Checker { prefix, failures: Failures::Listed(Vec::new()) };
    checker.value(new, schema, None, &Path::ROOT);
    if let Some(old) = old.filter(|_| checker.failures.count() > 0) {
        checker.failures.truncate(0);
        checker.value(new, schema, Some(Correlated { old, schema }), &Path::ROOT);
    }
    checker.failures.into_errors()
}

/// A walk through a value along its schema.
struct Checker<'a> {
    /// The path of the value where the walk starts, if it is not the object itself.
    prefix: Option<&'a str>,
    failures: Failures,
}

/// What is wrong, or how much.
enum Failures {
    Listed(Vec<Failure>),
    /// For a branch of which only the outcome matters.
    Counted(usize),
}

struct Failure {
    /// Unlike the error it always has the path and the limit, so equal messages mean equal failures.
    message: String,
    error: FieldError,
}

impl Failures {
    fn count(&self) -> usize {
        match self {
            Failures::Listed(failures) => failures.len(),
            Failures::Counted(count) => *count,
        }
    }

    fn truncate(&mut self, length: usize) {
        match self {
            Failures::Listed(failures) => failures.truncate(length),
            Failures::Counted(count) => *count = length,
        }
    }

    /// The errors, each once: what several branches want is missing once.
    fn into_errors(self) -> Vec<FieldError> {
        let Failures::Listed(failures) = self else { return vec![] };
        let mut seen = HashSet::new();
        let new = |failure: &Failure| seen.insert(failure.message.clone());
        failures.into_iter().filter(new).map(|failure| failure.error).collect()
    }
}

impl Checker<'_> {
    /// Adds a failure of a field. The message is made from the field's name.
    fn fail(
        &mut self,
        kind: FieldErrorKind,
        path: &Path<'_>,
        value: impl FnOnce() -> Value,
        message: impl FnOnce(&str) -> String,
    ) {
        self.fail_with(path, |name, path| {
            let message = message(name);
            let error = FieldError { kind, path, value: value(), detail: message.clone() };
            Failure { message, error }
        });
    }

    fn fail_with(&mut self, path: &Path<'_>, failure: impl FnOnce(&str, String) -> Failure) {
        match &mut self.failures {
            Failures::Counted(count) => *count += 1,
            Failures::Listed(failures) => {
                let name = path.to_openapi_path();
                let field = field_path(self.prefix, &name).into_owned();
                failures.push(failure(&name, field));
            }
        }
    }

    /// Adds a failure of a combination of schemas. Kubernetes forgets where those are.
    fn fail_composition(&mut self, path: &Path<'_>, message: impl FnOnce(&str) -> String) {
        let prefix = self.prefix.unwrap_or(ROOT_NAME).to_owned();
        self.fail_with(path, |name, _| {
            let message = message(name);
            Failure { error: FieldError::invalid(prefix, "", message.clone()), message }
        });
    }
}

fn field_path<'a>(prefix: Option<&'a str>, name: &'a str) -> Cow<'a, str> {
    let name = name.strip_prefix('.').unwrap_or(name);
    match (prefix, name) {
        (prefix, "") => prefix.unwrap_or(ROOT_NAME).into(),
        (Some(prefix), name) => format!("{prefix}.{name}").into(),
        (None, name) => name.into(),
    }
}

#[cfg(test)]
mod tests;
