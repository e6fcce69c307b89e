//! StatefulSets.

use serde_json::{Value, json};

use super::super::behaviour::Behaviour;
use super::super::claim::check_claim_spec;
use super::super::errors::Errors;
use super::super::format::dns1123_label;
use super::super::kind::{KindExt as _, kind_of};
use super::super::pod::spec::check_template;
use super::super::table::{age, columns, containers, name};
use super::super::value::{fields_mut, is_set, items, number, object_mut, same, set as set_field, text};
use super::super::warnings::of_template;
use super::{
    check_always_restarted, check_at_most_all, check_collisions, check_counts, check_int_or_percent,
    check_own_selector, check_selected, int_or_percent, settle_template,
};
use apischema::Path;
use apiserver::registry::{Generation, NameRule, Resource, Scope};

pub(super) fn resource() -> Resource {
    kind_of("apps", "statefulsets", "StatefulSet", Scope::Namespaced)
        .short_names(&["sts"])
        .categories(&["all"])
        // Pods are named after their set.
        .name_rule(NameRule::Dns1123Label)
        .behaving(Behaviour {
            generation: Generation::Spec,
            settle: |set| {
                settle_template(set);
                // Off unless a cluster turns it on.
                if let Some(Value::Object(rolling)) = set.pointer_mut("/spec/updateStrategy/rollingUpdate") {
                    rolling.remove("maxUnavailable");
                }
            },
            prepare_create: |set, _| set["status"] = json!({"replicas": 0, "availableReplicas": 0}),
            validate: check,
            validate_create: check_create,
            validate_update: check_update,
            validate_status: check_status,
            warnings: |set, old| {
                let mut warnings = of_template(set, old);
                if number(&set["spec"]["revisionHistoryLimit"]) < 0 {
                    warnings.push(
                        "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is \
                         recommended"
                            .into(),
                    );
                }
                warnings
            },
            ..Behaviour::WITH_STATUS
        })
        .shown(columns(&["Name", "Ready", "Age", "Containers*", "Images*"], |set, now| {
            let [names, images] = containers(&set["spec"]["template"]["spec"]);
            let ready =
                format!("{}/{}", number(&set["status"]["readyReplicas"]), number(&set["spec"]["replicas"]));
            vec![name(set), ready.into(), age(set, now), names, images]
        }))
        .with_scale()
        .with_status()
}

fn check(set: &Value, errors: &mut Errors) {
    let (spec, path) = (&set["spec"], Path::root("spec"));
    match text(&spec["podManagementPolicy"]) {
        "" => errors.required(path.field("podManagementPolicy"), ""),
        "OrderedReady" | "Parallel" => {}
        other => {
            let detail = "must be 'OrderedReady' or 'Parallel'";
            errors.invalid(path.field("podManagementPolicy"), other, detail);
        }
    }
    check_update_strategy(errors, path.field("updateStrategy"), &spec["updateStrategy"]);
    let policy = &spec["persistentVolumeClaimRetentionPolicy"];
    for field in ["whenDeleted", "whenScaled"] {
        if is_set(policy) && !["Retain", "Delete"].contains(&text(&policy[field])) {
            let at = path.field("persistentVolumeClaimRetentionPolicy");
            errors.not_supported(at.field(field), text(&policy[field]), &["Retain", "Delete"]);
        }
    }
    errors.nonnegative(path.field("replicas"), spec["replicas"].as_i64());
    errors.nonnegative(path.field("minReadySeconds"), spec["minReadySeconds"].as_i64());
    errors.nonnegative(path.field("ordinals.start"), spec["ordinals"]["start"].as_i64());
    check_own_selector(errors, path.field("selector"), &spec["selector"], "statefulset");
    check_selected(errors, spec, Some(""));
    let at = path.field("template");
    check_template(errors, at, &checked_template(spec));
    check_always_restarted(errors, at, &spec["template"], "StatefulSet");
}

/// The template as its pods will be: each has the volumes of its own claims, and names that are not the template's.
fn checked_template(spec: &Value) -> Value {
    let mut template = spec["template"].clone();
    let claims = items(&spec["volumeClaimTemplates"]);
    let pod = object_mut(&mut template, "spec");
    pod.remove("subdomain");
    pod.remove("hostname");
    if claims.is_empty() {
        return template;
    }
    let named = |volume: &Value| claims.iter().any(|claim| claim["metadata"]["name"] == volume["name"]);
    let mut volumes: Vec<Value> = claims
        .iter()
        .map(|claim| {
            let name = text(&claim["metadata"]["name"]);
            json!({"name": name, "persistentVolumeClaim": {"claimName": name}})
        })
        .collect();
    let others = pod.get("volumes").map_or(&[][..], |volumes| items(volumes));
    volumes.extend(others.iter().filter(|volume| !named(volume)).cloned());
    pod.insert("volumes".into(), volumes.into());
    template
}

fn check_update_strategy(errors: &mut Errors, path: Path<'_>, strategy: &Value) {
    let rolling = &strategy["rollingUpdate"];
    let at = path.field("rollingUpdate");
    match text(&strategy["type"]) {
        "" => errors.required(path, ""),
        "OnDelete" => {
            if is_set(rolling) {
                errors.invalid(at, rolling.clone(), "only allowed for updateStrategy 'RollingUpdate'");
            }
        }
        "RollingUpdate" => {
            errors.nonnegative(at.field("partition"), rolling["partition"].as_i64());
            let unavailable = &rolling["maxUnavailable"];
            if is_set(unavailable) {
                check_int_or_percent(errors, at.field("maxUnavailable"), unavailable);
                if int_or_percent(unavailable) == 0 {
                    errors.invalid(at.field("maxUnavailable"), unavailable.clone(), "cannot be 0");
                }
                check_at_most_all(errors, at.field("maxUnavailable"), unavailable);
            }
        }
        _ => errors.invalid(path, strategy.clone(), "must be 'RollingUpdate' or 'OnDelete'"),
    }
}

fn check_create(set: &Value, errors: &mut Errors) {
    let (spec, path) = (&set["spec"], Path::root("spec"));
    for (index, claim) in items(&spec["volumeClaimTemplates"]).iter().enumerate() {
        let list = path.field("volumeClaimTemplates");
        check_claim_spec(errors, list.index(index).field("spec"), &claim["spec"]);
    }
    let service = text(&spec["serviceName"]);
    if !service.is_empty() {
        errors.messages(path.field("serviceName"), service, dns1123_label(service));
    }
}

fn check_update(new: &Value, old: &Value, errors: &mut Errors) {
    const MUTABLE: [&str; 7] = [
        "replicas",
        "template",
        "updateStrategy",
        "minReadySeconds",
        "ordinals",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
    ];
    let mut rest = new["spec"].clone();
    for field in MUTABLE {
        set_field(fields_mut(&mut rest), field, old["spec"].get(field).cloned());
    }
    if !same(&rest, &old["spec"]) {
        errors.forbidden(
            Path::root("spec"),
            "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', \
             'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
        );
    }
}

fn check_status(set: &Value, old: &Value, errors: &mut Errors) {
    let counts = [
        "replicas",
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
        "availableReplicas",
        "observedGeneration",
        "collisionCount",
    ];
    let bounds = [
        ("readyReplicas", "replicas", "status.replicas"),
        ("currentReplicas", "replicas", "status.replicas"),
        ("updatedReplicas", "replicas", "status.replicas"),
        ("availableReplicas", "replicas", "status.replicas"),
        ("availableReplicas", "readyReplicas", "status.readyReplicas"),
    ];
    check_counts(errors, &set["status"], &counts, &bounds);
    check_collisions(errors, set, old);
}
