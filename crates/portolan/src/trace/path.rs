//! The way of a packet: what it passes, and where it ends.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use serde::Serialize;
use serde_json::json;

/// The way of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Path {
    /// What it passes, the sender first.
    pub(crate) hops: Vec<Hop>,
    /// How it ends.
    pub(crate) end: End,
    /// The port of OVN that it comes out of at last, if it does: that of who it was meant for, or of another.
    pub(crate) port: Option<String>,
    /// What was taken for granted.
    pub(crate) assumed: Vec<String>,
}

/// Something that a packet passes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Hop {
    /// A pod: the one that sends or the one that gets it.
    Pod { namespace: String, name: String, interface: String, address: IpAddr, node: Option<String> },
    /// A subnet's switch.
    Switch { subnet: String },
    /// A VPC's router, and what made it choose the way.
    Router { vpc: String, by: Vec<Rule> },
    /// The connection of two VPCs.
    Peering { from: String, to: String },
    /// From node to node.
    Tunnel { from: String, to: String },
}

/// What made a router choose the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// The network is one of the router's own.
    Connected { prefix: IpNet },
    /// A static route.
    Static { by_source: bool, prefix: IpNet, next_hop: IpAddr },
    /// A policy route that lets it pass.
    Allow { priority: u16, matches: String },
    /// A policy route that sends it elsewhere.
    Reroute { priority: u16, matches: String, next_hop: IpAddr },
}

/// How a packet ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Where it was meant to be.
    Arrives,
    /// Before that.
    Stops(Stop),
    /// That cannot be told from the objects; why not.
    Unknown(String),
}

/// Where and why a packet stops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The pod has no route for it.
    PodHasNoRoute {
        pod: String,
        interface: String,
        to: IpAddr,
        gateway: Option<IpAddr>,
        subnet: String,
        isolated: bool,
    },
    /// Both pods have one address.
    SameAddress { pod: String, address: IpAddr },
    /// The answer would leave by an interface that may not send from its address.
    OtherInterface { pod: String, leaves: String, came: String, address: IpAddr },
    /// The next router is nowhere on the switch.
    NoRouter { subnet: String, vpc: Option<String>, gateway: IpAddr },
    /// Nobody on the switch has the address.
    NoSuchNeighbour { subnet: String, address: IpAddr },
    /// Another pod has the address there.
    OtherPod { subnet: String, address: IpAddr, pod: String },
    /// The router has no route for it.
    NoRoute { vpc: String, to: IpAddr, ignored: Vec<String>, home: Home },
    /// A policy route drops it.
    PolicyDrop { vpc: String, priority: u16, matches: String },
    /// The next hop of a route is no one's.
    NextHopNowhere { vpc: String, next_hop: IpAddr },
    /// The subnet is private.
    Private { subnet: String, from: IpAddr },
    /// It goes round and round.
    Loop { vpc: String },
}

/// Where the address is that a router has no route to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Home {
    /// On a switch that is in no VPC.
    Isolated {
        subnet: String,
    },
    /// In another VPC; with the address of that VPC's router, if the two are connected.
    Vpc {
        vpc: String,
        prefix: IpNet,
        peer: Option<IpAddr>,
    },
    Unknown,
}

impl Path {
    /// The switches and routers on the way, as OVN calls them.
    pub(crate) fn datapaths(&self) -> Vec<String> {
        let named = self.hops.iter().filter_map(|hop| match hop {
            Hop::Switch { subnet } => Some(format!("subnet:{subnet}")),
            Hop::Router { vpc, .. } => Some(format!("vpc:{vpc}")),
            Hop::Pod { .. } | Hop::Peering { .. } | Hop::Tunnel { .. } => None,
        });
        named.collect()
    }

    /// The nodes between which it is carried.
    pub(crate) fn tunnel(&self) -> Option<(&str, &str)> {
        self.hops.iter().find_map(|hop| match hop {
            Hop::Tunnel { from, to } => Some((from.as_str(), to.as_str())),
            _ => None,
        })
    }

    /// Whether it ever leaves the pod: of what does not, OVN knows nothing.
    pub(crate) fn leaves_the_pod(&self) -> bool {
        self.hops.iter().any(|hop| matches!(hop, Hop::Switch { .. }))
    }
}

impl fmt::Display for Hop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Hop::Pod { name, interface, address, node, .. } => {
                write!(f, "pod {name} ({address}, {interface}")?;
                node.iter().try_for_each(|node| write!(f, ", {node}"))?;
                f.write_str(")")
            }
            Hop::Switch { subnet } => write!(f, "switch {subnet}"),
            Hop::Router { vpc, .. } => write!(f, "router {vpc}"),
            Hop::Peering { from, to } => write!(f, "peering {from} – {to}"),
            Hop::Tunnel { from, to } => write!(f, "tunnel {from} → {to}"),
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rule::Connected { prefix } => write!(f, "{prefix} is its own"),
            Rule::Static { by_source: false, prefix, next_hop } => {
                write!(f, "static route {prefix} via {next_hop}")
            }
            Rule::Static { by_source: true, prefix, next_hop } => {
                write!(f, "static route from {prefix} via {next_hop}")
            }
            Rule::Allow { priority, matches } => write!(f, "policy route {priority} ({matches}) allows"),
            Rule::Reroute { priority, matches, next_hop } => {
                write!(f, "policy route {priority} ({matches}) reroutes via {next_hop}")
            }
        }
    }
}

