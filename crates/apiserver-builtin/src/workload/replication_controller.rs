//! ReplicationControllers: ReplicaSets with a plainer selector.

use serde_json::{Value, json};

use super::super::behaviour::Behaviour;
use super::super::errors::Errors;
use super::super::kind::{KindExt as _, core};
use super::super::pod::spec::check_template;
use super::super::table::{age, columns, containers, labels, name};
use super::super::value::{entries, is_set, number, size};
use super::super::warnings::of_named;
use super::replica_set::check_status;
use super::{check_always_restarted, settle_template};
use apischema::Path;
use apiserver::registry::{GarbageCollection, Generation, Resource, Scope};
use apiserver::selection::SelectableField;

pub(super) fn resource() -> Resource {
    core("replicationcontrollers", "ReplicationController", Scope::Namespaced)
        .short_names(&["rc"])
        .categories(&["all"])
        .selectable([SelectableField::named("status.replicas", &["status.replicas"], "0")])
        .behaving(Behaviour {
            generation: Generation::Spec,
            settle: settle_template,
            prepare_create: |controller, _| controller["status"] = json!({"replicas": 0}),
            validate: check,
            validate_status: |controller, _, errors| check_status(controller, errors),
            warnings: of_named,
            garbage_collection: GarbageCollection::OrphanDependents,
            ..Behaviour::WITH_STATUS
        })
        .shown(columns(
            &["Name", "Desired#", "Current#", "Ready#", "Age", "Containers*", "Images*", "Selector*"],
            |controller, now| {
                let (spec, status) = (&controller["spec"], &controller["status"]);
                let [names, images] = containers(&spec["template"]["spec"]);
                vec![
                    name(controller),
                    number(&spec["replicas"]).into(),
                    number(&status["replicas"]).into(),
                    number(&status["readyReplicas"]).into(),
                    age(controller, now),
                    names,
                    images,
                    labels(&spec["selector"]).into(),
                ]
            },
        ))
        .with_scale()
        .with_status()
}

fn check(controller: &Value, errors: &mut Errors) {
    let (spec, path) = (&controller["spec"], Path::root("spec"));
    errors.nonnegative(path.field("minReadySeconds"), spec["minReadySeconds"].as_i64());
    if size(&spec["selector"]) == 0 {
        errors.required(path.field("selector"), "");
    }
    errors.nonnegative(path.field("replicas"), spec["replicas"].as_i64());
    let (template, at) = (&spec["template"], path.field("template"));
    if !is_set(template) {
        return errors.required(at, "");
    }
    let labels = &template["metadata"]["labels"];
    if entries(&spec["selector"]).any(|(key, value)| labels.get(key) != Some(value)) {
        let metadata = at.field("metadata");
        let detail = "`selector` does not match template `labels`";
        errors.invalid(metadata.field("labels"), labels.clone(), detail);
    }
    check_template(errors, at, template);
    check_always_restarted(errors, at, template, "ReplicationController");
}
