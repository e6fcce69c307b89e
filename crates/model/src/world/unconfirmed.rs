//! VPCs and subnets that a list lacks: they are held until a live read says whether they are gone.

use std::collections::BTreeSet;

use super::{Source, Topic, World};
use crate::dirty::Dirty;
use crate::unit::Unit;

impl World {
    /// Takes all objects of a kind in, like [`World::reset`]; but a VPC or subnet that is not among them is
    /// [held](crate::UnitState::Held) until its absence is confirmed, and so is what depends on it. An empty list may come
    /// from a server that does not know the kind yet.
    pub fn relist<'a, O: Source + 'a>(&mut self, objects: impl IntoIterator<Item = &'a O>) -> Dirty {
        let mut dirty = Dirty::default();
        let mut missing: BTreeSet<O::Key> = O::keys(self).into_iter().collect();
        for object in objects {
            missing.remove(&object.key());
            object.put(self, &mut dirty);
        }
        for key in missing {
            if let Some((unit, owner)) =
                O::unit(&key).and_then(|unit| Some((unit.clone(), self.owner(&unit)?.to_owned())))
            {
                self.unconfirmed.entry(unit).or_default().insert(owner);
            }
            O::remove(&key, self, &mut dirty);
        }
        self.forget_found();
        dirty
    }

    /// The VPCs and subnets whose absence is not confirmed, with the UIDs of the objects that a list lacks.
    pub fn unconfirmed(&self) -> impl Iterator<Item = (&Unit, &BTreeSet<String>)> {
        self.unconfirmed.iter()
    }

    /// The UIDs of the objects of a unit that a list lacks, if their absence is not confirmed.
    pub fn unconfirmed_owners(&self, unit: &Unit) -> Option<&BTreeSet<String>> {
        self.unconfirmed.get(unit)
    }

    /// A VPC or subnet that a list lacks is gone.
    pub fn confirm_absence(&mut self, unit: &Unit) -> Dirty {
        let mut dirty = Dirty::default();
        if self.unconfirmed.remove(unit).is_none() {
            return dirty;
        }
        dirty.units.insert(unit.clone());
        let subnets: Vec<String> = match unit {
            Unit::Vpc(name) => {
                self.held_vpcs.remove(name);
                dirty.units.extend(self.pairs_of(name, None).into_iter().map(Unit::Peering));
                self.subnets_by_vpc.get(name).cloned().collect()
            }
            Unit::Subnet(name) => vec![name.clone()],
            Unit::Peering(_) | Unit::Attachment(_) => Vec::new(),
        };
        for subnet in subnets {
            self.dirty_attachments(&subnet, &mut dirty);
            self.publish(&[Topic::Subnet(subnet.clone())], &mut dirty);
            dirty.units.insert(Unit::Subnet(subnet));
        }
        dirty
    }

    /// Forgets doubts about units that are there.
    pub(super) fn forget_found(&mut self) {
        if !self.unconfirmed.is_empty() {
            let mut unconfirmed = std::mem::take(&mut self.unconfirmed);
            unconfirmed.retain(|unit, _| self.owner(unit).is_none());
            self.unconfirmed = unconfirmed;
        }
    }
}
