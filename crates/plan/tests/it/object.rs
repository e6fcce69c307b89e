//! Objects as users write them.

use k8s_openapi::api::core::v1;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use portolan_api::portolan::{
    DecidedInterface, Holder, HolderKind, IPLock, IPLockSpec, LockUser, Subnet, Vpc,
};
use portolan_api::{Domain, Family};
use portolan_model::fixtures::{mk_node, mk_node_again, mk_node_with, mk_slice};
use portolan_model::node::Tunnels;
use portolan_model::pod::Place;
use portolan_model::{AttachmentId, Dirty, Node, Pod, World};
use serde_json::{Value, json};

/// An object of any kind that the World is fed with.
#[derive(Clone, Debug)]
pub(crate) enum Object {
    Vpc(Box<Vpc>),
    Subnet(Box<Subnet>),
    Lock(Box<IPLock>),
    Node(Box<Node>),
    Pod(Box<Pod>),
    Service(Box<v1::Service>),
    Slice(Box<EndpointSlice>),
}

impl Object {
    pub(crate) fn apply(&self, world: &mut World) -> Dirty {
        match self {
            Object::Vpc(vpc) => world.apply(&**vpc),
            Object::Subnet(subnet) => world.apply(&**subnet),
            Object::Lock(lock) => world.apply(&**lock),
            Object::Node(node) => world.apply(&**node),
            Object::Pod(pod) => world.apply(&**pod),
            Object::Service(service) => world.apply(&**service),
            Object::Slice(slice) => world.apply(&**slice),
        }
    }

    pub(crate) fn delete(&self, world: &mut World) -> Dirty {
        match self {
            Object::Vpc(vpc) => world.delete(&**vpc),
            Object::Subnet(subnet) => world.delete(&**subnet),
            Object::Lock(lock) => world.delete(&**lock),
            Object::Node(node) => world.delete(&**node),
            Object::Pod(pod) => world.delete(&**pod),
            Object::Service(service) => world.delete(&**service),
            Object::Slice(slice) => world.delete(&**slice),
        }
    }
}

pub(crate) fn vpc(name: &str, uid: &str, spec: &Value) -> Object {
    let metadata = json!({"name": name, "uid": uid, "generation": 1});
    let vpc =
        json!({"apiVersion": "portolan.dev/v1alpha1", "kind": "Vpc", "metadata": metadata, "spec": spec});
    Object::Vpc(serde_json::from_value(vpc).unwrap())
}

/// A subnet that was found to fit the others.
pub(crate) fn subnet(name: &str, uid: &str, spec: &Value) -> Object {
    let subnet = json!({
        "apiVersion": "portolan.dev/v1alpha1", "kind": "Subnet",
        "metadata": {"name": name, "uid": uid, "generation": 1},
        "spec": spec,
        "status": {"conditions": [{
            "type": "Validated", "status": "True", "reason": "Fits", "message": "", "observedGeneration": 1,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]},
    });
    Object::Subnet(serde_json::from_value(subnet).unwrap())
}

pub(crate) fn service(name: &str, spec: &Value) -> Object {
    let metadata = json!({"namespace": "default", "name": name, "uid": format!("uid-of-{name}")});
    let service = json!({"metadata": metadata, "spec": spec});
    Object::Service(Box::new(serde_json::from_value(service).unwrap()))
}

pub(crate) fn slice(service: &str, endpoints: &[(&str, &str)]) -> Object {
    Object::Slice(Box::new(mk_slice(service, endpoints)))
}

pub(crate) fn node(name: &str, chassis: &str) -> Object {
    let node = Node { uid: format!("uid-{name}"), chassis: chassis.into(), ..mk_node(name) };
    Object::Node(Box::new(node))
}

/// A node of the primary network, with prefixes that were found free of clashes, or none, and with its own addresses.
pub(crate) fn primary_node(name: &str, uid: &str, pod_cidrs: &str, addresses: &[String]) -> Object {
    let node = if pod_cidrs.is_empty() { mk_node(name) } else { mk_node_with(name, pod_cidrs) };
    let addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
    let chassis = format!("chassis-of-{name}");
    Object::Node(Box::new(Node { chassis, addresses, ..mk_node_again(node, uid) }))
}

/// The port of a node, in its own subnet.
pub(crate) fn node_port(node: &'static str, uid: &str, addresses: &[&'static str]) -> Guest {
    Guest {
        kind: HolderKind::Node,
        uid: uid.to_owned(),
        node: Some(node),
        ..pod(node, node_subnet_name(node), "vpc/ovn-cluster", addresses)
    }
}

