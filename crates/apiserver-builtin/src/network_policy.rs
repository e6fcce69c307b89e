//! NetworkPolicies. Whoever runs the network enforces them.

use serde_json::Value;

use super::address::{self, Network};
use super::behaviour::Behaviour;
use super::errors::Errors;
use super::format::{port, port_name};
use super::kind::{KindExt as _, kind_of};
use super::labels::check_selector;
use super::table::{age, columns, name, selector};
use super::value::{is_set, items, number, size, text, texts};
use apischema::Path;
use apiserver::registry::{Generation, Resource, Scope};

pub(super) fn resource() -> Resource {
    kind_of("networking.k8s.io", "networkpolicies", "NetworkPolicy", Scope::Namespaced)
        .short_names(&["netpol"])
        .behaving(Behaviour {
            generation: Generation::Spec,
            validate_create: |policy, errors| check(errors, policy, &[]),
            // Networks that older servers took are kept.
            validate_update: |new, old, errors| check(errors, new, &networks(old)),
            ..Behaviour::PLAIN
        })
        .shown(columns(&["Name", "Pod-Selector", "Age"], |policy, now| {
            vec![name(policy), selector(&policy["spec"]["podSelector"]).into(), age(policy, now)]
        }))
}

/// The rules of a policy, and what their peers are called.
const DIRECTIONS: [(&str, &str); 2] = [("ingress", "from"), ("egress", "to")];

fn networks(policy: &Value) -> Vec<&str> {
    let rules = DIRECTIONS.iter().flat_map(|(rules, peers)| {
        items(&policy["spec"][*rules]).iter().flat_map(|rule| items(&rule[*peers]).iter())
    });
    rules
        .flat_map(|peer| {
            std::iter::once(text(&peer["ipBlock"]["cidr"])).chain(texts(&peer["ipBlock"]["except"]))
        })
        .collect()
}

fn check(errors: &mut Errors, policy: &Value, existing: &[&str]) {
    let (spec, path) = (&policy["spec"], Path::root("spec"));
    check_selector(errors, path.field("podSelector"), &spec["podSelector"]);
    for (rules, peers) in DIRECTIONS {
        for (index, rule) in items(&spec[rules]).iter().enumerate() {
            let list = path.field(rules);
            let at = list.index(index);
            for (index, port) in items(&rule["ports"]).iter().enumerate() {
                check_port(errors, at.field("ports").index(index), port);
            }
            for (index, peer) in items(&rule[peers]).iter().enumerate() {
                check_peer(errors, at.field(peers).index(index), peer, existing);
            }
        }
    }
    let types = path.field("policyTypes");
    if size(&spec["policyTypes"]) > 2 {
        return errors.invalid(
            types,
            spec["policyTypes"].clone(),
            "may not specify more than two policyTypes",
        );
    }
    for (index, kind) in texts(&spec["policyTypes"]).enumerate() {
        if !["Ingress", "Egress"].contains(&kind) {
            errors.not_supported(types.index(index), kind, &["Ingress", "Egress"]);
        }
    }
}

fn check_port(errors: &mut Errors, path: Path<'_>, given: &Value) {
    let protocols = ["TCP", "UDP", "SCTP"];
    if is_set(&given["protocol"]) && !protocols.contains(&text(&given["protocol"])) {
        errors.not_supported(path.field("protocol"), text(&given["protocol"]), &protocols);
    }
    let end = given["endPort"].as_i64();
    match &given["port"] {
        Value::Null => {
            if let Some(end) = end {
                errors.invalid(
                    path.field("endPort"),
                    end,
                    "may not be specified when `port` is not specified",
                );
            }
        }
        Value::String(name) => {
            if let Some(end) = end {
                errors.invalid(path.field("endPort"), end, "may not be specified when `port` is non-numeric");
            }
            errors.messages(path.field("port"), name, port_name(name));
        }
        start => {
            let start = number(start);
            port(errors, path.field("port"), start);
            if let Some(end) = end {
                if end < start {
                    errors.invalid(path.field("endPort"), start, "must be greater than or equal to `port`");
                }
                port(errors, path.field("endPort"), end);
            }
        }
    }
}

fn check_peer(errors: &mut Errors, path: Path<'_>, peer: &Value, existing: &[&str]) {
    for field in ["podSelector", "namespaceSelector"] {
        check_selector(errors, path.field(field), &peer[field]);
    }
    if is_set(&peer["ipBlock"]) {
        check_block(errors, path.field("ipBlock"), &peer["ipBlock"], existing);
    }
    let peers =
        ["podSelector", "namespaceSelector", "ipBlock"].iter().filter(|field| is_set(&peer[**field])).count();
    if peers == 0 {
        errors.required(path, "must specify a peer");
    } else if peers > 1 && is_set(&peer["ipBlock"]) {
        errors.forbidden(path, "may not specify both ipBlock and another peer");
    }
}

