//! What leaves the cluster from a node's pods goes by the node's own address: a table of nftables of its own, written whole.
//!
//! ```text
//! postrouting  by another link, from a pod to none           → masquerade
//!              by the link, from a pod, translated here      → from the second address, so that the answer comes back to be translated
//! forward      in and out by the link, and not translated    → drop: an address that nobody has would go round
//! ```

use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::nft::nft;

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
    /// Addresses that stand for the node towards pods, one of each family.
    pub own: Vec<IpAddr>,
}

impl Masquerade {
    /// Replaces the table by one that translates this, in one step.
    pub fn apply(&self) -> Result<()> {
        nft(&self.commands(), || "masquerade what leaves the cluster".to_owned()).map(drop)
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
        for family in [Ip::V4, Ip::V6] {
            let pods = family.set(&self.pods);
            if pods.is_empty() {
                continue;
            }
            let from_pods = family.matches("==", "saddr", &pods);
            let to_none = family.matches("!=", "daddr", &pods);
            let leaves =
                [self.link("!=", "oifname"), from_pods.clone(), to_none, json!({ "masquerade": null })];
            commands.push(rule("postrouting", &leaves));
            for own in self.own.iter().filter(|own| Ip::of(**own) == family) {
                let source = json!({ "snat": { "family": family.name(), "addr": own.to_string() } });
                let returns = [self.link("==", "oifname"), translated(), from_pods.clone(), source];
                commands.push(rule("postrouting", &returns));
            }
        }
        let round = [self.link("==", "iifname"), self.link("==", "oifname")];
        let accepted = [translated(), json!({ "accept": null })];
        commands.push(rule("forward", &[&round[..], &accepted].concat()));
        commands.push(rule("forward", &[&round[..], &[json!({ "drop": null })]].concat()));
        commands
    }

    fn link(&self, op: &str, which: &str) -> Value {
        json!({ "match": { "op": op, "left": { "meta": { "key": which } }, "right": self.link } })
    }
}

/// The table as nft lists it; none if it is not there. Two listings of the same table are equal.
pub fn listed() -> Result<Option<Value>> {
    let list = json!({ "list": { "table": { "family": FAMILY, "name": TABLE } } });
    let answer = match nft(&[list], || "list the table inet portolan".to_owned()) {
        Err(Error::Nft { said, .. }) if said.contains("No such file or directory") => return Ok(None),
        answer => answer?,
    };
    let listed: Value = serde_json::from_slice(&answer).map_err(|error| Error::Answer {
        what: "list the table inet portolan".to_owned(),
        reason: error.to_string(),
    })?;
    let mut objects = listed["nftables"].as_array().cloned().unwrap_or_default();
    // Numbers that the kernel gives.
    for object in objects.iter_mut().filter_map(Value::as_object_mut).flat_map(|object| object.values_mut()) {
        if let Some(fields) = object.as_object_mut() {
            fields.remove("handle");
        }
    }
    Ok(Some(Value::Array(objects)))
}

/// Removes the table, if it is there.
pub fn remove() -> Result<()> {
    let table = json!({ "family": FAMILY, "name": TABLE });
    let commands = [json!({ "add": { "table": table } }), json!({ "delete": { "table": table } })];
    nft(&commands, || "remove the table inet portolan".to_owned()).map(drop)
}

/// What this node has translated the destination of.
fn translated() -> Value {
    json!({ "match": { "op": "in", "left": { "ct": { "key": "status" } }, "right": "dnat" } })
}

fn rule(chain: &str, expressions: &[Value]) -> Value {
    json!({ "add": { "rule": { "family": FAMILY, "table": TABLE, "chain": chain, "expr": expressions } } })
}

#[derive(Clone, Copy, PartialEq)]
enum Ip {
    V4,
    V6,
}

impl Ip {
    fn of(address: IpAddr) -> Self {
        if address.is_ipv4() { Ip::V4 } else { Ip::V6 }
    }

    fn name(self) -> &'static str {
        match self {
            Ip::V4 => "ip",
            Ip::V6 => "ip6",
        }
    }

    /// The networks of this family, none of which is in another: nft refuses sets with such.
    fn set(self, networks: &[IpNet]) -> Vec<Value> {
        let of_family: Vec<IpNet> =
            networks.iter().filter(|net| Ip::of(net.addr()) == self).map(IpNet::trunc).collect();
        let prefix =
            |net: IpNet| json!({ "prefix": { "addr": net.addr().to_string(), "len": net.prefix_len() } });
        IpNet::aggregate(&of_family).into_iter().map(prefix).collect()
    }

    fn matches(self, op: &str, field: &str, set: &[Value]) -> Value {
        let left = json!({ "payload": { "protocol": self.name(), "field": field } });
        json!({ "match": { "op": op, "left": left, "right": { "set": set } } })
    }
}
