//! Locks: from a decision to a lock that exists, and from a holder that is gone to a lock that is deleted.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use kube::ResourceExt;
use ovsdb::Cache;
use portolan_api::portolan::IPLock;
use portolan_ipam::{Decision, Release, ReleaseReason};
use portolan_model::{Lock, Pod, Requester, Unit, UnitState, doors};
use portolan_plan::{Target as _, Urgency};

use super::northbound::Evidence;
use super::reports::Topic;
use super::{Action, Engine, Retry, Subject};

/// A lock that was asked for and that no watch has shown yet.
#[derive(Debug)]
pub(super) struct Creating {
    requester: Requester,
    /// What is promised by it, so that no one else is meanwhile.
    promised: Option<Lock>,
    /// The API server has answered: a watch will show whose it is.
    answered: bool,
}

/// The locks that were asked for, also by who asked.
#[derive(Debug, Default)]
pub(super) struct Creations {
    by_name: BTreeMap<String, Creating>,
    by_requester: BTreeMap<Requester, BTreeSet<String>>,
}

impl Creations {
    fn insert(&mut self, name: String, creating: Creating) {
        self.remove(&name);
        self.by_requester.entry(creating.requester.clone()).or_default().insert(name.clone());
        self.by_name.insert(name, creating);
    }

    fn remove(&mut self, name: &str) -> Option<Creating> {
        let creating = self.by_name.remove(name)?;
        if let Entry::Occupied(mut names) = self.by_requester.entry(creating.requester.clone()) {
            names.get_mut().remove(name);
            if names.get().is_empty() {
                names.remove();
            }
        }
        Some(creating)
    }

    fn is_asked_by(&self, requester: &Requester) -> bool {
        self.by_requester.contains_key(requester)
    }
}

/// A lock on its way out.
#[derive(Debug)]
pub(super) struct Releasing {
    release: Release,
    requester: Requester,
    stage: Stage,
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

/// What a live read found.
#[derive(Clone, Debug, PartialEq)]
pub enum Confirmation {
    /// What was to be confirmed is so.
    Yes,
    /// It is not so.
    No,
    /// The holder is there, and this is what it is: so only if that is what was decided upon.
    Holder(Box<Pod>),
    /// It could not be found out; try again later.
    Failed,
}

impl Engine {
    /// Decides for everyone who is to be decided for.
    pub(super) fn decide(&mut self) {
        // In order of names; who waits for a full subnet is woken in order of arrival.
        while let Some(requester) = self.requesters.pop_first() {
            // Until the watch shows what became of earlier decisions, another one would only repeat them.
            if self.creating.is_asked_by(&requester) {
                continue;
            }
            let decision = self.ipam.decide(&self.world, &requester);
            self.act_on(&requester, decision);
        }
    }

    fn act_on(&mut self, requester: &Requester, decision: Decision) {
        self.report_refusals(requester, &decision);
        let full: BTreeSet<String> = decision.full_subnets().collect();
        if full.is_empty() {
            let next = self.waiters.leave(requester);
            self.requesters.extend(next);
        } else {
            self.waiters.wait(requester, full);
        }
        for lock in decision.create {
            let promised = doors::portolan::lock(&lock).ok();
            if let Some(promised) = &promised {
                self.ipam.take(promised);
            }
            let creating = Creating { requester: requester.clone(), promised, answered: false };
            self.creating.insert(lock.name_any(), creating);
            self.actions.push(Action::CreateLock(Box::new(lock)));
        }
        let moves = decision.moves.into_iter();
        self.actions.extend(moves.map(|moved| Action::MoveLock { moved, requester: requester.clone() }));
        for release in decision.releases {
            if self.releasing.get(&release.lock).is_some_and(|known| known.release.uid == release.uid) {
                continue;
            }
            let releasing = Releasing {
                release: release.clone(),
                requester: requester.clone(),
                stage: Stage::Confirming,
            };
            self.releasing.insert(release.lock.clone(), releasing);
            self.actions.push(Action::Confirm(release));
        }
    }

    /// Reports what stands in the way of a request.
    fn report_refusals(&mut self, requester: &Requester, decision: &Decision) {
        let Some(request) = self.world.request(requester) else { return };
        // The Event is about the pod, also where something that outlives it holds the addresses.
        let uid = request.user.map_or(request.holder.uid, |user| user.uid);
        let problems = decision.refusals.iter().map(|refusal| (refusal.reason(), refusal.to_string()));
        self.report(Subject::from(requester), uid, Topic::Request, problems.collect());
    }

    /// The API server answered the creation of a lock.
    pub fn created(&mut self, name: &str, creation: &Creation) {
        // What the watch has shown meanwhile needs no answer any more.
        let Some(creating) = self.creating.by_name.get_mut(name) else { return };
        match creation {
            Creation::Exists => creating.answered = true,
            Creation::Failed => {
                if let Some(creating) = self.forget_creation(name) {
                    self.requesters.remove(&creating);
                    self.retries.insert(Retry::Requester(creating));
                }
            }
        }
    }

