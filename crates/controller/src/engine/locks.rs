//! Locks: from a decision to a lock that exists, and from a holder that is absent to a lock that is deleted.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use kube::ResourceExt;
use ovsdb::{Cache, SmolStr};
use portolan_api::portolan::HolderKind;
use portolan_ipam::{Decision, Refusal, Release, ReleaseReason, WaitKey};
use portolan_model::holder::Read;
use portolan_model::{Claim, Group, LockChange, Requester, Unit, UnitState, World, doors};
use portolan_plan::{Target as _, Urgency};

use super::northbound::Evidence;
use super::reports::Topic;
use super::{Action, Engine, Retry, Subject, vips};

/// A lock whose creation was requested and that no watch has shown yet. Its address is promised in the Ipam.
#[derive(Debug)]
pub(super) struct Creating {
    requester: Requester,
    subnet: String,
    /// The API server has answered: a watch will show whose it is.
    answered: bool,
    /// A list came since it was sent, which does not have it.
    listed: bool,
}

/// The locks whose creation was requested, also by requester.
///
/// Invariant: a name is in it at most once, as the Ipam promises an address to one requester only.
#[derive(Debug, Default)]
pub(super) struct Creations {
    by_name: BTreeMap<String, Creating>,
    by_requester: BTreeMap<Requester, BTreeSet<String>>,
}

impl Creations {
    fn insert(&mut self, name: String, requester: Requester, subnet: String) {
        self.by_requester.entry(requester.clone()).or_default().insert(name.clone());
        self.by_name.insert(name, Creating { requester, subnet, answered: false, listed: false });
    }

    fn remove(&mut self, name: &str) -> Option<Requester> {
        let creating = self.by_name.remove(name)?;
        if let Entry::Occupied(mut names) = self.by_requester.entry(creating.requester.clone()) {
            names.get_mut().remove(name);
            if names.get().is_empty() {
                names.remove();
            }
        }
        Some(creating.requester)
    }

    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &String> {
        self.by_name.keys()
    }

    /// True if one of them is on an address of a subnet.
    pub(super) fn has_any_in(&self, subnet: &str) -> bool {
        self.by_name.values().any(|creating| creating.subnet == subnet)
    }

    pub(super) fn has_any_of(&self, requester: &Requester) -> bool {
        self.by_requester.contains_key(requester)
    }
}

/// A lock on its way out.
#[derive(Debug)]
pub(super) struct Releasing {
    release: Release,
    requester: Requester,
    /// The number of the question whether it may go.
    question: u64,
    stage: Stage,
}

/// The question whether a lock may go. Only the answer to the last one counts: what was read for an earlier one may be from before the
/// lock was held again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// What is to be confirmed, by live reads of [`Release::reads`].
    pub release: Release,
    number: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// A live read is under way.
    Confirming,
    /// Its port is being removed.
    Removing,
    /// Its deletion is under way; the watch will tell.
    Deleting,
}

/// What became of creating a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Creation {
    /// It exists, made by us or by someone else; a watch will show whose it is.
    Exists,
    /// It could not be created; try again later.
    Failed,
}

/// What live reads found.
#[derive(Clone, Debug, PartialEq)]
pub enum Confirmation {
    /// The objects that [`Release::reads`] names, as far as they exist; and no others.
    Found(Box<World>),
    /// Something could not be read; try again later.
    Failed,
}

impl Engine {
    /// Decides for everyone who is to be decided for: first those whose turn it is, then by name.
    pub(super) fn decide(&mut self) {
        while let Some(requester) = self.next_requester() {
            // Until the watch shows what became of earlier decisions, another one would only repeat them. The answer brings the
            // requester back.
            if self.creating.has_any_of(&requester) {
                continue;
            }
            self.requesters.remove(&requester);
            let decision = self.ipam.decide(&self.world, &requester);
            self.counts.decisions += 1;
            for refusal in &decision.refusals {
                *self.counts.refusals.entry(refusal.reason()).or_default() += 1;
            }
            self.act_on(&requester, decision);
        }
    }

    fn next_requester(&mut self) -> Option<Requester> {
        let woken = self.woken.pop_first().map(|(_, requester)| requester);
        woken.or_else(|| self.requesters.pop_first())
    }

    /// Takes the turn from everyone who has it, as if nothing had become free: for tests, which find that.
    #[doc(hidden)]
    pub fn forget_turns(&mut self) {
        self.woken.clear();
    }

