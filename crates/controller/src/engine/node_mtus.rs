//! The MTU of pods, which agents are told by an annotation of their Nodes.
//!
//! It is one for the whole cluster: what the controller was started with, or else what fits into the tunnels of every node. Agents
//! follow their own Nodes only, so that somebody has to tell them of the others.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use portolan_model::node::Tunnels;
use portolan_watch::Change;

use super::{Action, Engine};

/// Which Nodes are to be compared with what they should say.
#[derive(Debug, Default)]
pub(super) struct NodeMtus {
    /// What they should say, as of the last comparison.
    decided: Option<u16>,
    to_compare: BTreeSet<String>,
}

impl NodeMtus {
    /// Nothing is to be compared until everything is.
    pub(super) fn forget_comparisons(&mut self) {
        *self = Self::default();
    }
}

impl Engine {
    /// Takes in a change of a Node.
    pub(super) fn observe_node_mtu(&mut self, change: &Change<Node>) {
        match change {
            Change::Applied(node) => drop(self.node_mtus.to_compare.insert(node.name_any())),
            Change::Listed(_) => self.compare_all_node_mtus(),
            Change::Unreadable(_) | Change::Deleted(_) => {}
        }
    }

    /// Everything is compared again.
    pub(super) fn compare_all_node_mtus(&mut self) {
        self.node_mtus.to_compare = self.world.nodes().map(|node| node.name.clone()).collect();
    }

    /// Asks for what differs. What was asked for and has not been seen is asked for again when its Node changes: writing the same
    /// twice changes nothing.
    pub(super) fn compare_node_mtus(&mut self) {
        // What was told does not rise by itself, so nobody is told a guess.
        let Some(mtu) = self.plan_settings.mtu.or_else(|| self.world.tunnel_mtu()) else {
            self.node_mtus = NodeMtus::default();
            return;
        };
        if self.node_mtus.decided.replace(mtu) != Some(mtu) {
            self.compare_all_node_mtus();
        }
        for name in std::mem::take(&mut self.node_mtus.to_compare) {
            let Some(node) = self.world.node(&name) else { continue };
            // A node that has not said what fits into its tunnels may be the one with the smallest: unless the size is given, it waits.
            let waits = node.tunnels == Tunnels::Unreported && self.plan_settings.mtu.is_none();
            if waits || node.told_mtu == Some(mtu) {
                continue;
            }
            self.actions.push(Action::TellMtu { node: name, mtu });
        }
    }
}
