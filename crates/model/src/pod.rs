//! Pods, as far as networks are concerned, and what outlives them.

use std::net::IpAddr;

use portolan_api::Annotations;
use smol_str::SmolStr;

use crate::doors::pod::is_kube_ovn_annotation;

/// A pod, as far as networks are concerned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    /// Its namespace.
    pub namespace: SmolStr,
    /// Its name.
    pub name: SmolStr,
    /// Its UID.
    pub uid: SmolStr,
    /// When it was created, in seconds.
    pub created: i64,
    /// The node it was scheduled to.
    pub node: Option<SmolStr>,
    /// That node's address.
    pub host_ip: Option<IpAddr>,
    /// What it uses of the network is the node's.
    pub host_network: bool,
    /// Succeeded or Failed: it will not run again.
    pub finished: bool,
    /// Who makes it again when it goes.
    pub controller: PodController,
    /// Those of its annotations that ask for networks.
    pub annotations: Annotations,
}

impl Pod {
    /// True if it has annotations of Kube-OVN, which may have no effect.
    pub fn has_kube_ovn_annotations(&self) -> bool {
        self.annotations.keys().any(is_kube_ovn_annotation)
    }
}

/// Who makes a pod again when it goes, if it keeps its addresses then.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PodController {
    /// No one who would keep its addresses.
    #[default]
    Other,
    /// A StatefulSet: the ordinal keeps its addresses.
    StatefulSet {
        /// The set's name.
        name: String,
        /// The set's UID.
        uid: String,
    },
    /// A virtual machine, which keeps its addresses; the pod runs it.
    VirtualMachine {
        /// The machine's name.
        name: String,
    },
}

/// A StatefulSet, as far as its ordinals' addresses are concerned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatefulSet {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// The first ordinal.
    pub start: u32,
    /// How many ordinals.
    pub replicas: u32,
}

impl StatefulSet {
    /// True if a pod of this name is one of its ordinals.
    pub fn has_ordinal(&self, pod: &str) -> bool {
        let ordinal = pod.strip_prefix(self.name.as_str()).and_then(|rest| rest.strip_prefix('-'));
        let number = ordinal.filter(|text| *text == "0" || !text.starts_with(['0', '+']));
        number
            .and_then(|text| text.parse::<u32>().ok())
            .is_some_and(|n| n >= self.start && n - self.start < self.replicas)
    }
}

/// What holds a virtual machine's addresses: KubeVirt's `VirtualMachine`, or a `VirtualMachineInstance` that no machine made.
/// A machine and its running instance have one name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VirtualMachine {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}
