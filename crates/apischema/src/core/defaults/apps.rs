//! What runs many pods of one template.

use serde_json::{Value, json};

use super::pod::template_in;
use super::{Fields, each, inside, present, set, text};

pub(super) fn replication_controller(object: &mut Fields) {
    let spec = inside(object, "spec");
    set(spec, "replicas", 1);
    let labels = present(spec, "template")
        .and_then(|template| present(template, "metadata"))
        .and_then(|metadata| metadata.get("labels").cloned());
    if present(spec, "template").is_some() {
        template_in(spec);
    }
    let Some(labels) = labels else { return };
    set(spec, "selector", labels.clone());
    set(inside(object, "metadata"), "labels", labels);
}

pub(super) fn deployment(object: &mut Fields) {
    let spec = inside(object, "spec");
    set(spec, "replicas", 1);
    let strategy = inside(spec, "strategy");
    set(strategy, "type", "RollingUpdate");
    if text(strategy, "type") == "RollingUpdate" {
        let update = inside(strategy, "rollingUpdate");
        set(update, "maxUnavailable", "25%");
        set(update, "maxSurge", "25%");
    }
    set(spec, "revisionHistoryLimit", 10);
    set(spec, "progressDeadlineSeconds", 600);
    template_in(spec);
}

pub(super) fn replica_set(object: &mut Fields) {
    let spec = inside(object, "spec");
    set(spec, "replicas", 1);
    template_in(spec);
}

pub(super) fn daemon_set(object: &mut Fields) {
    let spec = inside(object, "spec");
    let strategy = inside(spec, "updateStrategy");
    set(strategy, "type", "RollingUpdate");
    if text(strategy, "type") == "RollingUpdate" {
        let update = inside(strategy, "rollingUpdate");
        set(update, "maxUnavailable", 1);
        set(update, "maxSurge", 0);
    }
    set(spec, "revisionHistoryLimit", 10);
    template_in(spec);
}

pub(super) fn stateful_set(object: &mut Fields) {
    let spec = inside(object, "spec");
    set(spec, "podManagementPolicy", "OrderedReady");
    let strategy = inside(spec, "updateStrategy");
    if !strategy.contains_key("type") {
        set(strategy, "type", "RollingUpdate");
        inside(strategy, "rollingUpdate");
    }
    if text(strategy, "type") == "RollingUpdate"
        && let Some(update) = present(strategy, "rollingUpdate")
    {
        set(update, "partition", 0);
    }
    let retention = inside(spec, "persistentVolumeClaimRetentionPolicy");
    set(retention, "whenDeleted", "Retain");
    set(retention, "whenScaled", "Retain");
    set(spec, "replicas", 1);
    set(spec, "revisionHistoryLimit", 10);
    for claim in each(spec, "volumeClaimTemplates") {
        // They are claims themselves, and so have a kind.
        set(claim, "apiVersion", json!("v1"));
        set(claim, "kind", Value::from("PersistentVolumeClaim"));
        super::storage::persistent_volume_claim(claim);
    }
    template_in(spec);
}
