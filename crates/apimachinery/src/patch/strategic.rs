//! Strategic merge patch: a merge patch that merges lists.
//!
//! Which lists, and by what key, the schema says ([`PatchStrategy`](apischema::PatchStrategy)). Directives in the patch say the
//! rest:
//!
//! ```text
//! $patch: replace | delete               on an object, or on an element of a list
//! $retainKeys: [a, b]                    the object keeps no other fields
//! $deleteFromPrimitiveList/x: [1, 2]     removes plain values from list x
//! $setElementOrder/x: [...]              the order that the elements of list x shall have
//! ```

use std::collections::HashSet;

use apischema::{AdditionalProperties, PatchStrategy, Schema};
use serde_json::{Map, Value};

use super::PatchError;
use apischema::go_text;

mod list;
mod order;

type Fields = Map<String, Value>;

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList";
const SET_ORDER: &str = "$setElementOrder";

/// Applies a strategic merge patch to an object of this schema.
pub fn strategic(current: &Value, patch: Value, schema: &Schema) -> Result<Value, PatchError> {
    let (Value::Object(current), Value::Object(patch)) = (current, patch) else {
        return Err(PatchError::Malformed("invalid JSON document".to_owned()));
    };
    merge_fields(current.clone(), patch, Some(schema)).map(Value::Object)
}

/// Merges a patch into the fields of an object. Without a schema nothing is known of them.
fn merge_fields(
    mut original: Fields,
    mut patch: Fields,
    schema: Option<&Schema>,
) -> Result<Fields, PatchError> {
    if let Some(directive) = patch.get(PATCH) {
        return match directive.as_str() {
            Some("replace") => {
                patch.remove(PATCH);
                Ok(patch)
            }
            Some("delete") => Ok(Fields::new()),
            _ => Err(unknown_directive(&patch)),
        };
    }
    retain_keys(&mut original, &mut patch)?;
    order::merge_ordered_lists(&mut original, &mut patch, schema)?;
    for (key, change) in patch {
        let deleted_from = list_named_by(&key, DELETE_FROM, "invalid patch format of primitive list")?;
        let is_deletion = deleted_from.is_some();
        let key = deleted_from.unwrap_or(key);
        match (original.get_mut(&key), change) {
            (_, Value::Null) => {
                original.remove(&key);
            }
            (Some(Value::Array(current)), Value::Array(change)) => {
                let (element, strategy) = list_schema(schema, &key);
                let merged =
                    list::merge_list(std::mem::take(current), change, element, strategy, is_deletion)?;
                *current = merged;
            }
            (_, _) if is_deletion => {}
            (Some(Value::Object(current)), Value::Object(change)) => {
                let merged = merge_fields(std::mem::take(current), change, field_schema(schema, &key))?;
                *current = merged;
            }
            // What is new, or of another type than what was there, is taken as it is.
            (Some(Value::Array(_) | Value::Object(_)) | None, change)
            | (Some(_), change @ (Value::Array(_) | Value::Object(_))) => {
                match without_directives(without_nulls(change)) {
                    Some(value) => original.insert(key, value),
                    None => original.remove(&key),
                };
            }
            (Some(current), change) => *current = change,
        }
    }
    Ok(original)
}

/// Obeys `$retainKeys`: drops the other fields, and refuses a patch that sets them.
fn retain_keys(original: &mut Fields, patch: &mut Fields) -> Result<(), PatchError> {
    let Some(directive) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let malformed = || PatchError::Malformed("invalid patch format of retainKeys".to_owned());
    let Value::Array(keys) = directive else { return Err(malformed()) };
    let keys: HashSet<&str> = keys.iter().filter_map(Value::as_str).collect();
    let may_set = |(key, change): (&String, &Value)| {
        change.is_null()
            || key.starts_with(DELETE_FROM)
            || key.starts_with(SET_ORDER)
            || keys.contains(key.as_str())
    };
    if !patch.iter().all(may_set) {
        return Err(malformed());
    }
    original.retain(|key, _| keys.contains(key.as_str()));
    Ok(())
}

/// The list that a directive `$prefix/list` is about; nothing if the key is no such directive.
fn list_named_by(key: &str, prefix: &str, malformed: &str) -> Result<Option<String>, PatchError> {
    if !key.starts_with(prefix) {
        return Ok(None);
    }
    match key.split_once('/') {
        Some((directive, list)) if directive == prefix => Ok(Some(list.to_owned())),
        _ => Err(PatchError::Malformed(malformed.to_owned())),
    }
}

/// Drops the fields that are null, all the way down.
fn without_nulls(mut value: Value) -> Value {
    fn discard(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                fields.retain(|_, field| !field.is_null());
                fields.values_mut().for_each(discard);
            }
            Value::Array(items) => items.iter_mut().for_each(discard),
            _ => {}
        }
    }
    discard(&mut value);
    value
}

/// Drops the objects that have a `$patch` directive, all the way down; nothing is left if the value itself is one.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(fields) if fields.contains_key(PATCH) => None,
        Value::Object(fields) => {
            let kept = fields.into_iter();
            Some(Value::Object(
                kept.filter_map(|(key, field)| Some((key, without_directives(field)?))).collect(),
            ))
        }
        Value::Array(items) => Some(Value::Array(items.into_iter().filter_map(without_directives).collect())),
        other => Some(other),
    }
}

/// The schema of a field, if anything is known of it.
fn field_schema<'s>(schema: Option<&'s Schema>, key: &str) -> Option<&'s Schema> {
    let schema = schema?;
    match (schema.properties.get(key), &schema.additional) {
        (Some(field), _) => Some(field.as_ref()),
        (None, AdditionalProperties::Of(field)) => Some(field.as_ref()),
        (None, _) => None,
    }
}

/// The schema of a list's elements and how they are merged.
fn list_schema<'s>(schema: Option<&'s Schema>, key: &str) -> (Option<&'s Schema>, Option<&'s PatchStrategy>) {
    let list = field_schema(schema, key);
    (list.and_then(|list| list.items.as_deref()), list.map(|list| &list.patch))
}

fn unknown_directive(patch: &Fields) -> PatchError {
    let directive = match patch.get(PATCH) {
        Some(Value::String(text)) => text.clone(),
        // Go has a notation for a value that is not the string it should print.
        Some(other) => format!("%!s({}={})", go_text::type_name(other), go_text::plain(other)),
        None => String::new(),
    };
    let map = go_text::plain(&Value::Object(patch.clone()));
    PatchError::Unexpected(format!("unknown patch type: {directive} in map: {map}"))
}

fn no_merge_key(element: &Fields, key: &str) -> PatchError {
    let map = go_text::plain(&Value::Object(element.clone()));
    PatchError::Unexpected(format!("map: {map} does not contain declared merge key: {key}"))
}

fn wrong_type(expected: &str, actual: &Value) -> PatchError {
    PatchError::Unexpected(format!("expected a {expected}, but received a {}", go_text::type_name(actual)))
}

#[cfg(test)]
mod tests;
