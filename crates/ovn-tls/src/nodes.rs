//! What certificates follow from: the nodes that there are.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use portolan_model::doors;
use portolan_model::node::CERTIFIED_CHASSIS_ANNOTATION;

/// A node, as far as its certificates go by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeFacts {
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) addresses: Vec<IpAddr>,
    /// The chassis that it says to be: what its agent wrote on it, or else its own name.
    pub(crate) chassis: String,
    /// The chassis that it was certified to be last, if that has a name of its own.
    pub(crate) certified: Option<String>,
}

impl NodeFacts {
    pub(crate) fn of(node: &Node) -> Self {
        let addresses = node.status.iter().flat_map(|status| status.addresses.iter().flatten());
        let own = addresses.filter(|one| matches!(&*one.type_, "InternalIP" | "ExternalIP"));
        Self {
            name: node.name_any(),
            uid: node.uid().unwrap_or_default(),
            addresses: own.filter_map(|one| one.address.parse().ok()).collect(),
            chassis: doors::node::node(node).chassis,
            certified: node.annotations().get(CERTIFIED_CHASSIS_ANNOTATION).cloned(),
        }
    }
}