fn check_block(errors: &mut Errors, path: Path<'_>, block: &Value, existing: &[&str]) {
    let network = text(&block["cidr"]);
    if network.is_empty() {
        return errors.required(path.field("cidr"), "");
    }
    address::check_network(errors, path.field("cidr"), network, existing);
    let Some(network) = Network::parse(network) else { return };
    for (index, except) in texts(&block["except"]).enumerate() {
        let list = path.field("except");
        address::check_network(errors, list.index(index), except, existing);
        if Network::parse(except).is_some_and(|except| !network.strictly_contains(&except)) {
            errors.invalid(list.index(index), except, "must be a strict subset of `cidr`");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{cells, create, update};
    use super::*;
    use serde_json::json;

    fn policy(ingress: &Value) -> Value {
        json!({"metadata": {"name": "p"}, "spec": {"podSelector": {}, "ingress": [ingress], "policyTypes": ["Ingress"]}})
    }

    fn wrong(ingress: &Value) -> Vec<String> {
        create(&resource(), &policy(ingress))
    }

    #[test]
    fn ports_are_numbers_or_names_and_ranges_go_up() {
        assert!(
            wrong(&json!({"ports": [{"port": 80, "endPort": 90, "protocol": "TCP"}, {"port": "http"}]}))
                .is_empty()
        );
        assert_eq!(
            wrong(&json!({"ports": [
                {"port": 80, "endPort": 79},
                {"port": "http", "endPort": 90},
                {"endPort": 90},
                {"port": 0, "protocol": "ICMP"},
            ]})),
            [
                "spec.ingress[0].ports[0].endPort: Invalid value: 80: must be greater than or equal to `port`",
                "spec.ingress[0].ports[1].endPort: Invalid value: 90: may not be specified when `port` is non-numeric",
                "spec.ingress[0].ports[2].endPort: Invalid value: 90: may not be specified when `port` is not specified",
                "spec.ingress[0].ports[3].protocol: Unsupported value: \"ICMP\": supported values: \"TCP\", \"UDP\", \
                 \"SCTP\"",
                "spec.ingress[0].ports[3].port: Invalid value: 0: must be between 1 and 65535, inclusive",
            ]
        );
    }

    #[test]
    fn peers_are_pods_or_networks() {
        assert!(wrong(&json!({"from": [{"podSelector": {}, "namespaceSelector": {}}]})).is_empty());
        assert_eq!(
            wrong(&json!({"from": [
                {},
                {"podSelector": {}, "ipBlock": {"cidr": "10.0.0.0/8", "except": ["11.0.0.0/16", "x"]}},
                {"ipBlock": {"cidr": "10.0.0.0"}},
                {"ipBlock": {"cidr": ""}},
            ]})),
            [
                "spec.ingress[0].from[0]: Required value: must specify a peer",
                "spec.ingress[0].from[1].ipBlock.except[0]: Invalid value: \"11.0.0.0/16\": must be a strict subset of \
                 `cidr`",
                "spec.ingress[0].from[1].ipBlock.except[1]: Invalid value: \"x\": must be a valid CIDR value, (e.g. \
                 10.9.8.0/24 or 2001:db8::/64)",
                "spec.ingress[0].from[1]: Forbidden: may not specify both ipBlock and another peer",
                "spec.ingress[0].from[2].ipBlock.cidr: Invalid value: \"10.0.0.0\": must be a valid CIDR value, (e.g. \
                 10.9.8.0/24 or 2001:db8::/64)",
                "spec.ingress[0].from[3].ipBlock.cidr: Required value",
            ]
        );
        let old = policy(&json!({"from": [{"ipBlock": {"cidr": "10.0.0.0"}}]}));
        assert!(update(&resource(), &old, &old).is_empty(), "what is there is kept");
    }

    #[test]
    fn the_table_shows_which_pods() {
        let mut policy = policy(&json!({}));
        assert_eq!(cells(&resource(), &policy, "2024-01-01T00:00:00Z")[1], "<none>");
        policy["spec"]["podSelector"] = json!({"matchLabels": {"a": "b"}});
        assert_eq!(cells(&resource(), &policy, "2024-01-01T00:00:00Z")[1], "a=b");
        policy["spec"]["policyTypes"] = json!(["Both"]);
        assert_eq!(
            create(&resource(), &policy),
            ["spec.policyTypes[0]: Unsupported value: \"Both\": supported values: \"Ingress\", \"Egress\""]
        );
    }
}
