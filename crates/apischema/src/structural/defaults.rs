//! Defaults are values that their schema takes as they are.

use std::sync::Arc;

use serde_json::Value;

use super::Place;
use crate::field_error::FieldError;
use crate::path::Path;
use crate::prune::prune_value;
use crate::rules::Rules;
use crate::schema::Schema;
use crate::validate::validate_at;

pub(super) fn errors(schema: &Schema, place: Place<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    check(&Arc::new(schema.clone()), place, &Path::ROOT, &mut errors);
    errors
}

fn check(schema: &Arc<Schema>, place: Place<'_>, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    if let Some(default) = &schema.default {
        check_default(default, schema, &place.at(path.field("default")), errors);
    }
    // Under additional properties there are no defaults that would ever be filled in.
    if let Some(items) = &schema.items {
        check(items, place, &path.field("items"), errors);
    }
    let properties = path.field("properties");
    for (name, property) in &schema.properties {
        check(property, place, &properties.key(name), errors);
    }
}

fn check_default(default: &Value, schema: &Arc<Schema>, path: &str, errors: &mut Vec<FieldError>) {
    let mut pruned = default.clone();
    prune_value(&mut pruned, schema);
    if pruned != *default {
        errors.push(FieldError::invalid(path, default.clone(), "must not have unknown fields"));
    }
    let invalid = validate_at(Some(path), default, None, schema);
    if !invalid.is_empty() {
        errors.extend(invalid);
        return;
    }
    // A default must be good where nothing was before, and where it was already.
    let unchanged = Rules::validate_value(schema, default, Some(default), path);
    if unchanged.is_empty() {
        errors.extend(Rules::validate_value(schema, default, None, path));
    }
    errors.extend(unchanged);
}
