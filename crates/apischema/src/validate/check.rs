//! The walk itself: types, and what is inside objects and arrays.

use serde_json::{Map, Value};

use super::correlation::{Correlated, unchanged};
use super::{Checker, Failure};
use crate::field_error::{FieldError, FieldErrorKind};
use crate::formats;
use crate::go_text::quote;
use crate::path::Path;
use crate::schema::{AdditionalProperties, Schema, Type, Validation};

impl Checker<'_> {
    /// Checks a value, and tells how many checks it went through. When no schema of several matches, the one that was
    /// gone through furthest tells what is wrong.
    pub(super) fn value(
        &mut self,
        value: &Value,
        schema: &Schema,
        old: Option<Correlated<'_>>,
        path: &Path<'_>,
    ) -> usize {
        let before = self.failures.count();
        let matched = self.node(value, schema, old, path);
        if let Some(old) = old
            && self.failures.count() > before
            && unchanged(value, old.old, old.schema)
        {
            self.failures.truncate(before);
        }
        matched
    }

    /// As [`Self::value`], for one of several schemas of the same value.
    pub(super) fn node(
        &mut self,
        value: &Value,
        schema: &Schema,
        old: Option<Correlated<'_>>,
        path: &Path<'_>,
    ) -> usize {
        let format = if formats::is_checked(&schema.format) { &*schema.format } else { "" };
        let typed = schema.kind.is_some() || schema.int_or_string;
        if value.is_null() {
            if typed && !schema.nullable {
                self.wrong_type(path, &expected_types(schema), "null");
                self.one_of_values(value, schema, path);
                return 0;
            }
            self.one_of_values(value, schema, path);
            return 1;
        }
        let mut matched = 1;
        if typed || !format.is_empty() {
            matched += 1 + self.kind(value, schema, format, path);
        }
        let validation = schema.validation.as_deref();
        matched += 2 + validation.map_or(0, |validation| self.composition(value, validation, old, path));
        match value {
            Value::String(text) => {
                matched += 1;
                if let Some(validation) = validation {
                    self.string(text, validation, path);
                }
                if !format.is_empty() {
                    matched += 1;
                    self.format(text, format, path);
                }
            }
            Value::Number(number) => {
                matched += 2;
                if let Some(validation) = validation {
                    self.number(number, validation, path);
                }
            }
            Value::Array(items) => matched += 2 + self.array(items, schema, old, path),
            _ => {}
        }
        matched += 1;
        self.one_of_values(value, schema, path);
        if let Value::Object(fields) = value {
            matched += 1 + self.object(fields, schema, old, path);
        }
        matched
    }

    fn kind(&mut self, value: &Value, schema: &Schema, format: &str, path: &Path<'_>) -> usize {
        let (actual, actual_format) = type_of(value);
        let wants = |kind: Type| schema.kind == Some(kind);
        let wants_integer = wants(Type::Integer) || schema.int_or_string;
        let wants_number = wants(Type::Number);
        let contained = schema.kind.is_some_and(|kind| kind.name() == actual)
            || schema.int_or_string && matches!(actual, "integer" | "string");
        let convertible = match actual {
            "number" => wants_integer && value.as_f64().is_some_and(is_whole),
            "integer" => wants_number,
            _ => false,
        };
        let text_or_list = matches!(value, Value::String(_) | Value::Array(_));
        if !text_or_list && !format.is_empty() && !contained && !convertible && actual_format != format {
            self.wrong_type(path, format, actual_format);
            return 0;
        }
        // A format says what a string is; no type is looked at beside it.
        if text_or_list && !format.is_empty() && !wants_integer && !wants_number {
            return 1;
        }
        if !contained && !convertible {
            self.wrong_type(path, &expected_types(schema), actual);
            return 0;
        }
        1
    }

    fn wrong_type(&mut self, path: &Path<'_>, expected: &str, actual: &str) {
        self.fail(
            FieldErrorKind::TypeInvalid,
            path,
            || actual.into(),
            |name| format!("{name} in body must be of type {expected}: {}", quote(actual)),
        );
    }

    fn format(&mut self, text: &str, format: &str, path: &Path<'_>) {
        if !formats::matches(format, text) {
            self.wrong_type(path, format, text);
        }
    }

    fn array(
        &mut self,
        items: &[Value],
        schema: &Schema,
        old: Option<Correlated<'_>>,
        path: &Path<'_>,
    ) -> usize {
        let mut matched = 0;
        if let Some(schema) = &schema.items {
            let old = old.map(Correlated::items);
            for (index, item) in items.iter().enumerate() {
                let old = old.as_ref().and_then(|old| old.item(item));
                matched += self.value(item, schema, old, &path.index(index));
            }
        }
        if let Some(validation) = &schema.validation {
            self.item_counts(items, validation, path);
        }
        matched
    }

    fn object(
        &mut self,
        fields: &Map<String, Value>,
        schema: &Schema,
        old: Option<Correlated<'_>>,
        path: &Path<'_>,
    ) -> usize {
        if let Some(validation) = &schema.validation {
            self.field_counts(fields.len(), validation, path);
        }
        // What the version of an object was before it was converted cannot be seen.
        let root = path.is_root() && self.prefix.is_none();
        let old = |name: &str| {
            let hidden = root && matches!(name, "apiVersion" | "kind");
            old.filter(|_| !hidden).and_then(|old| old.field(name))
        };
        let mut matched = 0;
        if let AdditionalProperties::Of(values) = &schema.additional {
            for (key, value) in fields {
                if !schema.properties.contains_key(key) {
                    matched += self.value(value, values, old(key), &path.key(key));
                }
            }
        }
        for (name, property) in &schema.properties {
            if let Some(value) = fields.get(name) {
                matched += self.value(value, property, old(name), &path.field(name));
            }
        }
        for name in &schema.required {
            if !fields.contains_key(name) {
                self.required(&path.field(name));
            }
        }
        matched
    }

    fn required(&mut self, path: &Path<'_>) {
        self.fail_with(path, |name, path| Failure {
            message: format!("{name} in body is required"),
            error: FieldError::required(path, ""),
        });
    }

    fn one_of_values(&mut self, value: &Value, schema: &Schema, path: &Path<'_>) {
        let allowed =
            schema.validation.as_deref().map_or(&[][..], |validation: &Validation| &validation.one_of_values);
        if !allowed.is_empty() && !allowed.iter().any(|allowed| is_value(value, allowed)) {
            self.not_supported(value, allowed, path);
        }
    }
}

