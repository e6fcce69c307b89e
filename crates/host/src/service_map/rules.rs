//! The chains with their rules, and the sets that these read.

use serde_json::{Value, json};

use super::elements::{Part, Set};
use super::{Clients, FAMILY, ServiceMap, TABLE};
use crate::nft::Ip;

/// `dstnat`: nft 1.0.6 refuses the name in `output`.
const BEFORE_ROUTING: i32 = -100;
/// `srcnat`
const AFTER_ROUTING: i32 = 100;
/// Where connections are known, and nothing is translated yet.
const GUARD: i32 = BEFORE_ROUTING - 10;

/// Adds the sets.
pub(super) fn sets() -> impl Iterator<Item = Value> {
    Set::ALL.into_iter().flat_map(|set| Ip::BOTH.map(|family| definition(set, family)))
}

fn definition(set: Set, family: Ip) -> Value {
    let address = family.address_type();
    let with_address = json!([address, "inet_proto", "inet_service"]);
    let data = |part| if part == Part::Address { address } else { "inet_service" };
    let name = set.name(family);
    let map = |keys: Value, part| json!({ "add": { "map": { "family": FAMILY, "table": TABLE, "name": name, "type": keys, "map": data(part) } } });
    let plain = |keys: Value| json!({ "add": { "set": { "family": FAMILY, "table": TABLE, "name": name, "type": keys } } });
    let intervals = |keys: Value| json!({ "add": { "set": { "family": FAMILY, "table": TABLE, "name": name, "type": keys, "flags": ["interval"] } } });
    match set {
        Set::NodePorts(_, part) => map(json!(["inet_proto", "inet_service"]), part),
        Set::Addresses(_, part) => map(with_address, part),
        Set::Guarded => plain(with_address),
        Set::Admitted => intervals(json!([address, "inet_proto", "inet_service", address])),
        Set::Pods => intervals(json!(address)),
        Set::Nodes => plain(json!(address)),
    }
}

impl ServiceMap {
    /// Adds the chains with their rules.
    pub(super) fn chains(&self) -> impl Iterator<Item = Value> {
        let mut commands = vec![
            chain("guard", "filter", "prerouting", GUARD),
            chain("prerouting", "nat", "prerouting", BEFORE_ROUTING),
            chain("output", "nat", "output", BEFORE_ROUTING),
            chain("postrouting", "nat", "postrouting", AFTER_ROUTING),
        ];
        for family in Ip::BOTH {
            commands.push(guard(family));
            commands.extend(self.prerouting(family));
            commands.push(rule("output", &[dnat(family, Addresses, Clients::All)]));
            commands.push(rule(
                "output",
                &[&local(family)[..], &[dnat(family, NodePorts, Clients::All)]].concat(),
            ));
            commands.extend(self.postrouting(family));
        }
        commands.into_iter()
    }

    fn prerouting(&self, family: Ip) -> [Value; 4] {
        let outside = [self.link("!=", "iifname"), in_set("!=", &family.field("saddr"), Set::Pods, family)];
        let outside_to_local = [&outside[..], &local(family)].concat();
        [
            rule("prerouting", &[&outside[..], &[dnat(family, Addresses, Clients::Outside)]].concat()),
            rule("prerouting", &[dnat(family, Addresses, Clients::All)]),
            rule(
                "prerouting",
                &[&outside_to_local[..], &[dnat(family, NodePorts, Clients::Outside)]].concat(),
            ),
            rule("prerouting", &[&local(family)[..], &[dnat(family, NodePorts, Clients::All)]].concat()),
        ]
    }

