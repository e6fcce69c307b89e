//! Subnets of tenants' VPCs for the pods of namespaces: an Event of the Subnet says what is wrong with it as one, and an Event of a pod that
//! it is not on the one of its namespace.
//!
//! What stands in the way of a Subnet that is not in effect yet, its condition `Validated` says. This is about what comes later: a second
//! Subnet for the same namespace, a node within its prefix, a pod that was decided before the Subnet was seen.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;
use portolan_api::portolan::HolderKind;
use portolan_model::subnet::DEFAULT_VPC;
use portolan_model::{AttachmentId, Group, Requester, Subnet, TenantProblem, Unit};

use super::northbound::Evidence;
use super::reports::{Problem, Topic};
use super::{Engine, Subject};

/// The reasons of the Events.
const NOT_SERVED: &str = "NamespaceNotServed";
const OVERLAPS: &str = "OverlapsCluster";
const OUTSIDE: &str = "OutsideVpc";

/// What is reported about Subnets for namespaces.
#[derive(Debug, Default)]
pub(super) struct Tenants {
    /// Subnets about which something is reported, each with the units that it is about.
    troubled: BTreeMap<String, BTreeSet<Unit>>,
    /// Pods that are told that they are not on the Subnet of their namespace, by namespace and name, each with that Subnet.
    outside: BTreeMap<(String, String), String>,
}

impl Engine {
    /// Networks of the cluster, as far as the operator says: tenants that the cluster's own network serves too must not have addresses of them.
    pub fn set_cluster_networks(&mut self, networks: Vec<IpNet>) {
        self.world.set_cluster_networks(networks);
    }

    /// Says whether VPCs and Subnets are followed without a gap, as far as is known. While they are not, nobody knows of a namespace that it
    /// is no tenant's.
    pub fn set_networks_behind(&mut self, behind: bool) {
        let dirty = self.world.set_networks_behind(behind);
        self.note(dirty, &Evidence::Event(BTreeSet::new()));
    }

    /// A unit changed: so may have what is wrong with Subnets for namespaces.
    pub(super) fn report_tenants_of_unit(&mut self, unit: &Unit) {
        // What is not listed yet may be what serves a namespace.
        if !self.is_synced() || !self.world.settings().first_interface.is_portolan() {
            return;
        }
        let mut concerned = BTreeSet::new();
        match unit {
            Unit::Subnet(name) => {
                concerned.insert(name.clone());
                concerned
                    .extend(self.world.rivals_for_namespaces(name).into_iter().map(|one| one.name.clone()));
                let of_primary = self.world.subnet(name).filter(|subnet| subnet.vpc() == Some(DEFAULT_VPC));
                let nets: Vec<_> =
                    of_primary.into_iter().flat_map(|subnet| subnet.config.cidr.nets()).collect();
                self.add_tenants_within(nets, &mut concerned);
                self.report_pods_of_tenant(name);
            }
            Unit::Node(name) => {
                let addresses = self.world.node(name).map(|node| node.addresses.clone()).unwrap_or_default();
                self.add_tenants_within(addresses.into_iter().map(IpNet::from), &mut concerned);
            }
            Unit::Vpc(name) => {
                let subnets = self.world.subnets_of_vpc(name).filter(|subnet| subnet.is_of_tenant());
                concerned.extend(subnets.map(|subnet| subnet.name.clone()));
                concerned.iter().for_each(|subnet| self.report_pods_of_tenant(subnet));
            }
            Unit::Attachment(id) => return self.report_pod_of(id),
            Unit::Peering(_) | Unit::Chassis(_) | Unit::Service { .. } => return,
        }
        let about = self.tenants.troubled.iter().filter(|(_, units)| units.contains(unit));
        concerned.extend(about.map(|(name, _)| name.clone()));
        concerned.iter().for_each(|name| self.report_tenant(name));
    }

    /// Everything was listed.
    pub(super) fn report_all_tenants(&mut self) {
        let names: Vec<_> =
            self.world.subnets().filter(|one| one.is_of_tenant()).map(|one| one.name.clone()).collect();
        for name in &names {
            self.report_tenant(name);
            self.report_pods_of_tenant(name);
        }
    }

    fn add_tenants_within(&self, nets: impl IntoIterator<Item = IpNet>, concerned: &mut BTreeSet<String>) {
        for net in nets {
            concerned.extend(self.world.tenants_within(net).map(|subnet| subnet.name.clone()));
        }
    }

