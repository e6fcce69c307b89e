//! ReplicaSets.

use serde_json::{Value, json};

use super::super::behaviour::Behaviour;
use super::super::errors::Errors;
use super::super::kind::{KindExt as _, kind_of};
use super::super::table::{age, columns, containers, name, selector};
use super::super::value::number;
use super::super::warnings::of_named;
use super::{check_counts, check_own_selector, check_own_template, check_unchanged, settle_template};
use apischema::Path;
use apiserver::registry::{Generation, Resource, Scope};

pub(super) fn resource() -> Resource {
    kind_of("apps", "replicasets", "ReplicaSet", Scope::Namespaced)
        .short_names(&["rs"])
        .categories(&["all"])
        .behaving(Behaviour {
            generation: Generation::Spec,
            settle: settle_template,
            prepare_create: |set, _| set["status"] = json!({"replicas": 0}),
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
            validate_status: |set, _, errors| check_status(set, errors),
            warnings: of_named,
            ..Behaviour::WITH_STATUS
        })
        .shown(columns(
            &["Name", "Desired#", "Current#", "Ready#", "Age", "Containers*", "Images*", "Selector*"],
            |set, now| {
                let (spec, status) = (&set["spec"], &set["status"]);
                let [names, images] = containers(&spec["template"]["spec"]);
                vec![
                    name(set),
                    number(&spec["replicas"]).into(),
                    number(&status["replicas"]).into(),
                    number(&status["readyReplicas"]).into(),
                    age(set, now),
                    names,
                    images,
                    selector(&spec["selector"]).into(),
                ]
            },
        ))
        .with_scale()
        .with_status()
}

fn check(set: &Value, errors: &mut Errors) {
    let (spec, path) = (&set["spec"], Path::root("spec"));
    errors.nonnegative(path.field("replicas"), spec["replicas"].as_i64());
    errors.nonnegative(path.field("minReadySeconds"), spec["minReadySeconds"].as_i64());
    // Errors call it so, whatever it is.
    check_own_selector(errors, path.field("selector"), &spec["selector"], "deployment");
    check_own_template(errors, spec, "ReplicaSet");
}

pub(super) fn check_status(set: &Value, errors: &mut Errors) {
    let counts = [
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "observedGeneration",
        "terminatingReplicas",
    ];
    let bounds = [
        ("fullyLabeledReplicas", "replicas", "status.replicas"),
        ("readyReplicas", "replicas", "status.replicas"),
        ("availableReplicas", "replicas", "status.replicas"),
        ("availableReplicas", "readyReplicas", "readyReplicas"),
    ];
    check_counts(errors, &set["status"], &counts, &bounds);
}
