//! LimitRanges and ResourceQuotas. They are stored and validated, but not enforced; whoever writes one is warned.

use std::collections::BTreeSet;

use serde_json::Value;

use super::behaviour::Behaviour;
use super::errors::Errors;
use super::format::qualified_name;
use super::kind::{KindExt as _, core};
use super::pod::resources::{
    check_amount, check_container_name, check_name, check_quota_name, is_standard_quota,
};
use super::table::{age, columns, name};
use super::value::{entries, items, size, text, texts};
use apischema::Path;
use apischema::Quantity;
use apiserver::registry::{Columns, Resource, Scope};

const RANGE_WARNING: &str = "this API server stores LimitRanges but does not enforce them: pods get no defaults from them, and none is refused";
const QUOTA_WARNING: &str = "this API server stores ResourceQuotas but does not enforce them: nothing is counted, and nothing is refused";

/// A warning to whoever writes a new or changed spec: a client should not rely on what nobody enforces.
fn not_enforced(object: &Value, old: Option<&Value>, warning: &str) -> Vec<String> {
    if old.is_some_and(|old| old["spec"] == object["spec"]) { Vec::new() } else { vec![warning.to_owned()] }
}

pub(super) fn resources() -> [Resource; 2] {
    [
        core("limitranges", "LimitRange", Scope::Namespaced)
            .short_names(&["limits"])
            .behaving(Behaviour {
                validate: check_range,
                warnings: |range, old| not_enforced(range, old, RANGE_WARNING),
                creates_on_update: true,
                ..Behaviour::PLAIN
            })
            .shown(Columns::default()),
        core("resourcequotas", "ResourceQuota", Scope::Namespaced)
            .short_names(&["quota"])
            .behaving(Behaviour {
                validate: check_quota,
                validate_update: |new, old, errors| {
                    let scopes = |quota: &Value| {
                        texts(&quota["spec"]["scopes"]).map(str::to_owned).collect::<BTreeSet<_>>()
                    };
                    if scopes(new) != scopes(old) {
                        let spec = Path::root("spec");
                        errors.invalid(
                            spec.field("scopes"),
                            new["spec"]["scopes"].clone(),
                            "field is immutable",
                        );
                    }
                },
                validate_status: |quota, _, errors| {
                    let path = Path::root("status");
                    for list in ["hard", "used"] {
                        check_quota_list(errors, path.field(list), &quota["status"][list]);
                    }
                },
                warnings: |quota, old| not_enforced(quota, old, QUOTA_WARNING),
                answers_with_deleted: true,
                ..Behaviour::WITH_STATUS
            })
            .shown(columns(&["Name", "Request", "Limit", "Age"], |quota, now| {
                let (requests, limits) = used(&quota["status"]);
                vec![name(quota), requests.into(), limits.into(), age(quota, now)]
            }))
            .with_status(),
    ]
}

/// How much of what is allowed is used: of requests, and of limits.
fn used(status: &Value) -> (String, String) {
    let amount = |list: &str, resource: &str| {
        Quantity::from_value(&status[list][resource]).unwrap_or(Quantity::ZERO).to_string()
    };
    let shown = |limits: bool| {
        let resources = entries(&status["hard"]).map(|(resource, _)| resource);
        let of_kind = resources.filter(|resource| resource.starts_with("limits.") == limits);
        let lines = of_kind
            .map(|resource| format!("{resource}: {}/{}", amount("used", resource), amount("hard", resource)));
        lines.collect::<Vec<_>>().join(", ")
    };
    (shown(false), shown(true))
}

fn check_quota_list(errors: &mut Errors, path: Path<'_>, list: &Value) {
    for (resource, amount) in entries(list) {
        check_quota_name(errors, path.key(resource), resource);
        check_amount(errors, path.key(resource), resource, amount);
    }
}

