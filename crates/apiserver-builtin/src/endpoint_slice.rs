//! EndpointSlices: where a Service is served.

use serde_json::Value;

use super::address;
use super::behaviour::Behaviour;
use super::endpoints::PROTOCOLS;
use super::errors::Errors;
use super::format::qualified_domain;
use super::format::{dns1123_label, dns1123_subdomain, label_value, qualified_name};
use super::kind::{KindExt as _, kind_of};
use super::table::{age, columns, first_three, name};
use super::value::{fields_mut, is_set, items, items_mut, object_mut, same, size, text, texts};
use apischema::Path;
use apiserver::registry::{Generation, Resource, Scope};

const ADDRESS_TYPES: [&str; 3] = ["FQDN", "IPv4", "IPv6"];
const MOST_ENDPOINTS: usize = 1000;
const MOST_ADDRESSES: usize = 100;
const MOST_PORTS: usize = 20000;
const MOST_HINTS: usize = 8;

pub(super) fn resource() -> Resource {
    kind_of("discovery.k8s.io", "endpointslices", "EndpointSlice", Scope::Namespaced)
        .behaving(Behaviour {
            generation: Generation::Content,
            // A field of older versions, which cannot be written.
            settle: |slice| {
                for endpoint in items_mut(slice, "endpoints") {
                    fields_mut(endpoint).remove("deprecatedTopology");
                }
            },
            // Labels say which Service a slice is of: they are part of what it means.
            prepare_update: |slice, old, _| {
                if !same(&slice["metadata"]["labels"], &old["metadata"]["labels"]) {
                    let generation = old["metadata"]["generation"].as_i64().unwrap_or(0) + 1;
                    object_mut(slice, "metadata").insert("generation".into(), generation.into());
                }
            },
            validate: check,
            validate_create: check_endpoints,
            validate_update: |new, old, errors| {
                // What older servers took is kept.
                if !same(&new["endpoints"], &old["endpoints"]) {
                    check_endpoints(new, errors);
                }
                if text(&new["addressType"]) != text(&old["addressType"]) {
                    errors.invalid(
                        Path::root("addressType"),
                        text(&new["addressType"]),
                        "field is immutable",
                    );
                }
            },
            ..Behaviour::PLAIN
        })
        .shown(columns(&["Name", "AddressType", "Ports", "Endpoints", "Age"], |slice, now| {
            vec![
                name(slice),
                text(&slice["addressType"]).into(),
                ports(slice).into(),
                addresses(slice).into(),
                age(slice, now),
            ]
        }))
}

fn ports(slice: &Value) -> String {
    let shown = |port: &Value| match (port["port"].as_i64(), port["name"].as_str()) {
        (Some(number), _) => number.to_string(),
        (None, Some(name)) => name.to_owned(),
        (None, None) => "*".into(),
    };
    first_three(&items(&slice["ports"]).iter().map(shown).collect::<Vec<_>>())
}

fn addresses(slice: &Value) -> String {
    let endpoints = items(&slice["endpoints"]).iter();
    let all: Vec<_> =
        endpoints.flat_map(|endpoint| texts(&endpoint["addresses"])).map(str::to_owned).collect();
    first_three(&all)
}

fn check(slice: &Value, errors: &mut Errors) {
    errors.one_of(Path::root("addressType"), text(&slice["addressType"]), &ADDRESS_TYPES);
    let (ports, path) = (items(&slice["ports"]), Path::root("ports"));
    if ports.len() > MOST_PORTS {
        return errors.too_many(path, ports.len(), MOST_PORTS);
    }
    let mut names = Vec::new();
    for (index, port) in ports.iter().enumerate() {
        let (path, name) = (path.index(index), text(&port["name"]));
        if !name.is_empty() {
            errors.messages(path.field("name"), name, dns1123_label(name));
        }
        if names.contains(&name) {
            errors.duplicate(path.field("name"), name);
        } else {
            names.push(name);
        }
        errors.one_of(path.field("protocol"), text(&port["protocol"]), &PROTOCOLS);
        if is_set(&port["appProtocol"]) {
            let protocol = text(&port["appProtocol"]);
            errors.messages(path.field("appProtocol"), protocol, qualified_name(protocol));
        }
    }
}

fn check_endpoints(slice: &Value, errors: &mut Errors) {
    let (endpoints, path) = (items(&slice["endpoints"]), Path::root("endpoints"));
    if endpoints.len() > MOST_ENDPOINTS {
        return errors.too_many(path, endpoints.len(), MOST_ENDPOINTS);
    }
    for (index, endpoint) in endpoints.iter().enumerate() {
        let path = path.index(index);
        check_addresses(errors, path.field("addresses"), endpoint, text(&slice["addressType"]));
        if is_set(&endpoint["nodeName"]) {
            let node = text(&endpoint["nodeName"]);
            errors.messages(path.field("nodeName"), node, dns1123_subdomain(node));
        }
        if is_set(&endpoint["hostname"]) {
            let hostname = text(&endpoint["hostname"]);
            errors.messages(path.field("hostname"), hostname, dns1123_label(hostname));
        }
        check_hints(errors, path.field("hints"), &endpoint["hints"]);
    }
}

