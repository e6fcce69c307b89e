//! What a service must be.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::super::address;
use super::super::endpoints::PROTOCOLS;
use super::super::errors::Errors;
use super::super::format::port;
use super::super::format::{dns1123_label, dns1123_subdomain, qualified_name};
use super::super::ingress::check_load_balancer;
use super::super::labels::check_labels;
use super::super::pod::probe::check_port;
use super::super::value::{is_set, items, number, size, text, texts};
use super::{is_external, is_headless, kind_of_service, needs_cluster_ip, needs_health_check};
use apischema::Path;

const TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
const FAMILIES: [&str; 2] = ["IPv4", "IPv6"];
const FAMILY_POLICIES: [&str; 3] = ["PreferDualStack", "RequireDualStack", "SingleStack"];
const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";

/// Checks a service.
pub(super) fn check(errors: &mut Errors, service: &Value, old: Option<&Value>) {
    let (spec, path) = (&service["spec"], Path::root("spec"));
    let (kind, headless) = (kind_of_service(service), is_headless(service));
    let ports = items(&spec["ports"]);
    if ports.is_empty() && !headless && kind != "ExternalName" {
        errors.required(path.field("ports"), "");
    }
    check_type(errors, path, service);
    let mut names = HashSet::new();
    for (index, given) in ports.iter().enumerate() {
        check_service_port(errors, path.field("ports").index(index), given, ports.len() > 1, &mut names);
    }
    check_labels(errors, path.field("selector"), &spec["selector"]);
    check_affinity(errors, path, spec);
    check_cluster_ips(errors, service, old);
    let existing: Vec<_> = old.map_or_else(Vec::new, |old| texts(&old["spec"]["externalIPs"]).collect());
    for (index, ip) in texts(&spec["externalIPs"]).enumerate() {
        let list = path.field("externalIPs");
        let before = errors.len();
        address::check(errors, list.index(index), ip, &existing);
        if errors.len() == before {
            address::check_reachable(errors, list.index(index), ip);
        }
    }
    errors.one_of(path.field("type"), kind, &TYPES);
    check_numbers(errors, path.field("ports"), ports, kind);
    check_source_ranges(errors, service, old);
    check_load_balancer_fields(errors, path, spec, kind);
    check_traffic(errors, path, service);
}

fn check_type(errors: &mut Errors, path: Path<'_>, service: &Value) {
    let spec = &service["spec"];
    match kind_of_service(service) {
        kind @ ("LoadBalancer" | "NodePort") if is_headless(service) => {
            let detail = format!("may not be set to 'None' for {kind} services");
            errors.invalid(path.field("clusterIPs").index(0), "None", detail);
        }
        "ExternalName" => {
            let detail = "may not be set for ExternalName services";
            for field in ["clusterIPs", "ipFamilies"].into_iter().filter(|field| size(&spec[*field]) > 0) {
                errors.forbidden(path.field(field), detail);
            }
            if is_set(&spec["ipFamilyPolicy"]) {
                errors.forbidden(path.field("ipFamilyPolicy"), detail);
            }
            let name = text(&spec["externalName"]);
            match name.strip_suffix('.').unwrap_or(name) {
                "" => errors.required(path.field("externalName"), ""),
                name => errors.messages(path.field("externalName"), name, dns1123_subdomain(name)),
            }
        }
        _ => {}
    }
}

fn check_service_port<'a>(
    errors: &mut Errors,
    path: Path<'_>,
    given: &'a Value,
    needs_name: bool,
    names: &mut HashSet<&'a str>,
) {
    match text(&given["name"]) {
        "" if needs_name => errors.required(path.field("name"), ""),
        "" => {}
        name => {
            errors.messages(path.field("name"), name, dns1123_label(name));
            if !names.insert(name) {
                errors.duplicate(path.field("name"), name);
            }
        }
    }
    port(errors, path.field("port"), number(&given["port"]));
    errors.one_of(path.field("protocol"), text(&given["protocol"]), &PROTOCOLS);
    check_port(errors, path.field("targetPort"), &given["targetPort"]);
    if is_set(&given["appProtocol"]) {
        let protocol = text(&given["appProtocol"]);
        errors.messages(path.field("appProtocol"), protocol, qualified_name(protocol));
    }
}

fn check_affinity(errors: &mut Errors, path: Path<'_>, spec: &Value) {
    const LONGEST: i64 = 86400;
    let affinity = text(&spec["sessionAffinity"]);
    errors.one_of(path.field("sessionAffinity"), affinity, &["ClientIP", "None"]);
    let (config, at) = (&spec["sessionAffinityConfig"], path.field("sessionAffinityConfig"));
    match affinity {
        "ClientIP" => {
            let (client, detail) = (at.field("clientIP"), "when session affinity type is ClientIP");
            if !is_set(config) {
                errors.required(at, detail);
            } else if !is_set(&config["clientIP"]) {
                errors.required(client, detail);
            } else {
                match config["clientIP"]["timeoutSeconds"].as_i64() {
                    None => errors.required(client.field("timeoutSeconds"), detail),
                    Some(seconds) if !(1..=LONGEST).contains(&seconds) => {
                        let detail = format!("must be greater than 0 and less than {LONGEST}");
                        errors.invalid(client.field("timeoutSeconds"), seconds, detail);
                    }
                    Some(_) => {}
                }
            }
        }
        "None" if is_set(config) => errors.forbidden(at, "must not be set when session affinity is None"),
        _ => {}
    }
}

