//! Objects that exist and whose content is not what their kind should have.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use portolan_api::{FieldErrors, FieldPath, Reason};
use serde_json::Value;

/// An object that exists and cannot be decoded. It is never taken for absent: what was made of it stays as it is.
#[derive(Clone, Copy, Debug)]
pub struct Unreadable<'a> {
    /// Which object it is.
    pub metadata: &'a ObjectMeta,
    /// All of it.
    pub content: &'a Value,
    /// The field that cannot be decoded; empty if it is the object as a whole.
    pub field: &'a str,
    /// What is wrong with that field.
    pub problem: &'a str,
}

impl Unreadable<'_> {
    /// What is wrong with it, as for an object that can be decoded and not understood.
    pub fn errors(&self) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let field = if self.field.is_empty() { "object" } else { self.field };
        let message = format!("cannot be read: {}", self.problem);
        errors.add_bare(&FieldPath::root(field), Reason::Invalid, message);
        errors
    }

    pub(crate) fn name(&self) -> String {
        self.metadata.name.clone().unwrap_or_default()
    }

    pub(crate) fn namespace(&self) -> String {
        self.metadata.namespace.clone().unwrap_or_default()
    }

    pub(crate) fn uid(&self) -> String {
        self.metadata.uid.clone().unwrap_or_default()
    }
}
