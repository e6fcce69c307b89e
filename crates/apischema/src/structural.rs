//! What a CRD's schema must be for kube-apiserver to take it: structural, and free of what the server does not support.
//!
//! A structural schema says in its own tree, without looking into `allOf` and the like, which fields there are and of what
//! type; only then can a server prune and default. The rules work on the JSON, because a [`Schema`] has already lost what
//! they forbid.

use serde_json::Value;

use crate::field_error::FieldError;
use crate::path::Path;
use crate::schema::{Schema, SchemaError};

mod completeness;
mod defaults;
mod invariants;
mod json;
mod openapi;
mod root;
mod rules;

/// How deep a schema's JSON may nest. A level of a schema is two of JSON: the keyword, and the name or the place in it.
const MAX_JSON_DEPTH: usize = 150;

/// Whether a version of a CRD has the `status` subresource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusSubresource {
    /// It has.
    Enabled,
    /// It has not.
    Disabled,
}

/// What is wrong with a CRD's schema, CEL rules included; empty if kube-apiserver would take it.
///
/// `path` is where the schema is. kube-apiserver says `spec.validation.openAPIV3Schema` if all versions have the same one,
/// and `spec.versions[0].schema.openAPIV3Schema` otherwise.
pub fn structural_errors(schema: &Value, path: &str, status: StatusSubresource) -> Vec<FieldError> {
    let place = Place { prefix: path };
    // What follows walks the whole document.
    if json::is_deeper(schema, MAX_JSON_DEPTH) {
        return vec![FieldError::invalid(path, "", SchemaError::TooDeep.to_string())];
    }
    let mut errors = root::errors(schema, place, status);
    // What cannot be read at all is said only when nothing better is.
    let unread = Schema::from_json(schema);
    let unsupported = json::unsupported(schema);
    let structure = if unsupported { vec![] } else { invariants::errors(schema, place) };
    let defaults = match &unread {
        Ok(parsed) if structure.is_empty() && !unsupported => defaults::errors(parsed, place),
        _ => vec![],
    };
    let sound = structure.is_empty() && defaults.is_empty() && !unsupported;
    errors.extend(structure);
    errors.extend(defaults);
    errors.extend(openapi::errors(schema, place, unread.as_ref().ok().filter(|_| sound)));
    if let (true, Err(error)) = (errors.is_empty(), &unread) {
        errors.push(FieldError::invalid(path, "", error.to_string()));
    }
    errors
}

/// Where in a CRD the schema is.
#[derive(Clone, Copy)]
struct Place<'a> {
    prefix: &'a str,
}

impl Place<'_> {
    fn at(self, path: Path<'_>) -> String {
        if path.is_root() {
            self.prefix.to_owned()
        } else {
            format!("{}.{}", self.prefix, path.to_field_path())
        }
    }
}

#[cfg(test)]
mod tests;
