//! Subnets of tenants' VPCs for the pods of namespaces: an Event of the Subnet says what is wrong with it as one.
//!
//! What stands in the way of a Subnet that is not in effect yet, its condition `Validated` says. This is about what comes later: a second
//! Subnet for the same namespace, a node within its prefix.

use std::collections::BTreeSet;

use ipnet::IpNet;
use portolan_model::subnet::DEFAULT_VPC;
use portolan_model::{Group, Requester, Subnet, TenantProblem, Unit};

use super::reports::{Problem, Topic};
use super::{Engine, Subject};

/// The reasons of the Events.
const NOT_SERVED: &str = "NamespaceNotServed";
const OVERLAPS: &str = "OverlapsCluster";

impl Engine {
    /// Networks of the cluster, as far as the operator says: tenants that the cluster's own network serves too must not have addresses of them.
    pub fn set_cluster_networks(&mut self, networks: Vec<IpNet>) {
        self.world.set_cluster_networks(networks);
    }

    /// A unit changed: so may have what is wrong with Subnets for namespaces.
    pub(super) fn report_tenants_of_unit(&mut self, unit: &Unit) {
        // What is not listed yet may be what serves a namespace.
        if !self.is_synced() || !self.world.settings().first_interface.is_portolan() {
            return;
        }
        let mut concerned: BTreeSet<String> = self.troubled_tenants.clone();
        match unit {
            Unit::Subnet(name) => {
                concerned.insert(name.clone());
                concerned
                    .extend(self.world.rivals_for_namespaces(name).into_iter().map(|one| one.name.clone()));
                let of_primary = self.world.subnet(name).filter(|subnet| subnet.vpc() == Some(DEFAULT_VPC));
                let nets: Vec<_> =
                    of_primary.into_iter().flat_map(|subnet| subnet.config.cidr.nets()).collect();
                self.add_tenants_within(nets, &mut concerned);
            }
            Unit::Node(name) => {
                let addresses = self.world.node(name).map(|node| node.addresses.clone()).unwrap_or_default();
                self.add_tenants_within(addresses.into_iter().map(IpNet::from), &mut concerned);
            }
            Unit::Vpc(name) => {
                let subnets = self.world.subnets_of_vpc(name).filter(|subnet| subnet.is_of_tenant());
                concerned.extend(subnets.map(|subnet| subnet.name.clone()));
            }
            Unit::Peering(_) | Unit::Attachment(_) => return,
        }
        concerned.iter().for_each(|name| self.report_tenant(name));
    }

    /// Everything was listed.
    pub(super) fn report_all_tenants(&mut self) {
        let names: Vec<_> =
            self.world.subnets().filter(|one| one.is_of_tenant()).map(|one| one.name.clone()).collect();
        names.iter().for_each(|name| self.report_tenant(name));
    }

    fn add_tenants_within(&self, nets: impl IntoIterator<Item = IpNet>, concerned: &mut BTreeSet<String>) {
        for net in nets {
            concerned.extend(self.world.tenants_within(net).into_iter().map(|subnet| subnet.name.clone()));
        }
    }

    fn report_tenant(&mut self, name: &str) {
        let Some(subnet) = self.world.subnet(name) else {
            // What was said of one that is out of effect for now is looked at again when it is back.
            if self.world.known_subnet(name).is_none() {
                self.troubled_tenants.remove(name);
            }
            return;
        };
        let problems: Vec<Problem> = self.world.tenant_problems(subnet).iter().map(problem).collect();
        if problems.is_empty() && !self.troubled_tenants.remove(name) {
            return;
        }
        if !problems.is_empty() {
            self.troubled_tenants.insert(name.to_owned());
        }
        let (subject, uid) = (subject(subnet), subnet.uid.clone());
        self.report(subject, uid, Topic::Tenants, problems);
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
