//! What containers may use of a node.

use apischema::FieldErrorKind;
use serde_json::Value;

use super::super::errors::Errors;
use super::super::format::qualified_name;
use super::super::value::{entries, is_set, items, text};
use apischema::Path;
use apischema::Quantity;

const STANDARD_CONTAINER: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

const STANDARD_QUOTA: [&str; 19] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.storage",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "persistentvolumeclaims",
    "configmaps",
    "services.nodeports",
    "services.loadbalancers",
];

const COUNTED: [&str; 9] = [
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];

fn is_huge_page(name: &str) -> bool {
    name.starts_with("hugepages-")
}

fn is_huge_page_of_quota(name: &str) -> bool {
    is_huge_page(name) || name.starts_with("requests.hugepages-")
}

/// Whether a resource is Kubernetes' own.
fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with("requests.")
        && qualified_name(&format!("requests.{name}")).is_empty()
}

/// Whether more of a resource may be promised than there is.
fn may_be_overcommitted(name: &str) -> bool {
    is_native(name) && !is_huge_page(name)
}

/// Checks the name of a resource. Whether it is a good one is returned.
pub(in super::super) fn check_name(errors: &mut Errors, path: Path<'_>, name: &str) -> bool {
    let wrong = qualified_name(name);
    if !wrong.is_empty() {
        errors.messages(path, name, wrong);
        return false;
    }
    let standard = STANDARD_QUOTA.contains(&name) || name == "storage" || is_huge_page_of_quota(name);
    if !name.contains('/') && !standard {
        errors.invalid(path, name, "must be a standard resource type or fully qualified");
        return false;
    }
    true
}

/// Checks the name of a resource that a container uses.
pub(in super::super) fn check_container_name(errors: &mut Errors, path: Path<'_>, name: &str) {
    check_name(errors, path, name);
    if !name.contains('/') {
        if !STANDARD_CONTAINER.contains(&name) && !is_huge_page(name) {
            errors.invalid(path, name, "must be a standard resource for containers");
        }
    } else if !is_native(name) && !is_extended(name) {
        errors.invalid(path, name, "doesn't follow extended resource name standard");
    }
}

/// Whether quotas know a resource by its name.
pub(in super::super) fn is_standard_quota(name: &str) -> bool {
    STANDARD_QUOTA.contains(&name) || is_huge_page_of_quota(name)
}

/// Checks the name of a resource that a quota limits.
pub(in super::super) fn check_quota_name(errors: &mut Errors, path: Path<'_>, name: &str) {
    check_name(errors, path, name);
    if !name.contains('/') && !is_standard_quota(name) {
        errors.invalid(path, name, "must be a standard resource for quota");
    }
}

/// Checks an amount of a resource. What is not an amount is not checked here: it does not pass the schema.
pub(in super::super) fn check_amount(errors: &mut Errors, path: Path<'_>, name: &str, value: &Value) {
    let Some(quantity) = Quantity::from_value(value) else { return };
    if quantity.is_negative() {
        errors.invalid(path, quantity.to_string(), "must be greater than or equal to 0");
    }
    if (COUNTED.contains(&name) || is_extended(name)) && !quantity.is_whole() {
        errors.invalid(path, quantity.to_string(), "must be an integer");
    }
}

/// Checks limits and requests.
pub(in super::super) fn check_requirements(
    errors: &mut Errors,
    path: Path<'_>,
    requirements: &Value,
    claims: &[&str],
) {
    let (limits, requests) = (&requirements["limits"], &requirements["requests"]);
    let (limits_path, requests_path) = (path.field("limits"), path.field("requests"));
    let (mut huge, mut computes) = (false, false);
    let mut check_one = |errors: &mut Errors, at: Path<'_>, name: &str, value: &Value| {
        check_container_name(errors, at, name);
        check_amount(errors, at, name, value);
        huge |= is_huge_page(name);
        computes |= matches!(name, "cpu" | "memory");
        check_huge_pages(errors, at, name, value);
    };
    for (name, value) in entries(limits) {
        check_one(errors, limits_path.key(name), name, value);
    }
    for (name, value) in entries(requests) {
        check_one(errors, requests_path.key(name), name, value);
        let (Some(request), limit) = (Quantity::from_value(value), Quantity::from_value(&limits[name]))
        else {
            continue;
        };
        match limit {
            Some(limit) if request != limit && !may_be_overcommitted(name) => {
                let detail = format!("must be equal to {name} limit of {limit}");
                errors.invalid(requests_path, request.to_string(), detail);
            }
            Some(limit) if request > limit => {
                let detail = format!("must be less than or equal to {name} limit of {limit}");
                errors.invalid(requests_path, request.to_string(), detail);
            }
            None if !may_be_overcommitted(name) => {
                errors.required(limits_path, "Limit must be set for non overcommitable resources");
            }
            _ => {}
        }
    }
    if huge && !computes {
        errors.forbidden(path, "HugePages require cpu or memory");
    }
    check_claims(errors, path.field("claims"), &requirements["claims"], claims);
}

fn check_huge_pages(errors: &mut Errors, path: Path<'_>, name: &str, value: &Value) {
    let Some(size) = name.strip_prefix("hugepages-") else { return };
    let Some(quantity) = Quantity::from_value(value) else { return };
    let size = Quantity::parse(size).filter(|size| *size > Quantity::ZERO && size.is_whole());
    if size.is_none_or(|size| quantity.value() % size.value() != 0) {
        let detail = format!("{quantity} is not positive integer multiple of {name}");
        errors.invalid(path, quantity.to_string(), detail);
    }
}

