//! Which of the addresses that Nodes say they have are believed.
//!
//! A kubelet reports what it likes, and the primary network sends the cluster's traffic for an address to the node that has it. So an
//! address counts only if nothing else has it: no subnet of the primary network, and no Node that was there before.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;

use super::World;
use crate::dirty::Dirty;
use crate::node::Node;
use crate::subnet::{DEFAULT_VPC, Subnet};
use crate::unit::Unit;
use crate::validate::title;

/// Why an address that a Node reports is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeAddressProblem {
    /// It is none that other nodes could reach it by.
    Unreachable,
    /// Pods have addresses of this prefix.
    OfSubnet {
        /// The prefix.
        prefix: IpNet,
        /// Whose it is, in words.
        of: String,
    },
    /// A Node that was there before reports it too.
    OfNode {
        /// That Node.
        node: String,
    },
}

impl fmt::Display for NodeAddressProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NodeAddressProblem::Unreachable => f.write_str(
                "is loopback, link-local, multicast or unspecified; pods cannot reach the node by it",
            ),
            NodeAddressProblem::OfSubnet { prefix, of } => {
                write!(
                    f,
                    "is in {prefix} of {of}, and belongs to pods; give the node another address, or remove what has the prefix"
                )
            }
            NodeAddressProblem::OfNode { node } => {
                write!(
                    f,
                    "is an address of Node {node}, which was there before; give this node another address, or delete that Node if it is gone"
                )
            }
        }
    }
}

impl World {
    /// The addresses of a Node that are believed.
    pub fn node_addresses(&self, node: &Node) -> Vec<IpAddr> {
        let believed = |address: &&IpAddr| self.node_address_problem(node, **address).is_none();
        node.addresses.iter().filter(believed).copied().collect()
    }

    /// The addresses that a Node reports and that are not used, and why.
    pub fn node_address_problems<'w>(
        &'w self,
        node: &'w Node,
    ) -> impl Iterator<Item = (IpAddr, NodeAddressProblem)> + 'w {
        let problem = |address: &IpAddr| Some((*address, self.node_address_problem(node, *address)?));
        node.addresses.iter().filter_map(problem)
    }

    fn node_address_problem(&self, node: &Node, address: IpAddr) -> Option<NodeAddressProblem> {
        if !is_reachable(address) {
            return Some(NodeAddressProblem::Unreachable);
        }
        let older = self.node_indexes.by_address.get(&address).filter_map(|name| self.nodes.get(name));
        let mut older = older.filter(|other| other.name != node.name && other.is_older(node));
        if let Some(other) = older.next() {
            return Some(NodeAddressProblem::OfNode { node: other.name.clone() });
        }
        let (prefix, subnet) = self.primary_subnets_at(address.into()).next()?;
        Some(NodeAddressProblem::OfSubnet { prefix, of: title(subnet) })
    }

    /// The subnets of the primary network in effect that have addresses of a prefix, each with which of its own.
    pub(super) fn primary_subnets_at(&self, net: IpNet) -> impl Iterator<Item = (IpNet, &Subnet)> {
        let found = self.subnet_indexes.primary_prefixes.overlapping(net);
        found.filter_map(|(prefix, name)| Some((prefix, self.subnet(name)?)))
    }

    /// The Nodes that are believed to have an address in a prefix.
    pub(crate) fn nodes_within(&self, prefix: IpNet) -> impl Iterator<Item = (IpAddr, &Node)> {
        self.node_indexes.by_address.range(prefix.network()..=prefix.broadcast()).flat_map(
            move |(address, names)| {
                let nodes = names.iter().filter_map(|name| self.nodes.get(name));
                nodes.filter(|_| is_reachable(*address)).map(|node| (*address, node))
            },
        )
    }

    /// Keeps the index of addresses, for the primary network alone; and what other Nodes are believed follows from it.
    pub(super) fn index_node_addresses(&mut self, old: Option<&Node>, new: Option<&Node>, dirty: &mut Dirty) {
        if self.primary_vpc.is_none() {
            return;
        }
        let of = |node: Option<&Node>| -> BTreeSet<IpAddr> {
            node.into_iter().flat_map(|node| node.addresses.iter().copied()).collect()
        };
        let (before, after) = (of(old), of(new));
        let is_another = old.map(|node| &node.uid) != new.map(|node| &node.uid);
        if before == after && !is_another {
            return;
        }
        if let Some(old) = old {
            before.iter().for_each(|address| self.node_indexes.by_address.remove(address, &old.name));
        }
        if let Some(new) = new {
            after.iter().for_each(|address| self.node_indexes.by_address.insert(*address, new.name.clone()));
        }
        for address in before.union(&after) {
            dirty.units.extend(self.node_indexes.by_address.get(address).cloned().map(Unit::Node));
        }
    }

    /// A subnet came into effect, or went: what Nodes are believed may follow from it.
    pub(super) fn note_nodes_within(&self, subnet: &Subnet, dirty: &mut Dirty) {
        if self.primary_vpc.is_none() || subnet.vpc() != Some(DEFAULT_VPC) {
            return;
        }
        for prefix in subnet.config.cidr.nets() {
            dirty.units.extend(self.nodes_within(prefix).map(|(_, node)| Unit::Node(node.name.clone())));
        }
    }
}

fn is_reachable(address: IpAddr) -> bool {
    let is_link_local = match address {
        IpAddr::V4(v4) => v4.is_link_local() || v4.is_broadcast(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    };
    !(is_link_local || address.is_loopback() || address.is_unspecified() || address.is_multicast())
}
