//! DaemonSets.

use serde_json::{Value, json};

use super::super::behaviour::Behaviour;
use super::super::errors::Errors;
use super::super::kind::{KindExt as _, kind_of};
use super::super::labels::{check_selector, is_empty_selector};
use super::super::table::{age, columns, containers, labels, name, selector};
use super::super::value::{is_set, number, object_mut, same, text};
use super::super::warnings::of_template;
use super::{
    check_at_most_all, check_collisions, check_counts, check_int_or_percent, check_own_template,
    check_unchanged, int_or_percent, settle_template,
};
use apischema::Path;
use apiserver::registry::{Generation, Resource, Scope};

/// Which generation the template is of; older clients know it by this annotation.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

pub(super) fn resource() -> Resource {
    kind_of("apps", "daemonsets", "DaemonSet", Scope::Namespaced)
        .short_names(&["ds"])
        .categories(&["all"])
        .behaving(Behaviour {
            generation: Generation::Spec,
            settle: |set| {
                settle_template(set);
                // Kubernetes writes it in whatever it reads, and so whoever writes a DaemonSet comes to own it.
                set_template_generation(set, template_generation(set));
            },
            prepare_create: |set, _| {
                let given = template_generation(set).max(1);
                set_template_generation(set, given);
                set["status"] = json!({
                    "currentNumberScheduled": 0,
                    "desiredNumberScheduled": 0,
                    "numberMisscheduled": 0,
                    "numberReady": 0,
                });
            },
            prepare_update: |set, old, _| {
                let changed = !same(&set["spec"]["template"], &old["spec"]["template"]);
                set_template_generation(set, template_generation(old) + i64::from(changed));
            },
            validate_create: check,
            validate_update: |new, old, errors| {
                let path = Path::root("spec");
                check_unchanged(
                    errors,
                    path.field("selector"),
                    &new["spec"]["selector"],
                    &old["spec"]["selector"],
                );
                check(new, errors);
            },
            validate_status: check_status,
            warnings: of_template,
            ..Behaviour::WITH_STATUS
        })
        .shown(columns(
            &[
                "Name",
                "Desired#",
                "Current#",
                "Ready#",
                "Up-to-date#",
                "Available#",
                "Node Selector",
                "Age",
                "Containers*",
                "Images*",
                "Selector*",
            ],
            |set, now| {
                let (spec, status) = (&set["spec"], &set["status"]);
                let pod = &spec["template"]["spec"];
                let [names, images] = containers(pod);
                vec![
                    name(set),
                    number(&status["desiredNumberScheduled"]).into(),
                    number(&status["currentNumberScheduled"]).into(),
                    number(&status["numberReady"]).into(),
                    number(&status["updatedNumberScheduled"]).into(),
                    number(&status["numberAvailable"]).into(),
                    labels(&pod["nodeSelector"]).into(),
                    age(set, now),
                    names,
                    images,
                    selector(&spec["selector"]).into(),
                ]
            },
        ))
        .with_status()
}

fn template_generation(set: &Value) -> i64 {
    text(&set["metadata"]["annotations"][TEMPLATE_GENERATION]).parse().unwrap_or(0)
}

fn set_template_generation(set: &mut Value, generation: i64) {
    let metadata = super::super::value::field_mut(set, "metadata");
    object_mut(metadata, "annotations").insert(TEMPLATE_GENERATION.into(), generation.to_string().into());
}

fn check(set: &Value, errors: &mut Errors) {
    let (spec, path) = (&set["spec"], Path::root("spec"));
    let own = &spec["selector"];
    check_selector(errors, path.field("selector"), own);
    if is_set(own) && is_empty_selector(own) {
        errors.invalid(path.field("selector"), own.clone(), "empty selector is invalid for daemonset");
    }
    check_own_template(errors, spec, "DaemonSet");
    errors.nonnegative(path.field("minReadySeconds"), spec["minReadySeconds"].as_i64());
    check_update_strategy(errors, path.field("updateStrategy"), &spec["updateStrategy"]);
    errors.nonnegative(path.field("revisionHistoryLimit"), spec["revisionHistoryLimit"].as_i64());
}

fn check_update_strategy(errors: &mut Errors, path: Path<'_>, strategy: &Value) {
    let rolling = &strategy["rollingUpdate"];
    let at = path.field("rollingUpdate");
    match text(&strategy["type"]) {
        "OnDelete" => {}
        "RollingUpdate" if !is_set(rolling) => errors.required(at, ""),
        "RollingUpdate" => {
            let fields = ["maxUnavailable", "maxSurge"];
            for field in fields {
                check_int_or_percent(errors, at.field(field), &rolling[field]);
            }
            for field in fields {
                check_at_most_all(errors, at.field(field), &rolling[field]);
            }
            match fields.map(|field| int_or_percent(&rolling[field]) != 0) {
                [true, true] => {
                    let detail = "may not be set when maxUnavailable is non-zero";
                    errors.invalid(at.field("maxSurge"), rolling["maxSurge"].clone(), detail);
                }
                [false, false] => {
                    errors.required(at.field("maxUnavailable"), "cannot be 0 when maxSurge is 0");
                }
                _ => {}
            }
        }
        _ => errors.not_supported(path, strategy.clone(), &["RollingUpdate", "OnDelete"]),
    }
}

fn check_status(set: &Value, old: &Value, errors: &mut Errors) {
    let counts = [
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
        "observedGeneration",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberUnavailable",
        "collisionCount",
    ];
    check_counts(errors, &set["status"], &counts, &[]);
    check_collisions(errors, set, old);
}
