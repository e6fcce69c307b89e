//! Namespaces on the primary network: which Subnets are for their pods, the one of the first interface and the one of the tenant's VPC.
//!
//! | the pod's | is on | chosen by, in this order |
//! |---|---|---|
//! | `eth0` | a Subnet of the primary network's VPC, or the prefixes of its node | the pod's annotation, its namespace, `spec.default`, its node |
//! | `vpc0`, if there is a choice | a Subnet of another VPC | the pod's annotation, its namespace |
//!
//! A pod that names a Subnet of the primary network, or another network for its first interface, has chosen for itself: it gets no `vpc0`.

use std::collections::BTreeSet;
use std::fmt;

use ipnet::IpNet;
use portolan_api::pod_annotations::{self, parse_interface_request};
use portolan_api::{Provider, Reason};

use super::World;
use super::evaluation::Evaluation;
use super::requests::Topic;
use crate::dirty::Dirty;
use crate::doors::pod::{RequestedInterface, RequestedNetwork, VPC_INTERFACE};
use crate::pod::{Pod, PodController};
use crate::request::{InterfaceRequest, Requester, Wait};
use crate::subnet::{DEFAULT_VPC, Subnet};
use crate::unit::Unit;
use crate::validate::title;

/// What is wrong with a Subnet as one for the pods of namespaces.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TenantProblem {
    /// Another Subnet is for the pods of a namespace that it names.
    OtherServes {
        /// The namespace.
        namespace: String,
        /// The other Subnet.
        subnet: String,
    },
    /// It has addresses of the cluster's own networks.
    Overlap {
        /// Which of its prefixes.
        net: IpNet,
        /// The other one.
        with: IpNet,
        /// Whose that is, in words.
        of: String,
        /// The unit that has it, unless the operator named it.
        unit: Option<Unit>,
    },
}

impl fmt::Display for TenantProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TenantProblem::OtherServes { namespace, subnet } => write!(
                f,
                "Subnet {subnet} names namespace {namespace} too and was made before, so its pods are on that one; remove the namespace from one of the two"
            ),
            TenantProblem::Overlap { with, of, .. } => write!(
                f,
                "overlaps {with} of {of}, by which the pods of its namespaces reach probes, DNS and Services; choose another prefix"
            ),
        }
    }
}

/// The Subnets for the pods of a namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct OfNamespace<'w> {
    /// For their first interfaces.
    pub(super) first: Option<&'w str>,
    /// For those in a tenant's VPC.
    pub(super) tenant: Option<&'w str>,
}

