//! CronJobs.

use serde_json::Value;

use super::super::behaviour::Behaviour;
use super::super::errors::Errors;
use super::super::kind::{KindExt as _, kind_of};
use super::super::pod::settle_spec;
use super::super::pod::warnings::spec_warnings;
use super::super::table::{age, columns, containers, name, or, selector, since};
use super::super::value::{is_set, is_true, same, size, text};
use super::super::warnings::pod_names;
use super::check_spec;
use super::schedule;
use apischema::Path;
use apiserver::registry::{Generation, Resource, Scope};

pub(super) fn resource() -> Resource {
    kind_of("batch", "cronjobs", "CronJob", Scope::Namespaced)
        .short_names(&["cj"])
        .categories(&["all"])
        .behaving(Behaviour {
            generation: Generation::Spec,
            settle,
            validate_create: |cron_job, errors| {
                check_schedule(errors, cron_job, None);
                check(cron_job, errors);
                check_name(errors, cron_job);
            },
            validate_update: |new, old, errors| {
                check_schedule(errors, new, Some(old));
                check(new, errors);
            },
            warnings: |cron_job, old| {
                let mut warnings = if old.is_none() { pod_names(cron_job) } else { Vec::new() };
                if old.is_none_or(|old| old["spec"] != cron_job["spec"]) {
                    let spec = Path::root("spec");
                    let job = spec.field("jobTemplate");
                    let job_spec = job.field("spec");
                    let template = job_spec.field("template");
                    let pod_spec = &cron_job["spec"]["jobTemplate"]["spec"]["template"]["spec"];
                    warnings.extend(spec_warnings(template.field("spec"), pod_spec));
                }
                if old.is_some() && text(&cron_job["spec"]["schedule"]).contains("TZ") {
                    warnings.push(
                        "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see \
                         https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
                            .into(),
                    );
                }
                warnings
            },
            ..Behaviour::WITH_STATUS
        })
        .shown(columns(
            &[
                "Name",
                "Schedule",
                "Timezone",
                "Suspend?",
                "Active#",
                "Last Schedule",
                "Age",
                "Containers*",
                "Images*",
                "Selector*",
            ],
            |cron_job, now| {
                let (spec, status) = (&cron_job["spec"], &cron_job["status"]);
                let job = &spec["jobTemplate"]["spec"];
                let [names, images] = containers(&job["template"]["spec"]);
                let last = &status["lastScheduleTime"];
                let suspend = match &spec["suspend"] {
                    Value::Bool(true) => "True",
                    Value::Bool(false) => "False",
                    _ => "<unset>",
                };
                vec![
                    name(cron_job),
                    text(&spec["schedule"]).into(),
                    or(&spec["timeZone"], "<none>").into(),
                    suspend.into(),
                    size(&status["active"]).into(),
                    if is_set(last) { since(last, now) } else { "<none>".into() }.into(),
                    age(cron_job, now),
                    names,
                    images,
                    selector(&job["selector"]).into(),
                ]
            },
        ))
        .with_status()
}

fn settle(cron_job: &mut Value) {
    if let Some(template) = cron_job.pointer_mut("/spec/jobTemplate/spec/template") {
        settle_spec(template);
    }
}

fn check(cron_job: &Value, errors: &mut Errors) {
    let (spec, path) = (&cron_job["spec"], Path::root("spec"));
    errors.nonnegative(path.field("startingDeadlineSeconds"), spec["startingDeadlineSeconds"].as_i64());
    let policies = ["Allow", "Forbid", "Replace"];
    errors.one_of(path.field("concurrencyPolicy"), text(&spec["concurrencyPolicy"]), &policies);
    let (job, template) = (&spec["jobTemplate"]["spec"], path.field("jobTemplate"));
    let at = template.field("spec");
    check_spec(errors, at, job);
    if is_set(&job["selector"]) {
        errors.invalid(at.field("selector"), job["selector"].clone(), "`selector` will be auto-generated");
    }
    if is_true(&job["manualSelector"]) {
        errors.not_supported(at.field("manualSelector"), true, &["nil", "false"]);
    }
    for field in ["successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
        errors.nonnegative(path.field(field), spec[field].as_i64());
    }
}

