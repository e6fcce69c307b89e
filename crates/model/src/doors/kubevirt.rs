//! KubeVirt: which virtual machines hold addresses.

use kube_core::ResourceExt;
use portolan_api::kubevirt;

use crate::pod::VirtualMachine;

/// A machine as a value.
pub fn machine(object: &kubevirt::VirtualMachine) -> VirtualMachine {
    of(object)
}

/// An instance as a value; none if a machine made it, which then holds the addresses.
pub fn instance(object: &kubevirt::VirtualMachineInstance) -> Option<VirtualMachine> {
    (!object.is_of_machine()).then(|| of(object))
}

fn of(object: &impl ResourceExt) -> VirtualMachine {
    VirtualMachine {
        namespace: object.namespace().unwrap_or_default(),
        name: object.name_any(),
        uid: object.uid().unwrap_or_default(),
    }
}
