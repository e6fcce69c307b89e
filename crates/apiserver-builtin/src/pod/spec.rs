//! What a pod shall be: by itself, or as a template of others.

use std::collections::HashSet;

use serde_json::Value;

use super::super::address;
use super::super::errors::Errors;
use super::super::format::search_domain;
use super::super::format::{dns1123_label, dns1123_subdomain, qualified_name};
use super::super::labels::{check_annotations, check_labels};
use super::super::value::{entries, is_set, is_true, items, number, size, text, texts};
use super::container::{
    Surroundings, check_containers, check_ephemeral_containers, check_image, check_init_containers,
};
use super::resources::check_requirements;
use super::scheduling::{check_affinity, check_spread, check_tolerations};
use super::security::{check_host_users, check_pod_context};
use super::volume::check_volumes;
use apischema::Path;

/// What a spec is of.
#[derive(Clone, Copy, Debug)]
pub(in super::super) enum Of<'a> {
    /// This pod.
    Pod(&'a Value),
    /// A template.
    Template,
}

/// Checks the template of pods.
pub(in super::super) fn check_template(errors: &mut Errors, path: Path<'_>, template: &Value) {
    let metadata = &template["metadata"];
    check_labels(errors, path.field("labels"), &metadata["labels"]);
    check_annotations(errors, path.field("annotations"), &metadata["annotations"]);
    check_pod_annotations(errors, path.field("annotations"), &metadata["annotations"], &template["spec"]);
    check_spec(errors, path.field("spec"), &template["spec"], Of::Template);
    if size(&template["spec"]["ephemeralContainers"]) > 0 {
        let detail = "ephemeral containers not allowed in pod template";
        errors.forbidden(path.field("spec").field("ephemeralContainers"), detail);
    }
}

/// Checks a pod, without its status.
pub(super) fn check_pod(errors: &mut Errors, pod: &Value) {
    let (spec, path) = (&pod["spec"], Path::root("spec"));
    let annotations = &pod["metadata"]["annotations"];
    check_pod_annotations(errors, Path::root("metadata").field("annotations"), annotations, spec);
    check_spec(errors, path, spec, Of::Pod(pod));
    if text(&spec["serviceAccountName"]).is_empty() {
        let volumes = path.field("volumes");
        for (index, volume) in items(&spec["volumes"]).iter().enumerate() {
            for (source, projection) in items(&volume["projected"]["sources"]).iter().enumerate() {
                if is_set(&projection["serviceAccountToken"]) {
                    let at = volumes.index(index);
                    let at = at.field("projected");
                    let at = at.field("sources");
                    let detail = "must not be specified when serviceAccountName is not set";
                    errors.forbidden(at.index(source).field("serviceAccountToken"), detail);
                }
            }
        }
    }
    for list in ["containers", "initContainers"] {
        for (index, container) in items(&spec[list]).iter().enumerate() {
            check_image(errors, path.field(list).index(index), container);
        }
    }
}

fn check_pod_annotations(errors: &mut Errors, path: Path<'_>, annotations: &Value, spec: &Value) {
    const MIRROR: &str = "kubernetes.io/config.mirror";
    const COST: &str = "controller.kubernetes.io/pod-deletion-cost";
    if is_set(&annotations[MIRROR]) && text(&spec["nodeName"]).is_empty() {
        let detail = "must set spec.nodeName if mirror pod annotation is set";
        errors.invalid(path.key(MIRROR), text(&annotations[MIRROR]), detail);
    }
    // A cost has neither a plus sign nor leading zeros.
    let is_cost = |cost: &str| cost.parse::<i32>().is_ok_and(|number| number.to_string() == cost);
    if annotations[COST].as_str().is_some_and(|cost| !is_cost(cost)) {
        errors.invalid(path.key(COST), text(&annotations[COST]), "must be a 32bit integer");
    }
}