    fn postrouting(&self, family: Ip) -> Vec<Value> {
        let Some(own) = self.own.iter().find(|own| Ip::of(**own) == family) else { return Vec::new() };
        let snat = json!({ "snat": { "family": family.name(), "addr": own } });
        let to = |prefix: &ipnet::IpNet| {
            let prefix = json!({ "prefix": { "addr": prefix.network(), "len": prefix.prefix_len() } });
            json!({ "match": { "op": "==", "left": family.field("daddr"), "right": prefix } })
        };
        let of_family = |prefix: &&ipnet::IpNet| Ip::of(prefix.addr()) == family;
        let by_link = || self.link("==", "oifname");
        let to_services = self.services.iter().filter(of_family);
        let mut rules: Vec<Value> =
            to_services.map(|prefix| rule("postrouting", &[by_link(), to(prefix), snat.clone()])).collect();
        for prefix in self.node_local.iter().filter(of_family) {
            for from in [Set::Pods, Set::Nodes] {
                let from = in_set("==", &family.field("saddr"), from, family);
                rules.push(rule("postrouting", &[by_link(), to(prefix), from, snat.clone()]));
            }
        }
        rules
    }

    fn link(&self, op: &str, which: &str) -> Value {
        json!({ "match": { "op": op, "left": { "meta": { "key": which } }, "right": self.link } })
    }
}

/// What a rule translates by.
use Translates::{Addresses, NodePorts};

#[derive(Clone, Copy)]
enum Translates {
    Addresses,
    NodePorts,
}

/// Translates what the maps have, and nothing else.
fn dnat(family: Ip, by: Translates, from: Clients) -> Value {
    let ports = [json!({ "meta": { "key": "l4proto" } }), port()];
    let (key, set): (Vec<Value>, fn(Clients, Part) -> Set) = match by {
        Addresses => ([&[family.field("daddr")][..], &ports].concat(), Set::Addresses),
        NodePorts => (ports.to_vec(), Set::NodePorts),
    };
    let to = |part| {
        let map = format!("@{}", set(from, part).name(family));
        json!({ "map": { "key": { "concat": key }, "data": map } })
    };
    json!({ "dnat": { "family": family.name(), "addr": to(Part::Address), "port": to(Part::Port) } })
}

/// The first packet of a connection says who it is from.
fn guard(family: Ip) -> Value {
    let to = [family.field("daddr"), json!({ "meta": { "key": "l4proto" } }), port()];
    let from = [&to[..], &[family.field("saddr")]].concat();
    let new = json!({ "match": { "op": "in", "left": { "ct": { "key": "state" } }, "right": "new" } });
    let is_guarded = in_set("==", &json!({ "concat": to }), Set::Guarded, family);
    let is_admitted_not = in_set("!=", &json!({ "concat": from }), Set::Admitted, family);
    rule("guard", &[new, is_guarded, is_admitted_not, json!({ "drop": null })])
}

/// To an address of the node, loopback aside.
fn local(family: Ip) -> [Value; 2] {
    let loopback = match family {
        Ip::V4 => json!({ "prefix": { "addr": "127.0.0.0", "len": 8 } }),
        Ip::V6 => json!("::1"),
    };
    let kind = json!({ "fib": { "result": "type", "flags": ["daddr"] } });
    [
        json!({ "match": { "op": "==", "left": kind, "right": "local" } }),
        json!({ "match": { "op": "!=", "left": family.field("daddr"), "right": loopback } }),
    ]
}

/// The port that a packet is for, of any protocol.
fn port() -> Value {
    json!({ "payload": { "protocol": "th", "field": "dport" } })
}

fn in_set(op: &str, what: &Value, set: Set, family: Ip) -> Value {
    json!({ "match": { "op": op, "left": what, "right": format!("@{}", set.name(family)) } })
}

fn chain(name: &str, kind: &str, hook: &str, priority: i32) -> Value {
    json!({ "add": { "chain": { "family": FAMILY, "table": TABLE, "name": name, "type": kind, "hook": hook,
        "prio": priority, "policy": "accept" } } })
}

fn rule(chain: &str, expressions: &[Value]) -> Value {
    json!({ "add": { "rule": { "family": FAMILY, "table": TABLE, "chain": chain, "expr": expressions } } })
}
