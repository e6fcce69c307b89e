//! Pods, as far as networks are concerned, and what outlives them.

use std::net::IpAddr;
use std::sync::Arc;

use portolan_api::Annotations;
use smol_str::SmolStr;

use crate::doors::pod::is_kube_ovn_annotation;
use crate::uid::Uid;

/// A pod, as far as networks are concerned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    /// Its namespace.
    pub namespace: SmolStr,
    /// Its name.
    pub name: SmolStr,
    /// Its UID.
    pub uid: Uid,
    /// When it was created, in seconds.
    pub created: i64,
    /// Where it runs.
    pub place: Arc<Place>,
    /// What it uses of the network is the node's.
    pub host_network: bool,
    /// Succeeded or Failed: it will not run again.
    pub finished: bool,
    /// Who makes it again when it goes.
    pub controller: PodController,
    /// Those of its annotations that ask for networks.
    pub annotations: Annotations,
}

/// Where something runs or is used. All that is on one node has the same.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The node.
    pub node: Option<SmolStr>,
    /// The address that other nodes send traffic to.
    pub host_ip: Option<IpAddr>,
}

impl Place {
    /// A node whose address is not known.
    pub fn on(node: &str) -> Arc<Self> {
        Arc::new(Self { node: Some(node.into()), host_ip: None })
    }
}

impl Pod {
    /// The node it was scheduled to.
    pub fn node(&self) -> Option<&str> {
        self.place.node.as_deref()
    }

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
    StatefulSet(Box<SetOfPod>),
    /// A virtual machine of this name, which keeps its addresses; the pod runs it.
    VirtualMachine(Box<str>),
}

/// The StatefulSet that makes a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetOfPod {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
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
