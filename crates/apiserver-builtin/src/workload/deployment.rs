//! Deployments.

use std::sync::LazyLock;

use apimachinery::apply::{self, FieldSet};
use serde_json::Value;

use super::super::behaviour::Behaviour;
use super::super::errors::Errors;
use super::super::kind::{KindExt as _, kind_of};
use super::super::labels::read_selector;
use super::super::table::{age, columns, containers, name};
use super::super::value::{is_set, number, object_mut, same, set, text};
use super::super::warnings::of_named;
use super::{
    check_at_most_all, check_collisions, check_counts, check_int_or_percent, check_own_selector,
    check_own_template, check_unchanged, int_or_percent, settle_template,
};
use apischema::Path;
use apiserver::registry::{Generation, Resource, Scope};

pub(super) fn resource() -> Resource {
    kind_of("apps", "deployments", "Deployment", Scope::Namespaced)
        .short_names(&["deploy"])
        .categories(&["all"])
        .behaving(Behaviour {
            generation: Generation::Spec,
            settle: settle_template,
            prepare_update: |deployment, old, _| {
                // Annotations are handed on to what a Deployment makes.
                if !same(&deployment["metadata"]["annotations"], &old["metadata"]["annotations"]) {
                    let generation = number(&old["metadata"]["generation"]) + 1;
                    object_mut(deployment, "metadata").insert("generation".into(), generation.into());
                }
            },
            prepare_status: |deployment, old, _| {
                set(object_mut(deployment, "metadata"), "labels", old["metadata"].get("labels").cloned());
            },
            ignored_by_status: || {
                static IGNORED: LazyLock<FieldSet<'static>> = LazyLock::new(|| {
                    FieldSet::of([
                        apply::Path::of_fields(&["spec"]),
                        apply::Path::of_fields(&["metadata", "labels"]),
                    ])
                });
                &IGNORED
            },
            validate: check,
            validate_update: |new, old, errors| {
                let path = Path::root("spec");
                check_unchanged(
                    errors,
                    path.field("selector"),
                    &new["spec"]["selector"],
                    &old["spec"]["selector"],
                );
            },
            validate_status: check_status,
            warnings: of_named,
            ..Behaviour::WITH_STATUS
        })
        .shown(columns(
            &["Name", "Ready", "Up-to-date", "Available", "Age", "Containers*", "Images*", "Selector*"],
            |deployment, now| {
                let (spec, status) = (&deployment["spec"], &deployment["status"]);
                let [names, images] = containers(&spec["template"]["spec"]);
                let ready = format!("{}/{}", number(&status["readyReplicas"]), number(&spec["replicas"]));
                let selector = read_selector(&spec["selector"]);
                vec![
                    name(deployment),
                    ready.into(),
                    number(&status["updatedReplicas"]).into(),
                    number(&status["availableReplicas"]).into(),
                    age(deployment, now),
                    names,
                    images,
                    selector.map_or("<invalid>".into(), |selector| selector.to_string()).into(),
                ]
            },
        ))
        .with_scale()
        .with_status()
}

fn check(deployment: &Value, errors: &mut Errors) {
    let (spec, path) = (&deployment["spec"], Path::root("spec"));
    errors.nonnegative(path.field("replicas"), spec["replicas"].as_i64());
    check_own_selector(errors, path.field("selector"), &spec["selector"], "deployment");
    check_own_template(errors, spec, "ReplicaSet");
    check_strategy(errors, path.field("strategy"), &spec["strategy"]);
    for field in ["minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"] {
        errors.nonnegative(path.field(field), spec[field].as_i64());
    }
    if let Some(deadline) = spec["progressDeadlineSeconds"].as_i64()
        && deadline <= number(&spec["minReadySeconds"])
    {
        errors.invalid(
            path.field("progressDeadlineSeconds"),
            deadline,
            "must be greater than minReadySeconds",
        );
    }
}

fn check_strategy(errors: &mut Errors, path: Path<'_>, strategy: &Value) {
    let rolling = &strategy["rollingUpdate"];
    let at = path.field("rollingUpdate");
    match text(&strategy["type"]) {
        "Recreate" => {
            if is_set(rolling) {
                errors.forbidden(at, "may not be specified when strategy `type` is 'Recreate'");
            }
        }
        "RollingUpdate" if !is_set(rolling) => {
            errors.required(at, "this should be defaulted and never be nil");
        }
        "RollingUpdate" => {
            let unavailable = &rolling["maxUnavailable"];
            check_int_or_percent(errors, at.field("maxUnavailable"), unavailable);
            check_int_or_percent(errors, at.field("maxSurge"), &rolling["maxSurge"]);
            if int_or_percent(unavailable) == 0 && int_or_percent(&rolling["maxSurge"]) == 0 {
                let detail = "may not be 0 when `maxSurge` is 0";
                errors.invalid(at.field("maxUnavailable"), unavailable.clone(), detail);
            }
            check_at_most_all(errors, at.field("maxUnavailable"), unavailable);
        }
        _ => errors.not_supported(path, strategy.clone(), &["Recreate", "RollingUpdate"]),
    }
}

fn check_status(deployment: &Value, old: &Value, errors: &mut Errors) {
    let counts = [
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
        "terminatingReplicas",
        "collisionCount",
    ];
    let bounds = [
        ("updatedReplicas", "replicas", "status.replicas"),
        ("readyReplicas", "replicas", "status.replicas"),
        ("availableReplicas", "replicas", "status.replicas"),
        ("availableReplicas", "readyReplicas", "readyReplicas"),
    ];
    check_counts(errors, &deployment["status"], &counts, &bounds);
    check_collisions(errors, deployment, old);
}
