//! A schema with all that can be prepared for checking many objects.

use std::sync::Arc;

use serde_json::Value;

use crate::field_error::{FieldError, FieldErrorKind};
use crate::path::ROOT_NAME;
use crate::rules::Rules;
use crate::schema::Schema;
use crate::validate::{embedded_errors, holds_resources, list_errors, validate, validate_at};

/// A custom resource's schema, with its rules compiled.
#[derive(Debug)]
pub struct CompiledSchema {
    schema: Arc<Schema>,
    rules: Option<Rules>,
    holds_resources: bool,
}

impl CompiledSchema {
    /// Compiles a schema that [`structural_errors`](crate::structural_errors) had nothing to say against.
    pub fn new(schema: Arc<Schema>) -> CompiledSchema {
        let rules = Rules::compile(&schema);
        CompiledSchema { holds_resources: holds_resources(&schema), schema, rules }
    }

    /// The schema.
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// What is wrong with an object that is made, or changed from what it was before. Metadata of the object itself is not
    /// looked at beyond what the schema says.
    pub fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = validate(new, old, &self.schema);
        if self.holds_resources {
            errors.extend(embedded_errors(new, &self.schema));
        }
        self.lists(new, old, &mut errors);
        self.rules(new, old, &mut errors);
        errors
    }

    /// What is wrong with an object whose status is changed. Of the schema only what it says about the status counts.
    pub fn validate_status(&self, new: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if let (Some(status), Some(schema)) = (new.get("status"), self.schema.properties.get("status")) {
            errors.extend(validate_at(Some("status"), status, old.get("status"), schema));
        }
        self.lists(new, Some(old), &mut errors);
        self.rules(new, Some(old), &mut errors);
        errors
    }

    /// What was there twice before may be there twice again.
    fn lists(&self, new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
        let duplicates = list_errors(new, &self.schema);
        if !duplicates.is_empty() && old.is_none_or(|old| list_errors(old, &self.schema).is_empty()) {
            errors.extend(duplicates);
        }
    }

    fn rules(&self, new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
        let Some(rules) = &self.rules else { return };
        // Rules rely on types and limits; where those do not hold, what rules say would mislead.
        let blocks = |error: &FieldError| {
            matches!(
                error.kind,
                FieldErrorKind::NotSupported
                    | FieldErrorKind::Required
                    | FieldErrorKind::TooLong
                    | FieldErrorKind::TooMany
                    | FieldErrorKind::TypeInvalid
            )
        };
        if errors.iter().any(blocks) {
            let detail = "some validation rules were not checked because the object was invalid; correct the existing \
                          errors to complete validation";
            errors.push(FieldError::invalid(ROOT_NAME, Value::Null, detail));
            return;
        }
        errors.extend(rules.validate(new, old));
    }
}

#[cfg(test)]
mod tests;