/// Checks a spec.
pub(in super::super) fn check_spec(errors: &mut Errors, path: Path<'_>, spec: &Value, of: Of<'_>) {
    if !is_set(&spec["terminationGracePeriodSeconds"]) {
        errors.required(path.field("terminationGracePeriodSeconds"), "");
    }
    let pod = match of {
        Of::Pod(pod) => Some(text(&pod["metadata"]["name"])),
        Of::Template => None,
    };
    let volumes = check_volumes(errors, path.field("volumes"), &spec["volumes"], pod);
    let claims = check_claims(errors, path.field("resourceClaims"), &spec["resourceClaims"]);
    let around = Surroundings { spec, volumes: &volumes, claims };
    check_containers(errors, path.field("containers"), &around);
    check_init_containers(errors, path.field("initContainers"), &around);
    check_ephemeral_containers(errors, path.field("ephemeralContainers"), &around);
    if is_set(&spec["resources"]) {
        if is_set(&spec["resources"]["claims"]) {
            let detail = "claims may not be set for Resources at pod-level";
            errors.forbidden(path.field("resources").field("claims"), detail);
        }
        check_requirements(errors, path.field("resources"), &spec["resources"], &around.claims);
    }
    check_host_network(errors, path.field("containers"), spec, of);
    let policies = ["Always", "OnFailure", "Never"];
    errors.one_of(path.field("restartPolicy"), text(&spec["restartPolicy"]), &policies);
    let policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    errors.one_of(path.field("dnsPolicy"), text(&spec["dnsPolicy"]), &policies);
    check_labels(errors, path.field("nodeSelector"), &spec["nodeSelector"]);
    check_pod_context(errors, path.field("securityContext"), spec);
    check_affinity(errors, path.field("affinity"), &spec["affinity"]);
    check_dns(errors, path.field("dnsConfig"), spec);
    check_gates(errors, path, spec);
    check_spread(errors, path.field("topologySpreadConstraints"), &spec["topologySpreadConstraints"]);
    check_host_users(errors, path, spec);
    check_names(errors, path, spec);
    check_tolerations(errors, path.field("tolerations"), &spec["tolerations"]);
    check_host_aliases(errors, path.field("hostAliases"), &spec["hostAliases"]);
    if is_set(&spec["preemptionPolicy"]) {
        let policies = ["PreemptLowerPriority", "Never"];
        errors.one_of(path.field("preemptionPolicy"), text(&spec["preemptionPolicy"]), &policies);
    }
    if size(&spec["overhead"]) > 0 {
        let limits = serde_json::json!({"limits": spec["overhead"]});
        check_requirements(errors, path.field("overhead"), &limits, &[]);
    }
    if is_set(&spec["os"]) {
        match text(&spec["os"]["name"]) {
            "" => errors.required(path.field("os").field("name"), ""),
            "linux" | "windows" => {}
            other => errors.not_supported(path.field("os"), other, &["linux", "windows"]),
        }
    }
}

fn check_names(errors: &mut Errors, path: Path<'_>, spec: &Value) {
    for field in ["serviceAccountName", "nodeName", "priorityClassName", "runtimeClassName"] {
        let name = text(&spec[field]);
        // An empty runtime class is one that is named, and cannot be.
        if !name.is_empty() || (field == "runtimeClassName" && is_set(&spec[field])) {
            errors.messages(path.field(field), name, dns1123_subdomain(name));
        }
    }
    for field in ["hostname", "subdomain"] {
        let name = text(&spec[field]);
        if !name.is_empty() {
            errors.messages(path.field(field), name, dns1123_label(name));
        }
    }
    let most = i64::from(i32::MAX);
    if let Some(seconds) =
        spec["activeDeadlineSeconds"].as_i64().filter(|seconds| !(1..=most).contains(seconds))
    {
        errors.invalid(
            path.field("activeDeadlineSeconds"),
            seconds,
            "must be between 1 and 2147483647, inclusive",
        );
    }
}

