//! Objects for tests: each `mk_*` makes a plain one that is right, for the test to change.

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use portolan_api::cidr::HostBits;
use portolan_api::condition::{ConditionUpdate, VALIDATED, set_condition};
use portolan_api::finalizer::IN_USE;
use portolan_api::nad::{NetworkAttachmentDefinition, NetworkAttachmentDefinitionSpec};
use portolan_api::portolan::{
    DecidedInterface, Holder, HolderKind, IPLock, IPLockSpec, LockAddress, NetworkAttachment,
    NetworkAttachmentSpec, Subnet, SubnetSpec, SubnetStatus, Vpc, VpcPeering, VpcSpec,
};
use portolan_api::{CidrBlock, Domain, Family, Mac, kubeovn};
use serde_json::json;

use crate::attachment::AttachmentId;
use crate::node::{Node, Tunnels};
use crate::node_subnet::served;
use crate::pod::{Place, Pod};

/// A VPC that has the finalizer.
pub fn mk_vpc(name: &str) -> Vpc {
    let mut vpc = Vpc::new(name, VpcSpec::default());
    vpc.metadata.uid = Some(format!("vpc-{name}"));
    vpc.metadata.generation = Some(1);
    vpc.metadata.finalizers = Some(vec![IN_USE.to_owned()]);
    vpc
}

/// Another half of a peering for a VPC.
pub fn mk_peering(remote: &str, local: &str) -> VpcPeering {
    VpcPeering { remote_vpc: remote.to_owned(), local_connect_ip: local.to_owned() }
}

/// A VPC of `kubeovn.io`.
pub fn mk_kubeovn_vpc(name: &str) -> kubeovn::Vpc {
    let mut vpc = kubeovn::Vpc::new(name, kubeovn::VpcSpec::default());
    vpc.metadata.uid = Some(format!("kubeovn-vpc-{name}"));
    vpc.metadata.generation = Some(1);
    vpc.metadata.finalizers = Some(vec![IN_USE.to_owned()]);
    vpc
}

/// A subnet that was validated, has the finalizer and lets every namespace in; in a VPC if one is named.
pub fn mk_subnet(name: &str, cidr: &str, vpc: &str) -> Subnet {
    let vpc = Some(vpc.to_owned()).filter(|vpc| !vpc.is_empty());
    let allowed_namespaces = vec!["*".to_owned()];
    let mut subnet = Subnet::new(
        name,
        SubnetSpec { cidr_block: cidr.to_owned(), vpc, allowed_namespaces, ..SubnetSpec::default() },
    );
    subnet.metadata.uid = Some(format!("subnet-{name}"));
    subnet.metadata.generation = Some(1);
    subnet.metadata.finalizers = Some(vec![IN_USE.to_owned()]);
    mk_validated(subnet, Some(1))
}

/// A subnet whose condition `Validated` is of this generation.
pub fn mk_validated(mut subnet: Subnet, generation: Option<i64>) -> Subnet {
    let now = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(k8s_openapi::jiff::Timestamp::UNIX_EPOCH);
    let update =
        ConditionUpdate { type_: VALIDATED, status: true.into(), reason: "Valid", message: "", generation };
    set_condition(&mut subnet.status.get_or_insert_with(SubnetStatus::default).conditions, update, &now);
    subnet
}

/// A subnet of `kubeovn.io` that was validated and has the finalizer.
pub fn mk_kubeovn_subnet(name: &str, cidr: &str) -> kubeovn::Subnet {
    let spec = kubeovn::SubnetSpec { cidr_block: Some(cidr.to_owned()), ..kubeovn::SubnetSpec::default() };
    let mut subnet = kubeovn::Subnet::new(name, spec);
    subnet.metadata.uid = Some(format!("kubeovn-subnet-{name}"));
    subnet.metadata.generation = Some(1);
    subnet.metadata.finalizers = Some(vec![IN_USE.to_owned()]);
    let condition = kubeovn::Condition {
        type_: VALIDATED.to_owned(),
        status: "True".to_owned(),
        observed_generation: Some(1),
        ..kubeovn::Condition::default()
    };
    let status =
        kubeovn::SubnetStatus { conditions: Some(vec![condition]), ..kubeovn::SubnetStatus::default() };
    subnet.status = Some(status);
    subnet
}