impl World {
    /// The Subnets for the pods of a namespace. Of several for one interface, one that is in effect has precedence, then the one that was made
    /// before, then the name; and any that names the namespace has precedence over a VPC that does.
    pub(super) fn subnets_of_namespace(&self, namespace: &str) -> OfNamespace<'_> {
        let mut named: Vec<&str> = self.naming(namespace).collect();
        named.sort_by_key(|name| (self.subnet(name).is_none(), self.made(name), *name));
        let is_of_tenant = |name: &str| self.known_subnet(name).is_some_and(Subnet::is_of_tenant);
        let vpcs = self.vpc_indexes.by_namespace.get(namespace).filter_map(|name| self.vpc(name));
        let by_vpc: Vec<_> = vpcs
            .filter_map(|vpc| {
                let subnet = vpc.config.default_subnet.as_deref()?;
                // One that does not exist yet will be of this VPC.
                let is_of_tenant = match self.known_subnet(subnet) {
                    Some(subnet) => subnet.is_of_tenant(),
                    None => vpc.name != DEFAULT_VPC,
                };
                Some((subnet, is_of_tenant))
            })
            .collect();
        let find = |tenant: bool| {
            let by_name = named.iter().copied().find(|name| is_of_tenant(name) == tenant);
            by_name.or_else(|| by_vpc.iter().find(|(_, of)| *of == tenant).map(|(name, _)| *name))
        };
        OfNamespace { first: find(false), tenant: find(true) }
    }

    /// What the pods of a namespace wait for if the VPC that would give it a Subnet cannot be understood. A Subnet of that VPC says by its
    /// conditions why it is not used.
    fn held_vpc_of(&self, namespace: &str) -> Option<Wait> {
        let vpc = self.vpc_indexes.held_by_namespace.get(namespace).next()?;
        Some(match self.subnet_indexes.by_vpc.get(vpc).next() {
            Some(subnet) => Wait::Validated(subnet.clone()),
            None => Wait::DefaultSubnet { namespace: namespace.to_owned() },
        })
    }

    /// The Subnets that name a namespace for the interfaces which its pods have by that alone.
    fn naming(&self, namespace: &str) -> impl Iterator<Item = &str> {
        let named = self.subnet_indexes.by_namespace.get(namespace).map(String::as_str);
        named.filter(|name| self.known_subnet(name).is_some_and(Subnet::is_for_namespaces))
    }

    /// When the object of a subnet was made; never, if nobody knows.
    fn made(&self, name: &str) -> i64 {
        let candidate = self.subnets.get(name).and_then(|rivals| rivals.effective());
        candidate.and_then(|candidate| candidate.meta.created).unwrap_or(i64::MAX)
    }

    /// What is wrong with a Subnet of a tenant's VPC that is for the pods of namespaces; also of one that is not in the World as it is here.
    pub fn tenant_problems(&self, subnet: &Subnet) -> Vec<TenantProblem> {
        if self.primary_vpc.is_none() || !self.is_of_pods(subnet) {
            return Vec::new();
        }
        let mut problems = Vec::new();
        for namespace in &subnet.config.namespaces {
            let serves = self.subnets_of_namespace(namespace).tenant.filter(|name| *name != subnet.name);
            let other = serves.and_then(|name| self.known_subnet(name));
            let other = other.filter(|other| other.config.namespaces.contains(namespace));
            problems.extend(other.map(|other| TenantProblem::OtherServes {
                namespace: namespace.clone(),
                subnet: other.name.clone(),
            }));
        }
        for net in subnet.config.cidr.nets() {
            let overlap = self.overlap_of_cluster(net);
            problems.extend(overlap.map(|(with, of, unit)| TenantProblem::Overlap { net, with, of, unit }));
        }
        problems
    }

    /// Whether pods are on a Subnet of a tenant's VPC because of their namespaces.
    fn is_of_pods(&self, subnet: &Subnet) -> bool {
        let by_vpc = || {
            let vpc = subnet.vpc().and_then(|vpc| self.vpc(vpc)).map(|vpc| &vpc.config);
            vpc.is_some_and(|vpc| {
                !vpc.namespaces.is_empty() && vpc.default_subnet.as_ref() == Some(&subnet.name)
            })
        };
        let by_name = || subnet.is_for_namespaces() && !subnet.config.namespaces.is_empty();
        subnet.is_of_tenant() && (by_name() || by_vpc())
    }

    /// A network of the cluster's own that a prefix overlaps, and whose it is.
    fn overlap_of_cluster(&self, net: IpNet) -> Option<(IpNet, String, Option<Unit>)> {
        let given = self.cluster_networks.iter().find(|other| overlap(&net, other));
        if let Some(other) = given {
            return Some((*other, "the cluster (--cluster-network)".to_owned(), None));
        }
        if let Some((other, subnet)) = self.primary_subnets_at(net).next() {
            return Some((other, title(subnet), Some(Unit::Subnet(subnet.name.clone()))));
        }
        let (address, node) = self.nodes_within(net).next()?;
        let of = format!("Node {}, an address of its own", node.name);
        Some((IpNet::from(address), of, Some(Unit::Node(node.name.clone()))))
    }

    /// The Subnets of tenants' VPCs that name a namespace which this one names, and this one, by name.
    pub fn rivals_for_namespaces(&self, subnet: &str) -> Vec<&Subnet> {
        let Some(subnet) = self.known_subnet(subnet) else { return Vec::new() };
        let mut names: Vec<&str> =
            subnet.config.namespaces.iter().flat_map(|namespace| self.naming(namespace)).collect();
        names.sort_unstable();
        names.dedup();
        names
            .into_iter()
            .filter_map(|name| self.known_subnet(name))
            .filter(|one| one.is_of_tenant())
            .collect()
    }

    /// The Subnets of tenants' VPCs that have addresses of a prefix, on the primary network.
    pub fn tenants_within(&self, net: IpNet) -> impl Iterator<Item = &Subnet> {
        self.subnet_indexes.tenant_prefixes.overlapping(net).filter_map(|(_, name)| self.known_subnet(name))
    }

    /// The Subnet of a tenant's VPC that a pod should be on and is not, though it is not older than the Subnet: its interfaces were decided
    /// before the Subnet was seen here to be for its namespace. A pod that is older stays where it is: nobody meant it.
    pub fn tenant_without(&self, namespace: &str, pod: &str) -> Option<&Subnet> {
        self.primary_vpc.as_ref()?;
        let subnet = self.subnet(self.subnets_of_namespace(namespace).tenant?)?;
        let pod = self.pod(namespace, pod).filter(|pod| pod.created >= self.made(&subnet.name))?;
        let requester = Requester::pod(namespace, pod.name.as_str());
        let current = self.held_for(&requester).filter(|id| self.is_current(&requester, id));
        let mut locks = current.flat_map(|id| self.held_locks(id).counted).peekable();
        // Nothing was decided yet.
        locks.peek()?;
        if locks.flat_map(|lock| lock.interfaces.iter()).any(|one| one.interface == VPC_INTERFACE) {
            return None;
        }
        // It may have chosen otherwise.
        let asked = self.request(&requester)?.interfaces;
        let would = |one: &InterfaceRequest| one.interface == VPC_INTERFACE && one.subnet == subnet.name;
        asked.iter().any(would).then_some(subnet)
    }

    /// The namespaces for whose pods a Subnet is, by its own word or its VPC's.
    pub fn namespaces_of(&self, subnet: &Subnet) -> BTreeSet<String> {
        let vpc = subnet.vpc().and_then(|vpc| self.vpc(vpc)).map(|vpc| &vpc.config);
        let by_vpc = vpc.filter(|vpc| vpc.default_subnet.as_ref() == Some(&subnet.name));
        let own = subnet.config.namespaces.iter().filter(|_| subnet.is_for_namespaces());
        own.chain(by_vpc.into_iter().flat_map(|vpc| &vpc.namespaces)).cloned().collect()
    }

    /// Says whether VPCs and Subnets may be there that are not here. Then nobody knows of a namespace that it is no tenant's, and new pods
    /// of those that seem so wait.
    pub fn set_networks_behind(&mut self, behind: bool) -> Dirty {
        let mut dirty = Dirty::default();
        if std::mem::replace(&mut self.networks_are_behind, behind) != behind {
            self.publish(&[Topic::Networks], &mut dirty);
        }
        dirty
    }

    /// Whether VPCs and Subnets may be there that are not here.
    pub fn networks_are_behind(&self) -> bool {
        self.networks_are_behind
    }

    /// Networks of the cluster, as far as the operator says, which tenants must not have addresses of.
    pub fn set_cluster_networks(&mut self, networks: Vec<IpNet>) {
        self.cluster_networks = networks;
    }

    /// The networks of the primary network's pods, as far as is known here.
    pub fn networks_of_primary(&self) -> Vec<IpNet> {
        if self.primary_vpc.is_none() {
            return Vec::new();
        }
        self.subnets_of_vpc(DEFAULT_VPC).flat_map(|subnet| subnet.config.cidr.nets()).collect()
    }
}

