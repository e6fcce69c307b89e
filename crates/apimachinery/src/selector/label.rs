//! Label selectors.

use std::fmt;

use apischema::FieldError;
use serde_json::{Map, Value};

use super::SelectorError;
use super::label_parser::Parser;
use crate::{format, meta, status};
use apischema::go_text;

/// A choice of objects by their labels: all of the requirements hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector {
    requirements: Vec<LabelRequirement>,
    nothing: bool,
}

/// What one label must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelRequirement {
    key: String,
    operator: LabelOperator,
    values: Vec<String>,
}

/// How a label relates to the values of a requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabelOperator {
    /// `in`
    In,
    /// `notin`
    NotIn,
    /// `=`
    Equals,
    /// `==`
    DoubleEquals,
    /// `!=`
    NotEquals,
    /// `>`
    GreaterThan,
    /// `<`
    LessThan,
    /// Just the key.
    Exists,
    /// `!`
    DoesNotExist,
}

impl LabelSelector {
    /// Selects every object.
    pub fn everything() -> Self {
        Self::default()
    }

    /// Selects no object.
    pub fn nothing() -> Self {
        LabelSelector { requirements: Vec::new(), nothing: true }
    }

    /// Reads the notation of the `labelSelector` query parameter: `a=b,c in (d,e),!f`.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let requirements = Parser::new(text).parse().map_err(SelectorError::Malformed)?;
        Ok(Self::of(requirements))
    }

    /// Reads the notation inside objects: `matchLabels` and `matchExpressions`. Absent, it selects nothing; empty, everything.
    pub fn from_object(selector: Option<&Value>) -> Result<Self, SelectorError> {
        let Some(selector) = selector.filter(|value| !value.is_null()) else { return Ok(Self::nothing()) };
        let mut requirements = Vec::new();
        for (key, value) in selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten() {
            let values = vec![value.as_str().unwrap_or_default().to_owned()];
            requirements.push(LabelRequirement::new(key, LabelOperator::Equals, values)?);
        }
        for expression in selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten() {
            let text = |field| expression.get(field).and_then(Value::as_str).unwrap_or_default();
            let operator = match text("operator") {
                "In" => LabelOperator::In,
                "NotIn" => LabelOperator::NotIn,
                "Exists" => LabelOperator::Exists,
                "DoesNotExist" => LabelOperator::DoesNotExist,
                other => {
                    let message = format!("{} is not a valid label selector operator", go_text::quote(other));
                    return Err(SelectorError::Malformed(message));
                }
            };
            let values = expression.get("values").and_then(Value::as_array).into_iter().flatten();
            let values = values.filter_map(Value::as_str).map(str::to_owned).collect();
            requirements.push(LabelRequirement::new(text("key"), operator, values)?);
        }
        Ok(Self::of(requirements))
    }

    fn of(mut requirements: Vec<LabelRequirement>) -> Self {
        requirements.sort_by(|left, right| left.key.cmp(&right.key));
        LabelSelector { requirements, nothing: false }
    }

    /// Whether labels are as this selector wants them.
    pub fn matches(&self, labels: &Map<String, Value>) -> bool {
        self.matches_by(|key| labels.get(key).and_then(Value::as_str))
    }

    /// Whether an object's labels are as this selector wants them.
    pub fn matches_object(&self, object: &Value) -> bool {
        let labels = meta::labels(object);
        self.matches_by(|key| labels.and_then(|labels| labels.get(key)).and_then(Value::as_str))
    }

    /// Whether labels that are looked up one by one are as this selector wants them.
    pub fn matches_by<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        !self.nothing
            && self.requirements.iter().all(|requirement| requirement.matches(label(&requirement.key)))
    }

    /// Whether it selects every object.
    pub fn is_everything(&self) -> bool {
        !self.nothing && self.requirements.is_empty()
    }

    /// Whether it can be told without an object that it selects none.
    pub fn is_nothing(&self) -> bool {
        self.nothing
    }

    /// What must hold, in the order of keys.
    pub fn requirements(&self) -> &[LabelRequirement] {
        &self.requirements
    }

    /// The one value that this label must have, if it must have one: an index can use it.
    pub fn equals(&self, key: &str) -> Option<&str> {
        self.requirements.iter().filter(|requirement| requirement.key == key).find_map(|requirement| {
            let wants_one = matches!(
                requirement.operator,
                LabelOperator::In | LabelOperator::Equals | LabelOperator::DoubleEquals
            );
            match requirement.values.as_slice() {
                [value] if wants_one => Some(value.as_str()),
                _ => None,
            }
        })
    }
}

