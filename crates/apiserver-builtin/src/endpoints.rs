//! Endpoints: where a Service is served, as older clients know it.

use serde_json::Value;

use super::format::{dns1123_label, dns1123_subdomain, qualified_name};

use super::address;
use super::behaviour::Behaviour;
use super::errors::Errors;
use super::format::port;
use super::kind::{KindExt as _, core};
use super::table::{age, columns, name};
use super::value::{is_set, items, number, same, size, text};
use apischema::Path;
use apiserver::registry::{Resource, Scope, Version};

const DEPRECATED: &str = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice";

/// The protocols of ports, in the order in which errors name them.
pub(super) const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

pub(super) fn resource() -> Resource {
    core("endpoints", "Endpoints", Scope::Namespaced)
        .short_names(&["ep"])
        .behaving(Behaviour {
            validate_create: check,
            validate_update: |new, old, errors| {
                // What older servers took is kept.
                if !same(&new["subsets"], &old["subsets"]) {
                    check(new, errors);
                }
            },
            creates_on_update: true,
            ..Behaviour::PLAIN
        })
        .shown(columns(&["Name", "Endpoints", "Age"], |endpoints, now| {
            vec![name(endpoints), shown(endpoints).into(), age(endpoints, now)]
        }))
        .version(|version| Version { deprecation_warning: Some(DEPRECATED.into()), ..version })
}

fn shown(endpoints: &Value) -> String {
    let subsets = items(&endpoints["subsets"]);
    if subsets.is_empty() {
        return "<none>".into();
    }
    let mut all = Vec::new();
    for subset in subsets {
        let addresses = items(&subset["addresses"]).iter().map(|address| text(&address["ip"]));
        match items(&subset["ports"]) {
            [] => all.extend(addresses.map(str::to_owned)),
            ports => {
                for port in ports.iter().map(|port| number(&port["port"])) {
                    all.extend(addresses.clone().map(|ip| host_port(ip, port)));
                }
            }
        }
    }
    let list = all[..all.len().min(3)].join(",");
    if all.len() > 3 { format!("{list} + {} more...", all.len() - 3) } else { list }
}

fn host_port(ip: &str, port: i64) -> String {
    if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") }
}

fn check(endpoints: &Value, errors: &mut Errors) {
    let path = Path::root("subsets");
    for (index, subset) in items(&endpoints["subsets"]).iter().enumerate() {
        let path = path.index(index);
        if size(&subset["addresses"]) + size(&subset["notReadyAddresses"]) == 0 {
            errors.required(path, "must specify `addresses` or `notReadyAddresses`");
        }
        for list in ["addresses", "notReadyAddresses"] {
            for (index, address) in items(&subset[list]).iter().enumerate() {
                check_address(errors, path.field(list).index(index), address);
            }
        }
        let ports = items(&subset["ports"]);
        for (index, port) in ports.iter().enumerate() {
            check_port(errors, path.field("ports").index(index), port, ports.len() > 1);
        }
    }
}

fn check_address(errors: &mut Errors, path: Path<'_>, address: &Value) {
    let (ip, hostname) = (text(&address["ip"]), text(&address["hostname"]));
    address::check(errors, path.field("ip"), ip, &[]);
    if !hostname.is_empty() {
        errors.messages(path.field("hostname"), hostname, dns1123_label(hostname));
    }
    if is_set(&address["nodeName"]) {
        let node = text(&address["nodeName"]);
        errors.messages(path.field("nodeName"), node, dns1123_subdomain(node));
    }
    address::check_reachable(errors, path.field("ip"), ip);
}

fn check_port(errors: &mut Errors, path: Path<'_>, given: &Value, needs_name: bool) {
    match text(&given["name"]) {
        "" if needs_name => errors.required(path.field("name"), ""),
        "" => {}
        name => errors.messages(path.field("name"), name, dns1123_label(name)),
    }
    port(errors, path.field("port"), number(&given["port"]));
    errors.one_of(path.field("protocol"), text(&given["protocol"]), &PROTOCOLS);
    if is_set(&given["appProtocol"]) {
        let protocol = text(&given["appProtocol"]);
        errors.messages(path.field("appProtocol"), protocol, qualified_name(protocol));
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{cells, create, update};
    use super::*;
    use serde_json::json;

    #[test]
    fn addresses_are_reachable_and_ports_have_names_if_there_are_several() {
        let endpoints = json!({"subsets": [
            {},
            {"addresses": [{"ip": "127.0.0.1"}], "ports": [{"port": 80, "protocol": "TCP"}, {"port": 0, "protocol": "X", "name": "x"}]},
        ]});
        let wrong = [
            "subsets[0]: Required value: must specify `addresses` or `notReadyAddresses`",
            "subsets[1].addresses[0].ip: Invalid value: \"127.0.0.1\": may not be in the loopback range (127.0.0.0/8, \
             ::1/128)",
            "subsets[1].ports[0].name: Required value",
            "subsets[1].ports[1].port: Invalid value: 0: must be between 1 and 65535, inclusive",
            "subsets[1].ports[1].protocol: Unsupported value: \"X\": supported values: \"SCTP\", \"TCP\", \"UDP\"",
        ];
        assert_eq!(create(&resource(), &endpoints), wrong);
        assert!(update(&resource(), &endpoints, &endpoints).is_empty(), "what is there is kept");
        assert_eq!(update(&resource(), &endpoints, &json!({})), wrong);
    }

    #[test]
    fn the_table_shows_the_first_three() {
        let endpoints = json!({"metadata": {"name": "e"}, "subsets": [{
            "addresses": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}],
            "ports": [{"port": 80}, {"port": 443}],
        }]});
        assert_eq!(
            cells(&resource(), &endpoints, "2024-01-01T00:00:00Z"),
            ["e", "10.0.0.1:80,[fd00::1]:80,10.0.0.1:443 + 1 more...", "<unknown>"]
        );
        assert_eq!(cells(&resource(), &json!({}), "2024-01-01T00:00:00Z")[1], "<none>");
    }
}