fn expected_types(schema: &Schema) -> String {
    match (schema.kind, schema.int_or_string) {
        (_, true) => "integer,string".to_owned(),
        (Some(kind), false) => kind.name().to_owned(),
        (None, false) => String::new(),
    }
}

/// The JSON type of a value, and the format that goes with it.
fn type_of(value: &Value) -> (&'static str, &'static str) {
    match value {
        Value::Null => ("null", ""),
        Value::Bool(_) => ("boolean", ""),
        Value::Number(number) if number.is_i64() => ("integer", "int64"),
        Value::Number(_) => ("number", "float64"),
        Value::String(_) => ("string", ""),
        Value::Array(_) => ("array", ""),
        Value::Object(_) => ("object", ""),
    }
}

/// Whether a number with a point counts as an integer.
pub(super) fn is_whole(number: f64) -> bool {
    const GREATEST: f64 = 9_007_199_254_740_991.0;
    const NEAR: f64 = 1e-9;
    if !number.is_finite() || number.abs() > GREATEST {
        return false;
    }
    let whole = number.trunc();
    number == whole || whole != 0.0 && (number - whole).abs() / (number.abs() + whole.abs()) < NEAR
}

/// Whether a value is one that an enumeration names. Numbers are compared by what they are worth.
fn is_value(value: &Value, allowed: &Value) -> bool {
    match (value, allowed) {
        (Value::Null, _) => false,
        (Value::Number(value), Value::Number(allowed)) if value.is_f64() != allowed.is_f64() => {
            if allowed.is_f64() {
                value.as_f64() == allowed.as_f64()
            } else {
                value.as_f64().map(f64::trunc) == allowed.as_f64()
            }
        }
        _ => value == allowed,
    }
}
