//! When a job has failed, or has succeeded, by the ends of its pods.

use serde_json::Value;

use super::super::errors::Errors;
use super::super::format::qualified_name;
use super::super::value::{is_set, items, number, size, text};
use apischema::Path;

const ACTIONS: [&str; 4] = ["Count", "FailIndex", "FailJob", "Ignore"];
const MOST_RULES: usize = 20;
const MOST_CONDITIONS: usize = 20;
const MOST_EXIT_CODES: usize = 255;
const LONGEST_INDEXES: usize = 64 * 1024;

/// Checks `podFailurePolicy`.
pub(super) fn check_failure_policy(errors: &mut Errors, path: Path<'_>, spec: &Value) {
    let (rules, at) = (&spec["podFailurePolicy"]["rules"], path.field("rules"));
    if size(rules) > MOST_RULES {
        errors.too_many(at, size(rules), MOST_RULES);
    }
    for (index, rule) in items(rules).iter().enumerate() {
        check_failure_rule(errors, at.index(index), rule, spec);
    }
}

fn check_failure_rule(errors: &mut Errors, path: Path<'_>, rule: &Value, spec: &Value) {
    let action = path.field("action");
    match text(&rule["action"]) {
        "" => errors.required(action, "valid values: [\"Count\" \"FailIndex\" \"FailJob\" \"Ignore\"]"),
        "FailIndex" if !is_set(&spec["backoffLimitPerIndex"]) => {
            errors.invalid(action, "FailIndex", "requires the backoffLimitPerIndex to be set");
        }
        other if !ACTIONS.contains(&other) => errors.not_supported(action, other, &ACTIONS),
        _ => {}
    }
    let (codes, conditions) = (&rule["onExitCodes"], &rule["onPodConditions"]);
    if is_set(codes) {
        check_exit_codes(errors, path.field("onExitCodes"), codes, &spec["template"]["spec"]);
    }
    check_conditions(errors, path.field("onPodConditions"), conditions);
    match (is_set(codes), size(conditions) > 0) {
        (true, true) => {
            errors.invalid_unshown(path, "specifying both OnExitCodes and OnPodConditions is not supported");
        }
        (false, false) => {
            errors.invalid_unshown(path, "specifying one of OnExitCodes and OnPodConditions is required");
        }
        _ => {}
    }
}

fn check_exit_codes(errors: &mut Errors, path: Path<'_>, codes: &Value, pod_spec: &Value) {
    match text(&codes["operator"]) {
        "" => errors.required(path.field("operator"), "valid values: [\"In\" \"NotIn\"]"),
        "In" | "NotIn" => {}
        other => errors.not_supported(path.field("operator"), other, &["In", "NotIn"]),
    }
    let containers = ["containers", "initContainers"].map(|kind| items(&pod_spec[kind]));
    let container = &codes["containerName"];
    if is_set(container) && !containers.iter().flat_map(|list| *list).any(|known| known["name"] == *container)
    {
        let detail = "must be one of the container or initContainer names in the pod template";
        errors.invalid(path.field("containerName"), container.clone(), detail);
    }
    let (values, at) = (&codes["values"], path.field("values"));
    let numbers: Vec<_> = items(values).iter().map(number).collect();
    if numbers.is_empty() {
        errors.invalid(at, Value::Array(Vec::new()), "at least one value is required");
    } else if numbers.len() > MOST_EXIT_CODES {
        errors.too_many(at, numbers.len(), MOST_EXIT_CODES);
    }
    for (index, value) in numbers.iter().enumerate() {
        if text(&codes["operator"]) == "In" && *value == 0 {
            errors.invalid(at.index(index), 0, "must not be 0 for the In operator");
        }
        if numbers[..index].contains(value) {
            errors.duplicate(at.index(index), *value);
        }
    }
    if !numbers.is_sorted() {
        errors.invalid(at, values.clone(), "must be ordered");
    }
}