fn check_quota(quota: &Value, errors: &mut Errors) {
    const SCOPES: [&str; 7] = [
        "Terminating",
        "NotTerminating",
        "BestEffort",
        "NotBestEffort",
        "PriorityClass",
        "CrossNamespacePodAffinity",
        "VolumeAttributesClass",
    ];
    let (spec, path) = (&quota["spec"], Path::root("spec"));
    check_quota_list(errors, path.field("hard"), &spec["hard"]);
    let (scopes, at) = (&spec["scopes"], path.field("scopes"));
    for scope in texts(scopes) {
        if !SCOPES.contains(&scope) {
            errors.invalid(at, scopes.clone(), "unsupported scope");
        }
        for _ in entries(&spec["hard"]).filter(|(resource, _)| !is_in_scope(resource, scope)) {
            errors.invalid(at, scopes.clone(), "unsupported scope applied to resource");
        }
    }
    for pair in [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]] {
        if pair.iter().all(|scope| texts(scopes).any(|given| given == *scope)) {
            errors.invalid(at, scopes.clone(), "conflicting scopes");
        }
    }
}

/// Whether something can be counted of objects in a scope only.
fn is_in_scope(resource: &str, scope: &str) -> bool {
    let of_pods = matches!(
        resource,
        "cpu" | "memory" | "limits.cpu" | "limits.memory" | "requests.cpu" | "requests.memory"
    );
    match scope {
        _ if !is_standard_quota(resource) => true,
        "Terminating"
        | "NotTerminating"
        | "NotBestEffort"
        | "PriorityClass"
        | "CrossNamespacePodAffinity" => resource == "pods" || of_pods,
        "BestEffort" => resource == "pods",
        "VolumeAttributesClass" => matches!(resource, "persistentvolumeclaims" | "requests.storage"),
        _ => true,
    }
}

fn check_range(range: &Value, errors: &mut Errors) {
    let spec = Path::root("spec");
    let path = spec.field("limits");
    let mut kinds = Vec::new();
    for (index, limit) in items(&range["spec"]["limits"]).iter().enumerate() {
        let (path, kind) = (path.index(index), text(&limit["type"]));
        check_kind(errors, path.field("type"), kind);
        if kinds.contains(&kind) {
            errors.duplicate(path.field("type"), kind);
        }
        kinds.push(kind);
        check_limit(errors, path, limit, kind);
    }
}

fn check_kind(errors: &mut Errors, path: Path<'_>, kind: &str) {
    let wrong = qualified_name(kind);
    if !wrong.is_empty() {
        errors.messages(path, kind, wrong);
    } else if !kind.contains('/') && !["Pod", "Container", "PersistentVolumeClaim"].contains(&kind) {
        errors.invalid(path, kind, "must be a standard limit type or fully qualified");
    }
}

fn check_limit(errors: &mut Errors, path: Path<'_>, limit: &Value, kind: &str) {
    let lists: &[&str] = if kind == "Pod" {
        for list in ["default", "defaultRequest"].into_iter().filter(|list| size(&limit[*list]) > 0) {
            errors.forbidden(path.field(list), "may not be specified when `type` is 'Pod'");
        }
        &["max", "min", "maxLimitRequestRatio"]
    } else {
        &["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"]
    };
    let mut resources = BTreeSet::new();
    for list in lists {
        for (resource, _) in entries(&limit[*list]) {
            let at = path.field(list);
            if matches!(kind, "Pod" | "Container") {
                check_container_name(errors, at.key(resource), resource);
            } else {
                check_name(errors, at.key(resource), resource);
            }
            resources.insert(resource);
        }
    }
    let storage = |list: &str| limit[list].get("storage").is_some();
    if kind == "PersistentVolumeClaim" && !storage("min") && !storage("max") {
        let detail = "either minimum or maximum storage value is required, but neither was provided";
        errors.required(path.field("limits"), detail);
    }
    for resource in resources {
        check_order(errors, path, limit, resource);
    }
}

