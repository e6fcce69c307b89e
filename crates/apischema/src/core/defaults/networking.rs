//! Services, what is behind them, and who may talk to whom.

use serde_json::{Value, json};

use super::{Fields, each, inside, present, set, text};

pub(super) fn service(object: &mut Fields) {
    let spec = inside(object, "spec");
    set(spec, "sessionAffinity", "None");
    match text(spec, "sessionAffinity") {
        "None" => {
            spec.remove("sessionAffinityConfig");
        }
        "ClientIP" => {
            let timeout =
                spec.get("sessionAffinityConfig").and_then(|config| config["clientIP"].get("timeoutSeconds"));
            if timeout.is_none() {
                spec.insert(
                    "sessionAffinityConfig".to_owned(),
                    json!({"clientIP": {"timeoutSeconds": 10_800}}),
                );
            }
        }
        _ => {}
    }
    set(spec, "type", "ClusterIP");
    for port in each(spec, "ports") {
        set(port, "protocol", "TCP");
        let unset = |target: &Value| *target == json!(0) || *target == json!("");
        if port.get("targetPort").is_none_or(unset)
            && let Some(own) = port.get("port").cloned()
        {
            port.insert("targetPort".to_owned(), own);
        }
    }
    let kind = text(spec, "type").to_owned();
    let from_outside = matches!(&*kind, "NodePort" | "LoadBalancer")
        || kind == "ClusterIP"
            && spec.get("externalIPs").and_then(Value::as_array).is_some_and(|ips| !ips.is_empty());
    if from_outside {
        set(spec, "externalTrafficPolicy", "Cluster");
    }
    if matches!(&*kind, "NodePort" | "LoadBalancer" | "ClusterIP") {
        set(spec, "internalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        set(spec, "allocateLoadBalancerNodePorts", true);
        if let Some(balancer) = present(object, "status").and_then(|status| present(status, "loadBalancer")) {
            for ingress in each(balancer, "ingress") {
                if !text(ingress, "ip").is_empty() {
                    set(ingress, "ipMode", "VIP");
                }
            }
        }
    }
}

pub(super) fn endpoints(object: &mut Fields) {
    for subset in each(object, "subsets") {
        each(subset, "ports").for_each(|port| set(port, "protocol", "TCP"));
    }
}

pub(super) fn endpoint_slice(object: &mut Fields) {
    for port in each(object, "ports") {
        set(port, "name", "");
        set(port, "protocol", "TCP");
    }
}

pub(super) fn network_policy(object: &mut Fields) {
    let spec = inside(object, "spec");
    for direction in ["ingress", "egress"] {
        for rule in each(spec, direction) {
            each(rule, "ports").for_each(|port| set(port, "protocol", "TCP"));
        }
    }
    if !spec.contains_key("policyTypes") {
        let egress = spec.get("egress").and_then(Value::as_array).is_some_and(|rules| !rules.is_empty());
        let types = if egress { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
        spec.insert("policyTypes".to_owned(), types);
    }
}

pub(super) fn ingress_class(object: &mut Fields) {
    if let Some(parameters) = present(inside(object, "spec"), "parameters") {
        set(parameters, "scope", "Cluster");
    }
}
