//! What versions say: schemas, subresources, columns, selectable fields.

use apimachinery::format::dns1035_label;
use apischema::{FieldError, Schema, StatusSubresource, Type, resolve_field_path, structural_errors};
use serde_json::Value;

use crate::crd::definition::{
    ColumnDefinition, DefinitionVersion, SelectableFieldDefinition, Spec, Subresources,
};
use crate::crd::json_schema;

const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 8] =
    ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
const MOST_SELECTABLE_FIELDS: usize = 8;
const LONGEST_DEPRECATION_WARNING: usize = 256;

/// Whether any schema has a default.
pub(super) fn has_defaults(spec: &Spec) -> bool {
    let schemas = spec.versions.iter().filter_map(DefinitionVersion::open_api_schema);
    schemas.into_iter().any(|schema| json_schema::any(schema, &|schema| schema.get("default").is_some()))
}

/// What is wrong in versions, where they differ.
pub(super) fn own_errors(spec: &Spec, old: Option<&Spec>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let shares_schema = spec.shared(|version| &version.schema).is_some();
    let shares_subresources = spec.shared(|version| &version.subresources).is_some();
    let shares_columns = spec.shared(|version| &version.additional_printer_columns).is_some();
    let shares_fields = spec.shared(|version| &version.selectable_fields).is_some();
    for (index, version) in spec.versions.iter().enumerate() {
        let path = format!("spec.versions[{index}]");
        let wrong = dns1035_label(&version.name);
        if !wrong.is_empty() {
            errors.push(FieldError::invalid(format!("{path}.name"), version.name.as_str(), wrong.join(",")));
        }
        deprecation_errors(version, &path, &mut errors);
        if !shares_schema && let Some(schema) = version.open_api_schema() {
            let path = format!("{path}.schema.openAPIV3Schema");
            errors.extend(schema_errors(schema, &path, version.has_status(), old));
        }
        if !shares_subresources && let Some(subresources) = &version.subresources {
            subresource_errors(subresources, &format!("{path}.subresources"), &mut errors);
        }
        if !shares_columns {
            column_errors(
                &version.additional_printer_columns,
                &format!("{path}.additionalPrinterColumns"),
                &mut errors,
            );
        }
        if !shares_fields && !version.selectable_fields.is_empty() {
            let fields = format!("{path}.selectableFields");
            match version.open_api_schema().filter(|_| !shares_schema) {
                None => {
                    let detail = "may only be set when `version.schema.openAPIV3Schema` is not included";
                    errors.push(FieldError::invalid(fields, "", detail));
                }
                Some(schema) => selectable_errors(&version.selectable_fields, schema, &fields, &mut errors),
            }
        }
    }
    errors
}

/// What is wrong with what is the same in all versions.
pub(super) fn shared_errors(spec: &Spec, old: Option<&Spec>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let schema = spec.shared(|version| &version.schema).and_then(Option::as_ref);
    let schema = schema.and_then(|schema| schema.open_api.as_ref());
    if let Some(schema) = schema {
        let has_status = spec.versions.iter().any(DefinitionVersion::has_status);
        errors.extend(schema_errors(schema, "spec.validation.openAPIV3Schema", has_status, old));
    }
    if let Some(Some(subresources)) = spec.shared(|version| &version.subresources) {
        subresource_errors(subresources, "spec.subresources", &mut errors);
    }
    if let Some(columns) = spec.shared(|version| &version.additional_printer_columns) {
        column_errors(columns, "spec.additionalPrinterColumns", &mut errors);
    }
    if let Some(fields) =
        spec.shared(|version| &version.selectable_fields).filter(|fields| !fields.is_empty())
    {
        match schema {
            Some(schema) => selectable_errors(fields, schema, "spec.selectableFields", &mut errors),
            None => {
                let detail = "may only be set when validations.schema is included";
                errors.push(FieldError::invalid("spec.selectableFields", "", detail));
            }
        }
    }
    errors
}

/// A schema that was there before, under the same conditions, is known to be right.
fn schema_errors(schema: &Value, path: &str, has_status: bool, old: Option<&Spec>) -> Vec<FieldError> {
    let mut known = old.into_iter().flat_map(|old| &old.versions);
    if known.any(|version| version.has_status() == has_status && version.open_api_schema() == Some(schema)) {
        return Vec::new();
    }
    let status = if has_status { StatusSubresource::Enabled } else { StatusSubresource::Disabled };
    structural_errors(schema, path, status)
}

