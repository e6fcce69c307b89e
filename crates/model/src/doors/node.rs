//! Core Kubernetes: Node.

use k8s_openapi::api::core::v1;
use kube_core::ResourceExt;

use crate::node::{CHASSIS_ANNOTATION, Node};

/// A Node as a value.
pub fn node(object: &v1::Node) -> Node {
    let name = object.name_any();
    let addresses = object.status.iter().flat_map(|status| status.addresses.iter().flatten());
    let internal = addresses.filter(|address| address.type_ == "InternalIP");
    let chassis = object.annotations().get(CHASSIS_ANNOTATION).filter(|text| !text.is_empty());
    Node {
        uid: object.uid().unwrap_or_default(),
        chassis: chassis.unwrap_or(&name).clone(),
        addresses: internal.filter_map(|address| address.address.parse().ok()).collect(),
        name,
    }
}
