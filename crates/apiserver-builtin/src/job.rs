//! Jobs and CronJobs. No controllers run for them here: the objects are kept and checked, and their status is whatever is
//! written to it.

mod cron_job;
mod policies;
mod schedule;

use jiff::Timestamp;
use serde_json::Value;

use super::behaviour::Behaviour;
use super::errors::Errors;
use super::format::dns1123_label;
use super::format::domain_prefixed_path;
use super::kind::{KindExt as _, kind_of};
use super::labels::{check_selector, read_selector, selects};
use super::pod::spec::check_template;
use super::table::{age, columns, containers, is_deleting, name, selector, since};
use super::value::{field_mut, is_set, is_true, items, number, object_mut, same, set, size, text};
use super::warnings::of_named;
use super::workload::{check_unchanged, settle_template};
use apischema::Path;
use apiserver::registry::{GarbageCollection, Generation, Resource, Scope, human_duration};
use apiserver::selection::SelectableField;

const UID: &str = "batch.kubernetes.io/controller-uid";
const NAME: &str = "batch.kubernetes.io/job-name";
const OLD_UID: &str = "controller-uid";
const OLD_NAME: &str = "job-name";

pub(super) fn resources() -> [Resource; 2] {
    [resource(), cron_job::resource()]
}

fn resource() -> Resource {
    kind_of("batch", "jobs", "Job", Scope::Namespaced)
        .categories(&["all"])
        .selectable([SelectableField::named("status.successful", &["status.succeeded"], "0")])
        .behaving(Behaviour {
            unsupported_field: |field| Some(format!("field label {field:?} not supported for Job")),
            generation: Generation::Spec,
            settle: settle_template,
            prepare_create: |job, _| {
                if !is_true(&job["spec"]["manualSelector"]) {
                    generate_selector(job);
                }
                // A job without labels has those of its pods, if it can have them.
                let fits = text(&job["metadata"]["name"]).len() <= 63;
                if fits && size(&job["metadata"]["labels"]) == 0 {
                    let labels = job["spec"]["template"]["metadata"].get("labels").cloned();
                    set(object_mut(job, "metadata"), "labels", labels);
                }
            },
            validate: check,
            validate_update: check_update,
            validate_status: check_status,
            warnings: of_named,
            // Older clients count on it.
            garbage_collection: GarbageCollection::OrphanDependents,
            ..Behaviour::WITH_STATUS
        })
        .shown(columns(
            &["Name", "Status", "Completions", "Duration", "Age", "Containers*", "Images*", "Selector*"],
            |job, now| {
                let [names, images] = containers(&job["spec"]["template"]["spec"]);
                vec![
                    name(job),
                    state(job).into(),
                    completions(job).into(),
                    duration(&job["status"], now).into(),
                    age(job, now),
                    names,
                    images,
                    selector(&job["spec"]["selector"]).into(),
                ]
            },
        ))
        .with_status()
}

fn state(job: &Value) -> &'static str {
    let has = |kind: &str| has_condition(job, kind);
    if has("Complete") {
        "Complete"
    } else if has("Failed") {
        "Failed"
    } else if is_deleting(job) {
        "Terminating"
    } else if has("Suspended") {
        "Suspended"
    } else if has("FailureTarget") {
        "FailureTarget"
    } else if has("SuccessCriteriaMet") {
        "SuccessCriteriaMet"
    } else {
        "Running"
    }
}

fn has_condition(job: &Value, kind: &str) -> bool {
    let mut conditions = items(&job["status"]["conditions"]).iter();
    conditions.any(|condition| text(&condition["type"]) == kind && text(&condition["status"]) == "True")
}

fn completions(job: &Value) -> String {
    let succeeded = number(&job["status"]["succeeded"]);
    match (job["spec"]["completions"].as_i64(), number(&job["spec"]["parallelism"])) {
        (Some(completions), _) => format!("{succeeded}/{completions}"),
        (None, parallelism) if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        (None, _) => format!("{succeeded}/1"),
    }
}