/// The name of a node's subnet.
pub(crate) fn node_subnet_name(node: &str) -> &'static str {
    match node {
        "node-1" => "node:node-1",
        _ => "node:node-2",
    }
}

/// A node whose tunnels carry packets of this size.
pub(crate) fn tunnelling(name: &str, mtu: u16) -> Object {
    Object::Node(Box::new(Node { tunnels: Tunnels::Mtu(mtu), ..mk_node(name) }))
}

/// The pod that a guest is, with annotations.
pub(crate) fn annotated(guest: &Guest, annotations: &[(&str, &str)]) -> Object {
    Object::Pod(Box::new(Pod {
        namespace: "default".into(),
        name: guest.name.into(),
        uid: guest.uid.as_str().into(),
        place: guest.node.map(Place::on).unwrap_or_default(),
        annotations: annotations.iter().copied().collect(),
        ..Pod::default()
    }))
}

/// A guest whose addresses are locked: one lock for each.
#[derive(Clone, Debug)]
pub(crate) struct Guest {
    pub(crate) kind: HolderKind,
    pub(crate) name: &'static str,
    pub(crate) uid: String,
    pub(crate) subnet: &'static str,
    pub(crate) domain: Domain,
    pub(crate) addresses: Vec<&'static str>,
    pub(crate) mac: Option<&'static str>,
    pub(crate) node: Option<&'static str>,
    pub(crate) user: Option<LockUser>,
}

/// A pod on `subnet`, in the domain `domain`, on node `node-1`.
pub(crate) fn pod(
    name: &'static str,
    subnet: &'static str,
    domain: &str,
    addresses: &[&'static str],
) -> Guest {
    Guest {
        kind: HolderKind::Pod,
        name,
        uid: format!("uid-{name}"),
        subnet,
        domain: domain.parse().unwrap(),
        addresses: addresses.to_vec(),
        mac: None,
        node: Some("node-1"),
        user: None,
    }
}

impl Guest {
    pub(crate) fn holder(&self) -> Holder {
        Holder {
            kind: self.kind,
            namespace: self.kind.is_namespaced().then(|| "default".into()),
            name: self.name.into(),
            uid: self.uid.clone(),
            interface: Some(self.interface().into()),
        }
    }

    fn interface(&self) -> &'static str {
        if self.kind == HolderKind::Node { "node" } else { "eth0" }
    }

    /// The name of its port.
    pub(crate) fn port(&self) -> String {
        AttachmentId::new(&self.holder(), self.interface()).unwrap().iface_id()
    }

    pub(crate) fn mac(&self) -> String {
        let first = self.addresses[0].parse().unwrap();
        let vni = match self.domain {
            Domain::Vni(vni) => Some(vni),
            Domain::Vpc(_) | Domain::Subnet(_) => None,
        };
        self.mac.map_or_else(|| portolan_api::Mac::derive(first, vni).to_string(), str::to_owned)
    }

    pub(crate) fn locks(&self) -> impl Iterator<Item = Object> {
        let family = |address: &&str| Family::of(address.parse().unwrap());
        let families = self.addresses.iter().map(family).collect();
        let spec = IPLockSpec {
            subnet: self.subnet.into(),
            mac: Some(self.mac()),
            holder: self.holder(),
            node: self.node.map(str::to_owned),
            host_ip: self.node.map(|_| "192.168.0.1".to_owned()),
            user: self.user.clone(),
            iface_id: Some(self.port()),
            interfaces: vec![DecidedInterface { interface: self.interface().into(), families }],
            ..IPLockSpec::default()
        };
        let mac = self.mac.into_iter();
        self.addresses.iter().copied().chain(mac).enumerate().map(move |(at, address)| {
            let mut lock = IPLock::of(&self.domain, address.parse().unwrap(), spec.clone());
            lock.metadata.uid = Some(format!("{}-{at}", self.uid));
            lock.metadata.resource_version = Some((at + 1).to_string());
            lock.metadata.generation = Some(1);
            Object::Lock(Box::new(lock))
        })
    }
}
