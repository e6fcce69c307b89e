//! How much data a schema allows, as far as the costs of expressions depend on it.

use crate::schema::{AdditionalProperties, Schema, Type, Validation};

/// What a request may have at most.
const MAX_REQUEST: u64 = 3 * 1024 * 1024;
/// What JSON puts around a string, a list or an object.
const QUOTES: u64 = 2;

/// The greatest number of elements of a list or a map, or of bytes of a string. Objects and numbers have none.
pub(super) fn max_elements(schema: &Schema) -> u64 {
    let none = Validation::default();
    let validation = schema.validation.as_deref().unwrap_or(&none);
    // A character may take four bytes.
    let text = || validation.max_length.map(|length| length.saturating_mul(4));
    if schema.int_or_string {
        return text().unwrap_or(MAX_REQUEST - QUOTES);
    }
    match (schema.kind, &schema.additional, &schema.items) {
        (Some(Type::Array), _, Some(items)) => {
            validation.max_items.unwrap_or_else(|| (MAX_REQUEST - 2) / (min_size(items) + 1))
        }
        (Some(Type::Object), AdditionalProperties::Of(values), _) => {
            // A key, its quotes, a colon and a comma.
            validation.max_properties.unwrap_or_else(|| (MAX_REQUEST - 2) / (min_size(values) + 6))
        }
        (Some(Type::String), ..) => match &*schema.format {
            "byte" => validation.max_length.unwrap_or(MAX_REQUEST - QUOTES),
            "duration" | "date-time" => 32,
            "date" => 12,
            _ => text()
                .unwrap_or_else(|| longest_value(&validation.one_of_values).unwrap_or(MAX_REQUEST - QUOTES)),
        },
        _ => 0,
    }
}

fn longest_value(values: &[serde_json::Value]) -> Option<u64> {
    (!values.is_empty()).then(|| {
        values.iter().filter_map(serde_json::Value::as_str).map(|text| text.len() as u64).max().unwrap_or(0)
    })
}

/// The least number of bytes that a value takes as JSON.
fn min_size(schema: &Schema) -> u64 {
    if schema.int_or_string {
        return 1;
    }
    match schema.kind {
        Some(Type::Object) if matches!(schema.additional, AdditionalProperties::Of(_)) => 2,
        Some(Type::Object) => {
            let required =
                schema.required.iter().filter_map(|name| Some((name, schema.properties.get(name)?)));
            let size = |(name, property): (&String, &std::sync::Arc<Schema>)| match property.default {
                Some(_) => 0,
                None => name.len() as u64 + min_size(property) + 4,
            };
            2 + required.map(size).sum::<u64>()
        }
        Some(Type::String) => match &*schema.format {
            "duration" => 3,
            "date" => 12,
            "date-time" => 21,
            _ => 2,
        },
        Some(Type::Boolean) => 4,
        Some(Type::Number | Type::Integer) => 1,
        Some(Type::Array) | None => 2,
    }
}

/// How often a value of a schema can be in a request at most.
pub(crate) fn max_cardinality(schema: &Schema) -> u64 {
    MAX_REQUEST / (min_size(schema) + 1)
}
