//! The fields of a value.

use serde_json::Value;

use super::path::PathElement;
use super::set::{Branch, FieldSet, Node};
use super::types::{Fields, Form, List, Type};

/// The fields that an applied configuration sets: those that end a path, the elements of merged lists, the keys of maps.
/// Structs are not among them.
pub(super) fn applied_fields<'v>(value: &'v Value, kind: Type<'v>) -> FieldSet<'v> {
    applied(value, kind).children
}

fn applied<'v>(value: &'v Value, kind: Type<'v>) -> Branch<'v> {
    let forms = kind.lenient_forms();
    match (forms.form(value), forms.map, forms.list) {
        (Some(Form::Map), Some(map), _) => applied_map(value, &map),
        (Some(Form::List), _, Some(list)) => applied_list(value, &list),
        _ => Branch::member(),
    }
}

fn applied_map<'v>(value: &'v Value, map: &Fields<'v>) -> Branch<'v> {
    if map.is_atomic {
        return Branch::member();
    }
    let mut set = FieldSet::new();
    for (name, field) in value.as_object().into_iter().flatten() {
        let named = map.named(name);
        let mut branch = applied(field, named.unwrap_or(map.others));
        let is_empty = field.is_null() || field.as_object().is_some_and(serde_json::Map::is_empty);
        branch.member |= is_empty || named.is_none();
        set.push(PathElement::Field(name.as_str().into()), branch);
    }
    Branch { member: false, children: set }
}

fn applied_list<'v>(value: &'v Value, list: &List<'v>) -> Branch<'v> {
    if list.is_atomic() {
        return Branch::member();
    }
    let children = of_elements(value, list, |item| Branch { member: true, ..applied(item, list.element) });
    Branch { member: false, children }
}

/// All fields of a value that is new or gone: those above, and the structs and lists that hold them.
pub(super) fn whole<'v>(value: &'v Value, kind: Type<'v>) -> Branch<'v> {
    let forms = kind.lenient_forms();
    let children = match (forms.form(value), forms.map, forms.list) {
        (Some(Form::Map), Some(map), _) if !map.is_atomic => {
            let mut set = FieldSet::new();
            for (name, field) in value.as_object().into_iter().flatten() {
                set.push(PathElement::Field(name.as_str().into()), whole(field, map.field(name)));
            }
            set
        }
        (Some(Form::List), _, Some(list)) if !list.is_atomic() => {
            of_elements(value, &list, |item| whole(item, list.element))
        }
        _ => FieldSet::new(),
    };
    Branch { member: true, children }
}

/// The elements of a merged list, each with what `branch` says of it. Of elements that cannot be told apart only that they are
/// there.
fn of_elements<'v>(
    value: &'v Value,
    list: &List<'v>,
    branch: impl Fn(&'v Value) -> Branch<'v>,
) -> FieldSet<'v> {
    let items = value.as_array().into_iter().flatten();
    let mut elements: Vec<(PathElement<'v>, &'v Value)> =
        items.filter_map(|item| Some((list.element_of(item).ok()?, item))).collect();
    elements.sort_by(|(left, _), (right, _)| left.cmp(right));
    let mut nodes: Vec<Node<'v>> = Vec::with_capacity(elements.len());
    for (element, item) in elements {
        match nodes.last_mut().filter(|last| last.element == element) {
            Some(duplicate) => duplicate.branch = Branch::member(),
            None => nodes.push(Node { branch: branch(item), element }),
        }
    }
    FieldSet::of_nodes(nodes)
}
