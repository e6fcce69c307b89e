//! Subnets.

use std::collections::BTreeSet;

use ipnet::IpNet;
use portolan_api::{CidrBlock, Domain, Provider};

use super::prefixes::Prefixes;
use super::rivals::Candidate;
use super::{Topic, World};
use crate::dirty::Dirty;
use crate::group::Group;
use crate::request::Requester;
use crate::subnet::{DEFAULT_VPC, Subnet};
use crate::unit::{Unit, UnitState};
use crate::view::SubnetRef;

/// The networks of subnets that are there and not in effect right now. What there is of them stays as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeldNetworks {
    /// These.
    Known(Vec<IpNet>),
    /// Of some subnet nothing is known: it cannot be understood.
    Unknown,
}

impl World {
    /// The networks of a VPC that are held: those of its subnets that are not in effect right now.
    pub fn held_networks(&self, vpc: &str) -> HeldNetworks {
        let held = self.subnets.iter().filter(|(name, _)| self.subnet_state(name) == UnitState::Held);
        let mut networks = Vec::new();
        for candidate in held.filter_map(|(_, rivals)| rivals.effective()) {
            match &candidate.value {
                Ok(subnet) if subnet.vpc() == Some(vpc) => networks.extend(subnet.config.cidr.nets()),
                Ok(_) => {}
                Err(_) => return HeldNetworks::Unknown,
            }
        }
        HeldNetworks::Known(networks)
    }

    pub(super) fn subnet_state(&self, name: &str) -> UnitState {
        let Some(candidate) = self.subnets.get(name).and_then(|rivals| rivals.effective()) else {
            return UnitState::Absent;
        };
        let vpc = candidate.value.as_ref().ok().and_then(Subnet::vpc);
        // The subnet's router port is a row of the VPC's router, of which nothing is known while the VPC is held.
        match vpc.map(|vpc| self.vpc_state(vpc)) {
            // That of the primary network is there without an object too: a mistake in it must not stop the cluster's pods.
            Some(UnitState::Held) if !vpc.is_some_and(|vpc| self.is_primary_vpc(vpc)) => UnitState::Held,
            // An edit that would double an address, or move the domain under live locks, has no effect.
            _ if self.subnet_indexes.blocked_gateways.contains(name) => UnitState::Held,
            _ => candidate.state(),
        }
    }

    /// Every subnet of a domain that can be understood, of either group, whether or not it is in effect.
    pub fn subnets_of_domain(&self, domain: &Domain) -> impl Iterator<Item = &Subnet> {
        let rivals = self.subnet_indexes.by_domain.get(domain).filter_map(|name| self.subnets.get(name));
        let all = rivals
            .flat_map(|rivals| rivals.iter().filter_map(|(_, candidate)| candidate.value.as_ref().ok()));
        all.filter(move |subnet| subnet.domain == *domain)
    }

    /// The subnets in effect of the primary network that a subnet of it in effect overlaps, each with which of its prefixes. There should be
    /// none.
    pub fn clashes_of(&self, subnet: &Subnet) -> Vec<(IpNet, &Subnet)> {
        if subnet.vpc() != Some(DEFAULT_VPC) {
            return Vec::new();
        }
        let found = subnet.config.cidr.nets().flat_map(|net| self.primary_subnets_at(net));
        found.filter(|(_, other)| other.name != subnet.name).collect()
    }

    /// The subnet of this name and group, if it can be understood, whether or not it has the name.
    pub fn subnet_of_group(&self, group: Group, name: &str) -> Option<&Subnet> {
        self.subnets.get(name)?.get(group)?.value.as_ref().ok()
    }

    pub(super) fn set_subnet(
        &mut self,
        name: &str,
        group: Group,
        new: Option<Candidate<Subnet>>,
        dirty: &mut Dirty,
    ) {
        let empty = super::Rivals::default();
        let rivals = self.subnets.get(name).unwrap_or(&empty);
        if rivals.get(group) == new.as_ref() {
            return;
        }
        let (before, domains_before) = (rivals.effective().cloned(), domains(rivals));
        let state_before = self.subnet_state(name);
        let rivals = self.subnets.entry(name.to_owned()).or_default();
        rivals.set(group, new);
        let (after, domains_after) = (rivals.effective().cloned(), domains(rivals));
        if rivals.is_empty() {
            self.subnets.remove(name);
        }
        for domain in domains_before.difference(&domains_after) {
            self.subnet_indexes.by_domain.remove(domain, name);
        }
        for domain in domains_after {
            self.subnet_indexes.by_domain.insert(domain, name.to_owned());
        }
        if before == after {
            return;
        }
        let old = before.as_ref().and_then(|candidate| candidate.value.as_ref().ok());
        let new = after.as_ref().and_then(|candidate| candidate.value.as_ref().ok());
        self.unindex_subnet(name, old);
        self.index_subnet(name, new);
        let held = |candidate: &Option<Candidate<Subnet>>| -> Vec<String> {
            let held = candidate.as_ref().filter(|candidate| candidate.value.is_err());
            held.map(|candidate| candidate.tenants.clone()).unwrap_or_default()
        };
        let (held_before, held_after) = (held(&before), held(&after));
        held_before
            .iter()
            .for_each(|namespace| self.subnet_indexes.held_by_namespace.remove(namespace, name));
        for namespace in &held_after {
            self.subnet_indexes.held_by_namespace.insert(namespace.clone(), name.to_owned());
        }
        self.index_gateway(name, old, new);
        if let Some(old) = old {
            self.note_nodes_within(old, dirty);
        }
        let state = self.subnet_state(name);
        // Of one that is held too: its networks are what there is of it that stays.
        if state_before != state || old != new {
            dirty.units.insert(Unit::Subnet(name.to_owned()));
        }
        if state_before != state || attachment_facts(old) != attachment_facts(new) {
            self.dirty_attachments(name, dirty);
        }
        let mut topics = subnet_topics(name, old, new);
        let named =
            [&before, &after].into_iter().flatten().filter_map(|candidate| candidate.provider.clone());
        topics.extend(named.map(Topic::Provider));
        topics.extend(held_before.into_iter().chain(held_after).map(Topic::Namespace));
        self.publish(&topics.into_iter().collect::<Vec<_>>(), dirty);
        self.reconsider(&Requester::subnet(name), dirty);
    }

