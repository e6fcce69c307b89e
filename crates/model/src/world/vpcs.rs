//! VPCs and their peerings.

use std::collections::BTreeSet;

use super::rivals::Candidate;
use super::{Topic, World};
use crate::dirty::Dirty;
use crate::group::Group;
use crate::peering::{Peering, PeeringEnd, PeeringProblem, VpcPair};
use crate::unit::{Unit, UnitState};
use crate::vpc::Vpc;

impl World {
    pub(super) fn vpc_state(&self, name: &str) -> UnitState {
        let effective = self.vpcs.get(name).and_then(|rivals| rivals.effective());
        // That of the primary network is there without an object.
        let without = if self.is_primary_vpc(name) { UnitState::Live } else { UnitState::Absent };
        effective.map_or(without, Candidate::state)
    }

    /// True if there is a VPC of this name in this group, whether or not it has the name.
    pub fn has_vpc_of_group(&self, group: Group, name: &str) -> bool {
        self.vpcs.get(name).is_some_and(|rivals| rivals.get(group).is_some())
    }

    pub(super) fn set_vpc(
        &mut self,
        name: &str,
        group: Group,
        new: Option<Candidate<Vpc>>,
        dirty: &mut Dirty,
    ) {
        let rivals = self.vpcs.entry(name.to_owned()).or_default();
        if rivals.get(group) == new.as_ref() {
            if rivals.is_empty() {
                self.vpcs.remove(name);
            }
            return;
        }
        let before = rivals.effective().cloned();
        let state_before = self.vpc_state(name);
        let subnets: Vec<String> = self.subnet_indexes.by_vpc.get(name).cloned().collect();
        let subnet_states: Vec<_> = subnets.iter().map(|subnet| self.subnet_state(subnet)).collect();
        let pairs = self.pairs_of(name, new.as_ref());
        let pair_states: Vec<_> = pairs.iter().map(|pair| self.peering_state(pair)).collect();
        let rivals = self.vpcs.entry(name.to_owned()).or_default();
        rivals.set(group, new);
        let after = rivals.effective().cloned();
        if rivals.is_empty() {
            self.vpcs.remove(name);
        }
        if before == after {
            return;
        }
        let state = self.vpc_state(name);
        let old = before.as_ref().and_then(|candidate| candidate.value.as_ref().ok());
        let new = after.as_ref().and_then(|candidate| candidate.value.as_ref().ok());
        self.unindex_vpc(name, old);
        self.index_vpc(name, new);
        let held = |candidate: &Option<Candidate<Vpc>>| -> Vec<String> {
            let held = candidate.as_ref().filter(|candidate| candidate.value.is_err());
            held.map(|candidate| candidate.tenants.clone()).unwrap_or_default()
        };
        let (held_before, held_after) = (held(&before), held(&after));
        held_before.iter().for_each(|namespace| self.vpc_indexes.held_by_namespace.remove(namespace, name));
        for namespace in &held_after {
            self.vpc_indexes.held_by_namespace.insert(namespace.clone(), name.to_owned());
        }
        if state == UnitState::Held {
            self.vpc_indexes.held.insert(name.to_owned());
        } else {
            self.vpc_indexes.held.remove(name);
        }
        if state_before != state || old != new {
            dirty.units.insert(Unit::Vpc(name.to_owned()));
        }
        if state_before != state && self.is_primary_vpc(name) {
            dirty.units.extend(self.nodes.keys().cloned().map(Unit::Node));
        }
        // A subnet looks at whether its VPC is there, and which.
        let uid = |vpc: Option<&Vpc>| vpc.map(|vpc| vpc.uid.clone());
        let life = |vpc: Option<&Vpc>| vpc.map(|vpc| vpc.life);
        for (subnet, before) in subnets.into_iter().zip(subnet_states) {
            let after = self.subnet_state(&subnet);
            if before != after {
                self.dirty_attachments(&subnet, dirty);
            }
            if before != after || state_before != state || life(old) != life(new) {
                self.publish(&[Topic::Subnet(subnet.clone())], dirty);
            }
            if before != after || (after == UnitState::Live && uid(old) != uid(new)) {
                dirty.units.insert(Unit::Subnet(subnet));
            }
        }
        for (pair, before) in pairs.into_iter().zip(pair_states) {
            let (old, new) = (self.peerings.remove(&pair), self.stand(&pair));
            let changed = old != new;
            if let Some(peering) = new {
                self.peerings.insert(pair.clone(), peering);
            }
            if changed || before != self.peering_state(&pair) {
                dirty.units.insert(Unit::Peering(pair));
            }
        }
        let choice = |vpc: Option<&Vpc>| {
            vpc.map(|vpc| (vpc.config.namespaces.clone(), vpc.config.default_subnet.clone()))
                .unwrap_or_default()
        };
        let (old, new) = (choice(old), choice(new));
        if old != new || held_before != held_after {
            let namespaces = old.0.into_iter().chain(new.0).chain(held_before).chain(held_after);
            let topics: BTreeSet<_> = namespaces.map(Topic::Namespace).collect();
            self.publish(&topics.into_iter().collect::<Vec<_>>(), dirty);
        }
    }

