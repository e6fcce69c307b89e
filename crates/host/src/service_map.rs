//! What comes to a node for Services goes on to addresses that load balancers have behind a link: a table of nftables of its own.
//!
//! | who | sends to | goes on, by the link | and is seen as |
//! |---|---|---|---|
//! | outside | node port, address for outside | to the cluster IP | the second address |
//! | outside, where traffic stays on the node | the same | to the node-local frontend | itself |
//! | another node, where traffic stays on the node | the same | to the node-local frontend | the second address |
//! | a pod | node port | to the cluster IP, back by the link | the second address |
//! | the node itself | node port, address for outside | to the cluster IP | the second address |
//! | the node itself | cluster IP | as it is | the second address |
//!
//! The second address is one that the node does not have: what answers comes back by the load balancers, and then here, where each step is
//! undone. What is seen as itself is answered by way of the node too, as that is how it leaves the cluster.
//!
//! ```text
//! guard        to an address that not everybody may send to, by somebody else  → drop, before anything is translated
//! prerouting   from outside, to what stays on the node                         → to the node-local frontend
//!              to anything else that is a Service's                            → to the cluster IP
//! output       what the node itself sends                                      → to the cluster IP
//! postrouting  by the link to a cluster IP                                     → from the second address
//!              by the link to a node-local frontend, from a pod or a node      → from the second address
//! ```
//!
//! The table `inet portolan` has the rest: it lets go back by the link what came by it and is translated, and drops everything else of
//! that kind. A destination is local if the node has the address, loopback aside: what has that as its source cannot leave.
//!
//! A Service is elements of maps and sets, so that its change costs these alone. nft 1.0.6 takes no map to an address with a port by JSON:
//! there are two maps for each, which a rule reads together.

mod elements;
mod rules;

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use serde_json::{Value, json};

use self::elements::Fact;
use crate::error::Result;
use crate::nft::{list_table, nft, remove_table};

const FAMILY: &str = "inet";
/// The name of the table, of family `inet`.
pub const TABLE: &str = "portolan-services";

/// What the rules go by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceMap {
    /// The link by which the node reaches load balancers.
    pub link: String,
    /// The networks of cluster IPs.
    pub services: Vec<IpNet>,
    /// The networks of node-local frontends.
    pub node_local: Vec<IpNet>,
    /// Addresses that stand for the node towards pods, one of each family.
    pub own: Vec<IpAddr>,
}

/// What maps and sets have. No two of one table translate the same differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Element {
    /// What comes to a port of the node's own addresses, of the family of `to`, goes there.
    NodePort {
        /// From whom.
        from: Clients,
        /// By which protocol.
        protocol: Protocol,
        /// The port.
        port: u16,
        /// Where it goes.
        to: SocketAddr,
    },
    /// What comes to an address goes there, also if it is not the node's.
    Address {
        /// From whom.
        from: Clients,
        /// The address.
        address: Address,
        /// Where it goes, of the same family.
        to: SocketAddr,
    },
    /// Only who is admitted may send there, and the node itself.
    Guarded(Address),
    /// This network may. None of the same address is in another.
    Admitted(Address, IpNet),
    /// A network of pods. None is in another.
    Pods(IpNet),
    /// An address of another node.
    Node(IpAddr),
}

/// Who sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Clients {
    /// Anybody, unless there is another element for those outside.
    All,
    /// Neither pods nor the node itself.
    Outside,
}

/// An address with protocol and port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    /// The address.
    pub ip: IpAddr,
    /// The protocol.
    pub protocol: Protocol,
    /// The port.
    pub port: u16,
}

/// A protocol that has ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

/// The table as it is listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// Everything but elements.
    rules: Vec<Value>,
    elements: BTreeSet<Fact>,
}

impl ServiceMap {
    /// Replaces the table by one that has these elements, in one step.
    pub fn replace<'a>(&self, elements: impl IntoIterator<Item = &'a Element>) -> Result<()> {
        let table = json!({ "family": FAMILY, "name": TABLE });
        // One that is not there cannot be deleted.
        let mut commands = vec![
            json!({ "add": { "table": table } }),
            json!({ "delete": { "table": table } }),
            json!({ "add": { "table": table } }),
        ];
        commands.extend(rules::sets().chain(self.chains()));
        commands.extend(elements::commands("add", elements));
        nft(&commands, || "translate what comes for Services".to_owned()).map(drop)
    }
}

/// Removes elements that the table has and adds others, in one step. Nothing is done if that is not what the table has.
pub fn change(remove: &[Element], add: &[Element]) -> Result<()> {
    // What goes makes room for what comes: both may translate the same.
    let commands: Vec<Value> =
        elements::commands("delete", remove).chain(elements::commands("add", add)).collect();
    if commands.is_empty() {
        return Ok(());
    }
    nft(&commands, || "change what is translated for Services".to_owned()).map(drop)
}

/// The table as nft lists it; none if it is not there.
pub fn listed() -> Result<Option<Listed>> {
    let Some(mut rules) = list_table(TABLE)? else { return Ok(None) };
    let elements = elements::take_facts(&mut rules);
    Ok(Some(Listed { rules, elements }))
}

impl Listed {
    /// Whether it has these rules, apart from its elements.
    pub fn has_rules_of(&self, other: &Listed) -> bool {
        self.rules == other.rules
    }

    /// Whether it has as many chains, rules and sets as this has.
    pub fn is_whole(&self, map: &ServiceMap) -> bool {
        let is_ours =
            |object: &&Value| ["chain", "rule", "set", "map"].iter().any(|kind| object.get(kind).is_some());
        self.rules.iter().filter(is_ours).count() == rules::sets().chain(map.chains()).count()
    }

    /// Whether it has these elements and no others.
    pub fn has<'a>(&self, elements: impl IntoIterator<Item = &'a Element>) -> bool {
        self.elements == elements::facts(elements)
    }
}

/// Removes the table, if it is there.
pub fn remove() -> Result<()> {
    remove_table(TABLE)
}
