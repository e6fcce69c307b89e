//! The life cycle of each kind of holder: who holds an address, who uses it, and what must be absent before its lock may go.
//!
//! | holder | holds | uses | the lock goes when |
//! |---|---|---|---|
//! | Pod | the pod | the pod | the pod is absent, Succeeded or Failed |
//! | StatefulSet ordinal | the set, for the ordinal's name | the ordinal's pod | set or ordinal are absent **and** no pod uses it |
//! | VirtualMachine | the machine | the pod that runs it | the machine **and** the pods that use it are absent |
//! | NetworkAttachment | the object | its node | the object is absent |
//! | Node | the node | the node | the node is absent |
//! | Subnet | the Subnet, for its gateway | the VPC's router | the Subnet is absent |
//! | Vip | the object | nobody | the object is absent |
//!
//! There is one file per kind. [`released`] is asked twice: of the World that watches feed, which finds locks to be looked into,
//! and of a World that has nothing but the objects which a live read returned ([`reads`] says which to read), which confirms
//! it. Absence from a cache proves nothing, and the two can never follow different rules.

pub(crate) mod network_attachment;
pub(crate) mod node;
pub(crate) mod pod;
pub(crate) mod stateful_set;
pub(crate) mod subnet;
pub(crate) mod vip;
pub(crate) mod virtual_machine;

use std::collections::BTreeSet;
use std::fmt;

use portolan_api::portolan::{Holder, HolderKind, LockTarget, LockUser};

use crate::attachment::AttachmentId;
use crate::group::Group;
use crate::lock::Lock;
use crate::pod::{Pod, PodController};
use crate::request::{Requester, Wait};
use crate::world::World;