/// The jobs that a CronJob makes are named after it, with eleven characters more.
fn check_name(errors: &mut Errors, cron_job: &Value) {
    let (name, metadata) = (text(&cron_job["metadata"]["name"]), Path::root("metadata"));
    if name.len() > 52 {
        errors.invalid(metadata.field("name"), name, "must be no more than 52 characters");
    }
}

fn check_schedule(errors: &mut Errors, cron_job: &Value, old: Option<&Value>) {
    let (spec, path) = (&cron_job["spec"], Path::root("spec"));
    let (given, zone) = (text(&spec["schedule"]), &spec["timeZone"]);
    if given.is_empty() {
        errors.required(path.field("schedule"), "");
    } else {
        if let Err(message) = schedule::check(given) {
            errors.invalid(path.field("schedule"), given, message);
        }
        let had_zone = old.is_some_and(|old| text(&old["spec"]["schedule"]).contains("TZ"));
        let detail = match (given.contains("TZ"), had_zone, is_set(zone)) {
            (true, true, true) => Some("cannot use both timeZone field and TZ or CRON_TZ in schedule"),
            (true, false, _) => Some("cannot use TZ or CRON_TZ in schedule, use timeZone field instead"),
            _ => None,
        };
        if let Some(detail) = detail {
            errors.invalid(path.field("schedule"), given, detail);
        }
    }
    if is_set(zone) && !old.is_some_and(|old| same(&old["spec"]["timeZone"], zone)) {
        check_zone(errors, path.field("timeZone"), text(zone));
    }
}

fn check_zone(errors: &mut Errors, path: Path<'_>, zone: &str) {
    if zone.is_empty() {
        return errors.invalid(path, "", "timeZone must be nil or non-empty string");
    }
    let fits = |part: &str| {
        (1..=14).contains(&part.len())
            && !matches!(part, "." | "..")
            && !part.starts_with('-')
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_+".contains(&byte))
    };
    if !zone.split('/').all(fits) {
        return errors.invalid(path, zone, format!("unknown time zone {zone}"));
    }
    if zone.eq_ignore_ascii_case("local") {
        let detail = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        errors.invalid(path, zone, detail);
    } else if jiff::tz::TimeZone::get(zone).is_err() {
        errors.invalid(path, zone, format!("unknown time zone {zone}"));
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::{cells, create};
    use super::*;
    use serde_json::json;

    fn cron_job(schedule: &str) -> Value {
        json!({
            "metadata": {"name": "c"},
            "spec": {
                "schedule": schedule, "concurrencyPolicy": "Allow", "suspend": false,
                "jobTemplate": {"spec": {"template": {"spec": {
                    "restartPolicy": "OnFailure", "dnsPolicy": "ClusterFirst", "terminationGracePeriodSeconds": 30,
                    "containers": [{
                        "name": "c", "image": "i", "imagePullPolicy": "Always", "terminationMessagePolicy": "File",
                    }],
                }}}},
            },
        })
    }

    #[test]
    fn a_schedule_is_five_fields_without_a_zone() {
        assert_eq!(create(&resource(), &cron_job("*/5 * * * *")), Vec::<String>::new());
        assert_eq!(create(&resource(), &cron_job("")), ["spec.schedule: Required value"]);
        assert_eq!(
            create(&resource(), &cron_job("x")),
            ["spec.schedule: Invalid value: \"x\": expected exactly 5 fields, found 1: [x]"]
        );
        assert_eq!(
            create(&resource(), &cron_job("TZ=UTC 0 * * * *")),
            [
                "spec.schedule: Invalid value: \"TZ=UTC 0 * * * *\": cannot use TZ or CRON_TZ in schedule, use timeZone \
              field instead"
            ]
        );
    }

    #[test]
    fn names_leave_room_for_those_of_jobs() {
        let mut long = cron_job("@daily");
        long["metadata"]["name"] = json!("x".repeat(53));
        assert!(create(&resource(), &long)[0].ends_with("must be no more than 52 characters"));
        long["metadata"]["name"] = json!("x");
        long["spec"]["timeZone"] = json!("Nowhere/Land");
        assert_eq!(
            create(&resource(), &long),
            ["spec.timeZone: Invalid value: \"Nowhere/Land\": unknown time zone Nowhere/Land"]
        );
        assert_eq!(cells(&resource(), &long, "2024-01-01T00:00:00Z")[3], "False");
    }
}