fn check_claims(errors: &mut Errors, path: Path<'_>, claims: &Value, of_pod: &[&str]) {
    let mut seen: Vec<String> = Vec::new();
    for (index, claim) in items(claims).iter().enumerate() {
        let (path, name, request) = (path.index(index), text(&claim["name"]), text(&claim["request"]));
        if name.is_empty() {
            errors.required(path, "");
            continue;
        }
        let key = if request.is_empty() { name.to_owned() } else { format!("{name}/{request}") };
        if seen.iter().any(|seen| seen == name) {
            errors.duplicate(path, name);
        } else {
            if !request.is_empty() {
                errors.messages(path.field("request"), request, crate::format::dns1123_label(request));
            }
            if seen.contains(&key) {
                errors.duplicate(path, key.as_str());
            } else if request.is_empty() && seen.iter().any(|seen| seen.split('/').next() == Some(name)) {
                errors.duplicate(path, name);
            }
            seen.push(key);
        }
        if !of_pod.contains(&name) {
            let names =
                if of_pod.is_empty() { " which is empty".into() } else { format!(": {}", of_pod.join(", ")) };
            let detail = format!("must be one of the names in pod.spec.resourceClaims{names}");
            errors.explained(FieldErrorKind::NotFound, path, name.into(), &detail);
        }
    }
}

/// How sure a pod can be of what it asks for: `status.qosClass`.
pub(super) fn quality_of_service(spec: &Value) -> &'static str {
    let pod_level = &spec["resources"];
    let containers: Vec<&Value> = if is_set(&pod_level["requests"]) || is_set(&pod_level["limits"]) {
        vec![pod_level]
    } else {
        let all = items(&spec["containers"]).iter().chain(items(&spec["initContainers"]));
        all.map(|container| &container["resources"]).collect()
    };
    let amount = |list: &Value, name: &str| {
        Quantity::from_value(&list[name]).filter(|quantity| *quantity > Quantity::ZERO)
    };
    let (mut asks, mut guaranteed) = (false, true);
    for resources in &containers {
        for name in ["cpu", "memory"] {
            let (limit, request) = (amount(&resources["limits"], name), amount(&resources["requests"], name));
            asks |= limit.is_some() || request.is_some();
            guaranteed &= limit.is_some() && request.is_none_or(|request| Some(request) == limit);
        }
    }
    match (asks, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn wrong(requirements: &Value) -> Vec<String> {
        let mut errors = Errors::default();
        check_requirements(&mut errors, Path::root("r"), requirements, &[]);
        errors.into_vec().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn requests_are_within_limits() {
        assert!(
            wrong(&json!({"limits": {"cpu": "1"}, "requests": {"cpu": "1000m", "memory": "1Gi"}})).is_empty()
        );
        assert_eq!(
            wrong(&json!({"limits": {"cpu": "100m"}, "requests": {"cpu": "0.2"}})),
            ["r.requests: Invalid value: \"200m\": must be less than or equal to cpu limit of 100m"]
        );
        assert_eq!(
            wrong(&json!({"requests": {"example.com/gpu": "1"}})),
            ["r.limits: Required value: Limit must be set for non overcommitable resources"]
        );
        assert_eq!(
            wrong(&json!({"limits": {"example.com/gpu": "2"}, "requests": {"example.com/gpu": "1"}})),
            ["r.requests: Invalid value: \"1\": must be equal to example.com/gpu limit of 2"]
        );
    }

    #[test]
    fn resources_have_known_names_and_no_negative_amounts() {
        assert_eq!(
            wrong(&json!({"limits": {"cpus": "1"}})),
            [
                "r.limits[cpus]: Invalid value: \"cpus\": must be a standard resource type or fully qualified",
                "r.limits[cpus]: Invalid value: \"cpus\": must be a standard resource for containers"
            ]
        );
        assert_eq!(
            wrong(&json!({"limits": {"memory": "-1Gi"}})),
            ["r.limits[memory]: Invalid value: \"-1Gi\": must be greater than or equal to 0"]
        );
        assert_eq!(
            wrong(&json!({"limits": {"hugepages-2Mi": "3Mi"}})),
            [
                "r.limits[hugepages-2Mi]: Invalid value: \"3Mi\": 3Mi is not positive integer multiple of hugepages-2Mi",
                "r: Forbidden: HugePages require cpu or memory"
            ]
        );
        assert_eq!(
            wrong(&json!({"claims": [{"name": "x"}]})),
            [
                "r.claims[0]: Not found: \"x\": must be one of the names in pod.spec.resourceClaims which is empty"
            ]
        );
    }

    #[test]
    fn quality_follows_from_requests_and_limits() {
        let pod = |resources: Value| json!({"containers": [{"resources": resources}]});
        assert_eq!(quality_of_service(&pod(json!({}))), "BestEffort");
        assert_eq!(quality_of_service(&pod(json!({"requests": {"cpu": "0"}}))), "BestEffort");
        assert_eq!(quality_of_service(&pod(json!({"requests": {"cpu": "1"}}))), "Burstable");
        let all = json!({"cpu": "1", "memory": "1Gi"});
        assert_eq!(quality_of_service(&pod(json!({"requests": all, "limits": all}))), "Guaranteed");
        let half = json!({"cpu": "500m", "memory": "1Gi"});
        assert_eq!(quality_of_service(&pod(json!({"requests": half, "limits": all}))), "Burstable");
    }
}
