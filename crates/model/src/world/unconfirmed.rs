//! What a list lacks: nothing changes for it until a live read says whether it is gone.
//!
//! A VPC or subnet is held, and so is what depends on it. Pods, nodes, definitions and whoever else asks or is named stay as they
//! were. Locks need no live read of their own: their holders are read before anything is done about a lock.

use std::collections::BTreeSet;

use super::pods::Machine;
use super::{Source, Topic, World};
use crate::dirty::Dirty;
use crate::doors::attachment::RequestedAttachment;
use crate::holder::Read;
use crate::nad::Nad;
use crate::node::Node;
use crate::pod::{Pod, StatefulSet};
use crate::unit::Unit;
use crate::unreadable::Unreadable;

impl World {
    /// Takes all objects of a kind in, like [`World::reset_with`]; but nothing changes for one that is not among them until its absence
    /// is confirmed. An empty list may come from a server that does not know the kind yet.
    pub fn relist<'a, O: Source + 'a>(
        &mut self,
        objects: impl IntoIterator<Item = &'a O>,
        unreadable: impl IntoIterator<Item = Unreadable<'a>>,
    ) -> Dirty {
        let mut dirty = Dirty::default();
        for key in self.take_all(objects, unreadable, &mut dirty) {
            if let Some(read) = O::read(&key) {
                self.missing.insert(read);
                continue;
            }
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

    /// The objects that a list lacks and that are still here, as they were.
    pub fn missing(&self) -> impl Iterator<Item = &Read> {
        self.missing.iter()
    }

    /// True if a list lacks an object that is still here.
    pub fn is_missing(&self, read: &Read) -> bool {
        self.missing.contains(read)
    }

    /// A live read of an object that a list lacks was answered: `found` has it if it exists, and nothing else.
    pub fn settle_missing(&mut self, read: &Read, found: &World) -> Dirty {
        let mut dirty = Dirty::default();
        if !self.missing.remove(read) {
            return dirty;
        }
        let key = |namespace: &String, name: &String| (namespace.clone(), name.clone());
        match read {
            Read::Pod { namespace, name } => {
                self.settle::<Pod>(&key(namespace, name), found.pod(namespace, name), &mut dirty);
            }
            Read::StatefulSet { namespace, name } => {
                let set = found.stateful_set(namespace, name);
                self.settle::<StatefulSet>(&key(namespace, name), set, &mut dirty);
            }
            Read::VirtualMachine { namespace, name } => {
                let key = key(namespace, name);
                let Machine { machine, instance } = found.machines.get(&key).cloned().unwrap_or_default();
                self.set_machine(&key, machine, &mut dirty);
                self.set_instance(&key, instance, &mut dirty);
            }
            Read::NetworkAttachment { namespace, name } => {
                let object = found.network_attachment(namespace, name);
                self.settle::<RequestedAttachment>(&key(namespace, name), object, &mut dirty);
            }
            Read::Nad { namespace, name } => {
                self.settle::<Nad>(&key(namespace, name), found.nad(namespace, name), &mut dirty);
            }
            Read::Node { name } => self.settle::<Node>(name, found.node(name), &mut dirty),
            // These are units, or confirmed by way of their holders.
            Read::Subnet { .. } | Read::Lock { .. } => {}
        }
        dirty
    }

    fn settle<O: Source>(&mut self, key: &O::Key, found: Option<&O>, dirty: &mut Dirty) {
        match found {
            Some(object) => object.put(self, dirty),
            None => O::remove(key, self, dirty),
        }
    }

    /// Nothing is missing about an object any more.
    pub(super) fn found<O: Source>(&mut self, key: &O::Key) {
        if !self.missing.is_empty()
            && let Some(read) = O::read(key)
        {
            self.missing.remove(&read);
        }
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