    /// The peerings that a change of a VPC may touch.
    pub(super) fn pairs_of(&self, name: &str, new: Option<&Candidate<Vpc>>) -> BTreeSet<VpcPair> {
        let candidates =
            self.vpcs.get(name).into_iter().flat_map(|rivals| rivals.iter().map(|(_, c)| c)).chain(new);
        let known = candidates.filter_map(|candidate| candidate.value.as_ref().ok());
        let named = known.flat_map(|vpc| vpc.config.peerings.iter().map(|peering| &peering.remote_vpc));
        let naming = self.vpc_indexes.by_remote.get(name);
        // Of two VPCs that cannot be understood neither can be asked: any two such may have been connected.
        let all = named.chain(naming).chain(&self.vpc_indexes.held);
        all.filter_map(|remote| VpcPair::new(name, remote)).collect()
    }

    fn unindex_vpc(&mut self, name: &str, vpc: Option<&Vpc>) {
        let Some(vpc) = vpc else { return };
        for namespace in &vpc.config.namespaces {
            self.vpc_indexes.by_namespace.remove(namespace, name);
        }
        for peering in &vpc.config.peerings {
            self.vpc_indexes.by_remote.remove(&peering.remote_vpc, name);
        }
    }

    fn index_vpc(&mut self, name: &str, vpc: Option<&Vpc>) {
        let Some(vpc) = vpc else { return };
        for namespace in &vpc.config.namespaces {
            self.vpc_indexes.by_namespace.insert(namespace.clone(), name.to_owned());
        }
        for peering in &vpc.config.peerings {
            self.vpc_indexes.by_remote.insert(peering.remote_vpc.clone(), name.to_owned());
        }
    }

    pub(super) fn peering_state(&self, pair: &VpcPair) -> UnitState {
        if self.peerings.contains_key(pair) {
            UnitState::Live
        } else if self.peering_may_be_held(pair) {
            UnitState::Held
        } else {
            UnitState::Absent
        }
    }

    /// True if one side cannot be understood, and the other, as far as it can, wants the peering.
    fn peering_may_be_held(&self, pair: &VpcPair) -> bool {
        let (first, second) = (pair.first(), pair.second());
        let wants = |vpc: &Vpc, remote: &str| vpc.config.peerings.iter().any(|p| p.remote_vpc == remote);
        let held = |name: &str| self.vpc_state(name) == UnitState::Held;
        match (self.vpc(first), self.vpc(second)) {
            (Some(_), Some(_)) => false,
            (Some(vpc), None) => held(second) && wants(vpc, second),
            (None, Some(vpc)) => held(first) && wants(vpc, first),
            (None, None) => held(first) && held(second),
        }
    }

    fn stand(&self, pair: &VpcPair) -> Option<Peering> {
        let (first, second) = (self.vpc(pair.first())?, self.vpc(pair.second())?);
        self.peering_problem(first, pair.second()).is_none().then_some(())?;
        let end = |vpc: &Vpc, remote: &Vpc| {
            let peering = vpc.config.peerings.iter().find(|peering| peering.remote_vpc == remote.name)?;
            Some(PeeringEnd {
                vpc: vpc.name.clone(),
                owner: self.owner_of_vpc(vpc).to_owned(),
                local_connect: peering.local_connect,
            })
        };
        Some(Peering { pair: pair.clone(), ends: [end(first, second)?, end(second, first)?] })
    }

    /// Why the peering that a VPC asks for does not stand, if it does not.
    pub fn peering_problem(&self, vpc: &Vpc, remote: &str) -> Option<PeeringProblem> {
        let ours = vpc.config.peerings.iter().find(|peering| peering.remote_vpc == remote);
        let Some(other) = self.vpc(remote) else {
            return Some(PeeringProblem::NoRemote { remote: remote.to_owned() });
        };
        let theirs = other.config.peerings.iter().find(|peering| peering.remote_vpc == vpc.name);
        match (ours, theirs) {
            (Some(ours), Some(theirs)) => {
                PeeringEnd::check(ours.local_connect, theirs.local_connect, remote).err()
            }
            _ => Some(PeeringProblem::OneSided { vpc: vpc.name.clone(), remote: remote.to_owned() }),
        }
    }
}
