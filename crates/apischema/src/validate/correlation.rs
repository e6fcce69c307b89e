//! Which value of the old object a value of the new one was before, for changes that are let pass because they are none.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::schema::{AdditionalProperties, ListType, Schema};

/// What a value was before, with the schema that tells how to find what was inside it.
#[derive(Clone, Copy)]
pub(crate) struct Correlated<'a> {
    pub(crate) old: &'a Value,
    pub(crate) schema: &'a Schema,
}

impl<'a> Correlated<'a> {
    /// What a field or key was before.
    pub(crate) fn field(self, name: &str) -> Option<Correlated<'a>> {
        let old = self.old.as_object()?.get(name)?;
        Some(Correlated { old, schema: field_schema(self.schema, name)? })
    }

    /// What the elements of a list were before.
    pub(crate) fn items(self) -> OldItems<'a> {
        OldItems::new(self.old, self.schema)
    }
}

fn field_schema<'a>(schema: &'a Schema, name: &str) -> Option<&'a Schema> {
    match (schema.properties.get(name), &schema.additional) {
        (Some(property), _) => Some(property),
        (None, AdditionalProperties::Of(values)) => Some(values),
        (None, AdditionalProperties::Any | AdditionalProperties::None) => None,
    }
}

/// The elements of a list before. Only those of a list that is a map can be told from each other.
pub(crate) struct OldItems<'a> {
    keys: &'a [String],
    by_key: HashMap<String, &'a Value>,
    schema: Option<&'a Schema>,
}

impl<'a> OldItems<'a> {
    pub(crate) fn new(old: &'a Value, schema: &'a Schema) -> Self {
        let mut items = OldItems { keys: &[], by_key: HashMap::new(), schema: schema.items.as_deref() };
        let (ListType::Map(keys), Some(old)) = (&schema.list_type, old.as_array()) else { return items };
        items.keys = keys;
        for item in old {
            if let Some(key) = key_of(item, keys) {
                items.by_key.entry(key).or_insert(item);
            }
        }
        items
    }

    /// The element with the keys of this one.
    pub(crate) fn item(&self, new: &Value) -> Option<Correlated<'a>> {
        if self.by_key.is_empty() {
            return None;
        }
        let old = self.by_key.get(&key_of(new, self.keys)?)?;
        Some(Correlated { old, schema: self.schema? })
    }
}

fn key_of(item: &Value, keys: &[String]) -> Option<String> {
    let item = item.as_object()?;
    let mut text = String::new();
    for key in keys {
        let value =
            item.get(key).filter(|value| !value.is_null() && !value.is_array() && !value.is_object())?;
        text.push_str(&value.to_string());
        text.push('\0');
    }
    Some(text)
}

/// Whether a value is what it was. Maps that are written as lists may have another order; fields that no schema describes
/// are never the same.
pub(crate) fn unchanged(new: &Value, old: &Value, schema: &Schema) -> bool {
    match (new, old) {
        (Value::Array(new), Value::Array(old_items)) => {
            if !matches!(schema.list_type, ListType::Map(_)) {
                return new == old_items;
            }
            let items = OldItems::new(old, schema);
            let same =
                |item: &Value| items.item(item).is_some_and(|old| unchanged(item, old.old, old.schema));
            new.len() == old_items.len() && new.iter().all(same)
        }
        (Value::Object(new), Value::Object(old)) => {
            new.len() == old.len()
                && new.iter().all(|(name, value)| field_unchanged(name, value, old, schema))
        }
        _ => new == old,
    }
}

fn field_unchanged(name: &str, new: &Value, old: &Map<String, Value>, schema: &Schema) -> bool {
    let (Some(old), Some(schema)) = (old.get(name), field_schema(schema, name)) else { return false };
    unchanged(new, old, schema)
}
