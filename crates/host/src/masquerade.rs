//! What leaves the cluster from a node's pods goes by the node's own address, unless its Subnet says otherwise: a table of nftables of its own.
//!
//! ```text
//! postrouting  by another link, from a pod to none, translated here  → masquerade, so that the answer comes back to be translated
//!              by another link, from a pod to none                   → masquerade, but for pods that leave with their own addresses
//!              by the link, from a pod or a node, translated here    → from the second address, for the same reason
//! forward      in and out by the link, and not translated            → drop: an address that nobody has would go round
//! ```
//!
//! Which networks are pods' is in sets: a change of a Subnet is a change of elements. Everything else is written whole.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::{Value, json};

use crate::error::Result;
use crate::nft::{Ip, list_table, nft, remove_table};

const FAMILY: &str = "inet";
/// The name of the table, of family `inet`.
pub const TABLE: &str = "portolan";
/// `srcnat`
const AFTER_ROUTING: i32 = 100;
const FILTER: i32 = 0;

/// What is translated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Masquerade {
    /// The link by which the node reaches pods.
    pub link: String,
    /// The networks of all pods.
    pub pods: Vec<IpNet>,
    /// Those of pods that leave the cluster with their own addresses.
    pub unmasqueraded: Vec<IpNet>,
    /// The addresses of other nodes: what pods send there does not come by this one.
    pub nodes: Vec<IpNet>,
    /// Addresses that stand for the node towards pods, one of each family.
    pub own: Vec<IpAddr>,
}

impl Masquerade {
    /// Replaces the table by one that translates this, in one step.
    pub fn apply(&self) -> Result<()> {
        nft(&self.commands(), || "masquerade what leaves the cluster".to_owned()).map(drop)
    }

    /// The same where the table is as `before` has made it: only what differs is written, in one step.
    pub fn apply_after(&self, before: &Masquerade) -> Result<()> {
        if (&self.link, &self.own) != (&before.link, &before.own) {
            return self.apply();
        }
        let changes = self.changes_of_elements(before);
        match changes.as_slice() {
            [] => Ok(()),
            changes => nft(changes, || "change which pods are masqueraded".to_owned()).map(drop),
        }
    }

    fn commands(&self) -> Vec<Value> {
        let table = json!({ "family": FAMILY, "name": TABLE });
        let chain = |name: &str, kind: &str, hook: &str, priority: i32| {
            json!({ "add": { "chain": { "family": FAMILY, "table": TABLE, "name": name, "type": kind, "hook": hook,
                "prio": priority, "policy": "accept" } } })
        };
        // One that is not there cannot be deleted.
        let mut commands = vec![
            json!({ "add": { "table": table } }),
            json!({ "delete": { "table": table } }),
            json!({ "add": { "table": table } }),
            chain("postrouting", "nat", "postrouting", AFTER_ROUTING),
            chain("forward", "filter", "forward", FILTER),
        ];
        for set in Set::ALL {
            commands.push(json!({ "add": { "set": { "family": FAMILY, "table": TABLE, "name": set.name(),
                "type": set.1.address_type(), "flags": ["interval"] } } }));
            commands.extend(set.change("add", &set.elements(self)));
        }
        for family in Ip::BOTH {
            let from_pods = family.matches("==", "saddr", Pods);
            let leaves = [self.link("!=", "oifname"), from_pods.clone(), family.matches("!=", "daddr", Pods)];
            let masquerade = || json!({ "masquerade": null });
            commands.push(rule("postrouting", &[&leaves[..], &[translated(), masquerade()]].concat()));
            let not_as_itself = family.matches("!=", "saddr", Unmasqueraded);
            commands.push(rule("postrouting", &[&leaves[..], &[not_as_itself, masquerade()]].concat()));
            for own in self.own.iter().filter(|own| Ip::of(**own) == family) {
                let source = json!({ "snat": { "family": family.name(), "addr": own.to_string() } });
                for from in [&from_pods, &family.matches("==", "saddr", Nodes)] {
                    let returns = [self.link("==", "oifname"), translated(), from.clone(), source.clone()];
                    commands.push(rule("postrouting", &returns));
                }
            }
        }
        let round = [self.link("==", "iifname"), self.link("==", "oifname")];
        let accepted = [translated(), json!({ "accept": null })];
        commands.push(rule("forward", &[&round[..], &accepted].concat()));
        commands.push(rule("forward", &[&round[..], &[json!({ "drop": null })]].concat()));
        commands
    }

    fn changes_of_elements(&self, before: &Masquerade) -> Vec<Value> {
        let mut changes = Vec::new();
        for set in Set::ALL {
            let (old, new) = (set.elements(before), set.elements(self));
            // What goes makes room for what comes: one of them may lie in the other.
            changes.extend(set.change("delete", &old.difference(&new).copied().collect()));
            changes.extend(set.change("add", &new.difference(&old).copied().collect()));
        }
        changes
    }