/// A pool of addresses of a subnet.
pub fn mk_ip_pool(name: &str, subnet: &str, ips: &[&str], namespaces: &[&str]) -> kubeovn::IPPool {
    let list = |texts: &[&str]| Some(texts.iter().map(|text| (*text).to_owned()).collect());
    let spec = kubeovn::IpPoolSpec {
        subnet: Some(subnet.to_owned()),
        ips: list(ips),
        namespaces: list(namespaces),
        ..kubeovn::IpPoolSpec::default()
    };
    let mut pool = kubeovn::IPPool::new(name, spec);
    pool.metadata.uid = Some(format!("ippool-{name}"));
    pool.metadata.generation = Some(1);
    pool
}

/// A network attachment definition of Portolan.
pub fn mk_nad(namespace: &str, name: &str) -> NetworkAttachmentDefinition {
    mk_nad_of(namespace, name, &format!(r#"{{"type":"kube-ovn","provider":"{name}.{namespace}.ovn"}}"#))
}

/// A network attachment definition with this configuration.
pub fn mk_nad_of(namespace: &str, name: &str, config: &str) -> NetworkAttachmentDefinition {
    let spec = NetworkAttachmentDefinitionSpec { config: Some(config.to_owned()), ..Default::default() };
    let mut nad = NetworkAttachmentDefinition::new(name, spec);
    nad.metadata.namespace = Some(namespace.to_owned());
    nad.metadata.uid = Some(format!("nad-{namespace}-{name}"));
    nad
}

/// A pod that was scheduled to `node-1`, with these annotations.
pub fn mk_pod(namespace: &str, name: &str, annotations: &[(&str, &str)]) -> Pod {
    Pod {
        namespace: namespace.into(),
        name: name.into(),
        uid: format!("pod-{namespace}-{name}").into(),
        place: Place::on("node-1"),
        annotations: annotations.iter().copied().collect(),
        ..Pod::default()
    }
}

/// A node whose chassis is called like it.
pub fn mk_node(name: &str) -> Node {
    Node {
        name: name.to_owned(),
        uid: format!("node-{name}"),
        created: None,
        chassis: name.to_owned(),
        addresses: vec![[192, 168, 0, 1].into()],
        tunnels: Tunnels::Unreported,
        told_mtu: None,
        zone: None,
        pod_cidrs: None,
        served_cidrs: None,
        agent_is_primary: None,
        problem: None,
    }
}

/// A node with prefixes for its pods that were found free of clashes.
pub fn mk_node_with(name: &str, pod_cidrs: &str) -> Node {
    let cidr = CidrBlock::parse(pod_cidrs, HostBits::Refuse).expect("invariant: a test gives prefixes");
    let node = mk_node(name);
    Node { pod_cidrs: Some(Ok(cidr)), served_cidrs: Some(served(cidr, &node.uid)), ..node }
}

/// The same node with another UID, as one that was made again: its prefixes were found free of clashes anew, if they were.
pub fn mk_node_again(node: Node, uid: &str) -> Node {
    let served_cidrs = match (&node.pod_cidrs, &node.served_cidrs) {
        (Some(Ok(cidr)), Some(_)) => Some(served(*cidr, uid)),
        _ => None,
    };
    Node { uid: uid.to_owned(), served_cidrs, ..node }
}

/// A `NetworkAttachment` on `node-1`.
pub fn mk_network_attachment(namespace: &str, name: &str, subnet: &str) -> NetworkAttachment {
    let spec = NetworkAttachmentSpec {
        node: "node-1".to_owned(),
        subnet: subnet.to_owned(),
        address: None,
        mac: None,
        tap: None,
    };
    let mut attachment = NetworkAttachment::new(name, spec);
    attachment.metadata.namespace = Some(namespace.to_owned());
    attachment.metadata.uid = Some(format!("attachment-{namespace}-{name}"));
    attachment
}

/// The holder of a pod's interface.
pub fn mk_holder(namespace: &str, name: &str, interface: &str) -> Holder {
    Holder {
        kind: HolderKind::Pod,
        namespace: Some(namespace.to_owned()),
        name: name.to_owned(),
        uid: format!("pod-{namespace}-{name}"),
        interface: Some(interface.to_owned()),
    }
}

/// The id of a pod's interface.
///
/// # Panics
/// If there can be no such pod.
pub fn mk_id(namespace: &str, name: &str, interface: &str) -> AttachmentId {
    AttachmentId::new(&mk_holder(namespace, name, interface), interface).expect("a holder that can be")
}

/// A lock of a pod in namespace `default` on its interface `eth0`, which is all it was to have; with this resourceVersion.
///
/// # Panics
/// If the domain or the address is none.
pub fn mk_lock(domain: &str, subnet: &str, address: &str, pod: &str, version: u64) -> IPLock {
    let domain: Domain = domain.parse().expect("a domain");
    let address: LockAddress = address.parse().expect("an address");
    let ip = match address {
        LockAddress::Ip(ip) => Some(ip),
        LockAddress::Mac(_) => None,
    };
    let families: Vec<Family> = ip.map(Family::of).into_iter().collect();
    let spec = IPLockSpec {
        subnet: subnet.to_owned(),
        mac: ip.map(|ip| Mac::derive(ip, None).to_string()),
        holder: mk_holder("default", pod, "eth0"),
        node: Some("node-1".to_owned()),
        interfaces: vec![DecidedInterface { interface: "eth0".to_owned(), families }],
        ..IPLockSpec::default()
    };
    mk_stored(IPLock::of(&domain, address, spec), version)
}

/// A lock as the API server answers its creation.
pub fn mk_stored(mut lock: IPLock, version: u64) -> IPLock {
    lock.metadata.uid = Some(format!("lock-{version}"));
    lock.metadata.resource_version = Some(version.to_string());
    lock.metadata.generation = Some(1);
    lock
}

/// A Service with one TCP port 80 at a cluster IP of each of these.
pub fn mk_service(name: &str, cluster_ips: &[&str]) -> Service {
    let service = json!({
        "metadata": {"namespace": "default", "name": name, "uid": format!("service-{name}")},
        "spec": {
            "type": "ClusterIP", "clusterIP": cluster_ips.first(), "clusterIPs": cluster_ips,
            "ports": [{"port": 80, "targetPort": 8080, "protocol": "TCP"}],
        },
    });
    serde_json::from_value(service).expect("invariant: it is a Service")
}

/// The endpoints of a Service's only port, which is 8080 there: addresses with the nodes they are on. All are ready.
pub fn mk_slice(service: &str, endpoints: &[(&str, &str)]) -> EndpointSlice {
    let is_v6 = endpoints.first().is_some_and(|(address, _)| address.contains(':'));
    let endpoint =
        |(address, node): &(&str, &str)| json!({"addresses": [address], "nodeName": node, "conditions": {}});
    let slice = json!({
        "metadata": {
            "namespace": "default", "name": format!("{service}-{}", if is_v6 { "6" } else { "4" }),
            "labels": {"kubernetes.io/service-name": service},
        },
        "addressType": if is_v6 { "IPv6" } else { "IPv4" },
        "ports": [{"port": 8080, "protocol": "TCP"}],
        "endpoints": endpoints.iter().map(endpoint).collect::<Vec<_>>(),
    });
    serde_json::from_value(slice).expect("invariant: it is an EndpointSlice")
}
