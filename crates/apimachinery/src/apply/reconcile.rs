//! Sets of fields that are older than the schema.
//!
//! A list or an object whose fields each had their owners may since have become one field. Whoever owned any of them now owns it.
//! The way back is not made: nobody knows who would own what.

use super::path::PathElement;
use super::set::{Branch, FieldSet};
use super::types::{Fields, List, Type};

/// The set as it would be had it been made with this schema; nothing if it is so already.
pub(super) fn reconcile<'a>(set: &FieldSet<'a>, kind: Type<'_>) -> Option<FieldSet<'a>> {
    if is_current(set, kind) { None } else { Some(collapse(set, kind)) }
}

fn is_current(set: &FieldSet<'_>, kind: Type<'_>) -> bool {
    set.nodes().iter().all(|node| match child(kind, &node.element) {
        None => true,
        Some(child) => !becomes_one_field(&node.branch, child) && is_current(&node.branch.children, child),
    })
}

fn collapse<'a>(set: &FieldSet<'a>, kind: Type<'_>) -> FieldSet<'a> {
    let mut result = FieldSet::new();
    for node in set.nodes() {
        let branch = match child(kind, &node.element) {
            None => node.branch.clone(),
            Some(child) if becomes_one_field(&node.branch, child) => Branch::member(),
            Some(child) => {
                Branch { member: node.branch.member, children: collapse(&node.branch.children, child) }
            }
        };
        result.push(node.element.clone(), branch);
    }
    result
}

/// Whether the type is one field, but the set has fields of it.
fn becomes_one_field(branch: &Branch<'_>, kind: Type<'_>) -> bool {
    let forms = kind.forms();
    match (forms.map, forms.scalar, forms.list) {
        (Some(map), ..) => !map.is_deduced() && map.is_atomic && !branch.children.is_empty(),
        (None, Some(_), _) => false,
        (None, None, Some(list)) => list.is_atomic() && !(branch.member && branch.children.is_empty()),
        (None, None, None) => false,
    }
}

/// The type of what an element leads to; nothing if the schema does not say.
fn child<'s>(kind: Type<'s>, element: &PathElement<'_>) -> Option<Type<'s>> {
    let forms = kind.forms();
    match (forms.map, forms.scalar, forms.list) {
        (Some(map), ..) if map.is_deduced() || map.is_atomic => None,
        (Some(map), ..) => in_map(&map, element),
        (None, None, Some(list)) => in_list(&list),
        _ => None,
    }
}

fn in_map<'s>(map: &Fields<'s>, element: &PathElement<'_>) -> Option<Type<'s>> {
    let kind = match element {
        PathElement::Field(name) => map.field(name),
        _ => map.others,
    };
    (!matches!(kind, Type::Undeclared)).then_some(kind)
}

fn in_list<'s>(list: &List<'s>) -> Option<Type<'s>> {
    (!list.is_atomic()).then_some(list.element)
}
