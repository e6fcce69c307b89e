//! The difference between two versions of an object, as fields.

use std::cmp::Ordering;

use serde_json::{Map, Value};

use super::order::equal;
use super::path::PathElement;
use super::set::{Branch, FieldSet};
use super::to_set::whole;
use super::types::{Fields, Form, List, Type};

/// Which fields differ. No field is in more than one of the sets, but for those of list elements that could not be told apart
/// and now can, or the other way around.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Comparison<'v> {
    pub(super) removed: FieldSet<'v>,
    pub(super) modified: FieldSet<'v>,
    pub(super) added: FieldSet<'v>,
}

/// Compares two versions of an object.
pub(super) fn compare<'v>(old: &'v Value, new: &'v Value, kind: Type<'v>) -> Comparison<'v> {
    let difference = differ(old, new, kind);
    Comparison {
        removed: difference.removed.children,
        modified: difference.modified.children,
        added: difference.added.children,
    }
}

impl<'v> Comparison<'v> {
    /// Leaves out fields and what is below them.
    pub(super) fn without(self, fields: Option<&FieldSet<'_>>) -> Self {
        let Some(fields) = fields else { return self };
        Comparison {
            removed: self.removed.recursive_difference(fields),
            modified: self.modified.recursive_difference(fields),
            added: self.added.recursive_difference(fields),
        }
    }
}

/// The same of one field.
#[derive(Default)]
struct Difference<'v> {
    removed: Branch<'v>,
    modified: Branch<'v>,
    added: Branch<'v>,
}

impl<'v> Difference<'v> {
    fn union(self, other: Self) -> Self {
        Difference {
            removed: self.removed.union(other.removed),
            modified: self.modified.union(other.modified),
            added: self.added.union(other.added),
        }
    }

    /// Adds what differs of a child that comes after all others.
    fn push(&mut self, element: &PathElement<'v>, child: Difference<'v>) {
        let sets = [
            (&mut self.removed, child.removed),
            (&mut self.modified, child.modified),
            (&mut self.added, child.added),
        ];
        for (set, branch) in sets {
            if !branch.is_empty() {
                set.children.push(element.clone(), branch);
            }
        }
    }
}

fn differ<'v>(old: &'v Value, new: &'v Value, kind: Type<'v>) -> Difference<'v> {
    let forms = kind.lenient_forms();
    let in_form = |form: Option<Form>| match (form, forms.map, forms.list) {
        (Some(Form::Map), Some(map), _) => differ_as_maps(old, new, &map),
        (Some(Form::List), _, Some(list)) => differ_as_lists(old, new, &list),
        _ => differ_as_wholes(old, new),
    };
    let (old_form, new_form) = (forms.form(old), forms.form(new));
    let difference = in_form(new_form);
    // A value that changed its form differs in both forms.
    if old_form == new_form { difference } else { in_form(old_form).union(difference) }
}

fn differ_as_wholes<'v>(old: &'v Value, new: &'v Value) -> Difference<'v> {
    let modified = Branch { member: !equal(old, new), ..Branch::default() };
    Difference { modified, ..Difference::default() }
}

fn differ_as_maps<'v>(old: &'v Value, new: &'v Value, map: &Fields<'v>) -> Difference<'v> {
    let fields = |value: &'v Value| value.as_object().filter(|fields| !fields.is_empty());
    let (old_fields, new_fields) = (fields(old), fields(new));
    // Nothing and an empty object differ.
    if map.is_atomic || (old_fields.is_none() && new_fields.is_none()) {
        return differ_as_wholes(old, new);
    }
    let mut difference = Difference::default();
    let mut old_fields = old_fields.into_iter().flat_map(Map::iter).peekable();
    let mut new_fields = new_fields.into_iter().flat_map(Map::iter).peekable();
    loop {
        let order = match (old_fields.peek(), new_fields.peek()) {
            (Some((old, _)), Some((new, _))) => old.cmp(new),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return difference,
        };
        let old = if order.is_le() { old_fields.next() } else { None };
        let new = if order.is_ge() { new_fields.next() } else { None };
        let Some((name, _)) = old.or(new) else { return difference };
        let child = differ_if_there(old.map(|(_, old)| old), new.map(|(_, new)| new), map.field(name));
        difference.push(&PathElement::Field(name.as_str().into()), child);
    }
}

fn differ_if_there<'v>(old: Option<&'v Value>, new: Option<&'v Value>, kind: Type<'v>) -> Difference<'v> {
    match (old, new) {
        (Some(old), Some(new)) => differ(old, new, kind),
        (Some(old), None) => Difference { removed: whole(old, kind), ..Difference::default() },
        (None, Some(new)) => Difference { added: whole(new, kind), ..Difference::default() },
        (None, None) => Difference::default(),
    }
}

fn differ_as_lists<'v>(old: &'v Value, new: &'v Value, list: &List<'v>) -> Difference<'v> {
    let items = |value: &'v Value| value.as_array().map(Vec::as_slice).unwrap_or_default();
    let (old_items, new_items) = (items(old), items(new));
    if list.is_atomic() || (old_items.is_empty() && new_items.is_empty()) {
        return differ_as_wholes(old, new);
    }
    let mut difference = Difference::default();
    let (old_elements, new_elements) = (elements(old_items, list), elements(new_items, list));
    let mut old_groups = old_elements.chunk_by(|left, right| left.0 == right.0).peekable();
    let mut new_groups = new_elements.chunk_by(|left, right| left.0 == right.0).peekable();
    loop {
        let order = match (old_groups.peek(), new_groups.peek()) {
            (Some([old, ..]), Some([new, ..])) => old.0.cmp(&new.0),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            _ => return difference,
        };
        let old = if order.is_le() { old_groups.next() } else { None }.unwrap_or_default();
        let new = if order.is_ge() { new_groups.next() } else { None }.unwrap_or_default();
        let Some((element, _)) = old.first().or(new.first()) else { return difference };
        difference.push(element, differ_as_elements(old, new, list.element));
    }
}

type Elements<'v> = Vec<(PathElement<'v>, &'v Value)>;

/// The elements of a list in the order of what tells them apart.
fn elements<'v>(items: &'v [Value], list: &List<'v>) -> Elements<'v> {
    let mut elements: Elements<'v> =
        items.iter().filter_map(|item| Some((list.element_of(item).ok()?, item))).collect();
    elements.sort_by(|(left, _), (right, _)| left.cmp(right));
    elements
}

/// Compares the elements of two lists that have the same key. Those that have it in common with others of their list are one
/// field together.
fn differ_as_elements<'v>(
    old: &[(PathElement<'v>, &'v Value)],
    new: &[(PathElement<'v>, &'v Value)],
    kind: Type<'v>,
) -> Difference<'v> {
    let only = |items: &[(PathElement<'v>, &'v Value)]| items.first().map(|(_, value)| *value);
    match (old.len() > 1, new.len() > 1) {
        (false, false) => differ_if_there(only(old), only(new), kind),
        (true, true) => {
            let same =
                old.len() == new.len() && old.iter().zip(new).all(|((_, old), (_, new))| equal(old, new));
            let modified = Branch { member: !same, ..Branch::default() };
            Difference { modified, ..Difference::default() }
        }
        (true, false) => {
            let mut difference = differ_if_there(None, only(new), kind);
            difference.removed.member = true;
            difference
        }
        (false, true) => {
            let mut difference = differ_if_there(only(old), None, kind);
            difference.added.member = true;
            difference
        }
    }
}
