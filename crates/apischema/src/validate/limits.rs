//! Limits on numbers, strings, arrays and objects.

use serde_json::{Number, Value};

use super::check::is_whole;
use super::{Checker, Failure};
use crate::field_error::{FieldError, FieldErrorKind};
use crate::go_text;
use crate::path::Path;
use crate::schema::Validation;

impl Checker<'_> {
    pub(super) fn string(&mut self, text: &str, validation: &Validation, path: &Path<'_>) {
        let Validation { min_length, max_length, pattern, compiled_pattern, .. } = validation;
        if min_length.is_some() || max_length.is_some() {
            let length = text.chars().count() as u64;
            if let Some(limit) = max_length.filter(|limit| length > *limit) {
                self.fail_with(path, |name, path| Failure {
                    message: format!("{name} in body should be at most {limit} chars long"),
                    error: FieldError::too_long(path, limit),
                });
                return;
            }
            if let Some(limit) = min_length.filter(|limit| length < *limit) {
                let message = |name: &str| format!("{name} in body should be at least {limit} chars long");
                self.fail(FieldErrorKind::Invalid, path, || text.into(), message);
                return;
            }
        }
        let Some(pattern) = pattern else { return };
        match compiled_pattern.get(pattern) {
            Some(regex) if regex.is_match(text) => {}
            Some(_) => {
                let message = |name: &str| format!("{name} in body should match '{pattern}'");
                self.fail(FieldErrorKind::Invalid, path, || text.into(), message);
            }
            None => {
                let message =
                    |name: &str| format!("{name} in body should match '{pattern}, but pattern is invalid'");
                self.fail(FieldErrorKind::Invalid, path, || text.into(), message);
            }
        }
    }

    pub(super) fn number(&mut self, number: &Number, validation: &Validation, path: &Path<'_>) {
        let Validation { minimum, maximum, exclusive_minimum, exclusive_maximum, multiple_of, .. } =
            validation;
        if let Some(factor) = *multiple_of {
            self.multiple(number, factor, path);
        }
        if let Some(limit) = *minimum {
            let (comparison, limit) = compare(number, limit);
            if comparison.is_lt() || *exclusive_minimum && comparison.is_eq() {
                let relation = if *exclusive_minimum { "greater than" } else { "greater than or equal to" };
                self.out_of_range(number, relation, &limit, path);
            }
        }
        if let Some(limit) = *maximum {
            let (comparison, limit) = compare(number, limit);
            if comparison.is_gt() || *exclusive_maximum && comparison.is_eq() {
                let relation = if *exclusive_maximum { "less than" } else { "less than or equal to" };
                self.out_of_range(number, relation, &limit, path);
            }
        }
    }

    fn out_of_range(&mut self, number: &Number, relation: &str, limit: &Limit, path: &Path<'_>) {
        let message = |name: &str| format!("{name} in body should be {relation} {}", limit.text());
        self.fail(FieldErrorKind::Invalid, path, || Value::Number(number.clone()), message);
    }

    fn multiple(&mut self, number: &Number, factor: f64, path: &Path<'_>) {
        let (fits, limit) = match number.as_i64() {
            // Of an integer only the whole part of the factor counts.
            Some(integer) => {
                let factor = factor as i64;
                (factor > 0 && integer % factor == 0, Limit::Integer(factor))
            }
            None => {
                let number = number.as_f64().unwrap_or_default();
                let quotient = if factor < 1.0 { 1.0 / factor * number } else { number / factor };
                (factor > 0.0 && is_whole(quotient), Limit::Float(factor))
            }
        };
        if fits {
            return;
        }
        if limit.is_positive() {
            let message = |name: &str| format!("{name} in body should be a multiple of {}", limit.text());
            self.fail(FieldErrorKind::Invalid, path, || Value::Number(number.clone()), message);
        } else {
            let message = |name: &str| {
                format!("factor MultipleOf declared for {name} must be positive: {}", limit.text())
            };
            self.fail(FieldErrorKind::Invalid, path, || limit.value(), message);
        }
    }

    pub(super) fn item_counts(&mut self, items: &[Value], validation: &Validation, path: &Path<'_>) {
        let count = items.len() as u64;
        if let Some(limit) = validation.min_items.filter(|limit| count < *limit) {
            let message = |name: &str| format!("{name} in body should have at least {limit} items");
            self.fail(FieldErrorKind::Invalid, path, || count.into(), message);
        }
        if let Some(limit) = validation.max_items.filter(|limit| count > *limit) {
            self.fail_with(path, |name, path| Failure {
                message: format!("{name} in body should have at most {limit} items"),
                error: FieldError::too_many(path, count, limit),
            });
        }
        if validation.unique_items && super::lists::has_duplicates(items) {
            let message = |name: &str| format!("{name} in body shouldn't contain duplicates");
            self.fail(FieldErrorKind::Invalid, path, || "".into(), message);
        }
    }

    pub(super) fn field_counts(&mut self, count: usize, validation: &Validation, path: &Path<'_>) {
        let count = count as u64;
        if let Some(limit) = validation.min_properties.filter(|limit| count < *limit) {
            let message = |name: &str| format!("{name} in body should have at least {limit} properties");
            self.fail(FieldErrorKind::Invalid, path, || count.into(), message);
        }
        if let Some(limit) = validation.max_properties.filter(|limit| count > *limit) {
            self.fail_with(path, |name, path| Failure {
                message: format!("{name} in body should have at most {limit} properties"),
                error: FieldError::too_many(path, count, limit),
            });
        }
    }

    pub(super) fn not_supported(&mut self, value: &Value, allowed: &[Value], path: &Path<'_>) {
        self.fail_with(path, |name, path| {
            let supported: Vec<String> = allowed
                .iter()
                .map(|value| value.as_str().map_or_else(|| go_text::json(value), str::to_owned))
                .collect();
            Failure {
                message: format!("{name} in body should be one of {supported:?}"),
                error: FieldError::not_supported(path, value.clone(), &supported),
            }
        });
    }
}

/// A limit on a number, of the number's own kind.
enum Limit {
    Integer(i64),
    Float(f64),
}

impl Limit {
    fn text(&self) -> String {
        match self {
            Limit::Integer(limit) => limit.to_string(),
            Limit::Float(limit) => go_text::float(*limit),
        }
    }

    fn value(&self) -> Value {
        match self {
            Limit::Integer(limit) => (*limit).into(),
            Limit::Float(limit) => (*limit).into(),
        }
    }

    fn is_positive(&self) -> bool {
        match self {
            Limit::Integer(limit) => *limit > 0,
            Limit::Float(limit) => *limit > 0.0,
        }
    }
}

/// How a number compares with a limit. An integer is compared with the limit's whole part.
fn compare(number: &Number, limit: f64) -> (std::cmp::Ordering, Limit) {
    match number.as_i64() {
        Some(integer) => (integer.cmp(&(limit as i64)), Limit::Integer(limit as i64)),
        None => {
            let number = number.as_f64().unwrap_or_default();
            (number.total_cmp(&limit), Limit::Float(limit))
        }
    }
}