    fn link(&self, op: &str, which: &str) -> Value {
        json!({ "match": { "op": op, "left": { "meta": { "key": which } }, "right": self.link } })
    }
}

/// The table as nft lists it; none if it is not there. Two listings of the same table are equal.
pub fn listed() -> Result<Option<Value>> {
    list_table(TABLE).map(|objects| objects.map(Value::Array))
}

/// The networks of pods that leave the cluster with their own addresses, in a table as it is listed.
pub fn unmasqueraded_in(listed: &Value) -> Vec<IpNet> {
    elements_in(listed, Unmasqueraded)
}

/// The addresses of other nodes, in a table as it is listed.
pub fn nodes_in(listed: &Value) -> Vec<IpNet> {
    elements_in(listed, Nodes)
}

fn elements_in(listed: &Value, holds: Holds) -> Vec<IpNet> {
    let names = Ip::BOTH.map(|family| Set(holds, family).name());
    let sets = listed.as_array().into_iter().flatten().map(|object| &object["set"]);
    let ours = sets.filter(|set| names.iter().any(|name| set["name"] == *name));
    let elements = ours.flat_map(|set| set["elem"].as_array().into_iter().flatten());
    let network = |element: &Value| match element.as_str() {
        Some(address) => address.parse::<IpAddr>().ok().map(IpNet::from),
        None => {
            let prefix = &element["prefix"];
            format!("{}/{}", prefix["addr"].as_str()?, prefix["len"]).parse().ok()
        }
    };
    elements.filter_map(network).collect()
}

/// Removes the table, if it is there.
pub fn remove() -> Result<()> {
    remove_table(TABLE)
}

/// What this node has translated the destination of.
fn translated() -> Value {
    json!({ "match": { "op": "in", "left": { "ct": { "key": "status" } }, "right": "dnat" } })
}

fn rule(chain: &str, expressions: &[Value]) -> Value {
    json!({ "add": { "rule": { "family": FAMILY, "table": TABLE, "chain": chain, "expr": expressions } } })
}

/// What a set holds.
#[derive(Clone, Copy)]
enum Holds {
    Pods,
    Unmasqueraded,
    Nodes,
}

use Holds::{Nodes, Pods, Unmasqueraded};

impl Holds {
    fn networks(self, of: &Masquerade) -> &[IpNet] {
        match self {
            Pods => &of.pods,
            Unmasqueraded => &of.unmasqueraded,
            Nodes => &of.nodes,
        }
    }
}

/// A set of networks of one family.
#[derive(Clone, Copy)]
struct Set(Holds, Ip);

impl Set {
    const ALL: [Set; 6] = [
        Set(Pods, Ip::V4),
        Set(Pods, Ip::V6),
        Set(Unmasqueraded, Ip::V4),
        Set(Unmasqueraded, Ip::V6),
        Set(Nodes, Ip::V4),
        Set(Nodes, Ip::V6),
    ];

    fn name(self) -> &'static str {
        match self {
            Set(Pods, Ip::V4) => "pods-v4",
            Set(Pods, Ip::V6) => "pods-v6",
            Set(Unmasqueraded, Ip::V4) => "unmasqueraded-v4",
            Set(Unmasqueraded, Ip::V6) => "unmasqueraded-v6",
            Set(Nodes, Ip::V4) => "nodes-v4",
            Set(Nodes, Ip::V6) => "nodes-v6",
        }
    }

    /// None of which is in another: nft refuses sets with such.
    fn elements(self, of: &Masquerade) -> BTreeSet<IpNet> {
        let of_family = self.0.networks(of).iter().filter(|net| Ip::of(net.addr()) == self.1);
        let sorted: BTreeSet<IpNet> = of_family.map(IpNet::trunc).collect();
        let mut elements: Vec<IpNet> = Vec::with_capacity(sorted.len());
        for net in sorted {
            // One that lies in another comes after it.
            if !elements.last().is_some_and(|last| last.contains(&net)) {
                elements.push(net);
            }
        }
        elements.into_iter().collect()
    }

    /// The command that adds or deletes elements, if there are any.
    fn change(self, verb: &str, networks: &BTreeSet<IpNet>) -> Option<Value> {
        let prefix =
            |net: &IpNet| json!({ "prefix": { "addr": net.addr().to_string(), "len": net.prefix_len() } });
        let elements: Vec<Value> = networks.iter().map(prefix).collect();
        let command = || json!({ verb: { "element": { "family": FAMILY, "table": TABLE, "name": self.name(), "elem": elements } } });
        (!networks.is_empty()).then(command)
    }
}

impl Ip {
    fn matches(self, op: &str, field: &str, holds: Holds) -> Value {
        let right = format!("@{}", Set(holds, self).name());
        json!({ "match": { "op": op, "left": self.field(field), "right": right } })
    }
}
