//! Deciding: from what a requester asks for to the locks that give it.

use std::collections::BTreeSet;
use std::net::IpAddr;

use portolan_api::Family;
use portolan_api::portolan::{DecidedInterface, HolderKind, IPLock, IPLockSpec, LockAddress, LockUser};
use portolan_model::{Request, Requester, UnreadableLock, World};

use crate::allocation::{Allocation, Share, Standing};
use crate::gateway;
use crate::ipam::Ipam;
use crate::refusal::Refusal;
use crate::release::{Release, ReleaseReason, releases};
use crate::waiters::WaitKey;

/// What is to be done for a requester.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// Locks to be created, each of which is one address or MAC address taken. All or nothing: while anything is refused, none.
    pub create: Vec<IPLock>,
    /// Locks of a holder that outlives its pods, to follow the current one.
    pub moves: Vec<Move>,
    /// Locks to be deleted, after confirmation.
    pub releases: Vec<Release>,
    /// Why it cannot be, now or ever.
    pub refusals: Vec<Refusal>,
}

/// A lock whose `user`, `node`, `hostIP` and `interfaces` are to follow the current pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// The lock's name.
    pub lock: String,
    /// The lock's UID.
    pub uid: String,
    /// The version that was decided upon: a precondition, so that a writer that lags does not move it back.
    pub resource_version: u64,
    /// The pod that uses it now.
    pub user: LockUser,
    /// The node where it is used.
    pub node: String,
    /// That node's address.
    pub host_ip: Option<IpAddr>,
    /// All that was decided for that pod.
    pub interfaces: Vec<DecidedInterface>,
}

impl Decision {
    /// True if there is nothing to do and nothing to say.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// What the requester waits for: it is to be decided again when any of these becomes free.
    pub fn waits_for(&self) -> BTreeSet<WaitKey> {
        self.refusals.iter().flat_map(Refusal::waits_for).collect()
    }
}

impl Ipam {
    /// What is to be done for someone who asks, or asked.
    pub fn decide(&self, world: &World, requester: &Requester) -> Decision {
        let request = world.request(requester);
        let mut decision =
            Decision { releases: releases(world, requester, request.as_ref()), ..Decision::default() };
        let Some(request) = request else { return decision };
        // What was decided stands, whatever has become of the networks that were asked for.
        if world.is_satisfied(requester) {
            return decision;
        }
        if !request.is_ready() {
            let problems = request.problems.into_iter().map(Refusal::Problem);
            decision.refusals = problems.chain(request.waits.into_iter().map(Refusal::Waiting)).collect();
            return decision;
        }
        if request.holder.kind == HolderKind::Subnet {
            gateway::decide(self, world, &request, &mut decision);
            return decision;
        }
        // It may have just what it asks for.
        let unreadable = request.holders().find_map(|holder| world.unreadable_lock_of(holder));
        if let Some(UnreadableLock { name, errors, .. }) = unreadable {
            decision.refusals = vec![Refusal::UnreadableLock { lock: name.clone(), errors: errors.clone() }];
            return decision;
        }
        // What no longer fits goes first: an interface has one set of addresses.
        let replaced = |release: &Release| matches!(release.reason, ReleaseReason::NotRequested { .. });
        let asked = |release: &Release| {
            let name = release.attachment.interface();
            request.interfaces.iter().any(|interface| interface.interface == name)
        };
        if decision.releases.iter().any(|release| replaced(release) && asked(release)) {
            return decision;
        }
        let mut allocation = Allocation::new(self, world, &request);
        let shares: Vec<_> =
            request.interfaces.iter().filter_map(|interface| allocation.share(interface)).collect();
        decision.refusals = allocation.refusals;
        if decision.refusals.is_empty() {
            let interfaces = decided(&shares);
            decision.create = locks(&request, &shares, &interfaces);
            decision.moves = moves(world, &request, &shares, &interfaces);
        }
        decision
    }
}

/// What is decided for a requester, interface by interface.
fn decided(shares: &[Share<'_>]) -> Vec<DecidedInterface> {
    shares
        .iter()
        .map(|share| DecidedInterface {
            interface: share.id.interface().to_owned(),
            families: share.addresses.iter().map(|(address, _)| Family::of(*address)).collect(),
        })
        .collect()
}

/// The locks that do not exist yet.
fn locks(request: &Request, shares: &[Share<'_>], interfaces: &[DecidedInterface]) -> Vec<IPLock> {
    let mut locks = Vec::new();
    for share in shares {
        let spec = IPLockSpec {
            subnet: share.subnet.name.clone(),
            mac: Some(share.mac.to_string()),
            holder: share.id.holder(),
            node: Some(request.node.clone()).filter(|node| !node.is_empty()),
            host_ip: request.host_ip.map(|ip| ip.to_string()),
            user: request.user.clone().filter(|_| share.id.kind().is_sticky()),
            // A Vip has no port.
            iface_id: (request.holder.kind != HolderKind::Vip).then(|| share.id.iface_id()),
            interfaces: interfaces.to_vec(),
            ..IPLockSpec::default()
        };
        let domain = &share.subnet.domain;
        let first = share.addresses.first().map(|(address, _)| *address);
        for (address, _) in share.addresses.iter().filter(|(_, standing)| *standing == Standing::New) {
            // A MAC that follows from another IPv6 address is told by that one's lock alone: if it is lost to a rival, no one
            // could tell that the MAC is stale.
            let tell =
                share.mac_lock.is_some() || first == Some(*address) || first.is_some_and(|a| a.is_ipv4());
            let mac = spec.mac.clone().filter(|_| tell);
            locks.push(IPLock::of(domain, LockAddress::Ip(*address), IPLockSpec { mac, ..spec.clone() }));
        }
        if share.mac_lock == Some(Standing::New) {
            locks.push(IPLock::of(domain, LockAddress::Mac(share.mac), spec));
        }
    }
    locks
}

/// The locks that are to follow the current pod.
fn moves(
    world: &World,
    request: &Request,
    shares: &[Share<'_>],
    interfaces: &[DecidedInterface],
) -> Vec<Move> {
    let Some(user) = &request.user else { return Vec::new() };
    let shares = shares.iter().filter(|share| share.id.kind().is_sticky());
    let held = shares.flat_map(|share| world.held_locks(&share.id).counted);
    let behind = held.filter(|lock| {
        lock.user.as_deref() != Some(user)
            || lock.node() != Some(&request.node)
            || lock.place.host_ip != request.host_ip
            || *lock.interfaces != *interfaces
    });
    behind
        .map(|lock| Move {
            lock: lock.name.to_string(),
            uid: lock.uid.to_string(),
            resource_version: lock.resource_version,
            user: user.clone(),
            node: request.node.clone(),
            host_ip: request.host_ip,
            interfaces: interfaces.to_vec(),
        })
        .collect()
}
