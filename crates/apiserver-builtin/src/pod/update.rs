//! What of a pod may change.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::super::diff::diff;
use super::super::errors::Errors;
use super::super::value::{entries, fields_mut, is_set, items, object_mut, same, set, text};
use super::scheduling::check_tolerations;
use super::spec::check_pod;
use apischema::Path;

const UPDATABLE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,\
                         `spec.tolerations` (only additions to existing tolerations),\
                         `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// Checks a changed pod.
pub(super) fn check_update(errors: &mut Errors, pod: &Value, old: &Value) {
    check_pod(errors, pod);
    check_annotations(errors, pod, old);
    let (new_spec, old_spec, path) = (&pod["spec"], &old["spec"], Path::root("spec"));
    for list in ["containers", "initContainers"] {
        let (new_list, old_list) = (items(&new_spec[list]), items(&old_spec[list]));
        if new_list.len() != old_list.len() {
            return errors.forbidden(path.field(list), "pod updates may not add or remove containers");
        }
        for (index, container) in new_list.iter().enumerate() {
            let image = text(&container["image"]);
            let path = path.field(list);
            if image.is_empty() {
                errors.required(path.index(index).field("image"), "");
            }
            if image.trim() != image {
                let detail = "must not have leading or trailing whitespace";
                errors.invalid(path.index(index).field("image"), image, detail);
            }
        }
    }
    if !check_deadline(errors, path.field("activeDeadlineSeconds"), new_spec, old_spec) {
        return;
    }
    check_only_added_tolerations(errors, path.field("tolerations"), new_spec, old_spec);
    check_only_removed_gates(errors, path.field("schedulingGates"), new_spec, old_spec);
    if same(new_spec, old_spec) {
        return;
    }
    let rest = without_allowed_changes(errors, path, new_spec, old_spec);
    if !same(&rest, old_spec) {
        let difference = diff(old_spec, &rest);
        errors.forbidden(
            path,
            format!("pod updates may not change fields other than {UPDATABLE}\n{difference}"),
        );
    }
}

/// Checks the annotations that nobody may change. The mirror of a static pod stays one.
pub(super) fn check_annotations(errors: &mut Errors, pod: &Value, old: &Value) {
    const MIRROR: &str = "kubernetes.io/config.mirror";
    const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
    let metadata = Path::root("metadata");
    let path = metadata.field("annotations");
    let (new, old) = (&pod["metadata"]["annotations"], &old["metadata"]["annotations"]);
    let kind = |key: &str| match key {
        MIRROR => Some("mirror pod annotation"),
        _ if key.starts_with(APP_ARMOR) => Some("AppArmor annotations"),
        _ => None,
    };
    for (key, value) in entries(old).filter(|(key, value)| new.get(*key) != Some(*value)) {
        let _ = value;
        if let Some(kind) = kind(key) {
            errors.forbidden(path.key(key), format!("may not remove or update {kind}"));
        }
    }
    for (key, _) in entries(new).filter(|(key, _)| old.get(*key).is_none()) {
        if let Some(kind) = kind(key) {
            errors.forbidden(path.key(key), format!("may not add {kind}"));
        }
    }
}

fn check_deadline(errors: &mut Errors, path: Path<'_>, new: &Value, old: &Value) -> bool {
    let (new, old) = (new["activeDeadlineSeconds"].as_i64(), old["activeDeadlineSeconds"].as_i64());
    match (new, old) {
        (Some(new), _) if !(0..=i64::from(i32::MAX)).contains(&new) => {
            errors.invalid(path, new, "must be between 0 and 2147483647, inclusive");
            false
        }
        (Some(new), Some(old)) if old < new => {
            errors.invalid(path, new, "must be less than or equal to previous value");
            false
        }
        (None, Some(_)) => {
            errors.invalid(path, Value::Null, "must not update from a positive integer to nil value");
            true
        }
        _ => true,
    }
}

fn check_only_added_tolerations(errors: &mut Errors, path: Path<'_>, new: &Value, old: &Value) {
    let without_seconds = |toleration: &Value| {
        let mut fields = toleration.as_object().cloned().unwrap_or_default();
        fields.remove("tolerationSeconds");
        Value::Object(fields)
    };
    let new_ones: Vec<_> = items(&new["tolerations"]).iter().map(without_seconds).collect();
    for toleration in items(&old["tolerations"]).iter().map(without_seconds) {
        if !new_ones.iter().any(|other| same(other, &toleration)) {
            let detail = "existing toleration can not be modified except its tolerationSeconds";
            return errors.forbidden(path, detail);
        }
    }
    check_tolerations(errors, path, &new["tolerations"]);
}

fn check_only_removed_gates(errors: &mut Errors, path: Path<'_>, new: &Value, old: &Value) {
    let had = |name: &str| items(&old["schedulingGates"]).iter().any(|gate| text(&gate["name"]) == name);
    for (index, gate) in items(&new["schedulingGates"]).iter().enumerate() {
        let name = text(&gate["name"]);
        if !had(name) {
            let detail = format!("only deletion is allowed, but found new scheduling gate '{name}'");
            errors.forbidden(path.index(index).field("name"), detail);
        }
    }
}

/// The new spec, with what may change as it was.
fn without_allowed_changes(errors: &mut Errors, path: Path<'_>, new: &Value, old: &Value) -> Value {
    let mut rest = new.clone();
    for list in ["containers", "initContainers"] {
        let Some(containers) = rest.get_mut(list).and_then(Value::as_array_mut) else { continue };
        for (container, old) in containers.iter_mut().zip(items(&old[list])) {
            set(fields_mut(container), "image", old.get("image").cloned());
        }
    }
    let fields = fields_mut(&mut rest);
    for field in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        set(fields, field, old.get(field).cloned());
    }
    let grace = "terminationGracePeriodSeconds";
    if old[grace].as_i64().is_some_and(|old| old < 0) && new[grace].as_i64() == Some(1) {
        set(fields, grace, old.get(grace).cloned());
    }
    // While the gates keep a pod from being scheduled, where it may run can be narrowed.
    if !items(&old["schedulingGates"]).is_empty() {
        check_node_selector_change(errors, path.field("nodeSelector"), new, old);
        set(fields, "nodeSelector", old.get("nodeSelector").cloned());
        let affinity = path.field("affinity");
        check_node_affinity_change(
            errors,
            affinity.field("nodeAffinity"),
            &new["affinity"]["nodeAffinity"],
            &old["affinity"]["nodeAffinity"],
        );
        let old_affinity = old["affinity"].get("nodeAffinity").cloned();
        set(object_mut(&mut rest, "affinity"), "nodeAffinity", old_affinity);
    }
    rest
}

fn check_node_selector_change(errors: &mut Errors, path: Path<'_>, new: &Value, old: &Value) {
    let new = &new["nodeSelector"];
    if entries(&old["nodeSelector"]).any(|(key, value)| new.get(key) != Some(value)) {
        let detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        errors.invalid(path, new.clone(), detail);
    }
}

fn check_node_affinity_change(errors: &mut Errors, path: Path<'_>, new: &Value, old: &Value) {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    if !is_set(&old[REQUIRED]) {
        return;
    }
    let required = path.field(REQUIRED);
    let path = required.field("nodeSelectorTerms");
    let terms = |affinity: &Value| affinity[REQUIRED]["nodeSelectorTerms"].clone();
    let (new, old) = (terms(new), terms(old));
    let (new_terms, old_terms) = (items(&new), items(&old));
    if !old_terms.is_empty() && old_terms.len() != new_terms.len() {
        let detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        return errors.invalid(path, new.clone(), detail);
    }
    for (index, (new, old)) in new_terms.iter().zip(old_terms).enumerate() {
        if !has_only_additions(new, old) {
            errors.invalid(
                path.index(index),
                new.clone(),
                "only additions are allowed (no mutations or deletions)",
            );
        }
    }
}

fn has_only_additions(new: &Value, old: &Value) -> bool {
    let lists = ["matchExpressions", "matchFields"];
    if lists.iter().all(|list| items(&old[*list]).is_empty()) {
        return lists.iter().all(|list| items(&new[*list]).is_empty());
    }
    lists.iter().all(|list| {
        let (new, old) = (items(&new[*list]), items(&old[*list]));
        new.len() >= old.len() && new.iter().zip(old).all(|(new, old)| same(new, old))
    })
}

/// Remembers which generation was seen, where a client that does not know of it says nothing.
pub(super) fn keep_observed_generation(pod: &mut Value, old: &Value) {
    const FIELD: &str = "observedGeneration";
    let status = object_mut(pod, "status");
    let is_zero = |fields: &Map<String, Value>| fields.get(FIELD).and_then(Value::as_i64).unwrap_or(0) == 0;
    if is_zero(status) {
        set(status, FIELD, old["status"].get(FIELD).cloned());
    }
    let mut known: HashMap<&str, Vec<&Value>> = HashMap::new();
    for condition in items(&old["status"]["conditions"]).iter().rev() {
        known.entry(text(&condition["type"])).or_default().push(&condition[FIELD]);
    }
    let Some(conditions) = status.get_mut("conditions").and_then(Value::as_array_mut) else { return };
    for condition in conditions {
        let generation = known.get_mut(text(&condition["type"])).and_then(Vec::pop);
        let fields = fields_mut(condition);
        if is_zero(fields) {
            set(fields, FIELD, generation.filter(|generation| is_set(generation)).cloned());
        }
    }
}
