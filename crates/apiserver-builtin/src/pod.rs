//! Pods. Nothing here schedules or runs them: a client binds a pod to a node, and the node's agent writes its status and
//! deletes it when it has ended.

pub(super) mod binding;
mod columns;
mod container;
mod environment;
mod eviction;
mod features;
pub(super) mod probe;
pub(super) mod resources;
pub(super) mod scheduling;
mod security;
pub(super) mod spec;
mod status;
mod update;
pub(super) mod volume;
pub(super) mod warnings;

use std::sync::{Arc, LazyLock};

use apimachinery::apply::{self, FieldSet};
use apischema::FieldError;
use serde_json::{Map, Value, json};

use self::binding::Binding;
use self::eviction::Eviction;
use self::resources::quality_of_service;
use super::format::dns1123_label;
use super::kind::{KindExt as _, core, metadata_errors, reset_with_status, set_defaults};
use super::value::{fields_mut, is_set, items, items_mut, number, object_mut, set, size, text, texts, time};
use apischema::Path;
use apiserver::registry::{
    Action, Generation, Resource, Scope, Strategy, Subresource, SubresourceHandler, SubresourceKind,
    keep_all_but,
};
use apiserver::request::Verb;
use apiserver::selection::SelectableField;

pub(super) fn resource() -> Resource {
    let made = |name: &str, group: &str, kind: &str, handler: Arc<dyn SubresourceHandler>| Subresource {
        name: name.into(),
        kind: SubresourceKind::Custom {
            group: group.into(),
            version: "v1".into(),
            kind: kind.into(),
            handler,
        },
        verbs: vec![Verb::Create],
    };
    core("pods", "Pod", Scope::Namespaced)
        .short_names(&["po"])
        .categories(&["all"])
        .selectable([
            SelectableField::at("spec.nodeName"),
            SelectableField::at("spec.restartPolicy"),
            SelectableField::at("spec.schedulerName"),
            SelectableField::at("spec.serviceAccountName"),
            SelectableField::named("spec.hostNetwork", &["spec.hostNetwork"], "false"),
            SelectableField::at("status.phase"),
            SelectableField::at("status.podIP"),
            // Known, but of no pod.
            SelectableField::named("status.podIPs", &[], ""),
            SelectableField::at("status.nominatedNodeName"),
        ])
        .strategy_with(|empty| PodStrategy { empty })
        .shown(columns::columns())
        .with(made("binding", "", "Binding", Arc::new(Binding)))
        .with(made("eviction", "policy", "Eviction", Arc::new(Eviction)))
        .with_status()
}

/// Bindings as if they were objects: another way to bind a pod.
pub(super) fn bindings() -> Resource {
    let mut bindings = core("bindings", "Binding", Scope::Namespaced);
    bindings.verbs = vec![Verb::Create];
    bindings.handler = Some(Arc::new(Binding));
    bindings
}

/// How pods behave.
#[derive(Clone, Debug)]
struct PodStrategy {
    empty: Value,
}

impl Strategy for PodStrategy {
    fn prepare_for_create(&self, pod: &mut Value, action: Action<'_>) {
        merge_label_keys(pod);
        let mut status = json!({"phase": "Pending", "qosClass": quality_of_service(&pod["spec"])});
        if size(&pod["spec"]["schedulingGates"]) > 0 {
            status["conditions"] = json!([{
                "type": "PodScheduled",
                "status": "False",
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
                "lastProbeTime": null,
                "lastTransitionTime": time(action.now),
            }]);
        }
        fields_mut(pod).insert("status".into(), status);
    }

    fn prepare_for_update(&self, pod: &mut Value, old: &Value, _action: Action<'_>) {
        set(fields_mut(pod), "status", old.get("status").cloned());
    }

    fn prepare_for_status_update(&self, pod: &mut Value, old: &Value, _action: Action<'_>) {
        keep_all_but(pod, old, &["status", "metadata"]);
        // Whoever writes a status does not say who owns the pod.
        set(object_mut(pod, "metadata"), "ownerReferences", old["metadata"].get("ownerReferences").cloned());
        let status = object_mut(pod, "status");
        if !status.contains_key("qosClass") {
            set(status, "qosClass", old["status"].get("qosClass").cloned());
        }
        update::keep_observed_generation(pod, old);
    }

    fn validate(&self, pod: &Value, _action: Action<'_>) -> Vec<FieldError> {
        let mut errors = metadata_errors(pod);
        spec::check_pod(&mut errors, pod);
        let (spec, path) = (&pod["spec"], Path::root("spec"));
        if size(&spec["ephemeralContainers"]) > 0 {
            errors.forbidden(path.field("ephemeralContainers"), "cannot be set on create");
        }
        if !text(&spec["nodeName"]).is_empty() && size(&spec["schedulingGates"]) > 0 {
            errors.forbidden(
                path.field("nodeName"),
                "cannot be set until all schedulingGates have been cleared",
            );
        }
        errors.into_vec()
    }

    fn validate_update(&self, pod: &Value, old: &Value, action: Action<'_>) -> Vec<FieldError> {
        let mut errors = metadata_errors(pod);
        if action.subresource == "status" {
            status::check_status(&mut errors, pod, old);
        } else {
            update::check_update(&mut errors, pod, old);
        }
        errors.into_vec()
    }

