//! The names of a resource.

use apimachinery::format::dns1035_label;
use apischema::FieldError;

use crate::crd::definition::Names;

/// What a definition must say.
pub(super) fn required_errors(names: &Names, path: &str) -> Vec<FieldError> {
    let required = [
        ("plural", &names.plural),
        ("singular", &names.singular),
        ("kind", &names.kind),
        ("listKind", &names.list_kind),
    ];
    let missing = required.into_iter().filter(|(_, name)| name.is_empty());
    missing.map(|(field, _)| FieldError::required(format!("{path}.{field}"), "")).collect()
}

/// What is wrong with the names that are there.
pub(super) fn errors(names: &Names, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (field, name) in [("plural", &names.plural), ("singular", &names.singular)] {
        if !name.is_empty() {
            errors.extend(label_error(format!("{path}.{field}"), name));
        }
    }
    for (field, name) in [("kind", &names.kind), ("listKind", &names.list_kind)] {
        let wrong = dns1035_label(&name.to_lowercase());
        if !name.is_empty() && !wrong.is_empty() {
            let detail = format!("may have mixed case, but should otherwise match: {}", wrong.join(","));
            errors.push(FieldError::invalid(format!("{path}.{field}"), name.as_str(), detail));
        }
    }
    for (index, name) in names.short_names.iter().enumerate() {
        errors.extend(label_error(format!("{path}.shortNames[{index}]"), name));
    }
    if !names.kind.is_empty() && names.kind == names.list_kind {
        let detail = "kind and listKind may not be the same";
        errors.push(FieldError::invalid(format!("{path}.listKind"), names.list_kind.as_str(), detail));
    }
    for (index, name) in names.categories.iter().enumerate() {
        errors.extend(label_error(format!("{path}.categories[{index}]"), name));
    }
    errors
}

fn label_error(path: String, name: &str) -> Option<FieldError> {
    let wrong = dns1035_label(name);
    (!wrong.is_empty()).then(|| FieldError::invalid(path, name, wrong.join(",")))
}
