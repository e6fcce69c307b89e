//! A branch may say more only about fields that the structure has.

use serde_json::Value;

use super::{Place, json};
use crate::field_error::FieldError;
use crate::path::Path;

pub(super) fn check(schema: &Value, place: Place<'_>, errors: &mut Vec<FieldError>) {
    // The structure itself is complete; what stands in its branches is compared with it, all over the tree.
    branches(schema, Some(schema), place, &Path::ROOT, &Path::ROOT, errors);
}

fn branches(
    value: &Value,
    structure: Option<&Value>,
    place: Place<'_>,
    structure_path: &Path<'_>,
    value_path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    if let Some(not) = json::schema(value, "not") {
        nested(not, structure, place, structure_path, &value_path.field("not"), errors);
    }
    for keyword in ["allOf", "anyOf", "oneOf"] {
        let path = value_path.field(keyword);
        for (index, branch) in json::list(value, keyword).iter().enumerate() {
            nested(branch, structure, place, structure_path, &path.index(index), errors);
        }
    }
}

fn nested(
    value: &Value,
    structure: Option<&Value>,
    place: Place<'_>,
    structure_path: &Path<'_>,
    value_path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    let Some(structure) = structure else {
        let detail = format!("because it is defined in {}", place.at(*value_path));
        errors.push(FieldError::required(place.at(*structure_path), detail));
        return;
    };
    branches(value, Some(structure), place, structure_path, value_path, errors);
    if let Some(items) = json::schema(value, "items") {
        let (structure_path, value_path) = (structure_path.field("items"), value_path.field("items"));
        nested(items, json::schema(structure, "items"), place, &structure_path, &value_path, errors);
    }
    let (structure_path, value_path) = (structure_path.field("properties"), value_path.field("properties"));
    for (name, property) in json::fields(value, "properties") {
        let (structure_path, value_path) = (structure_path.key(name), value_path.key(name));
        nested(property, json::property(structure, name), place, &structure_path, &value_path, errors);
    }
}
