//! Lists in strategic merge patches.

use std::collections::HashMap;

use apischema::{PatchStrategy, Schema};
use serde_json::Value;

use super::order::{Identity, arrange};
use super::{Fields, PATCH, no_merge_key, unknown_directive};
use crate::patch::PatchError;
use apischema::go_text;

/// Merges a list of the patch into the one that is there, or removes its elements from it if `is_deletion`.
pub(super) fn merge_list(
    original: Vec<Value>,
    patch: Vec<Value>,
    element: Option<&Schema>,
    strategy: Option<&PatchStrategy>,
    is_deletion: bool,
) -> Result<Vec<Value>, PatchError> {
    let merges = strategy.is_some_and(|strategy| strategy.merge);
    if !merges && !is_deletion {
        return Ok(patch);
    }
    if original.is_empty() && patch.is_empty() {
        return Ok(original);
    }
    if element_kind(&original, &patch)? == ElementKind::Object {
        let key = strategy.and_then(|strategy| strategy.merge_key.as_deref()).unwrap_or_default();
        if key.is_empty() {
            return Err(PatchError::Unexpected("cannot merge lists without merge key for struct".to_owned()));
        }
        return merge_objects(original, patch, key, element);
    }
    let identities = |items: &[Value]| items.iter().map(Identity::of_value).collect::<Vec<_>>();
    if is_deletion {
        let deleted: std::collections::HashSet<_> = identities(&patch).into_iter().collect();
        return Ok(original
            .into_iter()
            .filter(|item| !deleted.contains(&Identity::of_value(item)))
            .collect());
    }
    let (server_order, patch_order) = (identities(&original), identities(&patch));
    let mut seen = std::collections::HashSet::new();
    let merged: Vec<(Identity, Value)> = original
        .into_iter()
        .chain(patch)
        .map(|item| (Identity::of_value(&item), item))
        .filter(|(identity, _)| seen.insert(identity.clone()))
        .collect();
    Ok(arrange(merged, &patch_order, &server_order))
}

fn merge_objects(
    original: Vec<Value>,
    patch: Vec<Value>,
    key: &str,
    element: Option<&Schema>,
) -> Result<Vec<Value>, PatchError> {
    let (original, patch) = obey_directives(original, patch, key)?;
    // Every element must have the key, also those that no element of the patch is about.
    let mut places: HashMap<Identity, usize> = HashMap::with_capacity(original.len());
    let mut merged: Vec<(Identity, Fields)> = Vec::with_capacity(original.len() + patch.len());
    let mut server_order = Vec::with_capacity(original.len());
    for item in original {
        let identity = identity(&item, key)?;
        // Of elements with the same key the patch changes the first.
        places.entry(identity.clone()).or_insert(merged.len());
        server_order.push(identity.clone());
        merged.push((identity, item));
    }
    let mut patch_order = Vec::with_capacity(patch.len());
    for change in patch {
        let identity = identity(&change, key)?;
        patch_order.push(identity.clone());
        match places.get(&identity) {
            Some(place) => {
                let (_, current) = &mut merged[*place];
                let result = super::merge_fields(std::mem::take(current), change, element)?;
                merged[*place] = (self::identity(&result, key)?, result);
            }
            None => {
                places.insert(identity.clone(), merged.len());
                merged.push((identity, change));
            }
        }
    }
    let merged = merged.into_iter().map(|(identity, item)| (identity, Value::Object(item))).collect();
    Ok(arrange(merged, &patch_order, &server_order))
}

/// Obeys the `$patch` directives among the elements of a patch. Returns what is left of both lists.
fn obey_directives(
    original: Vec<Value>,
    patch: Vec<Value>,
    key: &str,
) -> Result<(Vec<Fields>, Vec<Fields>), PatchError> {
    let mut deleted = std::collections::HashSet::new();
    let mut replaces = false;
    let mut plain = Vec::with_capacity(patch.len());
    for element in patch {
        let Value::Object(element) = element else { continue };
        match element.get(PATCH) {
            None => plain.push(element),
            Some(Value::String(directive)) if directive == "delete" => {
                deleted.insert(identity(&element, key)?);
            }
            Some(Value::String(directive)) if directive == "replace" => replaces = true,
            Some(Value::String(directive)) if directive == "merge" => {
                let message = "merging lists cannot yet be specified in the patch".to_owned();
                return Err(PatchError::Unexpected(message));
            }
            Some(_) => return Err(unknown_directive(&element)),
        }
    }
    if replaces {
        return Ok((plain, Vec::new()));
    }
    let is_deleted =
        |item: &Fields| item.get(key).is_some_and(|value| deleted.contains(&Identity::of_value(value)));
    let objects = original.into_iter().filter_map(|item| match item {
        Value::Object(item) => Some(item),
        _ => None,
    });
    Ok((objects.filter(|item| !is_deleted(item)).collect(), plain))
}

fn identity(element: &Fields, key: &str) -> Result<Identity, PatchError> {
    element.get(key).map(Identity::of_value).ok_or_else(|| no_merge_key(element, key))
}

#[derive(Clone, Copy, PartialEq)]
enum ElementKind {
    Object,
    Plain(&'static str),
}

/// What the elements of two lists are. They must all be of one type, but not lists.
fn element_kind(original: &[Value], patch: &[Value]) -> Result<ElementKind, PatchError> {
    let mut kind = None;
    for item in original.iter().chain(patch) {
        let this = match item {
            Value::Object(_) => ElementKind::Object,
            Value::Array(_) if kind.is_none() => {
                return Err(PatchError::Inapplicable("lists of lists are not supported".to_owned()));
            }
            other => ElementKind::Plain(go_text::type_name(other)),
        };
        if *kind.get_or_insert(this) != this {
            let lists = format!("{} {}", go_text::plain_list(original), go_text::plain_list(patch));
            return Err(PatchError::Unexpected(format!("list element types are not identical: [{lists}]")));
        }
    }
    kind.ok_or_else(|| PatchError::Unexpected("no elements in any of the given slices".to_owned()))
}

/// Merges lists whose order a directive says. See [`order`](super::order).
pub(super) fn merge_for_order(
    original: Option<Vec<Value>>,
    patch: Option<Vec<Value>>,
    element: Option<&Schema>,
    strategy: Option<&PatchStrategy>,
) -> Result<Vec<Value>, PatchError> {
    match (original, patch) {
        (Some(original), None) => Ok(original),
        (None, Some(patch)) => Ok(patch.into_iter().filter_map(super::without_directives).collect()),
        (Some(original), Some(patch)) => merge_list(original, patch, element, strategy, false),
        (None, None) => Ok(Vec::new()),
    }
}
