//! Whether a configuration is one that the schema can merge.
//!
//! This is not validation proper. It finds what would make merging meaningless: fields that the schema does not have, values of
//! the wrong form, elements of lists that cannot be told apart.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

use super::path::PathElement;
use super::types::{Fields, Form, Forms, List, Scalar, Type};
use apischema::go_text;

/// What is wrong with a configuration, in one message.
pub(super) fn validate(value: &Value, kind: Type<'_>) -> Result<(), String> {
    let mut errors = Vec::new();
    check(value, kind, &Place::Top, &mut errors);
    match errors.len() {
        0 => Ok(()),
        1 => Err(errors.remove(0)),
        _ => Err(format!("errors:\n  {}", errors.join("\n  "))),
    }
}

/// Where in a configuration something is. It becomes text only if something is wrong there.
enum Place<'p> {
    Top,
    Field(&'p Place<'p>, &'p str),
    Element(&'p Place<'p>, &'p PathElement<'p>),
    Index(&'p Place<'p>, usize),
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Top => Ok(()),
            Place::Field(outer, name) => write!(formatter, "{outer}.{name}"),
            Place::Element(outer, element) => write!(formatter, "{outer}{element}"),
            Place::Index(outer, at) => write!(formatter, "{outer}[{at}]"),
        }
    }
}

impl Place<'_> {
    fn error(&self, message: impl fmt::Display) -> String {
        match self {
            Place::Top => message.to_string(),
            place => format!("{place}: {message}"),
        }
    }
}

fn check(value: &Value, kind: Type<'_>, place: &Place<'_>, errors: &mut Vec<String>) {
    let forms = kind.forms();
    match (forms.form(value), forms) {
        (Some(Form::Map), Forms { map: Some(map), .. }) => check_map(value, &map, place, errors),
        (Some(Form::List), Forms { list: Some(list), .. }) => check_list(value, &list, place, errors),
        (Some(Form::Scalar), Forms { scalar: Some(scalar), .. }) => {
            errors.extend(wrong_scalar(value, scalar).map(|message| place.error(message)));
        }
        _ => errors.push(place.error("schema error: invalid atom: inlined")),
    }
}

fn check_map(value: &Value, map: &Fields<'_>, place: &Place<'_>, errors: &mut Vec<String>) {
    let fields = match value {
        Value::Object(fields) => fields,
        Value::Null => return,
        other => {
            return errors.push(place.error(format!("expected map, got &{{{}}}", go_text::plain(other))));
        }
    };
    for (name, field) in fields {
        let kind = map.field(name);
        let place = Place::Field(place, name);
        if matches!(kind, Type::Undeclared) {
            // Kubernetes stops at the first.
            return errors.push(place.error("field not declared in schema"));
        }
        check(field, kind, &place, errors);
    }
}

fn check_list(value: &Value, list: &List<'_>, place: &Place<'_>, errors: &mut Vec<String>) {
    let items = match value {
        Value::Array(items) => items,
        Value::Null => return,
        other => {
            return errors.push(place.error(format!("expected list, got &{{{}}}", go_text::plain(other))));
        }
    };
    if list.is_atomic() {
        for (at, item) in items.iter().enumerate() {
            check(item, list.element, &Place::Index(place, at), errors);
        }
        return;
    }
    let mut seen: BTreeSet<PathElement<'_>> = BTreeSet::new();
    for (at, item) in items.iter().enumerate() {
        let element = match list.element_of(item) {
            Ok(element) => element,
            Err(why) => return errors.push(place.error(format!("element {at}: {why}"))),
        };
        if !seen.insert(element.clone()) {
            errors.push(place.error(format!("duplicate entries for key {element}")));
        }
        check(item, list.element, &Place::Element(place, &element), errors);
    }
}

fn wrong_scalar(value: &Value, scalar: Scalar) -> Option<String> {
    match (scalar, value) {
        (_, Value::Null)
        | (Scalar::Number, Value::Number(_))
        | (Scalar::Text, Value::String(_))
        | (Scalar::Boolean, Value::Bool(_))
        | (Scalar::Any, Value::Number(_) | Value::String(_) | Value::Bool(_)) => None,
        (Scalar::Number, other) => {
            Some(format!("expected numeric (int or float), got {}", go_text::type_name(other)))
        }
        (Scalar::Text, other) => {
            Some(format!("expected string, got &value.valueUnstructured{{Value:{}}}", go_text::syntax(other)))
        }
        (Scalar::Boolean, other) => Some(format!("expected boolean, got &{{{}}}", go_text::plain(other))),
        (Scalar::Any, other) => Some(format!("expected any scalar, got &{{{}}}", go_text::plain(other))),
    }
}
