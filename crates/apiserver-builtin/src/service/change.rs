//! What of a service may change.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::super::errors::Errors;
use super::super::value::{fields_mut, items, items_mut, number, object_mut, same, text, texts};
use super::{
    is_external, is_headless, kind_of_service, needs_cluster_ip, needs_health_check, needs_node_ports,
};
use apischema::Path;

/// Drops what a service of its new type does not have, if the client left it as it was.
pub(super) fn drop_what_the_type_has_not(service: &mut Value, old: &Value) {
    let unchanged = |field: &str| same(&service["spec"][field], &old["spec"][field]);
    let mut dropped = Vec::new();
    if needs_cluster_ip(old) && !needs_cluster_ip(service) {
        if unchanged("clusterIP") && unchanged("clusterIPs") {
            dropped.extend(["clusterIP", "clusterIPs"]);
        }
        dropped.extend(["ipFamilies", "ipFamilyPolicy"].into_iter().filter(|field| unchanged(field)));
    }
    if needs_health_check(old) && !needs_health_check(service) && unchanged("healthCheckNodePort") {
        dropped.push("healthCheckNodePort");
    }
    if kind_of_service(old) == "LoadBalancer" && kind_of_service(service) != "LoadBalancer" {
        let fields = ["allocateLoadBalancerNodePorts", "loadBalancerClass"];
        dropped.extend(fields.into_iter().filter(|field| unchanged(field)));
    }
    if is_external(old) && !is_external(service) && unchanged("externalTrafficPolicy") {
        dropped.push("externalTrafficPolicy");
    }
    let drops_ports = needs_node_ports(old) && !needs_node_ports(service) && {
        let ports = |service: &Value| -> BTreeSet<i64> {
            let all = items(&service["spec"]["ports"]).iter().map(|port| number(&port["nodePort"]));
            all.filter(|port| *port != 0).collect()
        };
        ports(old).is_superset(&ports(service))
    };
    let keeps_status = kind_of_service(service) == "LoadBalancer";

    let spec = object_mut(service, "spec");
    for field in dropped {
        spec.remove(field);
    }
    if drops_ports && let Some(spec) = service.get_mut("spec") {
        for port in items_mut(spec, "ports") {
            fields_mut(port).remove("nodePort");
        }
    }
    if !keeps_status {
        object_mut(service, "status").insert("loadBalancer".into(), json!({}));
    }
}

/// Checks what may not change.
pub(super) fn check(errors: &mut Errors, new: &Value, old: &Value) {
    check_addresses(errors, new, old);
    check_families(errors, new, old);
    let spec = Path::root("spec");
    let is_balanced = |service: &Value| kind_of_service(service) == "LoadBalancer";
    let class = |service: &Value| service["spec"]["loadBalancerClass"].clone();
    if is_balanced(old) && is_balanced(new) && class(old) != class(new) {
        errors.invalid(spec.field("loadBalancerClass"), class(new), "may not change once set");
    }
    let health = |service: &Value| number(&service["spec"]["healthCheckNodePort"]);
    if needs_health_check(old) && needs_health_check(new) && health(old) != health(new) {
        errors.forbidden(spec.field("healthCheckNodePort"), "field is immutable");
    }
}

fn list<'a>(service: &'a Value, field: &str) -> Vec<&'a str> {
    texts(&service["spec"][field]).collect()
}

fn check_addresses(errors: &mut Errors, new: &Value, old: &Value) {
    if !needs_cluster_ip(new) || !needs_cluster_ip(old) || (is_headless(old) && is_headless(new)) {
        return;
    }
    let spec = Path::root("spec");
    let (path, shown) = (spec.field("clusterIPs"), || new["spec"]["clusterIPs"].clone());
    let (now, before) = (list(new, "clusterIPs"), list(old, "clusterIPs"));
    if now.len() == before.len() {
        for (index, _) in before.iter().enumerate().filter(|(index, ip)| now[*index] != **ip) {
            errors.invalid(path.index(index), shown(), "may not change once set");
        }
        return;
    }
    if now.len() < before.len() && now.is_empty() {
        errors.invalid(path.index(0), shown(), "primary clusterIP can not be unset");
    }
    if let (Some(now), Some(before)) = (now.first(), before.first())
        && now != before
    {
        errors.invalid(path.index(0), shown(), "may not change once set");
    }
    if now.len() < before.len() && now.len() == 1 {
        check_single(errors, new, "clusterIP");
    }
}

fn check_families(errors: &mut Errors, new: &Value, old: &Value) {
    if !needs_cluster_ip(new) || !needs_cluster_ip(old) || is_headless(old) || is_headless(new) {
        return;
    }
    let spec = Path::root("spec");
    let path = spec.field("ipFamilies");
    let (now, before) = (list(new, "ipFamilies"), list(old, "ipFamilies"));
    if now.len() == before.len() {
        for _ in before.iter().zip(&now).filter(|(before, now)| before != now) {
            errors.invalid(path.index(0), new["spec"]["ipFamilies"].clone(), "may not change once set");
        }
        return;
    }
    if let (Some(now), Some(before)) = (now.first(), before.first())
        && now != before
    {
        errors.invalid(path.index(0), new["spec"]["clusterIPs"].clone(), "may not change once set");
    }
    if now.len() < before.len() && now.len() == 1 {
        check_single(errors, new, "ipFamily");
    }
}

fn check_single(errors: &mut Errors, new: &Value, what: &str) {
    let (policy, spec) = (&new["spec"]["ipFamilyPolicy"], Path::root("spec"));
    if text(policy) != "SingleStack" {
        let detail = format!("must be set to 'SingleStack' when releasing the secondary {what}");
        errors.invalid(spec.field("ipFamilyPolicy"), policy.clone(), detail);
    }
}
