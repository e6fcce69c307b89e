//! Services. The server gives them addresses and ports; whoever runs the network serves them.

pub(super) mod addresses;
mod change;
mod families;
mod pool;
mod range;
mod validation;

use serde_json::{Value, json};

pub use self::addresses::ServiceAddresses;
pub use self::range::{BadRange, ServiceRanges};
use super::behaviour::Behaviour;
use super::kind::{KindExt as _, core};
use super::table::{age, columns, labels, load_balancer, name};
use super::value::{fields_mut, is_true, items, number, object_mut, size, text, texts};
use apiserver::registry::{NameRule, Resource, Scope};
use apiserver::selection::SelectableField;

pub(super) fn resource() -> Resource {
    core("services", "Service", Scope::Namespaced)
        .short_names(&["svc"])
        .categories(&["all"])
        .name_rule(NameRule::Dns1035Label)
        .selectable([SelectableField::at("spec.clusterIP"), SelectableField::at("spec.type")])
        .behaving(Behaviour {
            settle: |service| {
                // Nothing of the cluster is behind a name.
                if kind_of_service(service) == "ExternalName" {
                    object_mut(service, "spec").remove("internalTrafficPolicy");
                }
            },
            prepare_create: |service, _| {
                fields_mut(service).insert("status".into(), json!({"loadBalancer": {}}));
            },
            prepare_update: |service, old, _| change::drop_what_the_type_has_not(service, old),
            validate_create: |service, errors| validation::check(errors, service, None),
            validate_update: |new, old, errors| {
                change::check(errors, new, old);
                validation::check(errors, new, Some(old));
            },
            validate_status: |service, old, errors| validation::check_status(errors, service, old),
            warnings: |service, _| warnings(&service["spec"]),
            creates_on_update: true,
            answers_with_deleted: true,
            ..Behaviour::WITH_STATUS
        })
        .shown(columns(
            &["Name", "Type", "Cluster-IP", "External-IP", "Port(s)", "Age", "Selector*"],
            |service, now| {
                let spec = &service["spec"];
                vec![
                    name(service),
                    text(&spec["type"]).into(),
                    texts(&spec["clusterIPs"]).next().unwrap_or("<none>").into(),
                    external_addresses(service).into(),
                    ports(&spec["ports"]).into(),
                    age(service, now),
                    labels(&spec["selector"]).into(),
                ]
            },
        ))
        .with_status()
}

/// What is in a spec that has no effect.
fn warnings(spec: &Value) -> Vec<String> {
    let mut warnings: Vec<String> = Vec::new();
    let has = |field: &str| !text(&spec[field]).is_empty() || size(&spec[field]) > 0;
    if text(&spec["type"]) == "ClusterIP" && text(&spec["clusterIP"]) == "None" {
        for field in ["loadBalancerIP", "externalIPs"].into_iter().filter(|field| has(field)) {
            warnings.push(format!("spec.{field} is ignored for headless services"));
        }
        if text(&spec["sessionAffinity"]) != "None" {
            warnings.push("spec.SessionAffinity is ignored for headless services".into());
        }
    }
    let is_name = text(&spec["type"]) == "ExternalName";
    if is_name && has("externalIPs") {
        warnings.push("spec.externalIPs is ignored when spec.type is \"ExternalName\"".into());
    }
    if !is_name && has("externalName") {
        warnings.push("spec.externalName is ignored when spec.type is not \"ExternalName\"".into());
    }
    warnings
}

fn external_addresses(service: &Value) -> String {
    let spec = &service["spec"];
    let external: Vec<_> = texts(&spec["externalIPs"]).collect();
    match text(&spec["type"]) {
        "ExternalName" => text(&spec["externalName"]).into(),
        "LoadBalancer" => {
            let balancer = load_balancer(&service["status"]);
            let all: Vec<_> =
                Some(balancer.as_str()).filter(|list| !list.is_empty()).into_iter().chain(external).collect();
            if all.is_empty() { "<pending>".into() } else { all.join(",") }
        }
        "ClusterIP" | "NodePort" if external.is_empty() => "<none>".into(),
        "ClusterIP" | "NodePort" => external.join(","),
        _ => "<unknown>".into(),
    }
}

fn ports(ports: &Value) -> String {
    let shown = items(ports).iter().map(|port| match number(&port["nodePort"]) {
        0 => format!("{}/{}", number(&port["port"]), text(&port["protocol"])),
        node => format!("{}:{node}/{}", number(&port["port"]), text(&port["protocol"])),
    });
    let all: Vec<_> = shown.collect();
    if all.is_empty() { "<none>".into() } else { all.join(",") }
}

fn kind_of_service(service: &Value) -> &str {
    text(&service["spec"]["type"])
}

/// Whether a service has addresses of the cluster; `None` counts as one.
fn needs_cluster_ip(service: &Value) -> bool {
    kind_of_service(service) != "ExternalName"
}

fn needs_node_ports(service: &Value) -> bool {
    matches!(kind_of_service(service), "NodePort" | "LoadBalancer")
}

/// Whether a load balancer must know which nodes serve a service.
fn needs_health_check(service: &Value) -> bool {
    kind_of_service(service) == "LoadBalancer" && text(&service["spec"]["externalTrafficPolicy"]) == "Local"
}

/// Whether a service can be reached from outside.
fn is_external(service: &Value) -> bool {
    let spec = &service["spec"];
    needs_node_ports(service)
        || (kind_of_service(service) == "ClusterIP" && texts(&spec["externalIPs"]).next().is_some())
}

/// Whether ports on nodes are given to a service that does not say which.
fn wants_node_ports(service: &Value) -> bool {
    match kind_of_service(service) {
        "NodePort" => true,
        "LoadBalancer" => is_true(&service["spec"]["allocateLoadBalancerNodePorts"]),
        _ => false,
    }
}

/// Whether a service has no address of its own.
fn is_headless(service: &Value) -> bool {
    texts(&service["spec"]["clusterIPs"]).eq(["None"])
}

#[cfg(test)]
mod tests;
