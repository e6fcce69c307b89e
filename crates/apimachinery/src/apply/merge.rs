//! Merging a configuration into an object.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::path::PathElement;
use super::types::{Fields, Form, List, Type};

/// The object with what the configuration sets. Nothing is removed. The configuration must have been
/// [validated](super::validate).
pub(super) fn merge(live: &Value, applied: &Value, kind: Type<'_>) -> Value {
    let forms = kind.lenient_forms();
    match (forms.form(applied), forms.map, forms.list) {
        (Some(Form::Map), Some(map), _) => merge_maps(live, applied, &map),
        (Some(Form::List), _, Some(list)) => merge_lists(live, applied, &list),
        _ => applied.clone(),
    }
}

fn merge_maps(live: &Value, applied: &Value, map: &Fields<'_>) -> Value {
    let has_fields = |value: &Value| value.as_object().is_some_and(|fields| !fields.is_empty());
    if map.is_atomic || !(has_fields(live) || has_fields(applied)) {
        return applied.clone();
    }
    let mut merged = live.as_object().cloned().unwrap_or_default();
    for (name, change) in applied.as_object().into_iter().flatten() {
        match merged.get_mut(name) {
            Some(current) => *current = merge(current, change, map.field(name)),
            None => {
                merged.insert(name.clone(), change.clone());
            }
        }
    }
    Value::Object(merged)
}

fn merge_lists<'v>(live: &'v Value, applied: &'v Value, list: &List<'v>) -> Value {
    let live_items = live.as_array().map(Vec::as_slice).unwrap_or_default();
    let applied_items = applied.as_array().map(Vec::as_slice).unwrap_or_default();
    if list.is_atomic() || (live_items.is_empty() && applied_items.is_empty()) {
        return applied.clone();
    }
    let elements = |items: &'v [Value]| -> Option<Vec<PathElement<'v>>> {
        items.iter().map(|item| list.element_of(item).ok()).collect()
    };
    // A live list whose elements cannot be told apart is older than its schema.
    let (Some(live_elements), Some(applied_elements)) = (elements(live_items), elements(applied_items))
    else {
        return applied.clone();
    };
    let merged = interleave(live_items, &live_elements, applied_items, &applied_elements);
    let merged = merged.into_iter().map(|item| match item {
        Merged::Both(live, applied) => merge(live, applied, list.element),
        Merged::One(only) => only.clone(),
    });
    Value::Array(merged.collect())
}

/// An element of a merged list: what the live list and the configuration have of it.
enum Merged<'v> {
    Both(&'v Value, &'v Value),
    One(&'v Value),
}

/// The order of a merged list. Elements that both lists have take the order of the configuration; the others stay between those
/// that they stood between.
fn interleave<'v>(
    live: &'v [Value],
    live_elements: &[PathElement<'v>],
    applied: &'v [Value],
    applied_elements: &[PathElement<'v>],
) -> Vec<Merged<'v>> {
    // Live elements that cannot be told apart are replaced together.
    let mut in_live: BTreeMap<&PathElement<'v>, Option<&'v Value>> = BTreeMap::new();
    for (element, item) in live_elements.iter().zip(live) {
        in_live.entry(element).and_modify(|found| *found = None).or_insert(Some(item));
    }
    let in_applied: BTreeSet<&PathElement<'v>> = applied_elements.iter().collect();
    let mut shared = applied_elements.iter().filter(|element| in_live.contains_key(element));
    let mut next_shared = shared.next();
    let mut done: BTreeSet<&PathElement<'v>> = BTreeSet::new();
    let both = |element: &PathElement<'v>, applied: &'v Value| match in_live.get(element) {
        Some(Some(live)) => Merged::Both(live, applied),
        _ => Merged::One(applied),
    };

    let mut merged = Vec::with_capacity(live.len().max(applied.len()));
    let (mut at, mut applied_at) = (0, 0);
    while at < live.len() || applied_at < applied.len() {
        if let (Some(element), Some(wanted)) = (live_elements.get(at), applied_elements.get(applied_at)) {
            if element == wanted {
                done.insert(element);
                merged.push(both(element, &applied[applied_at]));
                (at, applied_at) = (at + 1, applied_at + 1);
                next_shared = shared.next();
                continue;
            }
            if in_applied.contains(element) && next_shared.is_some_and(|next| next != element) {
                // It comes later.
                at += 1;
                continue;
            }
        }
        if let Some(element) = live_elements.get(at) {
            if !in_applied.contains(element) {
                merged.push(Merged::One(&live[at]));
                at += 1;
                continue;
            }
            if done.contains(element) {
                at += 1;
            }
        }
        if let Some(element) = applied_elements.get(applied_at) {
            done.insert(element);
            merged.push(both(element, &applied[applied_at]));
            applied_at += 1;
            if next_shared == Some(element) {
                next_shared = shared.next();
            }
        }
    }
    merged
}