impl Evaluation<'_> {
    /// The pod's first interface, and the one in the VPC that its namespace or the pod itself chose.
    pub(super) fn resolve_first(&mut self, wanted: &RequestedInterface, pod: &Pod) {
        self.interfaces.insert(wanted.interface.clone());
        self.depend_on_subnets_of_namespace();
        let asked =
            |interface: &str| parse_interface_request(&pod.annotations, &Provider::Default, Some(interface));
        let (first, in_vpc) = match (asked(&wanted.interface), asked(VPC_INTERFACE)) {
            (Ok(first), Ok(in_vpc)) => (first, in_vpc),
            (Err(errors), _) | (_, Err(errors)) => {
                self.request.problems.extend(errors);
                return;
            }
        };
        match self.subnet_in_vpc(first.subnet.as_deref(), in_vpc.subnet.as_deref()) {
            Choice::None => self.place_first(wanted, first, Some(Provider::Default)),
            Choice::Subnet { subnet, path } => {
                // What Kube-OVN's annotations say is about the interface in the VPC, as its users mean it.
                self.place_first(wanted, pod_annotations::InterfaceRequest::default(), None);
                self.place_in_vpc(&subnet, &path, in_vpc, pod);
            }
            Choice::Unknown => {}
        }
    }

    fn depend_on_subnets_of_namespace(&mut self) {
        let world = self.world;
        let vpcs = world.vpc_indexes.by_namespace.get(&self.namespace).filter_map(|name| world.vpc(name));
        let of_vpcs = vpcs.filter_map(|vpc| vpc.config.default_subnet.clone());
        let named = world.subnet_indexes.by_namespace.get(&self.namespace).cloned();
        let held = world.subnet_indexes.held_by_namespace.get(&self.namespace).cloned();
        self.topics.extend([Topic::Namespace(self.namespace.clone()), Topic::Networks]);
        self.topics.extend(named.chain(of_vpcs).chain(held).map(Topic::Subnet));
    }

    /// The Subnet of a tenant's VPC for a pod: one that the pod names, as its only one or for that interface; or that of its namespace.
    fn subnet_in_vpc(&mut self, first: Option<&str>, in_vpc: Option<&str>) -> Choice {
        let world = self.world;
        let is_of_tenant = |name: &str| world.known_subnet(name).is_some_and(Subnet::is_of_tenant);
        if let Some(named) = in_vpc {
            let path = "metadata.annotations[ovn.kubernetes.io/logical_switch]".to_owned();
            self.topics.insert(Topic::Subnet(named.to_owned()));
            if is_of_tenant(named) {
                return Choice::Subnet { subnet: named.to_owned(), path };
            }
            if first == Some(named) {
                return Choice::None;
            }
            let path = format!("metadata.annotations[ovn.{VPC_INTERFACE}.kubernetes.io/logical_switch]");
            if world.known_subnet(named).is_none() {
                return Choice::Subnet { subnet: named.to_owned(), path };
            }
            let message = "is a Subnet of no tenant's VPC; name one that is, or use ovn.kubernetes.io/logical_switch for the first interface";
            self.problem(&path, Some(named), Reason::Invalid, message.to_owned());
            return Choice::Unknown;
        }
        match world.subnets_of_namespace(&self.namespace).tenant {
            Some(name) => Choice::Subnet { subnet: name.to_owned(), path: "metadata.namespace".to_owned() },
            // What has everything that was decided for it needs no answer: whatever is wrong now, it has nothing to wait for.
            None if world.is_satisfied(&self.request.requester) => Choice::None,
            // Without it the pods would be outside of the VPC.
            None => {
                let held = world
                    .subnet_indexes
                    .held_by_namespace
                    .get(&self.namespace)
                    .next()
                    .cloned()
                    .map(Wait::Corrected);
                let held = held.or_else(|| world.held_vpc_of(&self.namespace));
                let namespace = || self.namespace.clone();
                let behind = || world.networks_are_behind.then(|| Wait::Networks { namespace: namespace() });
                match held.or_else(behind) {
                    Some(wait) => {
                        self.request.waits.push(wait);
                        Choice::Unknown
                    }
                    None => Choice::None,
                }
            }
        }
    }

    fn place_first(
        &mut self,
        wanted: &RequestedInterface,
        asked: pod_annotations::InterfaceRequest,
        provider: Option<Provider>,
    ) {
        let found = self.subnet_of(&Provider::Default, wanted, asked.subnet.as_deref());
        let Some(subnet) = found else { return };
        if self.usable(&subnet, &wanted.path).is_some() {
            let request = self.interface(wanted, asked, subnet, provider, Vec::new());
            self.request.interfaces.extend(request);
        }
    }

    fn place_in_vpc(
        &mut self,
        subnet: &str,
        path: &str,
        asked: pod_annotations::InterfaceRequest,
        pod: &Pod,
    ) {
        if self.usable(subnet, path).is_none() {
            return;
        }
        let wanted = RequestedInterface {
            interface: VPC_INTERFACE.to_owned(),
            network: RequestedNetwork::Subnet(subnet.to_owned()),
            addresses: Vec::new(),
            prefixes: Vec::new(),
            mac: None,
            default_route: None,
            routes: Vec::new(),
            path: path.to_owned(),
        };
        let is_way_out = asked.default_route != Some(false);
        let request = self.interface(&wanted, asked, subnet.to_owned(), Some(Provider::Default), Vec::new());
        let Some(mut request) = request else { return };
        request.is_way_out = is_way_out;
        // The guest of a machine has no address of this interface; that a machine migrates must not wait for it.
        if matches!(pod.controller, PodController::VirtualMachine(_)) {
            request.holder = Some(crate::holder::pod::holder(pod));
        }
        self.request.interfaces.push(request);
    }
}

/// Which Subnet of a tenant's VPC a pod is on.
enum Choice {
    /// None.
    None,
    /// This one, which was chosen there.
    Subnet { subnet: String, path: String },
    /// It cannot be said yet; why is noted.
    Unknown,
}

fn overlap(a: &IpNet, b: &IpNet) -> bool {
    a.contains(&b.network()) || b.contains(&a.network())
}
