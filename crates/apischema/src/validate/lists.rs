//! Lists that are sets or maps have no element twice.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::field_error::FieldError;
use crate::path::Path;
use crate::schema::{AdditionalProperties, ListType, Schema};

/// The elements that are in a set or a map twice, each reported once.
pub(crate) fn list_errors(object: &Value, schema: &Schema) -> Vec<FieldError> {
    let mut errors = Vec::new();
    check(object, schema, &Path::ROOT, &mut errors);
    errors
}

fn check(value: &Value, schema: &Schema, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    match value {
        Value::Object(fields) => {
            if let AdditionalProperties::Of(values) = &schema.additional {
                for (key, value) in fields {
                    check(value, values, &path.key(key), errors);
                }
            }
            for (name, value) in fields {
                if let Some(property) = schema.properties.get(name) {
                    check(value, property, &path.field(name), errors);
                }
            }
        }
        Value::Array(items) => {
            match &schema.list_type {
                ListType::Atomic => {}
                ListType::Set => {
                    for index in duplicates(items) {
                        let path = path.index(index).to_field_path();
                        errors.push(FieldError::duplicate(path, items[index].clone()));
                    }
                }
                ListType::Map(keys) => check_map(items, keys, path, errors),
            }
            if let Some(schema) = &schema.items {
                for (index, item) in items.iter().enumerate() {
                    check(item, schema, &path.index(index), errors);
                }
            }
        }
        _ => {}
    }
}

fn check_map(items: &[Value], keys: &[String], path: &Path<'_>, errors: &mut Vec<FieldError>) {
    if let Some(index) = items.iter().position(|item| !item.is_object() && !item.is_null()) {
        let path = path.index(index).to_field_path();
        let detail = "must be an object for an array of list-type map";
        errors.push(FieldError::invalid(path, items[index].clone(), detail));
        return;
    }
    if items.len() < 2 {
        return;
    }
    let key = |item: &Value| -> Value {
        let present = keys.iter().filter_map(|key| Some((key.clone(), item.get(key)?.clone())));
        Value::Object(present.collect::<Map<_, _>>())
    };
    let item_keys: Vec<Value> = items.iter().map(key).collect();
    for index in duplicates(&item_keys) {
        errors.push(FieldError::duplicate(path.index(index).to_field_path(), item_keys[index].clone()));
    }
}

/// The places of elements that are there for the second time.
fn duplicates(items: &[Value]) -> Vec<usize> {
    if items.len() < 2 {
        return vec![];
    }
    let mut seen: HashMap<&Value, usize> = HashMap::with_capacity(items.len());
    let mut again = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let times = seen.entry(item).or_default();
        *times += 1;
        if *times == 2 {
            again.push(index);
        }
    }
    again
}

pub(super) fn has_duplicates(items: &[Value]) -> bool {
    !duplicates(items).is_empty()
}