fn check_conditions(errors: &mut Errors, path: Path<'_>, conditions: &Value) {
    if size(conditions) > MOST_CONDITIONS {
        errors.too_many(path, size(conditions), MOST_CONDITIONS);
    }
    for (index, condition) in items(conditions).iter().enumerate() {
        let (at, kind) = (path.index(index), text(&condition["type"]));
        errors.messages(at.field("type"), kind, qualified_name(kind));
        match text(&condition["status"]) {
            "" => errors.required(at.field("status"), "valid values: [\"False\" \"True\" \"Unknown\"]"),
            "False" | "True" | "Unknown" => {}
            other => errors.not_supported(at.field("status"), other, &["False", "True", "Unknown"]),
        }
    }
}

/// Checks `successPolicy` of a job with indexes.
pub(super) fn check_success_policy(errors: &mut Errors, path: Path<'_>, spec: &Value) {
    let (rules, at) = (&spec["successPolicy"]["rules"], path.field("rules"));
    if size(rules) == 0 {
        errors.required(at, "at least one rules must be specified when the successPolicy is specified");
    }
    if size(rules) > MOST_RULES {
        errors.too_many(at, size(rules), MOST_RULES);
    }
    for (index, rule) in items(rules).iter().enumerate() {
        check_success_rule(errors, at.index(index), rule, number(&spec["completions"]));
    }
}

fn check_success_rule(errors: &mut Errors, path: Path<'_>, rule: &Value, completions: i64) {
    let (count, indexes) = (rule["succeededCount"].as_i64(), rule["succeededIndexes"].as_str());
    if count.is_none() && indexes.is_none() {
        errors.required(path, "at least one of succeededCount or succeededIndexes must be specified");
    }
    let mut total = 0;
    if let Some(indexes) = indexes {
        let at = path.field("succeededIndexes");
        if indexes.len() > LONGEST_INDEXES {
            errors.too_long(at, LONGEST_INDEXES as u64);
        }
        match count_indexes(indexes, completions) {
            Ok(counted) => total = counted,
            Err(why) => errors.invalid(at, indexes, format!("error parsing succeededIndexes: {why}")),
        }
    }
    let Some(count) = count else { return };
    let at = path.field("succeededCount");
    errors.nonnegative(at, Some(count));
    if count > completions {
        let detail =
            format!("must be less than or equal to {completions} (the number of specified completions)");
        errors.invalid(at, count, detail);
    }
    if indexes.is_some() && count > total {
        let detail = format!(
            "must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
        );
        errors.invalid(at, count, detail);
    }
}

/// How many indexes a text such as `1,3-5` has.
fn count_indexes(text: &str, completions: i64) -> Result<i64, String> {
    if text.is_empty() {
        return Ok(0);
    }
    let falling = |before: i64, now: i64| format!("non-increasing order, previous: {before}, current: {now}");
    let index = |text: &str| {
        let index = text
            .parse::<i64>()
            .map_err(|_| format!("cannot convert string to integer for index: {text:?}"))?;
        if index >= completions { Err(format!("too large index: {text:?}")) } else { Ok(index) }
    };
    let (mut total, mut last) = (0, None);
    for interval in text.split(',') {
        let parts: Vec<_> = interval.split('-').collect();
        let (first, end) = match parts.as_slice() {
            [one] => (index(one)?, index(one)?),
            [first, end] => {
                let (first, end) = (index(first)?, index(end)?);
                if first >= end {
                    return Err(falling(first, end));
                }
                (first, end)
            }
            _ => {
                return Err(format!(
                    "the fragment {interval:?} violates the requirement that an index interval can have at most two parts \
                     separated by '-'"
                ));
            }
        };
        if let Some(last) = last.filter(|last| *last >= first) {
            return Err(falling(last, first));
        }
        total += end - first + 1;
        last = Some(end);
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_are_counted() {
        assert_eq!(count_indexes("", 5), Ok(0));
        assert_eq!(count_indexes("0,2-4", 5), Ok(4));
        for (bad, why) in [
            ("x", "cannot convert string to integer for index: \"x\""),
            ("5", "too large index: \"5\""),
            ("1-1", "non-increasing order, previous: 1, current: 1"),
            ("1-3,3", "non-increasing order, previous: 3, current: 3"),
        ] {
            assert_eq!(count_indexes(bad, 5), Err(why.into()), "{bad}");
        }
    }
}