/// An object to be read live.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Read {
    /// A pod.
    Pod {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// A StatefulSet.
    StatefulSet {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// A virtual machine.
    VirtualMachine {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// An instance of a virtual machine.
    VirtualMachineInstance {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// A `NetworkAttachment`.
    NetworkAttachment {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// A network attachment definition.
    Nad {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// A node.
    Node {
        /// Its name.
        name: String,
    },
    /// A VPC of one API group.
    Vpc {
        /// Its group.
        group: Group,
        /// Its name.
        name: String,
    },
    /// A Subnet of one API group.
    SubnetOf {
        /// Its group.
        group: Group,
        /// Its name.
        name: String,
    },
    /// A Subnet, of either API group.
    Subnet {
        /// Its name.
        name: String,
    },
    /// A pool of addresses.
    IpPool {
        /// Its name.
        name: String,
    },
    /// A Vip.
    Vip {
        /// Its name.
        name: String,
    },
    /// A lock.
    Lock {
        /// Its name.
        name: String,
    },
    /// A Service.
    Service {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// An EndpointSlice.
    EndpointSlice {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
}

/// Why a holder holds a lock no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Released {
    /// It is absent, or another one has its name, and nothing uses the address.
    HolderAbsent,
    /// It has Succeeded or Failed.
    HolderFinished,
    /// It is an ordinal that is not in the range of the StatefulSet's replicas, and nothing uses the address.
    OrdinalAbsent,
}

impl fmt::Display for Released {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Released::HolderAbsent => "its holder does not exist any more",
            Released::HolderFinished => "its holder has finished",
            Released::OrdinalAbsent => "its ordinal is not among the StatefulSet's replicas",
        })
    }
}

/// The pods that use an address of a holder which outlives them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Users {
    /// The pod that uses it.
    pub user: Option<LockUser>,
    /// The pod that is about to.
    pub target: Option<LockTarget>,
}

impl Users {
    /// As a lock names them.
    pub fn of(lock: &Lock) -> Self {
        Self { user: lock.user.as_deref().cloned(), target: lock.target.as_deref().cloned() }
    }

    fn pods(&self) -> impl Iterator<Item = (&str, &str)> {
        let user = self.user.iter().map(|user| (user.pod.as_str(), user.uid.as_str()));
        user.chain(self.target.iter().map(|target| (target.pod.as_str(), target.uid.as_str())))
    }

    /// True if one of them exists and has not finished.
    fn any_runs(&self, world: &World, namespace: &str) -> bool {
        self.pods()
            .any(|(name, uid)| world.pod(namespace, name).is_some_and(|pod| pod.uid == uid && !pod.finished))
    }
}

/// Why a holder holds an interface's addresses no more, as far as a World tells; none if it does.
pub fn released(world: &World, id: &AttachmentId, users: &Users) -> Option<Released> {
    match id.kind() {
        HolderKind::Pod => pod::released(world, id),
        HolderKind::StatefulSet => stateful_set::released(world, id, users),
        HolderKind::VirtualMachine => virtual_machine::released(world, id, users),
        HolderKind::NetworkAttachment => network_attachment::released(world, id),
        HolderKind::Node => node::released(world, id),
        HolderKind::Subnet => subnet::released(world, id),
        HolderKind::Vip => vip::released(world, id),
    }
}

/// What must be read live before [`released`] can be asked of what was found.
pub fn reads(id: &AttachmentId, users: &Users) -> Vec<Read> {
    let mut reads = match id.kind() {
        HolderKind::Pod => pod::reads(id),
        HolderKind::StatefulSet => stateful_set::reads(id),
        HolderKind::VirtualMachine => virtual_machine::reads(id),
        HolderKind::NetworkAttachment => network_attachment::reads(id),
        HolderKind::Node => node::reads(id),
        HolderKind::Subnet => subnet::reads(id),
        HolderKind::Vip => vip::reads(id),
    };
    let namespace = namespace(id);
    for (name, _) in users.pods() {
        let read = Read::Pod { namespace: namespace.to_owned(), name: name.to_owned() };
        if !reads.contains(&read) {
            reads.push(read);
        }
    }
    reads
}

/// Who asks for what a holder holds.
pub(crate) fn requester(world: &World, id: &AttachmentId) -> Requester {
    match id.kind() {
        HolderKind::Pod | HolderKind::StatefulSet => Requester::pod(namespace(id), id.name()),
        HolderKind::VirtualMachine => virtual_machine::requester(world, id),
        HolderKind::NetworkAttachment => Requester::network_attachment(namespace(id), id.name()),
        HolderKind::Node => Requester::node(id.name()),
        HolderKind::Subnet => Requester::subnet(id.name()),
        HolderKind::Vip => Requester::vip(id.name()),
    }
}

/// Who holds the addresses of a pod, and whether the pod is named as their user; or what has to come first.
///
/// A pod stays with the holder of the addresses that it uses for as long as it runs: an orphan of a deleted StatefulSet, and a pod
/// that another set has adopted, keep what they have.
///
/// `own` are the interfaces whose addresses the pod holds itself in any case.
pub(crate) fn of_pod(
    world: &World,
    pod: &Pod,
    own: &BTreeSet<&str>,
) -> Result<(Holder, Option<LockUser>), Vec<Wait>> {
    let user = || Some(LockUser { pod: pod.name.to_string(), uid: pod.uid.to_string() });
    if let Some(id) = world.used_by(pod).find(|id| !own.contains(id.interface())) {
        let holder = Holder { interface: None, ..id.holder() };
        return Ok((holder, user().filter(|_| id.kind().is_sticky())));
    }
    match &pod.controller {
        PodController::Other => Ok((pod::holder(pod), None)),
        PodController::StatefulSet(set) => Ok((stateful_set::holder(pod, &set.uid), user())),
        PodController::VirtualMachine(name) => Ok((virtual_machine::holder(world, pod, name)?, user())),
    }
}

/// True if an interface is in use by a pod: what the agent of its node configures.
pub(crate) fn is_used_by(id: &AttachmentId, user: Option<&LockUser>, pod: &Pod) -> bool {
    match id.kind() {
        HolderKind::Pod => *id.uid() == pod.uid && id.name() == pod.name,
        HolderKind::StatefulSet | HolderKind::VirtualMachine => {
            user.is_some_and(|user| user.pod == pod.name && pod.uid == user.uid)
        }
        HolderKind::NetworkAttachment | HolderKind::Node | HolderKind::Subnet | HolderKind::Vip => false,
    }
}

/// The holder's namespace; empty for one that has none.
fn namespace(id: &AttachmentId) -> &str {
    id.namespace().unwrap_or_default()
}
