//! From what a requester asks for to a [`Request`], with everything that it depends on.

use std::collections::BTreeSet;

use portolan_api::portolan::{Holder, HolderKind};

use super::pods::machine_of;
use super::requests::Topic;
use super::{Name, World};
use crate::attachment::NETWORK_ATTACHMENT_INTERFACE;
use crate::doors::pod::{PodNetworks, VPC_INTERFACE, requested_networks};
use crate::holder;
use crate::node_subnet::node_of_subnet;
use crate::pod::Pod;
use crate::request::{InterfaceRequest, Request, Requester, Wait};
use crate::subnet::Subnet;

impl World {
    pub(super) fn evaluate(&self, requester: &Requester) -> Option<Evaluation<'_>> {
        match requester {
            Requester::Pod { namespace, name } => {
                self.evaluate_pod(self.pods.get(namespace, name)?, requester)
            }
            Requester::NetworkAttachment { namespace, name } => {
                self.evaluate_network_attachment(&(namespace.clone(), name.clone()), requester)
            }
            Requester::Node { name } => self.evaluate_node(name, requester),
            Requester::Subnet { name } => self.evaluate_subnet(name, requester),
            Requester::Vip { name } => self.evaluate_vip(name, requester),
            Requester::VirtualMachine { .. } => None,
        }
    }

    fn evaluate_pod(&self, pod: &Pod, requester: &Requester) -> Option<Evaluation<'_>> {
        let node = pod.node()?;
        if pod.finished || pod.host_network {
            return None;
        }
        let mut evaluation = Evaluation::new(self, requester, node, pod.namespace.to_string());
        evaluation.request.host_ip = pod.place.host_ip.or(evaluation.request.host_ip);
        // Read again each time: kept, it would take more memory than all else that is known of a pod.
        let PodNetworks { interfaces, routes, problems, warnings } = requested_networks(pod);
        (evaluation.request.problems, evaluation.request.warnings) = (problems, warnings);
        if self.settings.first_interface.is_portolan() {
            // Also where there is none: what a pod is called by its namespace must not depend on what it calls its own.
            evaluation.interfaces.insert(VPC_INTERFACE.to_owned());
        }
        for wanted in &interfaces {
            evaluation.resolve(wanted, pod);
        }
        evaluation.add_routes(&routes);
        evaluation.warn_of_unused_annotations(pod);
        // A pod that asks Portolan for nothing is none of its business, whatever it runs.
        if evaluation.concerns_us() {
            evaluation.hold_for(pod);
        }
        Some(evaluation)
    }

    fn evaluate_network_attachment(&self, key: &Name, requester: &Requester) -> Option<Evaluation<'_>> {
        let wanted = self.network_attachments.get(&key.0, &key.1)?;
        let node = wanted.config.as_ref().map_or("", |config| &config.node);
        let mut evaluation = Evaluation::new(self, requester, node, key.0.clone());
        evaluation.request.holder = Holder {
            kind: HolderKind::NetworkAttachment,
            namespace: Some(key.0.clone()),
            name: key.1.clone(),
            uid: wanted.uid.clone(),
            interface: None,
        };
        let config = match &wanted.config {
            Ok(config) => config,
            Err(errors) => {
                evaluation.request.problems.extend(errors.iter().cloned());
                return Some(evaluation);
            }
        };
        if !self.nodes.contains_key(&config.node) {
            evaluation.request.waits.push(Wait::Node(config.node.clone()));
        }
        if evaluation.usable(&config.subnet, "spec.subnet").is_some() {
            evaluation.request.interfaces.push(InterfaceRequest {
                addresses: config.address.map(|pair| pair.addresses().collect()).unwrap_or_default(),
                mac: config.mac,
                path: "spec".to_owned(),
                ..InterfaceRequest::new(NETWORK_ATTACHMENT_INTERFACE, &config.subnet)
            });
        }
        Some(evaluation)
    }

    /// The subnet that is for the pods of a namespace in particular, by name.
    pub(super) fn subnet_of_namespace(&self, namespace: &str) -> Option<&str> {
        let mut named = self.subnet_indexes.by_namespace.get(namespace).map(String::as_str).peekable();
        let first = named.peek().copied();
        let usable = named.find(|name| self.subnet(name).is_some());
        let by_vpc = || {
            let vpcs = self.vpc_indexes.by_namespace.get(namespace).filter_map(|name| self.vpc(name));
            vpcs.filter_map(|vpc| vpc.config.default_subnet.as_deref()).next()
        };
        usable.or(first).or_else(by_vpc)
    }

    /// True if pods of a namespace may have interfaces on a subnet.
    pub fn may_use(&self, subnet: &Subnet, namespace: &str) -> bool {
        let by_vpc = || {
            let mut vpcs = self.vpc_indexes.by_namespace.get(namespace).filter_map(|name| self.vpc(name));
            vpcs.any(|vpc| vpc.config.default_subnet.as_ref() == Some(&subnet.name))
        };
        subnet.allows(namespace) || subnet.config.default || by_vpc()
    }
}

/// A request in the making, with all that it depends on.
pub(super) struct Evaluation<'w> {
    pub(super) world: &'w World,
    pub(super) namespace: String,
    pub(super) request: Request,
    pub(super) topics: BTreeSet<Topic>,
    /// Names of interfaces that are taken, other plugins' included.
    pub(super) interfaces: BTreeSet<String>,
}

impl<'w> Evaluation<'w> {
    pub(super) fn new(world: &'w World, requester: &Requester, node: &str, namespace: String) -> Self {
        let request = Request {
            requester: requester.clone(),
            holder: Holder::default(),
            former: None,
            user: None,
            node: node.to_owned(),
            host_ip: world.node(node).and_then(|node| node.addresses.first().copied()),
            interfaces: Vec::new(),
            problems: Vec::new(),
            waits: Vec::new(),
            warnings: Vec::new(),
        };
        let topics = BTreeSet::from([Topic::Node(node.to_owned())]);
        Self { world, namespace, request, topics, interfaces: BTreeSet::new() }
    }

    pub(super) fn concerns_us(&self) -> bool {
        !self.request.interfaces.is_empty() || !self.request.is_ready()
    }

    /// Settles who holds a pod's addresses.
    fn hold_for(&mut self, pod: &Pod) {
        if let Some(machine) = machine_of(pod) {
            self.topics.insert(Topic::Machine(machine));
        }
        // An address of a node's prefixes cannot follow to another node, so what outlives the pod cannot keep it.
        for interface in &mut self.request.interfaces {
            if node_of_subnet(&interface.subnet).is_some() {
                interface.holder = Some(holder::pod::holder(pod));
            }
        }
        let own: BTreeSet<&str> = self.request.interfaces_of_pod().collect();
        let only_own = !own.is_empty() && own.len() == self.request.interfaces.len();
        let outlives = holder::of_pod(self.world, pod, &own);
        match outlives {
            Ok((holder, _)) if only_own => {
                self.request.former = holder.kind.is_sticky().then_some(holder);
                self.request.holder = holder::pod::holder(pod);
            }
            Err(_) if only_own => self.request.holder = holder::pod::holder(pod),
            Ok((holder, user)) => (self.request.holder, self.request.user) = (holder, user),
            Err(waits) => self.request.waits.extend(waits),
        }
    }
}
