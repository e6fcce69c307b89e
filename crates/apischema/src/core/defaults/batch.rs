//! What runs pods to their end.

use serde_json::Value;

use super::pod::template_in;
use super::{Fields, each, inside, present, set};

pub(super) fn job(object: &mut Fields) {
    let spec = inside(object, "spec");
    if !spec.contains_key("parallelism") {
        set(spec, "completions", 1);
    }
    set(spec, "parallelism", 1);
    let backoff = if spec.contains_key("backoffLimitPerIndex") { i64::from(i32::MAX) } else { 6 };
    set(spec, "backoffLimit", backoff);
    set(spec, "completionMode", "NonIndexed");
    set(spec, "suspend", false);
    let failure_policy = spec.contains_key("podFailurePolicy");
    set(spec, "podReplacementPolicy", if failure_policy { "Failed" } else { "TerminatingOrFailed" });
    set(spec, "manualSelector", false);
    failure_patterns(spec);
    template_in(spec);
    let labels = present(spec, "template")
        .and_then(|template| present(template, "metadata"))
        .and_then(|metadata| metadata.get("labels").cloned());
    if let Some(labels) = labels.filter(Value::is_object) {
        set(inside(object, "metadata"), "labels", labels);
    }
}

fn failure_patterns(spec: &mut Fields) {
    let Some(policy) = present(spec, "podFailurePolicy") else { return };
    for rule in each(policy, "rules") {
        each(rule, "onPodConditions").for_each(|pattern| set(pattern, "status", "True"));
    }
}

pub(super) fn cron_job(object: &mut Fields) {
    let spec = inside(object, "spec");
    set(spec, "concurrencyPolicy", "Allow");
    set(spec, "suspend", false);
    set(spec, "successfulJobsHistoryLimit", 3);
    set(spec, "failedJobsHistoryLimit", 1);
    let job = inside(inside(spec, "jobTemplate"), "spec");
    failure_patterns(job);
    template_in(job);
}
