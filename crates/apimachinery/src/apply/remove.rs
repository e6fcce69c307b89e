//! Taking fields out of an object.

use serde_json::{Map, Value};

use super::path::PathElement;
use super::set::FieldSet;
use super::types::{Fields, Form, List, Type};

/// The value without these fields. What loses everything becomes null.
pub(super) fn remove(value: &Value, fields: &FieldSet<'_>, kind: Type<'_>) -> Value {
    let forms = kind.lenient_forms();
    match (forms.form(value), forms.map, forms.list) {
        (Some(Form::Map), Some(map), _) => remove_from_map(value, fields, &map),
        (Some(Form::List), _, Some(list)) => remove_from_list(value, fields, &list),
        _ => value.clone(),
    }
}

fn remove_from_map(value: &Value, fields: &FieldSet<'_>, map: &Fields<'_>) -> Value {
    let mut rest = Map::new();
    if !map.is_atomic {
        for (name, field) in value.as_object().into_iter().flatten() {
            let kept = match fields.get(&PathElement::Field(name.as_str().into())) {
                None => field.clone(),
                Some(branch) if branch.member => continue,
                Some(branch) => remove(field, &branch.children, map.field(name)),
            };
            rest.insert(name.clone(), kept);
        }
    }
    if rest.is_empty() { Value::Null } else { Value::Object(rest) }
}

fn remove_from_list<'v>(value: &'v Value, fields: &FieldSet<'_>, list: &List<'v>) -> Value {
    let mut rest = Vec::new();
    if !list.is_atomic() {
        for item in value.as_array().into_iter().flatten() {
            let branch = list.element_of(item).ok().and_then(|element| fields.get(&element));
            match branch {
                None => rest.push(item.clone()),
                Some(branch) if branch.member => {}
                Some(branch) => rest.push(remove(item, &branch.children, list.element)),
            }
        }
    }
    if rest.is_empty() { Value::Null } else { Value::Array(rest) }
}

/// The set with the structs that hold its fields: who takes a struct's last field takes the struct.
pub(super) fn with_structs<'a>(mut set: FieldSet<'a>, kind: Type<'_>) -> FieldSet<'a> {
    add_structs(&mut set, kind);
    set
}

fn add_structs(set: &mut FieldSet<'_>, kind: Type<'_>) {
    let forms = kind.lenient_forms();
    for (element, branch) in set.branches_mut() {
        if branch.children.is_empty() {
            continue;
        }
        let (is_named, child) = match (element, forms.map, forms.list) {
            (PathElement::Field(name), Some(map), _) => match map.named(name) {
                Some(named) => (true, named),
                None => (false, map.others),
            },
            (PathElement::Key(_), _, Some(list)) => (false, list.element),
            _ => (false, Type::Undeclared),
        };
        branch.member |= is_named;
        add_structs(&mut branch.children, child);
    }
}
