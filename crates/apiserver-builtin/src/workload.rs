//! Kinds that make pods: Deployments, ReplicaSets, StatefulSets, DaemonSets, ReplicationControllers, and what they remember.
//!
//! No controllers run for them here: the objects are kept and checked, and their status is whatever is written to it.

mod controller_revision;
mod daemon_set;
mod deployment;
mod pod_template;
mod replica_set;
mod replication_controller;
mod stateful_set;

use serde_json::Value;

use super::errors::Errors;
use super::format::percent;
use super::labels::{check_selector, is_empty_selector, read_selector, selects};
use super::pod::settle_spec;
use super::pod::spec::check_template;
use super::value::{is_set, number, same, text};
use apischema::Path;
use apiserver::registry::Resource;

pub(super) fn resources() -> [Resource; 7] {
    [
        controller_revision::resource(),
        daemon_set::resource(),
        deployment::resource(),
        pod_template::resource(),
        replica_set::resource(),
        replication_controller::resource(),
        stateful_set::resource(),
    ]
}

/// Makes the template in a spec ready.
pub(super) fn settle_template(object: &mut Value) {
    if let Some(template) = object.get_mut("spec").and_then(|spec| spec.get_mut("template")) {
        settle_spec(template);
    }
}

/// Checks the selector of a spec: it must be there, and say something. `kind` is what errors call the kind.
fn check_own_selector(errors: &mut Errors, path: Path<'_>, selector: &Value, kind: &str) {
    if !is_set(selector) {
        return errors.required(path, "");
    }
    check_selector(errors, path, selector);
    if is_empty_selector(selector) {
        errors.invalid(path, selector.clone(), format!("empty selector is invalid for {kind}"));
    }
}

/// Checks the template of a spec, and that the selector selects what is made of it.
fn check_own_template(errors: &mut Errors, spec: &Value, kind: &str) {
    let path = Path::root("spec");
    let (template, at) = (&spec["template"], path.field("template"));
    check_selected(errors, spec, (kind != "DaemonSet").then_some("invalid label selector"));
    check_template(errors, at, template);
    check_always_restarted(errors, at, template, kind);
}

/// Checks that the selector of a spec selects what is made of its template. `unread` is what is said of a selector that cannot
/// be read, besides what is wrong with it.
pub(super) fn check_selected(errors: &mut Errors, spec: &Value, unread: Option<&str>) {
    let path = Path::root("spec");
    let template = path.field("template");
    let Some(selector) = read_selector(&spec["selector"]) else {
        if let Some(detail) = unread {
            errors.invalid(path.field("selector"), spec["selector"].clone(), detail);
        }
        return;
    };
    let labels = &spec["template"]["metadata"]["labels"];
    if !selector.is_everything() && !selects(&selector, labels) {
        let metadata = template.field("metadata");
        let detail = "`selector` does not match template `labels`";
        errors.invalid(metadata.field("labels"), labels.clone(), detail);
    }
}

fn check_always_restarted(errors: &mut Errors, path: Path<'_>, template: &Value, kind: &str) {
    let spec = path.field("spec");
    let policy = text(&template["spec"]["restartPolicy"]);
    if policy != "Always" {
        errors.not_supported(spec.field("restartPolicy"), policy, &["Always"]);
    }
    if is_set(&template["spec"]["activeDeadlineSeconds"]) {
        let detail = format!("activeDeadlineSeconds in {kind} is not Supported");
        errors.forbidden(spec.field("activeDeadlineSeconds"), detail);
    }
}

/// Checks that a field of the spec is what it was.
pub(super) fn check_unchanged(errors: &mut Errors, path: Path<'_>, new: &Value, old: &Value) {
    if !same(new, old) {
        errors.invalid(path, new.clone(), "field is immutable");
    }
}

/// Checks numbers of a status: none is negative, and some are not more than another.
fn check_counts(errors: &mut Errors, status: &Value, counts: &[&str], bounds: &[(&str, &str, &str)]) {
    let path = Path::root("status");
    for count in counts {
        errors.nonnegative(path.field(count), status[*count].as_i64());
    }
    for (count, bound, shown) in bounds {
        if number(&status[*count]) > number(&status[*bound]) {
            let detail = format!("cannot be greater than {shown}");
            errors.invalid(path.field(count), number(&status[*count]), detail);
        }
    }
}

/// Checks that the count of collisions does not go down.
fn check_collisions(errors: &mut Errors, new: &Value, old: &Value) {
    let count = |object: &Value| object["status"]["collisionCount"].as_i64();
    if let Some(before) = count(old)
        && count(new).is_none_or(|now| now < before)
    {
        let path = Path::root("status");
        errors.invalid(path.field("collisionCount"), count(new).unwrap_or(0), "cannot be decremented");
    }
}

/// Checks a number that is not negative, or a percentage.
pub(super) fn check_int_or_percent(errors: &mut Errors, path: Path<'_>, value: &Value) {
    match value {
        Value::String(text) => {
            if let Err(message) = percent(text) {
                errors.invalid(path, text.as_str(), message);
            }
        }
        other => errors.nonnegative(path, other.as_i64()),
    }
}

/// Checks that a percentage is not more than all.
pub(super) fn check_at_most_all(errors: &mut Errors, path: Path<'_>, value: &Value) {
    if let Value::String(text) = value
        && percent(text).is_ok_and(|percent| percent > 100)
    {
        errors.invalid(path, text.as_str(), "must not be greater than 100%");
    }
}

/// A number, or how many per cent.
fn int_or_percent(value: &Value) -> i64 {
    match value {
        Value::String(text) => percent(text).unwrap_or(0),
        other => number(other),
    }
}
