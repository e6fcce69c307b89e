//! Nodes as the World holds them.

use std::net::IpAddr;

/// The annotation that names a node's chassis in OVN, where it is not called like the node.
pub const CHASSIS_ANNOTATION: &str = "portolan.dev/chassis";

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
}