fn check_claims<'a>(errors: &mut Errors, path: Path<'_>, claims: &'a Value) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for (index, claim) in items(claims).iter().enumerate() {
        let path = path.index(index);
        match text(&claim["name"]) {
            "" => errors.required(path.field("name"), ""),
            name if names.contains(&name) => errors.duplicate(path.field("name"), name),
            name => {
                errors.messages(path.field("name"), name, dns1123_label(name));
                names.push(name);
            }
        }
        let (direct, template) = (&claim["resourceClaimName"], &claim["resourceClaimTemplateName"]);
        match (is_set(direct), is_set(template)) {
            (true, true) => {
                let detail =
                    "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified";
                errors.invalid(path, claim.clone(), detail);
            }
            (false, false) => {
                let detail = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`";
                errors.invalid(path, claim.clone(), detail);
            }
            _ => {}
        }
        for field in ["resourceClaimName", "resourceClaimTemplateName"] {
            if is_set(&claim[field]) {
                let name = text(&claim[field]);
                errors.messages(path.field(field), name, dns1123_subdomain(name));
            }
        }
    }
    names.sort_unstable();
    names
}

fn check_host_network(errors: &mut Errors, path: Path<'_>, spec: &Value, of: Of<'_>) {
    if !is_true(&spec["hostNetwork"]) {
        return;
    }
    for (index, container) in items(&spec["containers"]).iter().enumerate() {
        for (port, given) in items(&container["ports"]).iter().enumerate() {
            let (host, own) = (number(&given["hostPort"]), number(&given["containerPort"]));
            if (matches!(of, Of::Pod(_)) || host != 0) && host != own {
                let at = path.index(index);
                let at = at.field("ports");
                let detail = "must match `containerPort` when `hostNetwork` is true";
                errors.invalid(at.index(port).field("hostPort"), host, detail);
            }
        }
    }
}

fn check_dns(errors: &mut Errors, path: Path<'_>, spec: &Value) {
    let config = &spec["dnsConfig"];
    if text(&spec["dnsPolicy"]) == "None" {
        if !is_set(config) {
            return errors.required(path, "must provide `dnsConfig` when `dnsPolicy` is None");
        }
        if size(&config["nameservers"]) == 0 {
            let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            return errors.required(path.field("nameservers"), detail);
        }
    }
    let (servers, searches) = (path.field("nameservers"), path.field("searches"));
    if size(&config["nameservers"]) > 3 {
        errors.invalid(servers, config["nameservers"].clone(), "must not have more than 3 nameservers");
    }
    for (index, server) in texts(&config["nameservers"]).enumerate() {
        address::check(errors, servers.index(index), server, &[]);
    }
    if size(&config["searches"]) > 32 {
        errors.invalid(searches, config["searches"].clone(), "must not have more than 32 search paths");
    }
    let characters: usize = texts(&config["searches"]).map(|search| search.len() + 1).sum();
    if characters > 2049 {
        let detail = "must not have more than 2048 characters (including spaces) in the search list";
        errors.invalid(searches, config["searches"].clone(), detail);
    }
    for (index, search) in texts(&config["searches"]).enumerate().filter(|(_, search)| *search != ".") {
        let search = search.strip_suffix('.').unwrap_or(search);
        errors.messages(searches.index(index), search, search_domain(search));
    }
    for (index, option) in items(&config["options"]).iter().enumerate() {
        if text(&option["name"]).is_empty() {
            errors.required(path.field("options").index(index), "must not be empty");
        }
    }
}

fn check_gates(errors: &mut Errors, path: Path<'_>, spec: &Value) {
    for (index, gate) in items(&spec["readinessGates"]).iter().enumerate() {
        let condition = text(&gate["conditionType"]);
        let list = path.field("readinessGates");
        errors.messages(list.index(index).field("conditionType"), condition, qualified_name(condition));
    }
    let mut seen = HashSet::new();
    for (index, gate) in items(&spec["schedulingGates"]).iter().enumerate() {
        let (list, name) = (path.field("schedulingGates"), text(&gate["name"]));
        errors.messages(list.index(index), name, qualified_name(name));
        if !seen.insert(name) {
            errors.duplicate(list.index(index), name);
        }
    }
    for (index, secret) in items(&spec["imagePullSecrets"]).iter().enumerate() {
        if entries(secret).any(|(field, _)| field != "name") {
            errors.invalid(
                path.field("imagePullSecrets").index(index),
                secret.clone(),
                "only name may be set",
            );
        }
    }
}

fn check_host_aliases(errors: &mut Errors, path: Path<'_>, aliases: &Value) {
    for (index, alias) in items(aliases).iter().enumerate() {
        let path = path.index(index);
        address::check(errors, path.field("ip"), text(&alias["ip"]), &[]);
        for (index, name) in texts(&alias["hostnames"]).enumerate() {
            errors.messages(path.field("hostnames").index(index), name, dns1123_subdomain(name));
        }
    }
}
