//! A virtual machine holds its addresses across the pods that run it: until it is absent, **and** so are the pods that use them.
//!
//! While a machine migrates there are two pods; the older one uses the addresses until it has finished.

use portolan_api::portolan::{Holder, HolderKind};

use super::{Read, Released, Users, namespace};
use crate::attachment::AttachmentId;
use crate::pod::Pod;
use crate::request::{Requester, Wait};
use crate::world::World;

/// The holder of the addresses of a machine that a pod runs, or what the pod waits for.
pub(super) fn holder(world: &World, pod: &Pod, name: &str) -> Result<Holder, Vec<Wait>> {
    let key = (pod.namespace.to_string(), name.to_owned());
    let mut waits = Vec::new();
    let machine = world.machine(&key.0, &key.1);
    if machine.is_none() {
        waits.push(Wait::VirtualMachine { namespace: key.0.clone(), name: key.1.clone() });
    }
    let current = world.pod_of_machine(&key);
    if let Some((_, other)) = current.filter(|(_, current)| *current != pod.name) {
        waits.push(Wait::OtherPod { pod: other.clone() });
    }
    match machine.filter(|_| waits.is_empty()) {
        Some(machine) => Ok(Holder {
            kind: HolderKind::VirtualMachine,
            namespace: Some(pod.namespace.to_string()),
            name: name.to_owned(),
            uid: machine.uid.clone(),
            interface: None,
        }),
        None => Err(waits),
    }
}

pub(super) fn released(world: &World, id: &AttachmentId, users: &Users) -> Option<Released> {
    let machine = world.machine(namespace(id), id.name());
    let held =
        machine.is_some_and(|machine| machine.uid == *id.uid()) || users.any_runs(world, namespace(id));
    (!held).then_some(Released::HolderAbsent)
}

pub(super) fn reads(id: &AttachmentId) -> Vec<Read> {
    let (namespace, name) = (namespace(id).to_owned(), id.name().to_owned());
    vec![
        Read::VirtualMachine { namespace: namespace.clone(), name: name.clone() },
        Read::VirtualMachineInstance { namespace, name },
    ]
}

/// The pod that runs the machine asks in its place.
pub(super) fn requester(world: &World, id: &AttachmentId) -> Requester {
    let key = (namespace(id).to_owned(), id.name().to_owned());
    match world.pod_of_machine(&key) {
        Some((namespace, name)) => Requester::pod(namespace, name),
        None => Requester::VirtualMachine { namespace: key.0, name: key.1 },
    }
}