fn deprecation_errors(version: &DefinitionVersion, path: &str, errors: &mut Vec<FieldError>) {
    let Some(warning) = &version.deprecation_warning else { return };
    let mut wrong = |detail: String| {
        errors.push(FieldError::invalid(format!("{path}.deprecationWarning"), warning.as_str(), detail));
    };
    if !version.deprecated {
        return wrong("can only be set for deprecated versions".into());
    }
    if warning.len() > LONGEST_DEPRECATION_WARNING {
        wrong(format!("must be <= {LONGEST_DEPRECATION_WARNING} characters long"));
    }
    if warning.is_empty() {
        wrong("must not be an empty string".into());
    }
    let unprintable =
        |character: char| character.is_control() || (character.is_whitespace() && character != ' ');
    if let Some((index, _)) = warning.char_indices().find(|(_, character)| unprintable(*character)) {
        wrong(format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {index}"
        ));
    }
}

fn subresource_errors(subresources: &Subresources, path: &str, errors: &mut Vec<FieldError>) {
    let Some(scale) = &subresources.scale else { return };
    for (field, value, under) in [
        ("specReplicasPath", &scale.spec_replicas_path, ".spec"),
        ("statusReplicasPath", &scale.status_replicas_path, ".status"),
    ] {
        let path = format!("{path}.scale.{field}");
        if value.is_empty() {
            errors.push(FieldError::required(path, ""));
        } else if let Some(error) = simple_path_error(&path, value) {
            errors.push(error);
        } else if !value.starts_with(&format!("{under}.")) {
            errors.push(FieldError::invalid(
                path,
                value.as_str(),
                format!("should be a json path under {under}"),
            ));
        }
    }
    if let Some(selector) = scale.label_selector_path.as_deref().filter(|path| !path.is_empty()) {
        let path = format!("{path}.scale.labelSelectorPath");
        if let Some(error) = simple_path_error(&path, selector) {
            errors.push(error);
        } else if !selector.starts_with(".spec.") && !selector.starts_with(".status.") {
            let detail = "should be a json path under either .spec or .status";
            errors.push(FieldError::invalid(path, selector, detail));
        }
    }
}

fn simple_path_error(path: &str, value: &str) -> Option<FieldError> {
    (!value.starts_with('.'))
        .then(|| FieldError::invalid(path, value, "must be a simple json path starting with ."))
}

fn column_errors(columns: &[ColumnDefinition], path: &str, errors: &mut Vec<FieldError>) {
    for (index, column) in columns.iter().enumerate() {
        let at = |field: &str| format!("{path}[{index}].{field}");
        if column.name.is_empty() {
            errors.push(FieldError::required(at("name"), ""));
        }
        let types = format!("must be one of {}", COLUMN_TYPES.join(","));
        if column.kind.is_empty() {
            errors.push(FieldError::required(at("type"), types));
        } else if !COLUMN_TYPES.contains(&column.kind.as_str()) {
            errors.push(FieldError::invalid(at("type"), column.kind.as_str(), types));
        }
        if !column.format.is_empty() && !COLUMN_FORMATS.contains(&column.format.as_str()) {
            let detail = format!("must be one of {}", COLUMN_FORMATS.join(","));
            errors.push(FieldError::invalid(at("format"), column.format.as_str(), detail));
        }
        if column.json_path.is_empty() {
            errors.push(FieldError::required(at("JSONPath"), ""));
        } else {
            errors.extend(simple_path_error(&at("JSONPath"), &column.json_path));
        }
    }
}

fn selectable_errors(
    fields: &[SelectableFieldDefinition],
    schema: &Value,
    path: &str,
    errors: &mut Vec<FieldError>,
) {
    // What is wrong with the schema itself is told elsewhere.
    let Ok(schema) = Schema::from_json(schema) else { return };
    let mut seen = Vec::new();
    for (index, SelectableFieldDefinition { json_path }) in fields.iter().enumerate() {
        let at = format!("{path}[{index}].jsonPath");
        if json_path.is_empty() {
            errors.push(FieldError::required(at, ""));
            continue;
        }
        let (found, field) = match resolve_field_path(json_path, &schema) {
            Ok(found) => found,
            Err(error) => {
                let detail = format!("is an invalid path: {error}");
                errors.push(FieldError::invalid(at, json_path.as_str(), detail));
                continue;
            }
        };
        if found == "metadata" || found.starts_with("metadata.") || found.starts_with("metadata[") {
            let detail = "must not point to fields in metadata";
            errors.push(FieldError::invalid(at.as_str(), json_path.as_str(), detail));
        }
        if !matches!(field.kind, Some(Type::String | Type::Boolean | Type::Integer)) {
            let detail = "must point to a field of type string, boolean or integer. Enum string fields and strings with \
                          formats are allowed.";
            errors.push(FieldError::invalid(at.as_str(), json_path.as_str(), detail));
        }
        if seen.contains(&found) {
            errors.push(FieldError::duplicate(at, json_path.as_str()));
        } else {
            seen.push(found);
        }
    }
    if seen.len() > MOST_SELECTABLE_FIELDS {
        errors.push(FieldError::too_many(path, seen.len() as u64, MOST_SELECTABLE_FIELDS as u64));
    }
}