fn duration(status: &Value, now: Timestamp) -> String {
    let time = |field: &str| text(&status[field]).parse::<Timestamp>().ok();
    match (time("startTime"), time("completionTime")) {
        (None, _) => String::new(),
        (Some(_), None) => since(&status["startTime"], now),
        (Some(start), Some(end)) => human_duration(end.duration_since(start).as_secs()),
    }
}

/// A job selects its pods by its own uid, with which their template is labelled.
fn generate_selector(job: &mut Value) {
    let (uid, name) = (job["metadata"]["uid"].clone(), job["metadata"]["name"].clone());
    let spec = field_mut(job, "spec");
    let labels = object_mut(field_mut(field_mut(spec, "template"), "metadata"), "labels");
    for (label, value) in [(OLD_NAME, &name), (NAME, &name), (OLD_UID, &uid), (UID, &uid)] {
        labels.entry(label).or_insert_with(|| value.clone());
    }
    let selected = object_mut(field_mut(spec, "selector"), "matchLabels");
    selected.entry(UID).or_insert(uid);
}

fn check(job: &Value, errors: &mut Errors) {
    let (spec, path) = (&job["spec"], Path::root("spec"));
    check_generated_selector(job, errors);
    check_spec(errors, path, spec);
    if is_set(&spec["selector"]) {
        check_selector(errors, path.field("selector"), &spec["selector"]);
    } else {
        errors.required(path.field("selector"), "");
    }
    let labels = &spec["template"]["metadata"]["labels"];
    if read_selector(&spec["selector"]).is_some_and(|selector| !selects(&selector, labels)) {
        let template = path.field("template");
        let metadata = template.field("metadata");
        let detail = "`selector` does not match template `labels`";
        errors.invalid(metadata.field("labels"), labels.clone(), detail);
    }
    let completions = number(&spec["completions"]);
    if text(&spec["completionMode"]) == "Indexed" && completions > 0 {
        let (name, metadata) = (text(&job["metadata"]["name"]), Path::root("metadata"));
        let last = format!("{name}-{}", completions - 1);
        if !dns1123_label(&last).is_empty() {
            let detail = format!("will not able to create pod with invalid DNS label: {last}");
            errors.invalid(metadata.field("name"), name, detail);
        }
    }
}

fn check_generated_selector(job: &Value, errors: &mut Errors) {
    let spec = &job["spec"];
    if is_true(&spec["manualSelector"]) || !is_set(&spec["selector"]) {
        return;
    }
    let (path, metadata) = (Path::root("spec"), &job["metadata"]);
    let template = path.field("template");
    let template_metadata = template.field("metadata");
    let at = template_metadata.field("labels");
    let labels = &spec["template"]["metadata"]["labels"];
    let expected = [(OLD_UID, "uid"), (OLD_NAME, "name"), (UID, "uid"), (NAME, "name")];
    for (label, field) in expected {
        let detail = format!("must be '{}'", text(&metadata[field]));
        match labels.get(label) {
            None => errors.required(at.key(label), &detail),
            Some(value) if *value != metadata[field] => errors.invalid(at.key(label), labels.clone(), detail),
            Some(_) => {}
        }
    }
    let expected: serde_json::Map<_, _> =
        expected.iter().map(|(label, field)| ((*label).to_owned(), metadata[*field].clone())).collect();
    let matches =
        |selector: apimachinery::LabelSelector| selects(&selector, &Value::Object(expected.clone()));
    if read_selector(&spec["selector"]).is_some_and(|selector| !matches(selector)) {
        errors.invalid(path.field("selector"), spec["selector"].clone(), "`selector` not auto-generated");
    }
}

