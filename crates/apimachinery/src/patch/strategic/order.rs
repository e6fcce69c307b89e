//! The order of lists in strategic merge patches.
//!
//! Elements of the patch have the order of the patch, or that of `$setElementOrder`; the others have the order that they had. Where
//! the two meet, an element that was before another stays before it.

use std::collections::HashMap;

use apischema::Schema;
use serde_json::Value;

use super::{Fields, PATCH, SET_ORDER, list, list_named_by, list_schema, no_merge_key, wrong_type};
use crate::patch::PatchError;
use apischema::go_text;

const MALFORMED: &str = "invalid patch format of setElementOrder list";

/// What tells an element of a list from the others: the value itself, or that of its merge key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Identity {
    Null,
    Bool(bool),
    Integer(i64),
    /// The bits: no list has values that are not numbers.
    Float(u64),
    Text(String),
    /// Lists and objects, which tell nothing apart.
    Compound,
}

impl Identity {
    pub(super) fn of_value(value: &Value) -> Self {
        match value {
            Value::Null => Identity::Null,
            Value::Bool(truth) => Identity::Bool(*truth),
            Value::Number(number) => match number.as_i64() {
                Some(integer) => Identity::Integer(integer),
                None => Identity::Float(number.as_f64().unwrap_or_default().to_bits()),
            },
            Value::String(text) => Identity::Text(text.clone()),
            Value::Array(_) | Value::Object(_) => Identity::Compound,
        }
    }
}

/// Puts merged elements in order: those that `patch_order` has in that order, the others in `server_order`.
pub(super) fn arrange(
    merged: Vec<(Identity, Value)>,
    patch_order: &[Identity],
    server_order: &[Identity],
) -> Vec<Value> {
    let in_patch = positions(patch_order);
    let on_server = positions(server_order);
    let (mut of_patch, mut of_server): (Vec<_>, Vec<_>) =
        merged.into_iter().partition(|(identity, _)| in_patch.contains_key(identity));
    of_patch.sort_by_key(|(identity, _)| in_patch.get(identity));
    of_server.sort_by_key(|(identity, _)| on_server.get(identity));

    let mut arranged = Vec::with_capacity(of_patch.len() + of_server.len());
    let mut of_patch = of_patch.into_iter().peekable();
    let mut of_server = of_server.into_iter().peekable();
    loop {
        let server_first = match (of_server.peek(), of_patch.peek()) {
            (Some((server, _)), Some((patch, _))) => match (on_server.get(server), on_server.get(patch)) {
                (Some(server), Some(patch)) => server < patch,
                _ => false,
            },
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (None, None) => return arranged,
        };
        let next = if server_first { of_server.next() } else { of_patch.next() };
        arranged.extend(next.map(|(_, value)| value));
    }
}

/// Where each identity first stands.
fn positions(order: &[Identity]) -> HashMap<&Identity, usize> {
    let mut positions = HashMap::with_capacity(order.len());
    for (at, identity) in order.iter().enumerate() {
        positions.entry(identity).or_insert(at);
    }
    positions
}

/// Obeys `$setElementOrder`: merges each list that a directive orders, and takes both from the patch.
pub(super) fn merge_ordered_lists(
    original: &mut Fields,
    patch: &mut Fields,
    schema: Option<&Schema>,
) -> Result<(), PatchError> {
    let directives: Vec<String> = patch.keys().filter(|key| key.starts_with(SET_ORDER)).cloned().collect();
    for directive in directives {
        let order = match patch.remove(&directive) {
            Some(Value::Array(order)) => order,
            other => return Err(wrong_type("[]interface {}", &other.unwrap_or_default())),
        };
        let key = list_named_by(&directive, SET_ORDER, MALFORMED)?.unwrap_or_default();
        let current = take_list(original, &key)?;
        let change = take_list(patch, &key)?;
        let (element, strategy) = list_schema(schema, &key);
        if schema.is_some_and(|schema| !schema.properties.is_empty() && !schema.properties.contains_key(&key))
        {
            let field = go_text::quote(&key);
            let message = format!("unable to find api field in struct for the json field {field}");
            return Err(PatchError::Unexpected(message));
        }
        let merge_key = strategy.and_then(|strategy| strategy.merge_key.as_deref());
        check_order(change.as_deref().unwrap_or_default(), &order, merge_key)?;
        if current.is_none() && change.is_none() {
            continue;
        }
        if current.iter().chain(&change).all(Vec::is_empty) {
            return Err(PatchError::Unexpected("no elements in any of the given slices".to_owned()));
        }
        let server_order = match &current {
            Some(items) => identities(items, merge_key)?,
            None => Vec::new(),
        };
        let merged = list::merge_for_order(current, change, element, strategy)?;
        let names = identities(&merged, merge_key)?;
        let merged: Vec<_> = names.into_iter().zip(merged).collect();
        let arranged = arrange(merged, &identities(&order, merge_key)?, &server_order);
        original.insert(key, Value::Array(arranged));
    }
    Ok(())
}

fn take_list(fields: &mut Fields, key: &str) -> Result<Option<Vec<Value>>, PatchError> {
    match fields.remove(key) {
        None => Ok(None),
        Some(Value::Array(items)) => Ok(Some(items)),
        Some(other) => Err(wrong_type("[]interface {}", &other)),
    }
}

fn identities(items: &[Value], merge_key: Option<&str>) -> Result<Vec<Identity>, PatchError> {
    let Some(key) = merge_key else { return Ok(items.iter().map(Identity::of_value).collect()) };
    let identity = |item: &Value| match item {
        Value::Object(element) => {
            element.get(key).map(Identity::of_value).ok_or_else(|| no_merge_key(element, key))
        }
        other => Err(wrong_type("map[string]interface {}", other)),
    };
    items.iter().map(identity).collect()
}

/// Refuses a patch whose elements are not all in the order list, or are there in another order.
fn check_order(patch: &[Value], order: &[Value], merge_key: Option<&str>) -> Result<(), PatchError> {
    if patch.is_empty() || order.is_empty() {
        return Ok(());
    }
    let has_directive = |item: &&Value| item.get(PATCH).is_some();
    let kept: Vec<Value> = match merge_key {
        Some(_) => {
            if let Some(other) = patch.iter().find(|item| !item.is_object()) {
                return Err(wrong_type("map[string]interface {}", other));
            }
            patch.iter().filter(|item| !has_directive(item)).cloned().collect()
        }
        None => patch.to_vec(),
    };
    let mut wanted = identities(&kept, merge_key)?.into_iter().peekable();
    for identity in identities(order, merge_key)? {
        if wanted.peek() == Some(&identity) {
            wanted.next();
        }
    }
    if wanted.peek().is_none() {
        return Ok(());
    }
    Err(PatchError::Unexpected(format!(
        "The order in patch list:\n{}\n doesn't match {SET_ORDER} list:\n{}\n",
        go_text::plain_list(patch),
        go_text::plain_list(order)
    )))
}