/// In the notation of the query parameter.
impl fmt::Display for LabelSelector {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, requirement) in self.requirements.iter().enumerate() {
            if at > 0 {
                formatter.write_str(",")?;
            }
            requirement.fmt(formatter)?;
        }
        Ok(())
    }
}

impl LabelRequirement {
    pub(super) fn new(
        key: &str,
        operator: LabelOperator,
        values: Vec<String>,
    ) -> Result<Self, SelectorError> {
        let mut errors = Vec::new();
        let of_key = format::qualified_name(key);
        if !of_key.is_empty() {
            errors.push(FieldError::invalid("key", key, of_key.join("; ")));
        }
        let count = match operator {
            LabelOperator::In | LabelOperator::NotIn => {
                values.is_empty().then_some("for 'in', 'notin' operators, values set can't be empty")
            }
            LabelOperator::Equals | LabelOperator::DoubleEquals | LabelOperator::NotEquals => {
                (values.len() != 1).then_some("exact-match compatibility requires one single value")
            }
            LabelOperator::Exists | LabelOperator::DoesNotExist => {
                (!values.is_empty()).then_some("values set must be empty for exists and does not exist")
            }
            LabelOperator::GreaterThan | LabelOperator::LessThan => {
                (values.len() != 1).then_some("for 'Gt', 'Lt' operators, exactly one value is required")
            }
        };
        errors.extend(count.map(|detail| FieldError::invalid("values", values.clone(), detail)));
        if matches!(operator, LabelOperator::GreaterThan | LabelOperator::LessThan) {
            for (at, value) in values.iter().enumerate().filter(|(_, value)| value.parse::<i64>().is_err()) {
                let detail = "for 'Gt', 'Lt' operators, the value must be an integer";
                errors.push(FieldError::invalid(format!("values[{at}]"), value.as_str(), detail));
            }
        }
        for (at, value) in values.iter().enumerate() {
            let of_value = format::label_value(value);
            if !of_value.is_empty() {
                let path = format!("values[{at}][{key}]");
                errors.push(FieldError::invalid(path, value.as_str(), of_value.join("; ")));
            }
        }
        if errors.is_empty() {
            Ok(LabelRequirement { key: key.to_owned(), operator, values })
        } else {
            Err(SelectorError::Malformed(status::aggregate(&errors)))
        }
    }

    /// Which label.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// How it relates to the values.
    pub fn operator(&self) -> LabelOperator {
        self.operator
    }

    /// The values.
    pub fn values(&self) -> &[String] {
        &self.values
    }

    fn matches(&self, label: Option<&str>) -> bool {
        let listed = |label: &str| self.values.iter().any(|value| value == label);
        match self.operator {
            LabelOperator::In | LabelOperator::Equals | LabelOperator::DoubleEquals => {
                label.is_some_and(listed)
            }
            LabelOperator::NotIn | LabelOperator::NotEquals => !label.is_some_and(listed),
            LabelOperator::Exists => label.is_some(),
            LabelOperator::DoesNotExist => label.is_none(),
            LabelOperator::GreaterThan => self.numbers(label).is_some_and(|(label, value)| label > value),
            LabelOperator::LessThan => self.numbers(label).is_some_and(|(label, value)| label < value),
        }
    }

    /// The label and the only value as numbers.
    fn numbers(&self, label: Option<&str>) -> Option<(i64, i64)> {
        Some((label?.parse().ok()?, self.values.first()?.parse().ok()?))
    }
}

impl fmt::Display for LabelRequirement {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        let values = || {
            let mut sorted: Vec<_> = self.values.iter().map(String::as_str).collect();
            sorted.sort_unstable();
            sorted.join(",")
        };
        match self.operator {
            LabelOperator::In => write!(formatter, "{key} in ({})", values()),
            LabelOperator::NotIn => write!(formatter, "{key} notin ({})", values()),
            LabelOperator::Equals => write!(formatter, "{key}={}", values()),
            LabelOperator::DoubleEquals => write!(formatter, "{key}=={}", values()),
            LabelOperator::NotEquals => write!(formatter, "{key}!={}", values()),
            LabelOperator::GreaterThan => write!(formatter, "{key}>{}", values()),
            LabelOperator::LessThan => write!(formatter, "{key}<{}", values()),
            LabelOperator::Exists => write!(formatter, "{key}"),
            LabelOperator::DoesNotExist => write!(formatter, "!{key}"),
        }
    }
}

#[cfg(test)]
mod tests;
