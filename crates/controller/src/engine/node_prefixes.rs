//! The prefixes of nodes: they pass the same gate as Subnets, and what was found is said by an annotation of the Node, or by an Event.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1;
use kube::ResourceExt;
use portolan_model::node::POD_CIDRS_ANNOTATION;
use portolan_model::node_subnet::{node_of_subnet, node_subnet, served};
use portolan_model::validate::{node_prefixes, title};
use portolan_model::{FirstInterface, Group, Requester, Unit, Validation, World, doors};
use portolan_watch::Change;

use super::reports::Topic;
use super::subnets::{Candidates, Verdict, join, texts};
use super::{Action, Engine, Subject};

/// The reasons of the Events.
const NOT_USED: &str = "PodCIDRsNotUsed";
const CLASH: &str = "PodCIDRsOverlap";

/// Nodes whose prefixes overlap a Subnet while both are in use, each with that Subnet.
pub(super) type Clashes = BTreeMap<String, String>;

impl Engine {
    /// A subnet came into use, or went: reports the nodes whose prefixes it overlaps, and those whose prefixes it no longer does.
    ///
    /// Prefixes that nobody uses give way to a Subnet that serves all nodes. So of two controllers one may find the prefixes free of clashes,
    /// by lists from before the Subnet was made, and the other the Subnet, by lists from before the Node says that its prefixes are in use.
    pub(super) fn report_clashes_of_unit(&mut self, unit: &Unit) {
        let Unit::Subnet(name) = unit else { return };
        if !self.world.settings().first_interface.is_portolan() {
            return;
        }
        let found = self.world.subnet(name).map(|subnet| self.world.clashes_of(subnet)).unwrap_or_default();
        let subnets = found.iter().map(|(_, other)| other.name.as_str()).chain([name.as_str()]);
        let mut nodes: BTreeSet<String> = subnets.filter_map(node_of_subnet).map(str::to_owned).collect();
        nodes.extend(self.clashes.iter().filter(|(_, other)| *other == name).map(|(node, _)| node.clone()));
        nodes.iter().for_each(|node| self.report_clash(node));
    }

    fn report_clash(&mut self, name: &str) {
        let Some(node) = self.world.node(name) else { return drop(self.clashes.remove(name)) };
        let own = self.world.subnet(&node_subnet(name));
        let found = own.map(|own| self.world.clashes_of(own)).unwrap_or_default();
        let clash = found.first();
        let problems: Vec<_> = clash
            .map(|(net, other)| {
                let message = format!(
                    "spec.podCIDRs overlap {net} of {}, and both are in use, so pods with addresses of both do not reach each other: two controllers \
                     found one of them free of clashes each; delete the Subnet, or the Node, whose prefixes are left alone once its kubelet has made it again",
                    title(other)
                );
                (CLASH, message)
            })
            .into_iter()
            .collect();
        let (uid, clash) = (node.uid.clone(), clash.map(|(_, other)| other.name.clone()));
        let before = match clash {
            Some(other) => self.clashes.insert(name.to_owned(), other),
            None => self.clashes.remove(name),
        };
        if before.is_some() || !problems.is_empty() {
            self.report(Subject::from(&Requester::node(name)), uid, Topic::Clash, problems);
        }
    }

    /// Takes in a change of a Node.
    pub(super) fn observe_prefixes(&mut self, change: &Change<v1::Node>) {
        match change {
            Change::Applied(node) => self.observe_prefixes_of(&node.name_any()),
            Change::Deleted(node) => {
                self.observe_prefixes_of(&node.metadata.name.clone().unwrap_or_default());
            }
            // It stays what it was.
            Change::Unreadable(_) => {}
            Change::Listed(_) => {
                let names: Vec<_> = self.world.nodes().map(|node| node.name.clone()).collect();
                names.iter().for_each(|name| self.observe_prefixes_of(name));
            }
        }
    }

    /// Takes in the Node of this name as the World has it.
    pub(super) fn observe_prefixes_of(&mut self, name: &str) {
        if self.world.settings().first_interface != FirstInterface::Portolan {
            return;
        }
        let node = self.world.node(name);
        self.subnets.put_node(name, node);
        if let Some(node) = node.filter(|node| node.prefixes_validation() == Validation::Current) {
            let uid = node.uid.clone();
            self.report(Subject::from(&Requester::node(name)), uid, Topic::Prefixes, Vec::new());
        }
    }

    /// The API server refuses to write what was found about the prefixes of a Node, and will until somebody acts: the controller lacks a
    /// right, or a rule or webhook of others refuses the object. Nothing else waits for it.
    pub fn prefixes_not_told(&mut self, name: &str, uid: &str, why: &str) {
        let subnet = (Group::Core, node_subnet(name));
        if self.stands_by() || !self.subnets.is_promised(&subnet, uid) {
            return;
        }
        let message = format!(
            "the annotation {POD_CIDRS_ANNOTATION}, without which the node's pods get no addresses, cannot be written: {why}; let the controller \
             patch nodes/status (deploy/controller-rbac.yaml has the rights), or change what refuses it; it is tried again"
        );
        self.report(
            Subject::from(&Requester::node(name)),
            uid.to_owned(),
            Topic::Prefixes,
            vec![(NOT_USED, message)],
        );
    }

    /// What is to be said about the prefixes of a candidate.
    pub(super) fn verdict_of_node(
        &self,
        node: &v1::Node,
        candidates: &Candidates,
        listed: &World,
    ) -> Option<Verdict> {
        let node = doors::node::node(node);
        let (subnet, judged) = ((Group::Core, node_subnet(&node.name)), (node.uid.clone(), None));
        if candidates.get(&subnet) != Some(&judged) || node.prefixes_validation() == Validation::Current {
            return None;
        }
        let found = |world: &World| texts(&node_prefixes(&node, world, |other| self.subnets.counts(other)));
        let errors: BTreeSet<String> = found(listed).into_iter().chain(found(&self.world)).collect();
        Some(Verdict { subnet, judged, errors: join(&errors) })
    }

    /// Says what was found about the prefixes of a Node.
    pub(super) fn judged_node(&mut self, verdict: Verdict) {
        let Verdict { subnet, judged: (uid, _), errors } = verdict;
        let Some(name) = node_of_subnet(&subnet.1).map(str::to_owned) else { return };
        let node = self.world.node(&name).filter(|node| node.uid == uid);
        let Some(Some(cidrs)) = node.map(|node| node.pod_cidrs.clone()) else { return };
        let problems = match cidrs {
            Ok(cidrs) if errors.is_empty() => {
                let (node, uid) = (name.clone(), uid.clone());
                let cidrs = served(cidrs, &uid);
                self.subnets.promise(&subnet, &uid, &cidrs);
                self.actions.push(Action::ServePrefixes { node, uid, cidrs });
                Vec::new()
            }
            Ok(_) | Err(_) => vec![(NOT_USED, errors.clone())],
        };
        if !problems.is_empty() {
            self.subnets.refuse_node(&subnet, errors);
        }
        self.report(Subject::from(&Requester::node(name)), uid, Topic::Prefixes, problems);
    }
}