    fn warnings(&self, pod: &Value, old: Option<&Value>, _action: Action<'_>) -> Vec<String> {
        // People do not change pods, and others do all the time.
        if old.is_some() {
            return Vec::new();
        }
        let wrong = dns1123_label(text(&pod["metadata"]["name"]));
        let mut warnings = Vec::new();
        if !wrong.is_empty() {
            warnings.push(format!(
                "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label \
                 is recommended: [{}]",
                wrong.join(" ")
            ));
        }
        warnings.extend(warnings::spec_warnings(Path::root("spec"), &pod["spec"]));
        warnings
    }

    fn generation(&self) -> Generation {
        Generation::Spec
    }

    fn grace_period(&self, pod: &Value, requested: Option<i64>) -> Option<i64> {
        let unbound = text(&pod["spec"]["nodeName"]).is_empty();
        let ended = matches!(text(&pod["status"]["phase"]), "Failed" | "Succeeded");
        if unbound || ended {
            return Some(0);
        }
        let period = requested.or_else(|| pod["spec"]["terminationGracePeriodSeconds"].as_i64()).unwrap_or(0);
        // A negative period means the least there is.
        Some(if period < 0 { 1 } else { period })
    }

    fn answers_with_deleted(&self) -> bool {
        true
    }

    fn reset_fields(&self, subresource: &str) -> Option<&FieldSet<'static>> {
        static IGNORED_BY_STATUS: LazyLock<FieldSet<'static>> = LazyLock::new(|| {
            FieldSet::of([
                apply::Path::of_fields(&["spec"]),
                apply::Path::of_fields(&["metadata", "deletionTimestamp"]),
                apply::Path::of_fields(&["metadata", "ownerReferences"]),
            ])
        });
        if subresource == "status" { Some(&IGNORED_BY_STATUS) } else { reset_with_status(subresource) }
    }

    fn empty(&self) -> Option<&Value> {
        Some(&self.empty)
    }

    fn set_defaults(&self, pod: &mut Value) {
        set_defaults(pod);
        settle_spec(pod);
        if let Some(status) = pod.get_mut("status").and_then(Value::as_object_mut) {
            settle_addresses(status, "podIP", "podIPs");
            settle_addresses(status, "hostIP", "hostIPs");
        }
    }
}

/// Makes the spec of a pod, or of a template, what Kubernetes makes of it besides defaults.
pub(super) fn settle_spec(pod_or_template: &mut Value) {
    let Some(spec) = pod_or_template.get_mut("spec") else { return };
    features::drop_disabled(spec);
    let Some(spec) = spec.as_object_mut() else { return };
    // The service account has two names.
    let given =
        ["serviceAccountName", "serviceAccount"].map(|name| spec.get(name).map_or("", text).to_owned());
    let account = given.into_iter().find(|name| !name.is_empty());
    for name in ["serviceAccountName", "serviceAccount"] {
        set(spec, name, account.clone().map(Value::String));
    }
    // A negative period means the least there is.
    if spec.get("terminationGracePeriodSeconds").map_or(0, number) < 0 {
        spec.insert("terminationGracePeriodSeconds".into(), 1.into());
    }
}

/// Fills in what has two names: the first of many addresses, and all of them.
pub(super) fn settle_addresses(fields: &mut Map<String, Value>, one: &str, many: &str) {
    let first = fields.get(one).map_or("", text).to_owned();
    let of_many =
        fields.get(many).and_then(|many| items(many).first()).map_or("", |first| text(&first["ip"]));
    if !first.is_empty() && first != of_many {
        fields.insert(many.into(), json!([{"ip": first}]));
    } else if first.is_empty() && !of_many.is_empty() {
        let of_many = of_many.to_owned();
        fields.insert(one.into(), of_many.into());
    }
}

/// Makes expressions of the keys of labels whose values are the pod's own.
fn merge_label_keys(pod: &mut Value) {
    let labels = pod["metadata"]["labels"].clone();
    let Some(spec) = pod.get_mut("spec") else { return };
    for constraint in items_mut(spec, "topologySpreadConstraints") {
        merge_label_keys_of(constraint, &labels);
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let Some(affinity) = spec.get_mut("affinity").and_then(|affinity| affinity.get_mut(kind)) else {
            continue;
        };
        for term in items_mut(affinity, "requiredDuringSchedulingIgnoredDuringExecution") {
            merge_label_keys_of(term, &labels);
        }
        for weighted in items_mut(affinity, "preferredDuringSchedulingIgnoredDuringExecution") {
            if let Some(term) = weighted.get_mut("podAffinityTerm") {
                merge_label_keys_of(term, &labels);
            }
        }
    }
}

fn merge_label_keys_of(term: &mut Value, labels: &Value) {
    if !is_set(&term["labelSelector"]) {
        return;
    }
    let mut added = Vec::new();
    for (field, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
        for key in texts(&term[field]) {
            if let Some(value) = labels.get(key) {
                added.push(json!({"key": key, "operator": operator, "values": [value]}));
            }
        }
    }
    if added.is_empty() {
        return;
    }
    let expressions =
        object_mut(term, "labelSelector").entry("matchExpressions").or_insert_with(|| json!([]));
    if let Some(expressions) = expressions.as_array_mut() {
        expressions.extend(added);
    }
}

#[cfg(test)]
mod tests;