    /// These have the turn.
    fn give_turns(&mut self, requesters: impl IntoIterator<Item = Requester>) {
        for requester in requesters {
            // Whoever has a turn waits, and so has a place.
            let place = self.waiters.place(&requester).unwrap_or_default();
            self.woken.insert((place, requester));
        }
    }

    fn act_on(&mut self, requester: &Requester, decision: Decision) {
        self.report_refusals(requester, &decision);
        let mut waits_for = decision.waits_for();
        for lock in decision.create {
            let name = lock.name_any();
            // What we decide can be read back; if it could not, it would be refused for ever.
            let Ok(parsed) = doors::portolan::lock(&lock) else { continue };
            if self.ipam.promise(Claim::of(&parsed), parsed.attachment.clone()) {
                self.creating.insert(name, requester.clone(), parsed.subnet().to_string());
                self.actions.push(Action::CreateLock(Box::new(lock)));
            } else {
                waits_for.insert(WaitKey::Lock(name));
            }
        }
        let is_free = |key: &WaitKey| self.ipam.is_free(&self.world, key);
        let next = self.waiters.decided(requester, waits_for, is_free);
        self.give_turns(next);
        self.keep_what_is_held_again(requester, &decision.releases);
        for moved in decision.moves {
            if self.moving.get(&moved.lock) != Some(&moved) {
                self.moving.insert(moved.lock.clone(), moved.clone());
                self.actions.push(Action::MoveLock { moved, requester: requester.clone() });
            }
        }
        for release in decision.releases {
            if self.releasing.get(&release.lock).is_some_and(|known| known.release == release) {
                continue;
            }
            self.questions += 1;
            let releasing = Releasing {
                release: release.clone(),
                requester: requester.clone(),
                question: self.questions,
                stage: Stage::Confirming,
            };
            self.releasing.insert(release.lock.clone(), releasing);
            self.actions.push(Action::Confirm(Question { release, number: self.questions }));
        }
        if matches!(requester, Requester::Subnet { .. }) {
            self.subnets.recheck();
        }
    }

    /// A release that was begun and is not wanted any more ends, unless the deletion is under way: its holder holds the lock again,
    /// or the lock that it was a duplicate of is gone.
    fn keep_what_is_held_again(&mut self, requester: &Requester, wanted: &[Release]) {
        if self.releasing.is_empty() {
            return;
        }
        for id in self.world.holdings_of(requester) {
            let held = self.world.held_locks(&id);
            let names: Vec<_> =
                held.counted.iter().chain(&held.surplus).map(|lock| lock.name.to_string()).collect();
            for name in names {
                let revoked = |releasing: &Releasing| {
                    releasing.stage != Stage::Deleting && !wanted.iter().any(|release| release.lock == name)
                };
                if self.releasing.get(&name).is_some_and(revoked) {
                    self.releasing.remove(&name);
                    self.removing.remove(&name);
                    let dirty = self.world.retain(&id);
                    self.note(dirty, &Evidence::Event(BTreeSet::new()));
                }
            }
        }
    }

    /// Reports what stands in the way of a request.
    fn report_refusals(&mut self, requester: &Requester, decision: &Decision) {
        let Some(request) = self.world.request(requester) else { return };
        // The Event is about the pod, also where something that outlives it holds the addresses.
        let uid = request.user.map_or(request.holder.uid, |user| user.uid);
        let text = |refusal: &Refusal| match requester {
            Requester::Vip { .. } => vips::refusal_text(refusal),
            _ => refusal.to_string(),
        };
        let problems = decision.refusals.iter().map(|refusal| (refusal.reason(), text(refusal)));
        self.report(self.subject(requester), uid, Topic::Request, problems.collect());
        match requester {
            Requester::Pod { namespace, name } => self.report_annotations(namespace, name),
            holder => self.compare_holder(holder),
        }
    }

    /// The object that a report to a requester is about.
    fn subject(&self, requester: &Requester) -> Subject {
        let mut subject = Subject::from(requester);
        if let Requester::Subnet { name } = requester
            && let Some(Group::KubeOvn) = self.world.known_subnet(name).map(|subnet| subnet.group)
        {
            subject.api_version = "kubeovn.io/v1".to_owned();
        }
        subject
    }