/// Checks addresses, families, and how they fit.
pub(super) fn check_cluster_ips(errors: &mut Errors, service: &Value, old: Option<&Value>) {
    if !needs_cluster_ip(service) {
        return;
    }
    let (spec, path) = (&service["spec"], Path::root("spec"));
    let (all, at) = (&spec["clusterIPs"], path.field("clusterIPs"));
    let (one, addresses): (&str, Vec<_>) = (text(&spec["clusterIP"]), texts(all).collect());
    match (one, addresses.first()) {
        ("", Some(_)) => errors.invalid(at, all.clone(), "must be empty when `clusterIP` is not specified"),
        ("", None) => {}
        (_, None) => errors.required(at, ""),
        (one, Some(first)) if one != *first => {
            errors.invalid(at, all.clone(), "first value must match `clusterIP`");
        }
        _ => {}
    }
    let (families, at_families): (Vec<_>, _) =
        (texts(&spec["ipFamilies"]).collect(), path.field("ipFamilies"));
    for (index, family) in families.iter().enumerate() {
        if !FAMILIES.contains(family) {
            errors.not_supported(at_families.index(index), *family, &FAMILIES);
        }
        if families[..index].contains(family) {
            errors.duplicate(at_families.index(index), *family);
        }
    }
    let policy = &spec["ipFamilyPolicy"];
    if is_set(policy) && !FAMILY_POLICIES.contains(&text(policy)) {
        errors.not_supported(path.field("ipFamilyPolicy"), text(policy), &FAMILY_POLICIES);
    }
    let existing: Vec<_> = old.map_or_else(Vec::new, |old| texts(&old["spec"]["clusterIPs"]).collect());
    let mut wrong = false;
    for (index, ip) in addresses.iter().enumerate() {
        if index == 0 && *ip == "None" {
            if addresses.len() > 1 {
                wrong = true;
                errors.invalid(at, all.clone(), "'None' must be the first and only value");
            }
            continue;
        }
        let before = errors.len();
        address::check(errors, at.index(index), ip, &existing);
        wrong |= errors.len() > before;
    }
    if addresses.len() > 2 {
        errors.invalid(at, all.clone(), "may only hold up to 2 values");
    }
    if wrong {
        return;
    }
    if addresses.len() > 1 && !address::is_dual_stack(addresses.iter().copied()) {
        errors.invalid(at, all.clone(), "may specify no more than one IP for each IP family");
    }
    if is_headless(service) {
        return;
    }
    for (index, (ip, family)) in addresses.iter().zip(&families).enumerate() {
        let is_v4 = address::parse(ip).is_some_and(|address| address.is_ipv4());
        if is_v4 != (*family == "IPv4") && FAMILIES.contains(family) {
            let detail = format!("expected an {family} value as indicated by `ipFamilies[{index}]`");
            errors.invalid(at.index(index), *ip, detail);
        }
    }
}

/// Checks that no port is there twice.
fn check_numbers(errors: &mut Errors, path: Path<'_>, ports: &[Value], kind: &str) {
    let on_node = |given: &Value| number(&given["nodePort"]);
    if kind == "ClusterIP" {
        for (index, _) in ports.iter().enumerate().filter(|(_, given)| on_node(given) != 0) {
            let detail = "may not be used when `type` is 'ClusterIP'";
            errors.forbidden(path.index(index).field("nodePort"), detail);
        }
    }
    let (mut node_ports, mut own_ports) = (HashSet::new(), HashSet::new());
    for (index, given) in ports.iter().enumerate().filter(|(_, given)| on_node(given) != 0) {
        if !node_ports.insert((text(&given["protocol"]), on_node(given))) {
            errors.duplicate(path.index(index).field("nodePort"), on_node(given));
        }
    }
    for (index, given) in ports.iter().enumerate() {
        let (protocol, own) = (text(&given["protocol"]), number(&given["port"]));
        if !own_ports.insert((protocol, own)) {
            let shown = json!({
                "Name": "", "Protocol": protocol, "AppProtocol": null, "Port": own, "TargetPort": 0, "NodePort": 0,
            });
            errors.duplicate(path.index(index), shown);
        }
    }
}

