//! The prefixes of nodes: they pass the same gate as Subnets, and what was found is said by an annotation of the Node, or by an Event.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1;
use kube::ResourceExt;
use portolan_model::node::POD_CIDRS_ANNOTATION;
use portolan_model::node_subnet::{node_of_subnet, node_subnet, served};
use portolan_model::validate::node_prefixes;
use portolan_model::{FirstInterface, Group, Requester, Validation, World, doors};
use portolan_watch::Change;

use super::reports::Topic;
use super::subnets::{Candidates, Verdict, join, texts};
use super::{Action, Engine, Subject};

/// The reason of the Event.
const NOT_USED: &str = "PodCIDRsNotUsed";

impl Engine {
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