/// Checks what a job shall do, by itself or as a template of others.
fn check_spec(errors: &mut Errors, path: Path<'_>, spec: &Value) {
    for field in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        errors.nonnegative(path.field(field), spec[field].as_i64());
    }
    if is_set(&spec["maxFailedIndexes"]) && !is_set(&spec["backoffLimitPerIndex"]) {
        errors.required(path.field("backoffLimitPerIndex"), "when maxFailedIndexes is specified");
    }
    if is_set(&spec["managedBy"]) {
        let manager = text(&spec["managedBy"]);
        domain_prefixed_path(errors, path.field("managedBy"), manager);
        if manager.len() > 63 {
            errors.too_long(path.field("managedBy"), 63);
        }
    }
    check_completion_mode(errors, path, spec);
    check_policies(errors, path, spec);
    let template = path.field("template");
    check_template(errors, template, &spec["template"]);
    let pod = template.field("spec");
    match text(&spec["template"]["spec"]["restartPolicy"]) {
        "" | "Always" => {
            errors.required(pod.field("restartPolicy"), "valid values: \"OnFailure\", \"Never\"");
        }
        "Never" => {}
        "OnFailure" => {
            if is_set(&spec["podFailurePolicy"]) {
                let detail = "only \"Never\" is supported when podFailurePolicy is specified";
                errors.invalid(pod.field("restartPolicy"), "OnFailure", detail);
            }
        }
        other => errors.not_supported(pod.field("restartPolicy"), other, &["OnFailure", "Never"]),
    }
}

fn check_completion_mode(errors: &mut Errors, path: Path<'_>, spec: &Value) {
    const MOST_PARALLEL: i64 = 100_000;
    let mode = text(&spec["completionMode"]);
    if is_set(&spec["completionMode"]) && !["NonIndexed", "Indexed"].contains(&mode) {
        errors.not_supported(path.field("completionMode"), mode, &["NonIndexed", "Indexed"]);
    }
    if mode == "Indexed" {
        if !is_set(&spec["completions"]) {
            errors.required(path.field("completions"), "when completion mode is Indexed");
        }
        let parallelism = number(&spec["parallelism"]);
        if parallelism > MOST_PARALLEL {
            let detail =
                format!("must be less than or equal to {MOST_PARALLEL} when completion mode is Indexed");
            errors.invalid(path.field("parallelism"), parallelism, detail);
        }
        let failed = number(&spec["maxFailedIndexes"]);
        if spec["completions"].as_i64().is_some_and(|completions| failed > completions) {
            errors.invalid(
                path.field("maxFailedIndexes"),
                failed,
                "must be less than or equal to completions",
            );
        }
        return;
    }
    for field in ["backoffLimitPerIndex", "maxFailedIndexes"] {
        if let Some(given) = spec[field].as_i64() {
            errors.invalid(path.field(field), given, "requires indexed completion mode");
        }
    }
}

fn check_policies(errors: &mut Errors, path: Path<'_>, spec: &Value) {
    if is_set(&spec["podFailurePolicy"]) {
        policies::check_failure_policy(errors, path.field("podFailurePolicy"), spec);
    }
    if is_set(&spec["successPolicy"]) {
        let at = path.field("successPolicy");
        if text(&spec["completionMode"]) == "Indexed" {
            policies::check_success_policy(errors, at, spec);
        } else {
            errors.invalid(at, spec["successPolicy"].clone(), "requires indexed completion mode");
        }
    }
    let replacement = &spec["podReplacementPolicy"];
    if is_set(replacement) {
        let supported: &[&str] =
            if is_set(&spec["podFailurePolicy"]) { &["Failed"] } else { &["Failed", "TerminatingOrFailed"] };
        if !supported.contains(&text(replacement)) {
            errors.not_supported(path.field("podReplacementPolicy"), text(replacement), supported);
        }
    }
}

