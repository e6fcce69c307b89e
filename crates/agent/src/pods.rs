//! What the agent remembers of its node's pods besides what the World has.

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::core::ObjectMeta;

/// The annotation that tells a static pod's mirror from others: the UID that the kubelet gives the pod itself.
const STATIC_POD: &str = "kubernetes.io/config.hash";
/// The annotation that shows what networks a pod has.
pub(crate) const NETWORK_STATUS: &str = "k8s.v1.cni.cncf.io/network-status";

/// Namespace and name.
pub(crate) type PodKey = (String, String);

/// One pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodFacts {
    pub(crate) uid: String,
    pub(crate) resource_version: String,
    /// It has a deletion timestamp.
    pub(crate) terminating: bool,
    /// The UID that the kubelet knows a static pod by.
    pub(crate) static_uid: Option<String>,
    pub(crate) has_network_status: bool,
    pub(crate) ips: Vec<IpAddr>,
}

impl PodFacts {
    fn of(pod: &Pod) -> Self {
        let status = pod.status.as_ref();
        let ips = status.iter().flat_map(|status| status.pod_ips.iter().flatten());
        Self {
            uid: pod.uid().unwrap_or_default(),
            resource_version: pod.resource_version().unwrap_or_default(),
            terminating: pod.metadata.deletion_timestamp.is_some(),
            static_uid: pod.annotations().get(STATIC_POD).cloned(),
            has_network_status: pod.annotations().contains_key(NETWORK_STATUS),
            ips: ips.filter_map(|ip| ip.ip.parse().ok()).collect(),
        }
    }

    /// True if a container runtime that passes `uid` means this pod.
    pub(crate) fn is(&self, uid: Option<&str>) -> bool {
        uid.is_none_or(|uid| uid == self.uid || Some(uid) == self.static_uid.as_deref())
    }
}

/// The pods of the node that were seen and not seen deleted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pods {
    by_name: BTreeMap<PodKey, PodFacts>,
    by_uid: BTreeMap<String, PodKey>,
}

impl Pods {
    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<&PodFacts> {
        self.by_name.get(&(namespace.to_owned(), name.to_owned()))
    }

    /// Namespaces and names by UID.
    pub(crate) fn by_uid(&self) -> &BTreeMap<String, PodKey> {
        &self.by_uid
    }

    pub(crate) fn apply(&mut self, pod: &Pod) {
        let (key, facts) = (key(pod), PodFacts::of(pod));
        self.remove(&key);
        self.by_uid.insert(facts.uid.clone(), key.clone());
        self.by_name.insert(key, facts);
    }

    pub(crate) fn delete(&mut self, pod: &ObjectMeta) {
        self.remove(&(pod.namespace.clone().unwrap_or_default(), pod.name.clone().unwrap_or_default()));
    }

    /// These are all there are. Answers the UIDs of those that are missing now.
    pub(crate) fn replace<'a>(&mut self, pods: impl IntoIterator<Item = &'a Pod>) -> Vec<String> {
        let before = std::mem::take(self);
        for pod in pods {
            self.apply(pod);
        }
        before.by_uid.into_keys().filter(|uid| !self.by_uid.contains_key(uid)).collect()
    }

    fn remove(&mut self, key: &PodKey) {
        if let Some(facts) = self.by_name.remove(key) {
            self.by_uid.remove(&facts.uid);
        }
    }
}

/// A pod of which nothing but the metadata can be read.
pub(crate) fn of_metadata(metadata: &ObjectMeta) -> Pod {
    Pod { metadata: metadata.clone(), ..Pod::default() }
}

pub(crate) fn key(pod: &Pod) -> PodKey {
    (pod.namespace().unwrap_or_default(), pod.name_any())
}
