//! The nodes: what an agent sees, and the addresses that it configured in pods.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Node as NodeObject, Pod};
use kube::ResourceExt;
use portolan_api::nad::NetworkAttachmentDefinition;
use portolan_api::portolan::{IPLock, LockAddress, LockName, Subnet, Vpc};
use portolan_controller::engine::Change;
use portolan_model::guest::{GuestState, guest};
use portolan_model::{Settings, Source, World};

use super::Broken;
use super::server::{Served, Server};

/// The addresses in running pods, as names of locks, by the UID of the pod.
pub(crate) type Guests = BTreeMap<String, BTreeSet<String>>;

/// An agent whose watches lag.
pub(crate) struct Node {
    world: World,
    cursors: [usize; 6],
    broken: Option<Broken>,
}

/// The kinds that an agent follows.
pub(crate) const KINDS: usize = 6;

impl Node {
    pub(crate) fn new(settings: Settings, broken: Option<Broken>) -> Self {
        Self { world: World::new(settings), cursors: [0; 6], broken }
    }

    /// Delivers the next event of a kind. False if there is nothing new.
    pub(crate) fn follow(&mut self, server: &Server, kind: usize) -> bool {
        let (world, cursor) = (&mut self.world, &mut self.cursors[kind]);
        match kind {
            0 => follow::<Vpc>(world, server, cursor, Vpc::clone),
            1 => follow::<Subnet>(world, server, cursor, Subnet::clone),
            2 => follow(world, server, cursor, NetworkAttachmentDefinition::clone),
            3 => follow::<Pod>(world, server, cursor, Pod::clone),
            4 => follow::<NodeObject>(world, server, cursor, NodeObject::clone),
            _ if self.broken == Some(Broken::IgnoresPrecedence) => follow(world, server, cursor, as_if_first),
            _ => follow::<IPLock>(world, server, cursor, IPLock::clone),
        }
    }

    /// The runtime asks for the pod's interfaces: its addresses, once all are known.
    pub(crate) fn add(&self, pod: &Pod, guests: &mut Guests) -> bool {
        let uid = pod.uid().unwrap_or_default();
        let seen =
            self.world.pod("default", &pod.name_any()).is_some_and(|seen| seen.uid == uid && !seen.finished);
        if !seen || guests.contains_key(&uid) {
            return false;
        }
        let GuestState::Decided(guest) = guest(&self.world, "default", &pod.name_any(), &[]) else {
            return false;
        };
        if !guest.missing.is_empty() {
            return false;
        }
        let addresses = guest.interfaces.iter().flat_map(|interface| {
            let name = |ip: &std::net::IpAddr| {
                LockName::new(&interface.subnet.domain, LockAddress::Ip(*ip)).to_string()
            };
            interface.attachment.addresses.iter().map(name).collect::<Vec<_>>()
        });
        let addresses = addresses.collect();
        trace!("node: {} {uid} has {addresses:?}", pod.name_any());
        guests.insert(uid, addresses);
        true
    }
}

/// A lock with a version that makes it the first of those that were stored before.
fn as_if_first(lock: &IPLock) -> IPLock {
    let mut lock = lock.clone();
    let version = lock.resource_version().and_then(|version| version.parse::<u64>().ok()).unwrap_or_default();
    lock.metadata.resource_version = Some((u64::from(u32::MAX) - version).to_string());
    lock
}

fn follow<K: Served + Source>(
    world: &mut World,
    server: &Server,
    cursor: &mut usize,
    as_seen: impl Fn(&K) -> K,
) -> bool {
    let Some(change) = K::shelf(server).history.get(*cursor) else { return false };
    *cursor += 1;
    match change {
        Change::Applied(object) => drop(world.apply(&as_seen(object))),
        Change::Deleted(object) => drop(world.delete_named::<K>(&object.metadata)),
        Change::Unreadable(_) | Change::Listed(_) => {}
    }
    true
}
