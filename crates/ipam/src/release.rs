//! Locks to be deleted, and what must be confirmed first.

use std::fmt;

use portolan_api::portolan::{Holder, HolderKind};
use portolan_model::holder::{self, Read, Released, Users};
use portolan_model::{AttachmentId, Lock, Request, Requester, World};

use crate::keep::keeps;

/// A lock to be deleted once live reads confirm why, and the removal of its port has been committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// The lock's name.
    pub lock: String,
    /// The lock's UID: a precondition of the deletion.
    pub uid: String,
    /// The version that was decided upon: a precondition of the deletion. A lock that changed since may be in use again.
    pub resource_version: u64,
    /// Whose it is: [`World::release`] takes it out of effect.
    pub attachment: AttachmentId,
    /// Who uses it, as it says.
    pub users: Users,
    /// Why.
    pub reason: ReleaseReason,
}

/// Why a lock is to be deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReleaseReason {
    /// Its holder holds it no more.
    Released(Released),
    /// Its holder does not ask for this interface, or asks for it with another address, MAC address or subnet.
    NotRequested {
        /// Who asks.
        requester: Requester,
    },
    /// Its holder has other locks for the same interface and family, which were created first.
    Duplicate {
        /// Name and UID of those.
        winners: Vec<(String, String)>,
    },
}

impl fmt::Display for ReleaseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReleaseReason::Released(released) => released.fmt(f),
            ReleaseReason::NotRequested { .. } => f.write_str("its holder does not ask for it any more"),
            ReleaseReason::Duplicate { .. } => f.write_str("its holder has an older lock for the interface"),
        }
    }
}

impl Release {
    /// What must be read live before the lock may be deleted.
    pub fn reads(&self) -> Vec<Read> {
        match &self.reason {
            ReleaseReason::Released(_) => holder::reads(&self.attachment, &self.users),
            ReleaseReason::NotRequested { requester } => {
                let mut reads = holder::reads(&self.attachment, &self.users);
                if let Requester::Pod { namespace, name } = requester {
                    let read = Read::Pod { namespace: namespace.clone(), name: name.clone() };
                    if !reads.contains(&read) {
                        reads.push(read);
                    }
                }
                reads
            }
            ReleaseReason::Duplicate { winners } => {
                winners.iter().map(|(name, _)| Read::Lock { name: name.clone() }).collect()
            }
        }
    }

    /// Whether what was read live confirms that the lock may be deleted. `found` has the objects that were read and no others,
    /// `world` is what the release was decided upon.
    pub fn is_confirmed(&self, found: &World, world: &World) -> bool {
        match &self.reason {
            ReleaseReason::Released(_) => holder::released(found, &self.attachment, &self.users).is_some(),
            ReleaseReason::NotRequested { requester } => {
                holder::released(found, &self.attachment, &self.users).is_some()
                    || found.has_same_requester(world, requester)
            }
            ReleaseReason::Duplicate { winners } => {
                winners.iter().all(|(name, uid)| found.lock(name).is_some_and(|lock| lock.uid == *uid))
            }
        }
    }
}

/// The locks of a requester that are to be deleted.
pub(crate) fn releases(world: &World, requester: &Requester, request: Option<&Request>) -> Vec<Release> {
    let satisfied = world.is_satisfied(requester);
    let mut releases = Vec::new();
    for id in world.holdings_of(requester) {
        let held = world.held_locks(&id);
        let all = || held.counted.iter().chain(&held.surplus).copied();
        let reasons: Vec<_> = all().map(|lock| holder::released(world, &id, &Users::of(lock))).collect();
        let released =
            reasons.iter().all(Option::is_some).then(|| reasons.first().copied().flatten()).flatten();
        let not_requested = || {
            let left_alone = (satisfied && world.is_current(requester, &id))
                || world.unreadable_lock_of(&id.holder()).is_some();
            let request =
                request.filter(|request| !left_alone && request.is_ready() && holds(request, &id))?;
            (!keeps(world, request, &id))
                .then(|| ReleaseReason::NotRequested { requester: requester.clone() })
        };
        match released.map(ReleaseReason::Released).or_else(not_requested) {
            Some(reason) => {
                let kept = |lock: &&Lock| is_gateway_in_use(lock, &id, &reason, request);
                releases
                    .extend(all().filter(|lock| !kept(lock)).map(|lock| release(lock, &id, reason.clone())));
            }
            None => {
                let winners =
                    held.counted.iter().map(|lock| (lock.name.to_string(), lock.uid.to_string())).collect();
                let reason = ReleaseReason::Duplicate { winners };
                releases.extend(held.surplus.iter().map(|lock| release(lock, &id, reason.clone())));
            }
        }
    }
    releases
}

/// True for a lock of the gateway that a Subnet has now: when a gateway changes, only the former one's locks go.
fn is_gateway_in_use(
    lock: &Lock,
    id: &AttachmentId,
    reason: &ReleaseReason,
    request: Option<&Request>,
) -> bool {
    let changes = id.kind() == HolderKind::Subnet && matches!(reason, ReleaseReason::NotRequested { .. });
    let mut interfaces = request.into_iter().flat_map(|request| &request.interfaces);
    changes && lock.ip().is_some_and(|ip| interfaces.any(|interface| interface.addresses.contains(&ip)))
}

/// True if a request is made for the holder of an interface, or has it give back what it has.
pub(crate) fn holds(request: &Request, id: &AttachmentId) -> bool {
    request.holders().any(|holder| is_of(holder, id))
}

/// True if an interface is this holder's.
pub(crate) fn is_of(holder: &Holder, id: &AttachmentId) -> bool {
    (holder.kind, holder.name.as_str()) == (id.kind(), id.name()) && *id.uid() == holder.uid
}

fn release(lock: &Lock, id: &AttachmentId, reason: ReleaseReason) -> Release {
    Release {
        lock: lock.name.to_string(),
        uid: lock.uid.to_string(),
        resource_version: lock.resource_version,
        attachment: id.clone(),
        users: Users::of(lock),
        reason,
    }
}
