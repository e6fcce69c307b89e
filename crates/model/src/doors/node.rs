//! Core Kubernetes: Node.

use k8s_openapi::api::core::v1;
use kube_core::ResourceExt;
use portolan_api::cidr::{HostBits, parse_net};
use portolan_api::{CidrBlock, FieldErrors, FieldPath, Reason};

use crate::node::{
    CHASSIS_ANNOTATION, MTU_ANNOTATION, Node, POD_CIDRS_ANNOTATION, PRIMARY_ANNOTATION, PROBLEM_ANNOTATION,
    TUNNEL_MTU_ANNOTATION, Tunnels, ZONE_LABEL,
};

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
        created: object.creation_timestamp().map(|time| time.0.as_second()),
        chassis: chassis.unwrap_or(&name).clone(),
        zone: object.labels().get(ZONE_LABEL).filter(|zone| !zone.is_empty()).cloned(),
        addresses: internal.filter_map(|address| address.address.parse().ok()).collect(),
        tunnels,
        told_mtu: number(MTU_ANNOTATION),
        pod_cidrs: object.spec.as_ref().and_then(pod_cidrs),
        served_cidrs: object.annotations().get(POD_CIDRS_ANNOTATION).cloned(),
        agent_is_primary: object.annotations().get(PRIMARY_ANNOTATION).and_then(|text| text.parse().ok()),
        problem: object.annotations().get(PROBLEM_ANNOTATION).filter(|text| !text.is_empty()).cloned(),
        name,
    }
}

/// The prefixes of a Node's pods: one of each family at most.
fn pod_cidrs(spec: &v1::NodeSpec) -> Option<Result<CidrBlock, FieldErrors>> {
    let listed = spec.pod_cidrs.as_deref().unwrap_or_default();
    // The older field has the first of them.
    let alone = spec.pod_cidr.as_slice();
    let texts = if listed.is_empty() { alone } else { listed };
    let texts: Vec<&String> = texts.iter().filter(|text| !text.is_empty()).collect();
    let list = FieldPath::SPEC;
    let list = list.field("podCIDRs");
    let mut errors = FieldErrors::new();
    let (mut v4, mut v6) = (None, None);
    for (i, text) in texts.iter().enumerate() {
        match parse_net(text, HostBits::Mask) {
            Ok(ipnet::IpNet::V4(net)) if v4.is_none() => v4 = Some(net),
            Ok(ipnet::IpNet::V6(net)) if v6.is_none() => v6 = Some(net),
            Ok(_) => {
                let message = "is a second prefix of its family; a node has one of each at most";
                errors.add(&list.index(i), text, Reason::Duplicate, message);
            }
            Err(problem) => errors.add_problem(&list.index(i), text, &problem),
        }
    }
    errors.into_result(CidrBlock::from_parts(v4, v6)).transpose()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]
mod tests {
    use super::*;

    #[test]
    fn the_prefixes_of_its_pods() {
        let read = |one: Option<&str>, all: &[&str]| {
            let spec = v1::NodeSpec {
                pod_cidr: one.map(str::to_owned),
                pod_cidrs: Some(all.iter().map(|text| (*text).to_owned()).collect()),
                ..Default::default()
            };
            let node = node(&v1::Node { spec: Some(spec), ..Default::default() });
            node.pod_cidrs.map(|read| read.map_or_else(|e| e.to_string(), |cidr| cidr.to_string()))
        };
        assert_eq!(read(None, &[]), None);
        assert_eq!(read(Some(""), &[""]), None);
        assert_eq!(read(Some("10.1.0.0/24"), &[]).as_deref(), Some("10.1.0.0/24"));
        let both = ["fd00:1::/64", "10.1.0.7/24"];
        assert_eq!(read(Some("10.1.0.0/24"), &both).as_deref(), Some("10.1.0.0/24,fd00:1::/64"));
        let twice = read(None, &["10.1.0.0/24", "10.2.0.0/24"]).unwrap();
        assert!(twice.starts_with("spec.podCIDRs[1]: \"10.2.0.0/24\" is a second prefix"), "{twice}");
        let wrong = read(None, &["here"]).unwrap();
        assert!(wrong.starts_with("spec.podCIDRs[0]: \"here\" "), "{wrong}");
    }

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
