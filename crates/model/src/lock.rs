//! Locks as the World holds them.

use std::cmp::Ordering;
use std::net::IpAddr;
use std::sync::Arc;

use portolan_api::portolan::{DecidedInterface, HolderKind, LockAddress, LockTarget, LockUser};
use portolan_api::{Domain, FieldErrors, Mac};
use smol_str::SmolStr;

use crate::attachment::{AttachmentId, PortHolder};
use crate::pod::Place;
use crate::uid::Uid;

/// The fact that an address is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lock {
    /// The object's name, which follows from domain and address.
    pub name: SmolStr,
    /// The object's UID: the precondition of its deletion.
    pub uid: Uid,
    /// Where the object stands in the order of all writes.
    pub resource_version: u64,
    /// Which spec this is; 1 is the first.
    pub generation: i64,
    /// Where the address is taken.
    pub network: Arc<Network>,
    /// What is taken.
    pub address: LockAddress,
    /// The MAC address of the interface, as far as was known when the lock was made.
    pub mac: Option<Mac>,
    /// Whose it is.
    pub attachment: AttachmentId,
    /// Where it is used.
    pub place: Arc<Place>,
    /// For a holder that outlives its pods: the pod that uses it now.
    pub user: Option<Box<LockUser>>,
    /// For a virtual machine that migrates: the pod that is about to use it.
    pub target: Option<Box<LockTarget>>,
    /// What it says of the name of the interface's port.
    pub port: PortName,
    /// All that was decided for the holder.
    pub interfaces: Arc<[DecidedInterface]>,
}

/// Where addresses are taken. Many locks have the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Network {
    /// Where they are unique.
    pub domain: Domain,
    /// The subnet they are taken from.
    pub subnet: SmolStr,
}

/// What a lock says of the name of an interface's port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PortName {
    /// Nothing.
    #[default]
    Unsaid,
    /// It is the usual one: [`AttachmentId::iface_id`].
    Usual,
    /// It is another one.
    Other(Box<str>),
}

impl PortName {
    /// What a lock for an interface says.
    pub(crate) fn new(said: Option<&str>, attachment: &AttachmentId) -> Self {
        match said {
            None => PortName::Unsaid,
            Some(name) if name == attachment.iface_id() => PortName::Usual,
            Some(name) => PortName::Other(name.into()),
        }
    }
}

impl Lock {
    /// The name of the interface's port, if the lock says one.
    pub fn iface_id(&self) -> Option<String> {
        match &self.port {
            PortName::Unsaid => None,
            PortName::Usual => Some(self.attachment.iface_id()),
            PortName::Other(name) => Some(name.to_string()),
        }
    }

    /// Where the address is taken.
    pub fn domain(&self) -> &Domain {
        &self.network.domain
    }

    /// The subnet it was taken from.
    pub fn subnet(&self) -> &SmolStr {
        &self.network.subnet
    }

    /// The node where it is used.
    pub fn node(&self) -> Option<&str> {
        self.place.node.as_deref()
    }

    /// The IP address that is taken; none if it is a MAC address.
    pub fn ip(&self) -> Option<IpAddr> {
        match self.address {
            LockAddress::Ip(ip) => Some(ip),
            LockAddress::Mac(_) => None,
        }
    }

    /// Which of two locks for one (interface, family) wins: `Less` is the winner.
    ///
    /// That is the one created first. A lock that was never changed has the resourceVersion of its creation; one that was
    /// changed belongs to a holder that outlives its pods and was in use, so it won before.
    pub fn precedence(&self, other: &Lock) -> Ordering {
        let key = |lock: &Lock| (lock.generation <= 1, lock.resource_version);
        key(self).cmp(&key(other)).then_with(|| self.name.cmp(&other.name))
    }
}

/// An address that a lock takes, whether or not the rest of the lock can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The lock's name.
    pub lock: String,
    /// Where the address is taken.
    pub domain: Domain,
    /// What is taken.
    pub address: LockAddress,
    /// The subnet whose guests have one address less; none for a gateway, which is no guest's address anyway.
    pub subnet: Option<String>,
}

impl Claim {
    /// What a lock takes.
    pub fn of(lock: &Lock) -> Self {
        let gateway = lock.attachment.kind() == HolderKind::Subnet;
        Self {
            lock: lock.name.to_string(),
            domain: lock.domain().clone(),
            address: lock.address,
            subnet: (!gateway).then(|| lock.subnet().to_string()),
        }
    }
}

/// A lock that cannot be read, but takes the address that its name says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableLock {
    /// The object's name.
    pub name: String,
    /// The object's UID.
    pub uid: String,
    /// The address that its name says, if the name says in which domain: that of a long domain name does not.
    pub claim: Option<Claim>,
    /// Whose it is, if that can be read, or else as it was when it could be: nothing is decided for a holder, and nothing that it has is
    /// changed, while one of its locks cannot be read.
    pub attachment: Option<AttachmentId>,
    /// The name of the port that it is for, if that can be read: it tells whose the lock is where nothing else does.
    pub iface_id: Option<String>,
    /// What is wrong with it.
    pub errors: FieldErrors,
}

impl UnreadableLock {
    /// Whose it is as far as the name of its port tells, if nothing else does.
    pub(crate) fn port_holder(&self) -> Option<PortHolder> {
        match self.attachment {
            Some(_) => None,
            None => PortHolder::of_port(self.iface_id.as_deref()?),
        }
    }
}
