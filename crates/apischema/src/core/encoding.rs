//! What an object looks like after Go read and wrote it.

use serde_json::{Map, Value};

use super::go_types::{self, Field};
use crate::cel::Timestamp;
use crate::quantity::{Precision, Quantity};
use crate::schema::{AdditionalProperties, Schema, Type};

const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
const TIME: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Time";
const MICRO_TIME: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime";
const INT_OR_STRING: &str = "io.k8s.apimachinery.pkg.util.intstr.IntOrString";

/// Drops what Go would not write out again, and writes quantities and times in their one way.
pub(super) fn strip(value: &mut Value, schema: &Schema) {
    strip_value(value, schema, Precision::Nano);
}

fn strip_value(value: &mut Value, schema: &Schema, precision: Precision) {
    if let Some(schema) = super::continued(schema, value) {
        return strip_value(value, &schema, precision);
    }
    match (schema.type_name.as_deref(), &mut *value) {
        (Some(QUANTITY), _) => canonical_quantity(value, precision),
        (Some(TIME), Value::String(text)) => canonical_time(text, 0),
        (Some(MICRO_TIME), Value::String(text)) => canonical_time(text, 6),
        (component, Value::Object(fields)) => match component.and_then(go_types::of) {
            Some(known) => fields.retain(|name, value| {
                let (Some(field), Some(schema)) = (known.get(name), schema.properties.get(name)) else {
                    return true;
                };
                // What is asked for of resources is counted in thousandths.
                let precision = if field.go_type == "v1.ResourceList" { Precision::Milli } else { precision };
                strip_value(value, schema, precision);
                !is_dropped(value, field, schema)
            }),
            None => {
                let AdditionalProperties::Of(values) = &schema.additional else { return };
                fields.values_mut().for_each(|value| strip_value(value, values, precision));
            }
        },
        (_, Value::Array(items)) => {
            let Some(schema) = &schema.items else { return };
            items.iter_mut().for_each(|item| strip_value(item, schema, precision));
        }
        _ => {}
    }
}

fn is_dropped(value: &Value, field: &Field, schema: &Schema) -> bool {
    if value.is_null() {
        return true;
    }
    if field.always || field.pointer {
        return false;
    }
    match value {
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        // An empty map goes; a struct would be written out.
        Value::Object(fields) => fields.is_empty() && schema.properties.is_empty(),
        Value::Null => true,
    }
}

fn canonical_quantity(value: &mut Value, precision: Precision) {
    if let Some(quantity) = Quantity::from_value(value) {
        *value = quantity.rounded(precision).to_string().into();
    }
}

/// In UTC, with so many digits of a second.
fn canonical_time(text: &mut String, digits: usize) {
    if let Some(time) = Timestamp::parse(text) {
        *text = time.to_text_with(digits);
    }
}

/// Adds what Go always writes out.
pub(super) fn fill(value: &mut Value, schema: &Schema) {
    if let Some(schema) = super::continued(schema, value) {
        return fill(value, &schema);
    }
    match value {
        Value::Object(fields) => match schema.type_name.as_deref().and_then(go_types::of) {
            Some(known) => {
                for (name, field) in known {
                    let Some(schema) = schema.properties.get(name) else { continue };
                    if field.always && !fields.contains_key(name) {
                        fields.insert(name.clone(), zero(field, schema));
                    }
                    if let Some(value) = fields.get_mut(name) {
                        fill(value, schema);
                    }
                }
            }
            None => {
                let AdditionalProperties::Of(values) = &schema.additional else { return };
                fields.values_mut().for_each(|value| fill(value, values));
            }
        },
        Value::Array(items) => {
            let Some(schema) = &schema.items else { return };
            items.iter_mut().for_each(|item| fill(item, schema));
        }
        _ => {}
    }
}

/// The value of a field that nobody set.
fn zero(field: &Field, schema: &Schema) -> Value {
    if field.pointer {
        return Value::Null;
    }
    match (schema.type_name.as_deref(), schema.kind) {
        (Some(QUANTITY), _) => "0".into(),
        (Some(TIME | MICRO_TIME), _) => Value::Null,
        (Some(INT_OR_STRING), _) => 0.into(),
        (_, Some(Type::Object)) if !schema.properties.is_empty() => Value::Object(Map::new()),
        (_, Some(Type::String)) if !field.go_type.starts_with("[]") => "".into(),
        (_, Some(Type::Integer | Type::Number)) => 0.into(),
        (_, Some(Type::Boolean)) => false.into(),
        _ => Value::Null,
    }
}