    /// The API server answered the creation of a lock.
    pub fn created(&mut self, name: &str, creation: &Creation) {
        // What the watch has shown meanwhile needs no answer any more.
        let Some(creating) = self.creating.by_name.get_mut(name) else { return };
        match creation {
            Creation::Exists => {
                creating.answered = true;
                // The watch goes on from a list that may be newer than the lock's creation, and even its deletion.
                if std::mem::take(&mut creating.listed) {
                    self.expect(Read::Lock { name: name.to_owned() });
                }
            }
            Creation::Failed => {
                if let Some(requester) = self.withdraw(name) {
                    self.requesters.remove(&requester);
                    self.retries.insert(Retry::Requester(requester));
                }
            }
        }
    }

    /// A lock could not follow the pod of its requester, or no one knows whether it did: decide again.
    pub fn not_moved(&mut self, lock: &str, requester: Requester) {
        self.moving.remove(lock);
        self.retries.insert(Retry::Requester(requester));
    }

    /// Live reads answered whether a lock may go.
    pub fn confirmed(&mut self, question: &Question, confirmation: &Confirmation) {
        let Question { release, number } = question;
        let Some(releasing) = self.releasing.get_mut(&release.lock) else { return };
        if releasing.question != *number || releasing.stage != Stage::Confirming {
            return;
        }
        let confirmed = match confirmation {
            Confirmation::Found(found) => release.is_confirmed(found, &self.world),
            Confirmation::Failed => false,
        };
        if !confirmed {
            let requester = releasing.requester.clone();
            self.releasing.remove(&release.lock);
            self.retries.insert(Retry::Requester(requester));
            return;
        }
        releasing.stage = Stage::Removing;
        self.removing.insert(release.lock.clone());
        let unit = unit_of(release);
        let gateway = release.attachment.kind() == HolderKind::Subnet;
        if !gateway && !matches!(release.reason, ReleaseReason::Duplicate { .. }) {
            let dirty = self.world.release(&release.attachment);
            self.note(dirty, &Evidence::Event(BTreeSet::new()));
            // Its rows go even if this process never saw them in effect: a live read confirmed why.
            self.northbound.removed(unit);
        } else {
            self.northbound.changed(unit, Urgency::Deferrable);
        }
    }

    /// Releases that have not come as far as the deletion end, and are decided anew by whoever leads.
    pub(super) fn end_releases(&mut self) {
        let open = self.releasing.iter().filter(|(_, releasing)| releasing.stage != Stage::Deleting);
        for name in open.map(|(name, _)| name.clone()).collect::<Vec<_>>() {
            self.end_release(&name);
        }
    }

    /// A release ends, and is decided anew by whoever leads: what it took out of effect is in effect until then.
    pub(super) fn end_release(&mut self, name: &str) {
        self.removing.remove(name);
        let Some(Releasing { release, requester, .. }) = self.releasing.remove(name) else { return };
        let dirty = self.world.retain(&release.attachment);
        self.note(dirty, &Evidence::Event(BTreeSet::new()));
        self.requesters.insert(requester);
    }

    /// Deletes the locks whose ports are gone from a database that this is a copy of. Nothing is being written to it, and
    /// `changing` is what is going to be.
    ///
    /// Invariant: while standing by there are none, as it is not known then which units are still to be written.
    pub(super) fn delete_released(&mut self, cache: &Cache, changing: &BTreeSet<Unit>) {
        for name in std::mem::take(&mut self.removing) {
            let Some(releasing) = self.releasing.get_mut(&name) else { continue };
            if releasing.stage != Stage::Removing {
                continue;
            }
            let Release { reason, attachment, .. } = &releasing.release;
            let unit = unit_of(&releasing.release);
            let is_current = || !self.northbound.is_pending(&unit) && !changing.contains(&unit);
            let state = self.world.state(&unit);
            let owners = || self.northbound.target().owners(&unit, cache);
            let removed = match (reason, attachment.kind()) {
                // The port stays, without what the duplicate says.
                (ReleaseReason::Duplicate { .. }, _) => is_current(),
                // The Subnet is gone and so are its rows, also where another one has its name now; or it has another gateway.
                (_, HolderKind::Subnet) => {
                    !owners().contains(&SmolStr::from(attachment.uid()))
                        || (state == UnitState::Live && is_current())
                }
                _ => state == UnitState::Absent && owners().is_empty(),
            };
            // The last word: what a fresh decision would keep is not deleted.
            let wanted = || {
                let decision = self.ipam.decide(&self.world, &releasing.requester);
                decision.releases.contains(&releasing.release)
            };
            if removed && !wanted() {
                self.requesters.insert(releasing.requester.clone());
                self.removing.insert(name);
            } else if removed {
                releasing.stage = Stage::Deleting;
                let Release { uid, resource_version, .. } = &releasing.release;
                let (uid, resource_version) = (uid.clone(), *resource_version);
                self.actions.push(Action::DeleteLock { lock: name, uid, resource_version });
            } else {
                self.removing.insert(name);
            }
        }
    }