fn check_update(job: &Value, old: &Value, errors: &mut Errors) {
    let (new, before, path) = (&job["spec"], &old["spec"], Path::root("spec"));
    if text(&new["completionMode"]) != "Indexed" {
        check_unchanged(errors, path.field("completions"), &new["completions"], &before["completions"]);
    } else if is_set(&new["completions"])
        && !same(&new["completions"], &before["completions"])
        && !same(&new["completions"], &new["parallelism"])
    {
        let detail = "can only be modified in tandem with spec.parallelism";
        errors.invalid(path.field("completions"), new["completions"].clone(), detail);
    }
    check_unchanged(errors, path.field("selector"), &new["selector"], &before["selector"]);
    check_template_update(errors, path.field("template"), job, old);
    for field in ["completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"]
    {
        check_unchanged(errors, path.field(field), &new[field], &before[field]);
    }
}

/// The template stays, but for where pods of a job that has not started may run.
fn check_template_update(errors: &mut Errors, path: Path<'_>, job: &Value, old: &Value) {
    let template = &job["spec"]["template"];
    let mut before = old["spec"]["template"].clone();
    if is_true(&old["spec"]["suspend"]) && !is_set(&old["status"]["startTime"]) {
        for field in ["annotations", "labels"] {
            set(object_mut(&mut before, "metadata"), field, template["metadata"].get(field).cloned());
        }
        let pod = &template["spec"];
        let fields = object_mut(&mut before, "spec");
        for field in ["nodeSelector", "tolerations", "schedulingGates"] {
            set(fields, field, pod.get(field).cloned());
        }
        let affinity = object_mut(field_mut(&mut before, "spec"), "affinity");
        set(affinity, "nodeAffinity", pod["affinity"].get("nodeAffinity").cloned());
    }
    if !same(template, &before) {
        errors.invalid(path, template.clone(), "field is immutable");
    }
}