    fn report_tenant(&mut self, name: &str) {
        let Some(subnet) = self.world.subnet(name) else {
            // What was said of one that is out of effect for now is looked at again when it is back.
            if self.world.known_subnet(name).is_none() {
                self.tenants.troubled.remove(name);
            }
            return;
        };
        let found = self.world.tenant_problems(subnet);
        let problems: Vec<Problem> = found.iter().map(problem).collect();
        if problems.is_empty() && self.tenants.troubled.remove(name).is_none() {
            return;
        }
        if !problems.is_empty() {
            let units = found.iter().filter_map(cause).collect();
            self.tenants.troubled.insert(name.to_owned(), units);
        }
        let (subject, uid) = (subject(subnet), subnet.uid.clone());
        self.report(subject, uid, Topic::Tenants, problems);
    }

    /// Reports the pods that should be on a Subnet of a tenant's and are not, and those that no longer should.
    fn report_pods_of_tenant(&mut self, name: &str) {
        let subnet = self.world.subnet(name).filter(|subnet| subnet.is_of_tenant());
        let namespaces = subnet.map(|subnet| self.world.namespaces_of(subnet)).unwrap_or_default();
        let theirs = namespaces.iter().flat_map(|namespace| self.world.pods_of_namespace(namespace));
        let theirs = theirs.map(|pod| (pod.namespace.to_string(), pod.name.to_string()));
        let told = self.tenants.outside.iter().filter(|(_, of)| *of == name).map(|(pod, _)| pod.clone());
        let pods: BTreeSet<_> = theirs.chain(told).collect();
        pods.iter().for_each(|pod| self.report_pod(pod));
    }

    /// An attachment changed: its pod may have been decided before the Subnet of its namespace was seen.
    fn report_pod_of(&mut self, id: &AttachmentId) {
        if matches!(id.kind(), HolderKind::Pod | HolderKind::StatefulSet) {
            let namespace = id.namespace().unwrap_or_default().to_owned();
            self.report_pod(&(namespace, id.name().to_owned()));
        }
    }

    fn report_pod(&mut self, pod: &(String, String)) {
        let (namespace, name) = (pod.0.as_str(), pod.1.as_str());
        let tenant = self.world.tenant_without(namespace, name);
        let problems = tenant.map(|subnet| (OUTSIDE, outside(subnet, namespace))).into_iter().collect();
        let before = match tenant.map(|subnet| subnet.name.clone()) {
            Some(subnet) => self.tenants.outside.insert(pod.clone(), subnet),
            None => self.tenants.outside.remove(pod),
        };
        let is_told = before.is_some() || self.tenants.outside.contains_key(pod);
        let (requester, uid) = (
            Requester::pod(pod.0.as_str(), pod.1.as_str()),
            self.world.pod(&pod.0, &pod.1).map(|pod| pod.uid.to_string()),
        );
        if let Some(uid) = uid.filter(|_| is_told) {
            self.report(Subject::from(&requester), uid, Topic::Tenants, problems);
        }
    }
}

fn outside(subnet: &Subnet, namespace: &str) -> String {
    format!(
        "the pod has no interface in VPC {}: it was given its addresses before it was known that Subnet {} is for the pods of namespace {namespace}; \
         delete it, so that it is made again in the VPC",
        subnet.vpc().unwrap_or_default(),
        subnet.name
    )
}

/// The unit whose change may end a problem.
fn cause(problem: &TenantProblem) -> Option<Unit> {
    match problem {
        TenantProblem::OtherServes { subnet, .. } => Some(Unit::Subnet(subnet.clone())),
        TenantProblem::Overlap { unit, .. } => unit.clone(),
    }
}

fn problem(problem: &TenantProblem) -> Problem {
    match problem {
        TenantProblem::OtherServes { namespace, .. } => {
            (NOT_SERVED, format!("spec.namespaces: {namespace:?} {problem}"))
        }
        TenantProblem::Overlap { net, .. } => (OVERLAPS, format!("spec.cidrBlock: {net} {problem}")),
    }
}

fn subject(subnet: &Subnet) -> Subject {
    let mut subject = Subject::from(&Requester::subnet(subnet.name.as_str()));
    if subnet.group == Group::KubeOvn {
        subject.api_version = "kubeovn.io/v1".to_owned();
    }
    subject
}
