//! JSONPath as kubectl and printer columns write it: `.spec.replicas`, `.status.conditions[?(@.type=="Ready")].status`.
//!
//! A path is compiled once and looked up in many objects. Fields that are not there give nothing; only what can never be right,
//! such as an index into an object, is an error.

use std::borrow::Cow;
use std::cmp::Ordering;

use serde_json::Value;

use apischema::go_text;

mod parser;

/// A compiled path.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath {
    steps: Vec<Step>,
}

/// One step of a path. It turns values into other values.
#[derive(Clone, Debug, PartialEq)]
enum Step {
    /// `.name`
    Field(String),
    /// `.*`
    Wildcard,
    /// `..`
    Descendants,
    /// `[1]`, `[0:2]`, `[*]`
    Slice(Slice),
    /// `[?(@.a == "b")]`
    Filter(Vec<Step>, Option<(Operator, Vec<Step>)>),
    /// `['a', 'b']`, `[0, 2]`
    Union(Vec<Vec<Step>>),
    /// A value that stands in a filter.
    Literal(Value),
}

/// A range of a list. Negative numbers count from its end.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Slice {
    start: Option<i64>,
    end: End,
    step: Option<i64>,
}

/// Where a range ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    /// With its first element: it is an index.
    First,
    /// Before this element.
    At(i64),
    /// With the list.
    Open,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// Why a path cannot be compiled or looked up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct JsonPathError(pub(crate) String);

type Found<'v> = Vec<Cow<'v, Value>>;

impl JsonPath {
    /// Compiles a path without the braces that kubectl puts around it.
    pub fn parse(text: &str) -> Result<Self, JsonPathError> {
        parser::parse(text).map(|steps| JsonPath { steps }).map_err(JsonPathError)
    }

    /// Everything that the path leads to.
    pub fn find<'v>(&self, value: &'v Value) -> Result<Found<'v>, JsonPathError> {
        walk(&self.steps, vec![Cow::Borrowed(value)]).map_err(JsonPathError)
    }

    /// The first value that the path leads to: what a printer column shows.
    pub fn first<'v>(&self, value: &'v Value) -> Option<Cow<'v, Value>> {
        self.find(value).ok()?.into_iter().next()
    }
}

/// A value as text: what a column of type string shows.
pub fn print(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "<nil>".to_owned(),
        Value::Array(_) | Value::Object(_) => {
            let mut text = String::new();
            go_text::write_json(&mut text, value);
            text
        }
        other => go_text::plain(other),
    }
}

fn walk<'v>(steps: &[Step], mut values: Found<'v>) -> Result<Found<'v>, String> {
    for step in steps {
        values = step.apply(values)?;
    }
    Ok(values)
}

impl Step {
    fn apply<'v>(&self, values: Found<'v>) -> Result<Found<'v>, String> {
        let mut found = Vec::new();
        match self {
            Step::Literal(literal) => {
                // Kubernetes gives as many as there were values, but one for a text.
                let count = if literal.is_string() { 1 } else { values.len() };
                found.resize(count, Cow::Owned(literal.clone()));
            }
            Step::Field(name) => {
                for value in values {
                    found.extend(field(value, name));
                }
            }
            Step::Wildcard => {
                for value in values {
                    found.extend(children(value));
                }
            }
            Step::Descendants => {
                for value in values {
                    descend(value, &mut found);
                }
            }
            Step::Slice(slice) => {
                for value in values.into_iter().filter(|value| !value.is_null()) {
                    let length = list(&value, "is not array or slice")?;
                    let Some(range) = slice.within(length)? else { return Ok(found) };
                    found.extend(range.map(|at| element(&value, at)));
                }
            }
            Step::Union(paths) => {
                for path in paths {
                    found.extend(walk(path, values.clone())?);
                }
            }
            Step::Filter(left, comparison) => {
                for value in values {
                    let length = list(&value, "is not array or slice and cannot be filtered")?;
                    for at in 0..length {
                        let item = element(&value, at);
                        if passes(&item, left, comparison.as_ref())? {
                            found.push(item);
                        }
                    }
                }
            }
        }
        Ok(found)
    }
}

fn field<'v>(value: Cow<'v, Value>, name: &str) -> Option<Cow<'v, Value>> {
    match value {
        Cow::Borrowed(value) => value.get(name).map(Cow::Borrowed),
        Cow::Owned(value) => value.get(name).cloned().map(Cow::Owned),
    }
}

