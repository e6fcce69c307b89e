//! Which node has which chassis, for whoever compares that with OVN.

use std::collections::BTreeMap;

use super::Engine;

/// The node that a chassis is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeOfChassis {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

/// Nodes by the names of their chassis.
pub type NodesByChassis = BTreeMap<String, NodeOfChassis>;

impl Engine {
    /// All nodes, if one of them may have changed since this was asked last and every kind was listed.
    pub fn take_nodes(&mut self) -> Option<NodesByChassis> {
        if !self.is_synced() || !std::mem::take(&mut self.nodes_changed) {
            return None;
        }
        let nodes = self.world.nodes().map(|node| {
            (node.chassis.clone(), NodeOfChassis { name: node.name.clone(), uid: node.uid.clone() })
        });
        Some(nodes.collect())
    }
}
