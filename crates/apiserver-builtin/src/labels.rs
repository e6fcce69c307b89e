//! Labels, and selectors of labels, inside objects.

use apimachinery::LabelSelector;
use serde_json::Value;

use super::errors::Errors;
use super::format::{label_value, qualified_name};
use super::value::{entries, is_set, items, size, text, texts};
use apischema::Path;

/// Checks labels.
pub(super) fn check_labels(errors: &mut Errors, path: Path<'_>, labels: &Value) {
    for (key, value) in entries(labels) {
        errors.messages(path, key, qualified_name(key));
        errors.messages(path, text(value), label_value(text(value)));
    }
}

/// Checks annotations.
pub(super) fn check_annotations(errors: &mut Errors, path: Path<'_>, annotations: &Value) {
    const MOST: usize = 256 * 1024;
    let mut total = 0;
    for (key, value) in entries(annotations) {
        errors.messages(path, key, qualified_name(&key.to_lowercase()));
        total += key.len() + text(value).len();
    }
    if total > MOST {
        errors.too_long(path, MOST as u64);
    }
}

/// Checks `matchLabels` and `matchExpressions`.
pub(super) fn check_selector(errors: &mut Errors, path: Path<'_>, selector: &Value) {
    check_labels(errors, path.field("matchLabels"), &selector["matchLabels"]);
    let expressions = path.field("matchExpressions");
    for (index, expression) in items(&selector["matchExpressions"]).iter().enumerate() {
        check_expression(errors, expressions.index(index), expression);
    }
}

fn check_expression(errors: &mut Errors, path: Path<'_>, expression: &Value) {
    let values = path.field("values");
    match text(&expression["operator"]) {
        "In" | "NotIn" if size(&expression["values"]) == 0 => {
            errors.required(values, "must be specified when `operator` is 'In' or 'NotIn'");
        }
        "Exists" | "DoesNotExist" if size(&expression["values"]) > 0 => {
            errors.forbidden(values, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        other => errors.invalid(path.field("operator"), other, "not a valid selector operator"),
    }
    let key = text(&expression["key"]);
    errors.messages(path.field("key"), key, qualified_name(key));
    for (index, value) in texts(&expression["values"]).enumerate() {
        errors.messages(values.index(index), value, label_value(value));
    }
}

/// Whether a selector says nothing, and so selects everything.
pub(super) fn is_empty_selector(selector: &Value) -> bool {
    size(&selector["matchLabels"]) + size(&selector["matchExpressions"]) == 0
}

/// A selector of an object, read; absent, it selects nothing. Nothing is returned if it cannot be read.
pub(super) fn read_selector(selector: &Value) -> Option<LabelSelector> {
    LabelSelector::from_object(Some(selector).filter(|selector| is_set(selector))).ok()
}

/// Whether a selector selects what has these labels.
pub(super) fn selects(selector: &LabelSelector, labels: &Value) -> bool {
    selector.matches_by(|key| labels.get(key).and_then(Value::as_str))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn selectors_are_checked_with_the_path_of_what_is_wrong() {
        let mut errors = Errors::default();
        check_selector(
            &mut errors,
            Path::root("spec").field("selector"),
            &json!({
                "matchLabels": {"a b": "ok"},
                "matchExpressions": [
                    {"key": "a", "operator": "In"},
                    {"key": "a", "operator": "Exists", "values": ["x"]},
                    {"key": "a", "operator": "in", "values": ["-"]},
                ],
            }),
        );
        let texts: Vec<_> = errors.into_vec().iter().map(ToString::to_string).collect();
        assert!(
            texts[0]
                .starts_with("spec.selector.matchLabels: Invalid value: \"a b\": name part must consist of")
        );
        assert_eq!(
            texts[1..4],
            [
                "spec.selector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or \
                 'NotIn'",
                "spec.selector.matchExpressions[1].values: Forbidden: may not be specified when `operator` is 'Exists' \
                 or 'DoesNotExist'",
                "spec.selector.matchExpressions[2].operator: Invalid value: \"in\": not a valid selector operator",
            ]
        );
        assert!(
            texts[4].starts_with(
                "spec.selector.matchExpressions[2].values[0]: Invalid value: \"-\": a valid label"
            )
        );
        assert_eq!(texts.len(), 5);
    }
}
