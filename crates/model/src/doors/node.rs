//! Core Kubernetes: Node.

use k8s_openapi::api::core::v1;
use kube_core::ResourceExt;

use crate::node::{CHASSIS_ANNOTATION, MTU_ANNOTATION, Node, TUNNEL_MTU_ANNOTATION, Tunnels};

/// A Node as a value.
pub fn node(object: &v1::Node) -> Node {
    let name = object.name_any();
    let addresses = object.status.iter().flat_map(|status| status.addresses.iter().flatten());
    let internal = addresses.filter(|address| address.type_ == "InternalIP");
    let chassis = object.annotations().get(CHASSIS_ANNOTATION).filter(|text| !text.is_empty());
    let number = |key: &str| object.annotations().get(key).and_then(|text| text.parse().ok());
    // An agent reports both at once.
    let tunnels = match (chassis, number(TUNNEL_MTU_ANNOTATION)) {
        (_, Some(mtu)) => Tunnels::Mtu(mtu),
        (Some(_), None) => Tunnels::Nowhere,
        (None, None) => Tunnels::Unreported,
    };
    Node {
        uid: object.uid().unwrap_or_default(),
        chassis: chassis.unwrap_or(&name).clone(),
        addresses: internal.filter_map(|address| address.address.parse().ok()).collect(),
        tunnels,
        told_mtu: number(MTU_ANNOTATION),
        name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_agent_says_of_its_tunnels() {
        for (annotations, tunnels, told_mtu) in [
            (&[][..], Tunnels::Unreported, None),
            (&[(CHASSIS_ANNOTATION, "node1")], Tunnels::Nowhere, None),
            (&[(CHASSIS_ANNOTATION, "node1"), (TUNNEL_MTU_ANNOTATION, "1442")], Tunnels::Mtu(1442), None),
            (&[(TUNNEL_MTU_ANNOTATION, "70000"), (MTU_ANNOTATION, "-1")], Tunnels::Unreported, None),
            (&[(MTU_ANNOTATION, "1400")], Tunnels::Unreported, Some(1400)),
        ] {
            let mut object = v1::Node::default();
            let annotations = annotations.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
            object.metadata.annotations = Some(annotations.collect());
            let node = node(&object);
            assert_eq!((node.tunnels, node.told_mtu), (tunnels, told_mtu));
        }
    }
}