    /// Where the prefixes of a subnet are indexed, if anywhere.
    fn prefixes_beside(&mut self, subnet: &Subnet) -> Option<&mut Prefixes> {
        self.primary_vpc.as_ref()?;
        match subnet.is_of_tenant() {
            true => Some(&mut self.subnet_indexes.tenant_prefixes),
            false => {
                Some(&mut self.subnet_indexes.primary_prefixes).filter(|_| subnet.vpc() == Some(DEFAULT_VPC))
            }
        }
    }

    fn unindex_subnet(&mut self, name: &str, subnet: Option<&Subnet>) {
        let Some(subnet) = subnet else { return };
        if let Some(prefixes) = self.prefixes_beside(subnet) {
            subnet.config.cidr.nets().for_each(|net| prefixes.remove(net, name));
        }
        let config = &subnet.config;
        if let Some(vpc) = &config.vpc {
            self.subnet_indexes.by_vpc.remove(vpc, name);
        }
        if let Some(provider) = &config.provider {
            self.subnet_indexes.by_provider.remove(provider, name);
        }
        for namespace in &config.namespaces {
            self.subnet_indexes.by_namespace.remove(namespace, name);
        }
        if config.default {
            self.subnet_indexes.default.remove(&(), name);
        }
    }

    fn index_subnet(&mut self, name: &str, subnet: Option<&Subnet>) {
        let Some(subnet) = subnet else { return };
        if let Some(prefixes) = self.prefixes_beside(subnet) {
            subnet.config.cidr.nets().for_each(|net| prefixes.insert(net, name));
        }
        let config = &subnet.config;
        if let Some(vpc) = &config.vpc {
            self.subnet_indexes.by_vpc.insert(vpc.clone(), name.to_owned());
        }
        if let Some(provider) = &config.provider {
            self.subnet_indexes.by_provider.insert(provider.clone(), name.to_owned());
        }
        for namespace in &config.namespaces {
            self.subnet_indexes.by_namespace.insert(namespace.clone(), name.to_owned());
        }
        if config.default {
            self.subnet_indexes.default.insert((), name.to_owned());
        }
    }

    /// Marks the attachments of a subnet that are to be planned again because of it.
    pub(super) fn dirty_attachments(&self, subnet: &str, dirty: &mut Dirty) {
        dirty.units.extend(self.holding_indexes.by_subnet.get(subnet).cloned().map(Unit::Attachment));
    }

    /// A subnet that names this provider and is invalid.
    pub(super) fn invalid_subnet_of(&self, provider: &Provider) -> Option<&str> {
        let invalid = self.subnets.iter().find(|(_, rivals)| {
            let effective = rivals.effective();
            effective.is_some_and(|one| one.value.is_err() && one.provider.as_ref() == Some(provider))
        });
        invalid.map(|(name, _)| name.as_str())
    }
}

/// What of the requests of others depends on a subnet.
fn subnet_topics(name: &str, old: Option<&Subnet>, new: Option<&Subnet>) -> BTreeSet<Topic> {
    let mut topics = BTreeSet::from([Topic::Subnet(name.to_owned())]);
    for config in [old, new].into_iter().flatten().map(|subnet| &subnet.config) {
        topics.extend(config.provider.clone().map(Topic::Provider));
    }
    let choice = |subnet: Option<&Subnet>| {
        subnet.map(|s| (s.config.namespaces.clone(), s.config.default)).unwrap_or_default()
    };
    let (old, new) = (choice(old), choice(new));
    if old.0 != new.0 {
        topics.extend(old.0.into_iter().chain(new.0).map(Topic::Namespace));
    }
    if old.1 != new.1 {
        topics.insert(Topic::Default);
    }
    topics
}

fn domains(rivals: &super::Rivals<Subnet>) -> BTreeSet<Domain> {
    rivals.iter().filter_map(|(_, candidate)| Some(candidate.value.as_ref().ok()?.domain.clone())).collect()
}

/// What of a subnet its attachments look at.
fn attachment_facts(subnet: Option<&Subnet>) -> Option<(SubnetRef<'_>, CidrBlock)> {
    subnet.map(|subnet| (SubnetRef::of(subnet), subnet.config.cidr))
}