/// Checks that the least is not more than what is given by default, nor that more than the most.
fn check_order(errors: &mut Errors, path: Path<'_>, limit: &Value, resource: &str) {
    let amount = |list: &str| Quantity::from_value(&limit[list][resource]);
    let orders = [
        ("min", "max", "min", "min", "min value {} is greater than max value {}"),
        (
            "min",
            "defaultRequest",
            "defaultRequest",
            "defaultRequest",
            "min value {} is greater than default request value {}",
        ),
        (
            "defaultRequest",
            "max",
            "defaultRequest",
            "defaultRequest",
            "default request value {} is greater than max value {}",
        ),
        (
            "defaultRequest",
            "default",
            "defaultRequest",
            "defaultRequest",
            "default request value {} is greater than default limit value {}",
        ),
        ("min", "default", "default", "min", "min value {} is greater than default value {}"),
        ("default", "max", "default", "max", "default value {} is greater than max value {}"),
    ];
    for (low, high, field, shown, text) in orders {
        if let (Some(least), Some(most)) = (amount(low), amount(high))
            && least > most
        {
            let detail = text.replacen("{}", &least.to_string(), 1).replacen("{}", &most.to_string(), 1);
            let shown = amount(shown).unwrap_or(least).to_string();
            errors.invalid(path.field(field).key(resource), shown, detail);
        }
    }
    if let Some(ratio) = amount("maxLimitRequestRatio").filter(|ratio| ratio.milli_value() < 1000) {
        let at = path.field("maxLimitRequestRatio");
        errors.invalid(at.key(resource), ratio.to_string(), format!("ratio {ratio} is less than 1"));
    }
    if let (Some(ratio), Some(least), Some(most)) =
        (amount("maxLimitRequestRatio"), amount("min"), amount("max"))
    {
        let limit = most.milli_value() as f64 / least.milli_value() as f64;
        if ratio.milli_value() as f64 / 1000.0 > limit {
            let at = path.field("maxLimitRequestRatio");
            let detail = format!("ratio {ratio} is greater than max/min = {limit:.6}");
            errors.invalid(at.key(resource), ratio.to_string(), detail);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{cells, create, update};
    use super::*;
    use serde_json::json;

    #[test]
    fn writing_a_limit_that_is_not_enforced_causes_a_warning() {
        let [ranges, quotas] = resources();
        for (resource, spec) in
            [(ranges, json!({"limits": [{"type": "Pod"}]})), (quotas, json!({"hard": {"pods": "1"}}))]
        {
            let (object, none) = (json!({"spec": spec}), Vec::<String>::new());
            let warnings = |old| resource.strategy.warnings(&object, old, super::super::testing::action(""));
            assert!(warnings(None)[0].contains("does not enforce"), "{}", resource.kind);
            assert_eq!(warnings(Some(&object)), none, "nothing changes");
            assert_eq!(warnings(Some(&json!({"spec": {}}))).len(), 1);
        }
    }

    #[test]
    fn limits_are_in_order() {
        let [range, _] = resources();
        let of = |limit: Value| create(&range, &json!({"spec": {"limits": [limit]}}));
        assert!(of(json!({"type": "Container", "min": {"cpu": "100m"}, "max": {"cpu": "1"}})).is_empty());
        assert_eq!(
            of(json!({"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "1"}})),
            ["spec.limits[0].min[cpu]: Invalid value: \"2\": min value 2 is greater than max value 1"]
        );
        assert_eq!(
            of(json!({"type": "Pod", "default": {"cpu": "1"}})),
            ["spec.limits[0].default: Forbidden: may not be specified when `type` is 'Pod'"]
        );
        assert_eq!(
            of(json!({"type": "Thing"})),
            [
                "spec.limits[0].type: Invalid value: \"Thing\": must be a standard limit type or fully qualified"
            ]
        );
    }

    #[test]
    fn quotas_are_of_known_resources_and_keep_their_scopes() {
        let [_, quota] = resources();
        assert!(create(&quota, &json!({"spec": {"hard": {"pods": "5", "example.com/x": "1"}}})).is_empty());
        assert_eq!(
            create(&quota, &json!({"spec": {"hard": {"pods": "1500m", "storage": "1"}}})),
            [
                "spec.hard[pods]: Invalid value: \"1500m\": must be an integer",
                "spec.hard[storage]: Invalid value: \"storage\": must be a standard resource for quota"
            ]
        );
        let scoped = json!({"spec": {"scopes": ["BestEffort"]}});
        assert_eq!(
            update(&quota, &scoped, &json!({"spec": {}})),
            ["spec.scopes: Invalid value: [\"BestEffort\"]: field is immutable"]
        );
        let shown = json!({"metadata": {"name": "q"}, "status": {
            "hard": {"pods": "5", "limits.cpu": "2"}, "used": {"pods": "1"},
        }});
        assert_eq!(
            cells(&quota, &shown, "2024-01-01T00:00:00Z"),
            ["q", "pods: 1/5", "limits.cpu: 0/2", "<unknown>"]
        );
    }
}
