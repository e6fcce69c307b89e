//! Locks, and the attachments they make.

use std::collections::BTreeSet;
use std::sync::Arc;

use portolan_api::portolan::{Holder, HolderKind};
use smol_str::SmolStr;

use super::holding::{HeldLocks, Holding};
use super::{Name, Topic, World};
use crate::attachment::{Attachment, AttachmentId, PortHolder};
use crate::dirty::{Dirty, LockChange};
use crate::holder;
use crate::lock::{Claim, Lock, UnreadableLock};
use crate::pod::Place;
use crate::unit::{Unit, UnitState};

impl World {
    /// The locks of one interface, sorted out.
    pub fn held_locks(&self, id: &AttachmentId) -> HeldLocks<'_> {
        match self.holdings.get(id) {
            Some(holding) => HeldLocks::of(id, holding.locks.iter().filter_map(|name| self.lock(name))),
            None => HeldLocks::default(),
        }
    }

    /// The interfaces for which anyone of this kind and name holds locks, in whichever of its lives.
    pub fn held_by(&self, holder: &Holder) -> impl Iterator<Item = &AttachmentId> + use<'_> {
        self.held_in_name(holder.kind, holder.namespace.as_deref(), &holder.name)
    }

    /// The same by kind, namespace and name. Ids are sorted by these first.
    pub(super) fn held_in_name(
        &self,
        kind: HolderKind,
        namespace: Option<&str>,
        name: &str,
    ) -> impl Iterator<Item = &AttachmentId> + use<'_> {
        let first = AttachmentId::before_all_of(kind, namespace, name);
        let from = self.holdings.range(first.clone()..).map(|(id, _)| id);
        from.take_while(move |id| id.has_holder_name_of(&first))
    }

    /// A lock of a holder, in this life of it, that cannot be read.
    pub fn unreadable_lock_of(&self, holder: &Holder) -> Option<&UnreadableLock> {
        if self.unreadable_locks.is_empty() {
            return None;
        }
        let ids = self.held_by(holder).filter(|id| *id.uid() == holder.uid);
        let names = ids.filter_map(|id| self.holdings.get(id)).flat_map(|holding| &holding.unreadable);
        let by_port = self.lock_indexes.unreadable_by_port.get(&PortHolder::of(holder)).map(String::as_str);
        names.map(SmolStr::as_str).chain(by_port).filter_map(|name| self.unreadable_lock(name)).next()
    }

    /// The interfaces for which anyone holds locks.
    pub fn holders(&self) -> impl Iterator<Item = &AttachmentId> {
        self.holdings.keys()
    }

    /// A live read confirmed that the holder is gone, or that it holds this no more: the attachment goes out of effect, so
    /// that its locks can be deleted once that has been committed.
    pub fn release(&mut self, id: &AttachmentId) -> Dirty {
        let mut dirty = Dirty::default();
        if self.holdings.contains_key(id) {
            let before = self.attachment_state(id);
            self.released.insert(id.clone());
            if before != self.attachment_state(id) {
                dirty.units.insert(Unit::Attachment(id.clone()));
            }
        }
        self.note_nodes(&mut dirty);
        dirty
    }

    /// The holder holds this again: what [`World::release`] took out of effect is in effect again.
    pub fn retain(&mut self, id: &AttachmentId) -> Dirty {
        let mut dirty = Dirty::default();
        let before = self.attachment_state(id);
        if self.released.remove(id) && before != self.attachment_state(id) {
            dirty.units.insert(Unit::Attachment(id.clone()));
        }
        self.note_nodes(&mut dirty);
        dirty
    }

    /// True if a live read confirmed that the holder is gone.
    pub fn is_released(&self, id: &AttachmentId) -> bool {
        self.released.contains(id)
    }

    pub(super) fn set_lock_object(
        &mut self,
        name: &str,
        new: Option<Result<Lock, UnreadableLock>>,
        dirty: &mut Dirty,
    ) {
        let claim = |world: &World| match world.locks.get(name) {
            Some(lock) => Some(Claim::of(lock)),
            None => world.unreadable_locks.get(name).and_then(|lock| lock.claim.clone()),
        };
        let (lock, unreadable) = match new {
            Some(Ok(lock)) => (Some(lock), None),
            Some(Err(unreadable)) => (None, Some(unreadable)),
            None => (None, None),
        };
        if self.lock(name) == lock.as_ref() && self.unreadable_locks.get(name) == unreadable.as_ref() {
            return;
        }
        let before = claim(self);
        let gateway_of = |lock: &Lock| {
            (lock.attachment.kind() == HolderKind::Subnet).then(|| lock.attachment.name().to_owned())
        };
        let mut gateways: BTreeSet<String> = self.subnet_indexes.by_gateway.get(name).cloned().collect();
        gateways.extend(self.lock(name).into_iter().chain(&lock).filter_map(gateway_of));
        // What it is now comes first: what a holding has left to it decides whether it stays.
        if let Some(lock) = lock {
            let (was_unreadable, id) = (self.unreadable_locks.contains_key(name), lock.attachment.clone());
            self.set_lock(name, Some(lock), dirty);
            self.set_unreadable_lock(name, None, dirty);
            if was_unreadable {
                // Also if nothing is missing: what was said about the lock is over.
                dirty.requesters.insert(holder::requester(self, &id));
            }
        } else {
            self.set_unreadable_lock(name, unreadable, dirty);
            self.set_lock(name, None, dirty);
        }
        for subnet in gateways {
            self.check_gateway_of(&subnet, dirty);
        }
        let exists = self.locks.contains(name) || self.unreadable_locks.contains_key(name);
        let after = claim(self);
        let subnet_of = |claim: &Option<Claim>| claim.as_ref().and_then(|claim| claim.subnet.clone());
        if let Some(subnet) = subnet_of(&before) {
            self.lock_indexes.by_subnet.remove(&subnet, name);
        }
        if let Some(subnet) = subnet_of(&after) {
            let known = self.locks.get(name).map(|lock| lock.name.clone());
            self.lock_indexes.by_subnet.insert(subnet, known.unwrap_or_else(|| name.into()));
        }
        dirty.locks.push(LockChange { lock: name.to_owned(), before, after, exists });
    }

    fn set_unreadable_lock(&mut self, name: &str, mut new: Option<UnreadableLock>, dirty: &mut Dirty) {
        let old = self.unreadable_locks.get(name);
        let old_id = old.and_then(|lock| lock.attachment.clone());
        if let Some(new) = &mut new
            && new.attachment.is_none()
        {
            let known = self.locks.get(name).filter(|lock| lock.uid == new.uid);
            let known = known.map(|lock| lock.attachment.clone());
            let earlier = old.filter(|lock| lock.uid == new.uid).and(old_id.clone());
            new.attachment = known.or(earlier);
        }
        let new_id = new.as_ref().and_then(|lock| lock.attachment.clone());
        if let Some(port) = old.and_then(UnreadableLock::port_holder) {
            self.lock_indexes.unreadable_by_port.remove(&port, name);
        }
        if let Some(port) = new.as_ref().and_then(UnreadableLock::port_holder) {
            self.lock_indexes.unreadable_by_port.insert(port, name.to_owned());
        }
        match new {
            Some(lock) => drop(self.unreadable_locks.insert(name.to_owned(), lock)),
            None => drop(self.unreadable_locks.remove(name)),
        }
        if let Some(id) = old_id.filter(|id| new_id.as_ref() != Some(id)) {
            let before = self.attachment_state(&id);
            if let Some(holding) = self.holdings.get_mut(&id) {
                holding.unreadable.remove(name);
            }
            self.hold_again(&id, before, dirty);
            // Also if nothing is missing: what was said about the lock is over.
            dirty.requesters.insert(holder::requester(self, &id));
        }
        if let Some(id) = new_id {
            let before = self.attachment_state(&id);
            self.holdings.entry(id.clone()).or_default().unreadable.insert(name.into());
            self.hold_again(&id, before, dirty);
        }
    }

    fn set_lock(&mut self, name: &str, new: Option<Lock>, dirty: &mut Dirty) {
        let old = self.lock(name);
        if old == new.as_ref() {
            return;
        }
        let old_id = old.map(|lock| lock.attachment.clone());
        let new = new.map(|lock| self.share(lock));
        let new_id = new.as_ref().map(|lock| (lock.attachment.clone(), lock.name.clone()));
        let machines =
            old_id.iter().chain(new_id.as_ref().map(|(id, _)| id)).filter_map(machine_of_lock).collect();
        let runs = self.pods_of_machines(&machines);
        match new {
            Some(lock) => self.locks.insert(lock),
            None => self.locks.remove(name),
        }
        if let Some(id) = old_id.as_ref().filter(|id| new_id.as_ref().map(|(new, _)| new) != Some(*id)) {
            let before = self.attachment_state(id);
            if let Some(holding) = self.holdings.get_mut(id) {
                holding.locks.remove(name);
            }
            self.hold_again(id, before, dirty);
        }
        if let Some((id, name)) = new_id {
            let before = self.attachment_state(&id);
            // A lock that changed after its release was confirmed is in use again.
            self.released.remove(&id);
            self.holdings.entry(id.clone()).or_default().locks.insert(name);
            self.hold_again(&id, before, dirty);
        }
        // Who has the addresses decides between pods that were made at one time.
        if self.pods_of_machines(&machines) != runs {
            self.publish(&machines.into_iter().map(Topic::Machine).collect::<Vec<_>>(), dirty);
        }
    }

    fn pods_of_machines(&self, machines: &BTreeSet<Name>) -> Vec<Option<Name>> {
        machines.iter().map(|machine| self.pod_of_machine(machine).cloned()).collect()
    }

    /// A lock, with what it has in common with others in one place in memory.
    fn share(&mut self, mut lock: Lock) -> Lock {
        if let Some((known, _)) = self.holdings.get_key_value(&lock.attachment) {
            lock.attachment = known.clone();
        }
        if let Some(known) = self.locks.get(&lock.name) {
            lock.name = known.name.clone();
        }
        lock.interfaces = self.decided.share(&lock.interfaces);
        lock.network = self.networks.share(&lock.network);
        lock.place = self.places.share(&lock.place);
        lock
    }

    /// Finds out again what the locks of an interface amount to.
    fn hold_again(&mut self, id: &AttachmentId, before: UnitState, dirty: &mut Dirty) {
        let Some(holding) = self.holdings.get(id) else { return };
        let held = HeldLocks::of(id, holding.locks.iter().filter_map(|name| self.lock(name)));
        let attachment = held.attachment(id).map(Box::new);
        let surplus = !held.surplus.is_empty();
        let Some(holding) = self.holdings.get_mut(id) else { return };
        holding.surplus = surplus;
        let changed = holding.attachment != attachment;
        if changed {
            let spot = |attachment: &Attachment| (attachment.subnet().clone(), Arc::clone(&attachment.place));
            let new_spot = attachment.as_deref().map(spot);
            let old_spot = std::mem::replace(&mut holding.attachment, attachment).as_deref().map(spot);
            self.place_again(id, old_spot, new_spot);
        }
        if self.holdings.get(id).is_some_and(Holding::is_empty) {
            self.holdings.remove(id);
            self.released.remove(id);
        }
        let after = self.attachment_state(id);
        if before != after || (changed && after == UnitState::Live) {
            dirty.units.insert(Unit::Attachment(id.clone()));
        }
        self.reconsider(&holder::requester(self, id), dirty);
    }

    /// Keeps the indexes by subnet and node.
    fn place_again(&mut self, id: &AttachmentId, old: Option<Spot>, new: Option<Spot>) {
        if old == new {
            return;
        }
        if let Some((subnet, place)) = old {
            self.holding_indexes.by_subnet.remove(subnet.as_str(), id);
            if let Some(node) = &place.node {
                self.holding_indexes.by_node.remove(node.as_str(), id);
            }
        }
        if let Some((subnet, place)) = new {
            self.holding_indexes.by_subnet.insert(subnet.into(), id.clone());
            if let Some(node) = &place.node {
                self.holding_indexes.by_node.insert(node.to_string(), id.clone());
            }
        }
    }

    pub(super) fn attachment_state(&self, id: &AttachmentId) -> UnitState {
        let Some(holding) = self.holdings.get(id) else { return UnitState::Absent };
        if self.released.contains(id) || holder::pod::is_finished(self, id) {
            return UnitState::Absent;
        }
        if !holding.unreadable.is_empty() {
            return UnitState::Held;
        }
        let Some(attachment) = &holding.attachment else { return UnitState::Absent };
        // A port would answer for the address, and nobody is behind it.
        if id.kind() == HolderKind::Vip {
            return UnitState::Absent;
        }
        match self.subnet_state(attachment.subnet()) {
            UnitState::Live => {
                // A subnet may have been made again under its name, elsewhere.
                let subnet = self.known_subnet(attachment.subnet());
                let same = subnet.is_some_and(|subnet| {
                    subnet.domain == *attachment.domain()
                        && attachment.addresses.iter().all(|ip| subnet.config.cidr.contains(*ip))
                });
                if same { UnitState::Live } else { UnitState::Absent }
            }
            state => state,
        }
    }
}

/// The subnet of an attachment, and where it is used.
type Spot = (SmolStr, Arc<Place>);

/// The virtual machine that holds a lock.
fn machine_of_lock(id: &AttachmentId) -> Option<Name> {
    (id.kind() == HolderKind::VirtualMachine)
        .then(|| (id.namespace().unwrap_or_default().to_owned(), id.name().to_owned()))
}
