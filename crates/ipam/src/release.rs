//! Locks to be given back, and what must be confirmed first.

use std::fmt;

use portolan_api::portolan::{Holder, HolderKind};
use portolan_model::{AttachmentId, Lock, Request, Requester, World};

/// A lock to be deleted once a live read confirms why, and the removal of its port has been committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// The lock's name.
    pub lock: String,
    /// The lock's UID: the precondition of the deletion.
    pub uid: String,
    /// Whose it is: [`World::release`] takes it out of effect.
    pub attachment: AttachmentId,
    /// Why.
    pub reason: ReleaseReason,
    /// What a live read must confirm first. Absence from a cache proves nothing.
    pub confirm: Confirm,
}

/// Why a lock is to be given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseReason {
    /// Its holder is not known, or is another one of the same name.
    HolderGone,
    /// Its holder has Succeeded or Failed.
    HolderFinished,
    /// Its ordinal is not in the range of the StatefulSet's replicas.
    OrdinalGone,
    /// Its holder does not ask for this interface.
    NotAsked,
    /// Its holder has another lock for the same interface and family, which was created first.
    Duplicate,
}

impl fmt::Display for ReleaseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ReleaseReason::HolderGone => "its holder is gone",
            ReleaseReason::HolderFinished => "its holder has finished",
            ReleaseReason::OrdinalGone => "its ordinal is not among the replicas",
            ReleaseReason::NotAsked => "its holder does not ask for the interface",
            ReleaseReason::Duplicate => "its holder has an older lock for the interface",
        })
    }
}

/// What a live read must confirm before a lock is deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Confirm {
    /// That the holder is not there, or has another UID.
    HolderGone(Holder),
    /// That the holder is not there, has another UID, or has Succeeded or Failed.
    HolderFinished(Holder),
    /// That the StatefulSet is not there, has another UID, or has no such ordinal; and that the ordinal's pod is not there.
    OrdinalGone(Holder),
    /// That the holder, if it is there, does not ask for the interface.
    NotAsked(Holder),
    /// That these locks are there with these UIDs: the ones that win.
    LocksThere(Vec<(String, String)>),
}

/// The locks that a requester's name stands on and that are to be given back.
pub(crate) fn releases(world: &World, requester: &Requester, request: Option<&Request>) -> Vec<Release> {
    let mut releases = Vec::new();
    for id in world.holdings_of(requester) {
        let held = world.held_locks(&id);
        match reason(world, &id, request) {
            Some(reason) => {
                let all = held.counted.iter().chain(&held.surplus);
                releases.extend(all.map(|lock| release(lock, &id, reason, confirm(&id, reason))));
            }
            None => {
                let winners = held.counted.iter().map(|lock| (lock.name.clone(), lock.uid.clone())).collect();
                let confirm = Confirm::LocksThere(winners);
                let surplus = held.surplus.iter();
                releases.extend(
                    surplus.map(|lock| release(lock, &id, ReleaseReason::Duplicate, confirm.clone())),
                );
            }
        }
    }
    releases
}

fn release(lock: &Lock, id: &AttachmentId, reason: ReleaseReason, confirm: Confirm) -> Release {
    Release { lock: lock.name.clone(), uid: lock.uid.clone(), attachment: id.clone(), reason, confirm }
}

fn confirm(id: &AttachmentId, reason: ReleaseReason) -> Confirm {
    let holder = id.holder();
    match reason {
        ReleaseReason::HolderFinished => Confirm::HolderFinished(holder),
        ReleaseReason::OrdinalGone => Confirm::OrdinalGone(holder),
        ReleaseReason::NotAsked => Confirm::NotAsked(holder),
        ReleaseReason::HolderGone | ReleaseReason::Duplicate => Confirm::HolderGone(holder),
    }
}

/// Why an interface's holder seems to hold it no more; none if it does.
fn reason(world: &World, id: &AttachmentId, request: Option<&Request>) -> Option<ReleaseReason> {
    let namespace = id.namespace().unwrap_or_default();
    let gone = match id.kind() {
        HolderKind::Pod => match world.pod(namespace, id.name()) {
            Some(pod) if pod.uid == id.uid() && pod.finished => Some(ReleaseReason::HolderFinished),
            Some(pod) if pod.uid == id.uid() => None,
            _ => Some(ReleaseReason::HolderGone),
        },
        HolderKind::StatefulSet => {
            let set = id.name().rsplit_once('-').and_then(|(set, _)| world.stateful_set(namespace, set));
            match set {
                Some(set) if set.uid != id.uid() => Some(ReleaseReason::HolderGone),
                // A pod beyond the range may still be on its way down.
                Some(set) if !set.has_ordinal(id.name()) && world.pod(namespace, id.name()).is_none() => {
                    Some(ReleaseReason::OrdinalGone)
                }
                Some(_) => None,
                None => Some(ReleaseReason::HolderGone),
            }
        }
        HolderKind::VirtualMachine => {
            let same = world.machine(namespace, id.name()).is_some_and(|machine| machine.uid == id.uid());
            (!same).then_some(ReleaseReason::HolderGone)
        }
        HolderKind::NetworkAttachment => {
            let same = world
                .network_attachment(namespace, id.name())
                .is_some_and(|attachment| attachment.uid == id.uid());
            (!same).then_some(ReleaseReason::HolderGone)
        }
        HolderKind::Node => {
            let same = world.node(id.name()).is_some_and(|node| node.uid == id.uid());
            (!same).then_some(ReleaseReason::HolderGone)
        }
    };
    // Only a request that is known whole can tell that something is not asked for.
    let not_asked = || {
        let request = request.filter(|request| request.is_ready() && request.holder.uid == id.uid())?;
        let asked = request.interfaces.iter().any(|interface| interface.interface == id.interface());
        (!asked).then_some(ReleaseReason::NotAsked)
    };
    gone.or_else(not_asked)
}
