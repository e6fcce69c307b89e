//! Nodes as the World holds them.

use std::net::IpAddr;

/// The annotation that names a node's chassis in OVN, where it is not called like the node.
pub const CHASSIS_ANNOTATION: &str = "portolan.dev/chassis";

/// The annotation by which a node's agent says how large a packet of pods may be that fits into the node's tunnels.
pub const TUNNEL_MTU_ANNOTATION: &str = "portolan.dev/tunnel-mtu";
/// The annotation by which the controller tells a node's agent the MTU of pods on subnets that name none.
pub const MTU_ANNOTATION: &str = "portolan.dev/mtu";
/// The least MTU that is derived from tunnels, and the least that IPv6 allows: one node with a mistake in its network must not
/// bring all others down with it.
pub const LEAST_MTU: u16 = 1280;

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

impl Tunnels {
    /// The size that fits, if pods can do with it.
    pub fn usable_mtu(self) -> Option<u16> {
        match self {
            Tunnels::Mtu(mtu) if mtu >= LEAST_MTU => Some(mtu),
            _ => None,
        }
    }
}

/// A machine that runs pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// The name of its chassis in OVN.
    pub chassis: String,
    /// Its internal addresses; the first is where other nodes send its guests' traffic.
    pub addresses: Vec<IpAddr>,
    /// What its agent says of its tunnels.
    pub tunnels: Tunnels,
    /// The MTU that its agent was told.
    pub told_mtu: Option<u16>,
}