fn element<'v>(value: &Cow<'v, Value>, at: usize) -> Cow<'v, Value> {
    match value {
        Cow::Borrowed(value) => Cow::Borrowed(&value[at]),
        Cow::Owned(value) => Cow::Owned(value[at].clone()),
    }
}

fn children(value: Cow<'_, Value>) -> Found<'_> {
    match value {
        Cow::Borrowed(Value::Array(items)) => items.iter().map(Cow::Borrowed).collect(),
        Cow::Borrowed(Value::Object(fields)) => fields.values().map(Cow::Borrowed).collect(),
        Cow::Owned(Value::Array(items)) => items.into_iter().map(Cow::Owned).collect(),
        Cow::Owned(Value::Object(fields)) => fields.into_iter().map(|(_, field)| Cow::Owned(field)).collect(),
        _ => Vec::new(),
    }
}

/// A value that holds others, then everything below it that does.
fn descend<'v>(value: Cow<'v, Value>, found: &mut Found<'v>) {
    let below = children(value.clone());
    if !below.is_empty() {
        found.push(value);
        for child in below {
            descend(child, found);
        }
    }
}

/// The length of a list.
fn list(value: &Value, otherwise: &str) -> Result<usize, String> {
    match value {
        Value::Array(items) => Ok(items.len()),
        other => Err(format!("{} {otherwise}", go_text::plain(other))),
    }
}

impl Slice {
    /// The indices that it means in a list of this length; nothing if it is empty by itself.
    fn within(&self, length: usize) -> Result<Option<impl Iterator<Item = usize> + use<>>, String> {
        let length = i64::try_from(length).unwrap_or(i64::MAX);
        let first = self.start.unwrap_or_default();
        let start = if first < 0 { first + length } else { first };
        let end = match self.end {
            End::Open => length,
            End::At(end) if end < 0 => end + length,
            End::At(end) => end,
            // The last element is before the end of the list, not before its first one.
            End::First if first < 0 => first + 1 + length,
            End::First => first + 1,
        };
        if start == end {
            return Ok(None);
        }
        let out_of_bounds = |index| format!("array index out of bounds: index {index}, length {length}");
        if start >= length || start < 0 {
            return Err(out_of_bounds(start));
        }
        if end > length || end < 0 {
            return Err(out_of_bounds(end - 1));
        }
        if start > end {
            return Err(format!("starting index {start} is greater than ending index {end}"));
        }
        let step = self.step.unwrap_or(1);
        if step <= 0 {
            return Err("step must be > 0".to_owned());
        }
        let index = |at: i64| usize::try_from(at).unwrap_or_default();
        Ok(Some((index(start)..index(end)).step_by(index(step))))
    }
}

/// Whether a filter keeps an element.
fn passes(item: &Value, left: &[Step], comparison: Option<&(Operator, Vec<Step>)>) -> Result<bool, String> {
    let Some((operator, right)) = comparison else {
        return Ok(walk(left, vec![Cow::Borrowed(item)]).is_ok_and(|found| !found.is_empty()));
    };
    let (left, right) = (walk(left, vec![Cow::Borrowed(item)])?, walk(right, vec![Cow::Borrowed(item)])?);
    match (left.as_slice(), right.as_slice()) {
        ([], _) | (_, []) => Ok(false),
        ([left], [right]) => compare(left, right, *operator),
        _ => Err("can only compare one element at a time".to_owned()),
    }
}

fn compare(left: &Value, right: &Value, operator: Operator) -> Result<bool, String> {
    let order = match (left, right) {
        (Value::Number(left), Value::Number(right)) => match (left.as_i64(), right.as_i64()) {
            (Some(left), Some(right)) => Some(left.cmp(&right)),
            (None, None) => left.as_f64().partial_cmp(&right.as_f64()),
            _ => None,
        },
        (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
        (Value::Bool(left), Value::Bool(right)) => match operator {
            Operator::Equal | Operator::NotEqual => Some(left.cmp(right)),
            _ => return Err("invalid type for comparison".to_owned()),
        },
        _ => None,
    };
    let Some(order) = order else { return Err("incompatible types for comparison".to_owned()) };
    Ok(match operator {
        Operator::Equal => order == Ordering::Equal,
        Operator::NotEqual => order != Ordering::Equal,
        Operator::Less => order == Ordering::Less,
        Operator::LessOrEqual => order != Ordering::Greater,
        Operator::Greater => order == Ordering::Greater,
        Operator::GreaterOrEqual => order != Ordering::Less,
    })
}

#[cfg(test)]
mod tests;