impl Stop {
    /// What is to be done about it.
    pub(crate) fn advice(&self) -> String {
        match self {
            Stop::PodHasNoRoute { subnet, isolated: true, .. } => {
                format!("none would help: switch {subnet} is in no VPC, and so only pods on it can be reached")
            }
            Stop::PodHasNoRoute { interface, gateway, .. } => {
                let gateway = gateway.map_or_else(|| "ROUTER".to_owned(), |gateway| gateway.to_string());
                format!(
                    "give the pod a route by {interface}: \"default-route\": [\"{gateway}\"] in its networks annotation, or \
                     spec.routes of the Subnet"
                )
            }
            Stop::SameAddress { .. } => "prefixes that are used twice cannot reach each other; use others".into(),
            Stop::OtherInterface { came, .. } => {
                format!("give the pod a route back by {came}, or address another of its interfaces (--network)")
            }
            Stop::NoRouter { vpc: Some(vpc), .. } => format!("make Vpc {vpc}, which the Subnet names"),
            Stop::NoRouter { subnet, vpc: None, .. } => {
                format!("put both Subnets into one VPC (a Subnet's VPC cannot be changed: make {subnet} anew with spec.vpc)")
            }
            Stop::NoSuchNeighbour { .. } => {
                "if the pod that has this address is on another switch: prefixes that are used twice cannot reach each other"
                    .into()
            }
            Stop::OtherPod { .. } => "prefixes that are used twice cannot reach each other; use others".into(),
            Stop::NoRoute { vpc, ignored, .. } if !ignored.is_empty() => format!(
                "static routes of Vpc {vpc} that would fit lead to no network of its own, and are ignored: {}; correct their \
                 nextHopIP",
                ignored.join(", ")
            ),
            Stop::NoRoute { home: Home::Isolated { subnet }, to, .. } => {
                format!("none would help: {to} is on switch {subnet}, which is in no VPC, so only pods on that switch reach it")
            }
            Stop::NoRoute { vpc, home: Home::Vpc { vpc: other, prefix, peer: Some(peer) }, .. } => format!(
                "{prefix} is in Vpc {other}, which is connected: add {{cidr: {prefix}, nextHopIP: {peer}}} to spec.staticRoutes of Vpc {vpc}"
            ),
            Stop::NoRoute { vpc, home: Home::Vpc { vpc: other, prefix, peer: None }, .. } => format!(
                "{prefix} is in Vpc {other}: connect {vpc} and {other} by spec.vpcPeerings of both, and give both static routes"
            ),
            Stop::NoRoute { vpc, .. } => format!("add a route to spec.staticRoutes of Vpc {vpc}"),
            Stop::PolicyDrop { vpc, priority, .. } => {
                format!("if that is not meant, correct policy route {priority} in spec.policyRoutes of Vpc {vpc}")
            }
            Stop::NextHopNowhere { vpc, .. } => format!("correct nextHopIP in the routes of Vpc {vpc}"),
            Stop::Private { subnet, from } => {
                format!("add a prefix with {from} to spec.allowSubnets of Subnet {subnet}, or make it not private")
            }
            Stop::Loop { .. } => "correct the static routes of the VPCs on the way: they point at each other".into(),
        }
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stop::PodHasNoRoute { pod, to, .. } => write!(f, "pod {pod} has no route to {to}"),
            Stop::SameAddress { pod, address } => {
                write!(f, "pod {pod} itself has {address}, and so never sends to it")
            }
            Stop::OtherInterface { pod, leaves, came, address } => write!(
                f,
                "pod {pod} answers by {leaves}, not by {came} where the packet came: port security drops what {leaves} sends from {address}"
            ),
            Stop::NoRouter { subnet, vpc: None, gateway } => {
                write!(f, "switch {subnet} has no router: nobody is {gateway}, as it is in no VPC")
            }
            Stop::NoRouter { subnet, vpc: Some(vpc), gateway } => {
                write!(f, "switch {subnet} has no router: nobody is {gateway}, as VPC {vpc} does not exist")
            }
            Stop::NoSuchNeighbour { subnet, address } => write!(f, "nobody on switch {subnet} has {address}"),
            Stop::OtherPod { subnet, address, pod } => {
                write!(f, "on switch {subnet}, {address} is the address of another: {pod}")
            }
            Stop::NoRoute { vpc, to, .. } => write!(f, "router {vpc} has no route to {to}"),
            Stop::PolicyDrop { vpc, priority, matches } => {
                write!(f, "router {vpc} drops it by policy route {priority} ({matches})")
            }
            Stop::NextHopNowhere { vpc, next_hop } => {
                write!(f, "nobody is {next_hop}, where router {vpc} sends it")
            }
            Stop::Private { subnet, from } => {
                write!(f, "switch {subnet} is private and does not let {from} in")
            }
            Stop::Loop { vpc } => write!(f, "it goes round and round: it comes to router {vpc} again"),
        }
    }
}

impl Serialize for Hop {
    /// Its parts for programs, and the text that people get.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = self.to_string();
        let shown = match self {
            Hop::Pod { namespace, name, interface, address, node } => json!({"kind": "pod", "text": text,
                "namespace": namespace, "name": name, "interface": interface, "address": address, "node": node}),
            Hop::Switch { subnet } => json!({"kind": "switch", "text": text, "name": subnet}),
            Hop::Router { vpc, by } => {
                let by: Vec<_> = by.iter().map(ToString::to_string).collect();
                json!({"kind": "router", "text": text, "name": vpc, "by": by})
            }
            Hop::Peering { from, to } => json!({"kind": "peering", "text": text, "from": from, "to": to}),
            Hop::Tunnel { from, to } => json!({"kind": "tunnel", "text": text, "from": from, "to": to}),
        };
        shown.serialize(serializer)
    }
}