    /// A lock could not be deleted.
    pub fn not_deleted(&mut self, name: &str) {
        self.retries.insert(Retry::Lock(name.to_owned()));
    }

    pub(super) fn delete_again(&mut self, name: &str) {
        if self.stands_by() {
            return self.end_release(name);
        }
        if let Some(releasing) = self.releasing.get_mut(name) {
            releasing.stage = Stage::Removing;
            self.removing.insert(name.to_owned());
            let unit = unit_of(&releasing.release);
            self.northbound.changed(unit, Urgency::Deferrable);
        }
    }

    /// The World has seen a lock come, change or go.
    pub(super) fn lock_changed(&mut self, change: &LockChange) {
        let name = &change.lock;
        self.moving.remove(name);
        let freed = self.ipam.apply(change);
        for claim in change.before.iter().chain(&change.after) {
            self.pools_of(claim);
        }
        self.compare_holder_of_lock(name);
        let current = self.world.lock(name);
        let releasing = self.releasing.get(name).map(|releasing| &releasing.release);
        // A lock that changed since its release was decided may be in use again: its requester is decided anew.
        if releasing.is_some_and(|release| {
            current.is_none_or(|lock| {
                lock.uid != release.uid || lock.resource_version != release.resource_version
            })
        }) {
            self.releasing.remove(name);
        }
        if let Some(requester) = self.creating.remove(name) {
            if !change.exists {
                let withdrawn = self.ipam.withdraw(name);
                self.wake(withdrawn);
            }
            self.requesters.insert(requester);
        }
        if freed.is_none() && !change.exists {
            // A lock that could not be read took no address that is known, but may be waited for by its name.
            let first = self.waiters.freed(&WaitKey::Lock(name.clone()));
            self.give_turns(first);
        }
        self.wake(freed);
        self.lock_of_subnet_changed(change);
    }

    /// A list of locks is complete, and lacks those that are still being created. One that exists by the API server's answer may have
    /// been deleted since, which no watch will tell, or the list does not show it: it is read. Until then it stays promised.
    pub(super) fn locks_listed(&mut self) {
        let mut answered = Vec::new();
        for (name, creating) in &mut self.creating.by_name {
            match creating.answered {
                true => answered.push(name.clone()),
                false => creating.listed = true,
            }
        }
        for name in answered {
            self.expect(Read::Lock { name });
        }
    }

    /// A live read has shown a lock, or that there is none.
    pub(super) fn lock_read(&mut self, name: &str) {
        let exists = self.world.lock(name).is_some() || self.world.unreadable_lock(name).is_some();
        if !exists && let Some(requester) = self.withdraw(name) {
            self.requesters.insert(requester);
        }
    }

    /// A lock is not created after all: its address is free for others.
    pub(super) fn withdraw(&mut self, name: &str) -> Option<Requester> {
        let requester = self.creating.remove(name)?;
        let freed = self.ipam.withdraw(name);
        self.wake(freed);
        Some(requester)
    }

    /// An address became free: whoever is first in line for it, and for any address of its subnet, has the turn.
    fn wake(&mut self, freed: Option<Claim>) {
        let Some(claim) = freed else { return };
        self.usage_changed(Some(&claim));
        let mut keys = self.pools_of(&claim);
        keys.push(WaitKey::Lock(claim.lock));
        if let Some(family) = claim.address.family() {
            let subnet = |name: &str| WaitKey::Subnet { name: name.to_owned(), family };
            match &claim.subnet {
                Some(name) => keys.push(subnet(name)),
                None => keys.extend(self.world.subnets_of_domain(&claim.domain).map(|one| subnet(&one.name))),
            }
        }
        for key in keys {
            let first = self.waiters.freed(&key);
            self.give_turns(first);
        }
    }
}

/// The unit whose rows must be up to date before a lock is deleted.
fn unit_of(release: &Release) -> Unit {
    match release.attachment.kind() {
        HolderKind::Subnet => Unit::Subnet(release.attachment.name().to_owned()),
        _ => Unit::Attachment(release.attachment.clone()),
    }
}