fn check_source_ranges(errors: &mut Errors, service: &Value, old: Option<&Value>) {
    let (ranges, kind) = (&service["spec"]["loadBalancerSourceRanges"], kind_of_service(service));
    let only = "may only be used when `type` is 'LoadBalancer'";
    if size(ranges) > 0 {
        let spec = Path::root("spec");
        // Clients know it by this name.
        let path = spec.field("LoadBalancerSourceRanges");
        if kind != "LoadBalancer" {
            errors.forbidden(path, only);
        }
        let existing: Vec<_> = old.map_or_else(Vec::new, |old| {
            texts(&old["spec"]["loadBalancerSourceRanges"]).map(str::trim).collect()
        });
        for (index, range) in texts(ranges).enumerate() {
            address::check_network(errors, path.index(index), range.trim(), &existing);
        }
        return;
    }
    let Some(annotation) = service["metadata"]["annotations"][SOURCE_RANGES].as_str() else { return };
    let metadata = Path::root("metadata");
    let annotations = metadata.field("annotations");
    let path = annotations.key(SOURCE_RANGES);
    if kind != "LoadBalancer" {
        errors.forbidden(path, only);
    }
    let unchanged = old.is_some_and(|old| old["metadata"]["annotations"][SOURCE_RANGES] == annotation);
    if !unchanged && !annotation.trim().is_empty() {
        for range in annotation.split(',') {
            address::check_network(errors, path, range.trim(), &[]);
        }
    }
}

fn check_load_balancer_fields(errors: &mut Errors, path: Path<'_>, spec: &Value, kind: &str) {
    let only = "may only be used when `type` is 'LoadBalancer'";
    let gives = is_set(&spec["allocateLoadBalancerNodePorts"]);
    if gives && kind != "LoadBalancer" {
        errors.forbidden(path.field("allocateLoadBalancerNodePorts"), only);
    }
    if !gives && kind == "LoadBalancer" {
        errors.required(Path::root("allocateLoadBalancerNodePorts"), "");
    }
    if is_set(&spec["loadBalancerClass"]) {
        let class = text(&spec["loadBalancerClass"]);
        if kind == "LoadBalancer" {
            errors.messages(path.field("loadBalancerClass"), class, qualified_name(class));
        } else {
            errors.forbidden(path.field("loadBalancerClass"), only);
        }
    }
}

fn check_traffic(errors: &mut Errors, path: Path<'_>, service: &Value) {
    let spec = &service["spec"];
    let external = text(&spec["externalTrafficPolicy"]);
    if is_external(service) {
        errors.one_of(path.field("externalTrafficPolicy"), external, &["Cluster", "Local"]);
    } else if !external.is_empty() {
        let detail = "may only be set for externally-accessible services";
        errors.invalid(path.field("externalTrafficPolicy"), external, detail);
    }
    let health = number(&spec["healthCheckNodePort"]);
    let at = path.field("healthCheckNodePort");
    match (needs_health_check(service), health) {
        (true, 0) => errors.required(at, ""),
        (true, health) => port(errors, at, health),
        (false, 0) => {}
        (false, health) => {
            let detail =
                "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
            errors.invalid(at, health, detail);
        }
    }
    let internal = &spec["internalTrafficPolicy"];
    if !is_set(internal) {
        if ["NodePort", "LoadBalancer", "ClusterIP"].contains(&kind_of_service(service)) {
            errors.required(path.field("internalTrafficPolicy"), "");
        }
    } else if !["Cluster", "Local"].contains(&text(internal)) {
        errors.not_supported(path.field("internalTrafficPolicy"), text(internal), &["Cluster", "Local"]);
    }
    let distribution = &spec["trafficDistribution"];
    let distributions = ["PreferClose", "PreferSameZone", "PreferSameNode"];
    if is_set(distribution) && !distributions.contains(&text(distribution)) {
        errors.not_supported(path.field("trafficDistribution"), text(distribution), &distributions);
    }
}

/// Checks a status that is written by itself.
pub(super) fn check_status(errors: &mut Errors, service: &Value, old: &Value) {
    let ingress = &service["status"]["loadBalancer"]["ingress"];
    let status = Path::root("status");
    let balancer = status.field("loadBalancer");
    let path = balancer.field("ingress");
    if kind_of_service(service) != "LoadBalancer" && size(ingress) > 0 {
        return errors.forbidden(path, "may only be used when `spec.type` is 'LoadBalancer'");
    }
    check_load_balancer(errors, &service["status"], &old["status"]);
    for (index, ingress) in items(ingress).iter().enumerate() {
        let (at, has_ip) = (path.index(index), !text(&ingress["ip"]).is_empty());
        match &ingress["ipMode"] {
            Value::Null if has_ip => {
                errors.required(at.field("ipMode"), "must be specified when `ip` is set");
            }
            Value::Null => {}
            _ if !has_ip => errors.forbidden(at.field("ipMode"), "may not be specified when `ip` is not set"),
            mode if !["Proxy", "VIP"].contains(&text(mode)) => {
                errors.not_supported(at.field("ipMode"), text(mode), &["Proxy", "VIP"]);
            }
            _ => {}
        }
    }
}