    /// A lock could not follow the pod of who asks.
    pub fn not_moved(&mut self, requester: Requester) {
        self.retries.insert(Retry::Requester(requester));
    }

    /// A live read answered whether a lock may go.
    pub fn confirmed(&mut self, release: &Release, confirmation: &Confirmation) {
        let Some(releasing) = self.releasing.get_mut(&release.lock) else { return };
        if releasing.release != *release || releasing.stage != Stage::Confirming {
            return;
        }
        let requester = releasing.requester.clone();
        let yes = match confirmation {
            Confirmation::Yes => true,
            Confirmation::Holder(pod) => self.world.pod(&pod.namespace, &pod.name) == Some(pod),
            Confirmation::No | Confirmation::Failed => false,
        };
        if !yes {
            self.releasing.remove(&release.lock);
            self.retries.insert(Retry::Requester(requester));
            return;
        }
        releasing.stage = Stage::Removing;
        self.removing.insert(release.lock.clone());
        let unit = Unit::Attachment(release.attachment.clone());
        if release.reason != ReleaseReason::Duplicate {
            let dirty = self.world.release(&release.attachment);
            self.note(dirty, Evidence::Event);
            // Its rows go even if this process never saw them in effect: a live read confirmed why.
            self.northbound.removed(unit);
        } else {
            self.northbound.changed(unit, Urgency::Deferrable);
        }
    }

    /// Deletes the locks whose ports are gone from a database that this is a copy of. Nothing is being written to it, and
    /// `changing` is what is going to be.
    pub(super) fn delete_released(&mut self, cache: &Cache, changing: &BTreeSet<Unit>) {
        for name in std::mem::take(&mut self.removing) {
            let Some(releasing) = self.releasing.get_mut(&name) else { continue };
            if releasing.stage != Stage::Removing {
                continue;
            }
            let unit = Unit::Attachment(releasing.release.attachment.clone());
            let removed = match releasing.release.reason {
                // The port stays, without what the duplicate says.
                ReleaseReason::Duplicate => !self.northbound.is_pending(&unit) && !changing.contains(&unit),
                _ => {
                    self.world.state(&unit) == UnitState::Absent
                        && self.northbound.target().owners(&unit, cache).is_empty()
                }
            };
            if removed {
                releasing.stage = Stage::Deleting;
                let uid = releasing.release.uid.clone();
                self.actions.push(Action::DeleteLock { lock: name, uid });
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
        if let Some(releasing) = self.releasing.get_mut(name) {
            releasing.stage = Stage::Removing;
            self.removing.insert(name.to_owned());
            let unit = Unit::Attachment(releasing.release.attachment.clone());
            self.northbound.changed(unit, Urgency::Deferrable);
        }
    }

    pub(super) fn lock_comes(&mut self, object: &IPLock) {
        let name = object.name_any();
        let old = self.world.lock(&name).cloned();
        let new = doors::portolan::lock(object).ok();
        if self.releasing.get(&name).is_some_and(|known| Some(&known.release.uid) != object.uid().as_ref()) {
            self.releasing.remove(&name);
        }
        if old != new {
            if let Some(old) = &old {
                self.free(old);
            }
            if let Some(new) = &new {
                self.ipam.take(new);
            }
        }
        if let Some(creating) = self.creating.remove(&name) {
            if let (None, Some(promised)) = (&new, &creating.promised) {
                self.ipam.free(promised);
            }
            self.requesters.insert(creating.requester);
        }
    }

    pub(super) fn lock_goes(&mut self, name: &str) {
        self.releasing.remove(name);
        if let Some(old) = self.world.lock(name).cloned() {
            self.free(&old);
        }
        if let Some(requester) = self.forget_creation(name) {
            self.requesters.insert(requester);
        }
    }

    pub(super) fn locks_listed(&mut self, locks: &[IPLock]) {
        let names: BTreeSet<String> = locks.iter().map(ResourceExt::name_any).collect();
        let gone: Vec<String> = self
            .world
            .locks()
            .map(|lock| &lock.name)
            .filter(|name| !names.contains(*name))
            .cloned()
            .collect();
        for name in gone {
            self.lock_goes(&name);
        }
        for lock in locks {
            self.lock_comes(lock);
        }
        // What was answered before the list was made and is not in it is gone again.
        let answered = self.creating.by_name.iter().filter(|(_, creating)| creating.answered);
        let answered: Vec<String> = answered.map(|(name, _)| name.clone()).collect();
        for name in answered {
            if let Some(requester) = self.forget_creation(&name) {
                self.requesters.insert(requester);
            }
        }
    }

    fn free(&mut self, lock: &Lock) {
        self.ipam.free(lock);
        let next = self.waiters.first(&lock.subnet).cloned();
        self.requesters.extend(next);
    }

    fn forget_creation(&mut self, name: &str) -> Option<Requester> {
        let creating = self.creating.remove(name)?;
        if let Some(promised) = &creating.promised {
            self.free(promised);
        }
        Some(creating.requester)
    }
}
