//! Nodes as the World holds them.

use std::net::IpAddr;

use portolan_api::{CidrBlock, FieldErrors};

/// The annotation that names a node's chassis in OVN, where it is not called like the node.
pub const CHASSIS_ANNOTATION: &str = "portolan.dev/chassis";
/// The chassis that a Node has a certificate of, if that is not its own name. Controllers write it.
pub const CERTIFIED_CHASSIS_ANNOTATION: &str = "portolan.dev/certified-chassis";

/// The annotation by which a node's agent says how large a packet of pods may be that fits into the node's tunnels.
pub const TUNNEL_MTU_ANNOTATION: &str = "portolan.dev/tunnel-mtu";
/// The annotation by which the controller tells a node's agent the MTU of pods on subnets that name none.
pub const MTU_ANNOTATION: &str = "portolan.dev/mtu";
/// The annotation by which the controller says which pod prefixes of a node were found free of clashes: those are in use.
pub const POD_CIDRS_ANNOTATION: &str = "portolan.dev/pod-cidrs";
/// The annotation by which a node's agent says whether it makes pods' first interfaces: `true` or `false`.
pub const PRIMARY_ANNOTATION: &str = "portolan.dev/primary";
/// The label that names a node's zone.
pub const ZONE_LABEL: &str = "topology.kubernetes.io/zone";
/// The annotation by which a node's agent says what is wrong with the node.
pub const PROBLEM_ANNOTATION: &str = "portolan.dev/problem";
/// The least MTU that is derived from tunnels while some node has more, and the least that IPv6 allows: one node with a mistake in its
/// network must not bring all others down with it.
pub const LEAST_MTU: u16 = 1280;
/// The least MTU that pods can do with at all: every host takes IPv4 packets of this size.
pub const LEAST_IPV4_MTU: u16 = 576;

/// What a node's agent says of its tunnels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tunnels {
    /// Nothing: no agent has run there.
    #[default]
    Unreported,
    /// They end nowhere yet.
    Nowhere,
    /// Packets of this size fit into them.
    Mtu(u16),
}

/// A machine that runs pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// When it was created, in seconds; never for one that was not.
    pub created: Option<i64>,
    /// The name of its chassis in OVN.
    pub chassis: String,
    /// Its zone, by the label `topology.kubernetes.io/zone`.
    pub zone: Option<String>,
    /// Its internal addresses, as it says them: see [`World::node_addresses`](crate::World::node_addresses) for those that are believed.
    pub addresses: Vec<IpAddr>,
    /// What its agent says of its tunnels.
    pub tunnels: Tunnels,
    /// The MTU that its agent was told.
    pub told_mtu: Option<u16>,
    /// The prefixes that were allocated to it for its pods, if any were.
    pub pod_cidrs: Option<Result<CidrBlock, FieldErrors>>,
    /// Which of them were found free of clashes, and of which Node, in the words of the annotation.
    pub served_cidrs: Option<String>,
    /// Whether its agent makes pods' first interfaces, as that says.
    pub agent_is_primary: Option<bool>,
    /// What is wrong with it, as its agent says.
    pub problem: Option<String>,
}

impl Node {
    /// Whether it was there before another. The same for whoever compares them.
    pub(crate) fn is_older(&self, other: &Node) -> bool {
        let age = |node: &Node| (node.created.unwrap_or(i64::MAX), node.uid.clone());
        age(self) < age(other)
    }

    /// What fits into its tunnels, if that is anything that pods can do with.
    pub(crate) fn tunnel_mtu(&self) -> Option<u16> {
        match self.tunnels {
            Tunnels::Mtu(mtu) => Some(mtu).filter(|mtu| *mtu >= LEAST_IPV4_MTU),
            Tunnels::Unreported | Tunnels::Nowhere => None,
        }
    }

    /// What its pods may have, because it was told so before.
    pub(crate) fn mtu_of_pods(&self) -> Option<u16> {
        self.told_mtu.filter(|mtu| *mtu >= LEAST_IPV4_MTU)
    }
}