fn check_status(job: &Value, old: &Value, errors: &mut Errors) {
    let (status, path) = (&job["status"], Path::root("status"));
    for field in ["active", "succeeded", "failed", "ready", "terminating"] {
        errors.nonnegative(path.field(field), status[field].as_i64());
    }
    let conditions = path.field("conditions");
    let mut refuse = |detail: String| errors.invalid(conditions, Value::Null, detail);
    if has_condition(job, "Complete") && has_condition(job, "Failed") {
        refuse("cannot set Complete=True and Failed=true conditions".into());
    }
    for (kind, shown) in [
        ("Failed", "terminal Failed"),
        ("Complete", "terminal Complete"),
        ("FailureTarget", "terminal FailureTarget"),
        ("SuccessCriteriaMet", "SuccessCriteriaMet"),
    ] {
        if has_condition(old, kind) && !has_condition(job, kind) {
            refuse(format!("cannot disable the {shown}=True condition"));
        }
    }
    let complete = has_condition(job, "Complete");
    if is_set(&status["completionTime"]) && !complete {
        let detail = "cannot set completionTime when there is no Complete=True condition";
        errors.invalid(path.field("completionTime"), status["completionTime"].clone(), detail);
    }
    if complete && !is_set(&status["completionTime"]) {
        errors.required(path.field("completionTime"), "completionTime is required for Complete jobs");
    }
    let at = path.field("conditions");
    let newly = |kind: &str| has_condition(job, kind) && !has_condition(old, kind);
    if newly("Failed") && !has_condition(job, "FailureTarget") {
        let detail = "cannot set Failed=True condition without the FailureTarget=true condition";
        errors.invalid_unshown(at, detail);
    }
    if newly("Complete") && !has_condition(job, "SuccessCriteriaMet") {
        let detail = "cannot set Complete=True condition without the SuccessCriteriaMet=true condition";
        errors.invalid_unshown(at, detail);
    }
    let finished = complete || has_condition(job, "Failed");
    if finished && number(&status["active"]) > 0 {
        errors.invalid(
            path.field("active"),
            number(&status["active"]),
            "active>0 is invalid for finished job",
        );
    }
    if finished && !is_set(&status["startTime"]) {
        errors.required(path.field("startTime"), "startTime is required for finished job");
    }
    if let Some(ready) = status["ready"].as_i64()
        && ready > number(&status["active"])
    {
        errors.invalid(path.field("ready"), ready, "cannot set more ready pods than active");
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{cells, create, prepared, update};
    use super::*;
    use serde_json::json;

    fn job() -> Value {
        let job = json!({
            "metadata": {"name": "j", "uid": "u", "creationTimestamp": "2024-01-01T00:00:00Z"},
            "spec": {
                "completions": 1, "parallelism": 1, "backoffLimit": 6, "completionMode": "NonIndexed",
                "template": {"spec": {
                    "restartPolicy": "Never", "dnsPolicy": "ClusterFirst", "terminationGracePeriodSeconds": 30,
                    "containers": [{
                        "name": "c", "image": "i", "imagePullPolicy": "Always", "terminationMessagePolicy": "File",
                    }],
                }},
            },
        });
        prepared(&resource(), job)
    }

    #[test]
    fn a_job_selects_its_pods_by_its_uid() {
        let job = job();
        assert_eq!(job["spec"]["selector"], json!({"matchLabels": {UID: "u"}}));
        assert_eq!(
            job["spec"]["template"]["metadata"]["labels"],
            json!({UID: "u", NAME: "j", OLD_UID: "u", OLD_NAME: "j"})
        );
        assert_eq!(job["status"], json!({}));
        assert_eq!(create(&resource(), &job), Vec::<String>::new());
    }

    #[test]
    fn pods_of_a_job_are_not_restarted_for_ever() {
        let mut job = job();
        job["spec"]["template"]["spec"]["restartPolicy"] = json!("Always");
        assert_eq!(
            create(&resource(), &job),
            ["spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\""]
        );
        job["spec"]["template"]["spec"]["restartPolicy"] = json!("Never");
        job["spec"]["selector"] = json!({"matchLabels": {"a": "b"}});
        assert_eq!(
            create(&resource(), &job),
            [
                "spec.selector: Invalid value: {\"matchLabels\":{\"a\":\"b\"}}: `selector` not auto-generated",
                "spec.template.metadata.labels: Invalid value: {\"batch.kubernetes.io/controller-uid\":\"u\",\
                 \"batch.kubernetes.io/job-name\":\"j\",\"controller-uid\":\"u\",\"job-name\":\"j\"}: `selector` does not \
                 match template `labels`"
            ]
        );
    }

    #[test]
    fn what_a_job_does_stays() {
        let old = job();
        let mut new = old.clone();
        new["spec"]["parallelism"] = json!(3);
        assert!(update(&resource(), &new, &old).is_empty());
        new["spec"]["completions"] = json!(2);
        new["spec"]["template"]["spec"]["nodeSelector"] = json!({"a": "b"});
        let wrong = update(&resource(), &new, &old);
        assert_eq!(wrong[0], "spec.completions: Invalid value: 2: field is immutable");
        assert!(wrong[1].starts_with("spec.template: Invalid value: "));
        let mut suspended = old.clone();
        suspended["spec"]["suspend"] = json!(true);
        new["spec"]["completions"] = json!(1);
        new["spec"]["suspend"] = json!(true);
        assert!(update(&resource(), &new, &suspended).is_empty(), "where a suspended job runs may change");
    }

    #[test]
    fn the_table_shows_how_far_a_job_is() {
        let mut job = job();
        let shown = |job: &Value| cells(&resource(), job, "2024-01-01T00:01:00Z")[1..5].to_vec();
        assert_eq!(shown(&job), ["Running", "0/1", "", "60s"]);
        job["status"] = json!({
            "succeeded": 1, "startTime": "2024-01-01T00:00:00Z", "completionTime": "2024-01-01T00:00:10Z",
            "conditions": [{"type": "Complete", "status": "True"}],
        });
        assert_eq!(shown(&job), ["Complete", "1/1", "10s", "60s"]);
    }
}