fn check_addresses(errors: &mut Errors, path: Path<'_>, endpoint: &Value, kind: &str) {
    match size(&endpoint["addresses"]) {
        0 => errors.required(path, "must contain at least 1 address"),
        count if count > MOST_ADDRESSES => errors.too_many(path, count, MOST_ADDRESSES),
        _ => {}
    }
    for (index, address) in texts(&endpoint["addresses"]).enumerate() {
        let at = path.index(index);
        let before = errors.len();
        match kind {
            "IPv4" => address::check(errors, at, address, &[]),
            "IPv6" => address::check_canonical(errors, at, address),
            "FQDN" => {
                qualified_domain(errors, at, address);
                continue;
            }
            _ => continue,
        }
        if errors.len() > before {
            continue;
        }
        let is_v4 = address::parse(address).is_some_and(|address| address.is_ipv4());
        if is_v4 != (kind == "IPv4") {
            errors.invalid(path, address, format!("must be an {kind} address"));
        }
        address::check_reachable(errors, at, address);
    }
}

fn check_hints(errors: &mut Errors, path: Path<'_>, hints: &Value) {
    type Check = fn(&str) -> Vec<String>;
    let lists: [(&str, Check); 2] = [("forZones", label_value), ("forNodes", dns1123_subdomain)];
    for (list, wrong) in lists {
        let (path, given) = (path.field(list), items(&hints[list]));
        if given.len() > MOST_HINTS {
            return errors.too_many(path, given.len(), MOST_HINTS);
        }
        let mut names = Vec::new();
        for (index, hint) in given.iter().enumerate() {
            let (path, name) = (path.index(index), text(&hint["name"]));
            if names.contains(&name) {
                errors.duplicate(path.field("name"), name);
            } else {
                names.push(name);
            }
            errors.messages(path.field("name"), name, wrong(name));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{cells, create, prepared_update, update};
    use super::*;
    use serde_json::json;

    fn slice(kind: &str, addresses: &[&str]) -> Value {
        json!({"addressType": kind, "endpoints": [{"addresses": addresses}], "ports": [{"name": "", "port": 80, "protocol": "TCP"}]})
    }

    #[test]
    fn addresses_are_of_the_type() {
        let wrong = |kind: &str, addresses: &[&str]| create(&resource(), &slice(kind, addresses));
        assert!(wrong("IPv4", &["10.0.0.1"]).is_empty());
        assert!(wrong("FQDN", &["a.example.com"]).is_empty());
        assert_eq!(
            wrong("IPv4", &["fd00::1"]),
            ["endpoints[0].addresses: Invalid value: \"fd00::1\": must be an IPv4 address"]
        );
        assert_eq!(
            wrong("IPv6", &["10.0.0.1"]),
            ["endpoints[0].addresses: Invalid value: \"10.0.0.1\": must be an IPv6 address"]
        );
        assert_eq!(
            wrong("IPv4", &[]),
            ["endpoints[0].addresses: Required value: must contain at least 1 address"]
        );
        assert_eq!(wrong("", &["10.0.0.1"]), ["addressType: Required value"]);
        assert_eq!(
            wrong("IPv5", &["x"]),
            ["addressType: Unsupported value: \"IPv5\": supported values: \"FQDN\", \"IPv4\", \"IPv6\""]
        );
    }

    #[test]
    fn the_type_stays_and_labels_count() {
        assert_eq!(
            update(&resource(), &slice("IPv6", &["fd00::1"]), &slice("IPv4", &["10.0.0.1"])),
            ["addressType: Invalid value: \"IPv6\": field is immutable"]
        );
        let old = json!({"metadata": {"generation": 4, "labels": {"a": "b"}}});
        let new = prepared_update(&resource(), json!({"metadata": {"generation": 4}}), &old);
        assert_eq!(new["metadata"]["generation"], 5);
    }

    #[test]
    fn hints_and_ports_are_named_once() {
        let mut twice = slice("IPv4", &["10.0.0.1"]);
        twice["ports"] = json!([{"name": "a", "protocol": "TCP"}, {"name": "a", "protocol": "TCP"}]);
        twice["endpoints"][0]["hints"] = json!({"forZones": [{"name": "z"}, {"name": "z"}]});
        assert_eq!(
            create(&resource(), &twice),
            [
                "ports[1].name: Duplicate value: \"a\"",
                "endpoints[0].hints.forZones[1].name: Duplicate value: \"z\""
            ]
        );
        assert_eq!(
            cells(&resource(), &twice, "2024-01-01T00:00:00Z")[1..4],
            [json!("IPv4"), json!("a,a"), json!("10.0.0.1")]
        );
        assert_eq!(cells(&resource(), &json!({}), "2024-01-01T00:00:00Z")[2], "<unset>");
    }
}
