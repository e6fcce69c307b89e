//! Core Kubernetes and its kin: Pod, StatefulSet, and what a pod's annotations ask for.

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use k8s_openapi::api::{apps, core};
use kube_core::ResourceExt;
use portolan_api::kubeovn::support::{POD_ANNOTATIONS, PodAnnotation};
use portolan_api::networks_annotation::{
    DEFAULT_NETWORK, NETWORKS, NetworkSelection, parse_default_network, parse_networks,
};
use portolan_api::nfn_network::{NFN_NETWORK, NFN_ROUTES, NfnRoute};
use portolan_api::pod_annotations::{EGRESS_RATE, INGRESS_RATE, is_result};
use portolan_api::{FieldError, FieldErrors, FieldPath, GuestRoute, Mac, Rate};
use smol_str::SmolStr;

use super::ovn4nfv;
use crate::pod::{Place, Pod, PodController, SetOfPod, StatefulSet};

/// What a pod's first interface is called.
pub const FIRST_INTERFACE: &str = "eth0";

/// What a pod's interface in the VPC of its namespace is called, on the primary network. No pod can ask for another one of this name there.
pub const VPC_INTERFACE: &str = "vpc0";

/// A Pod as a value.
pub fn pod(object: &core::v1::Pod) -> Pod {
    let (spec, status) = (object.spec.as_ref(), object.status.as_ref());
    let phase = status.and_then(|status| status.phase.as_deref());
    let all = object.annotations();
    let annotations = all.iter().filter(|(key, value)| asks_for_networks(key) && !is_result(all, key, value));
    let node =
        spec.and_then(|spec| spec.node_name.as_ref()).filter(|name| !name.is_empty()).map(SmolStr::new);
    let host_ip = status.and_then(|status| status.host_ip.as_deref()).and_then(|ip| ip.parse().ok());
    Pod {
        namespace: object.namespace().unwrap_or_default().into(),
        name: object.name_any().into(),
        uid: object.uid().unwrap_or_default().into(),
        created: object.creation_timestamp().map_or(0, |time| time.0.as_second()),
        place: Arc::new(Place { node, host_ip }),
        host_network: spec.and_then(|spec| spec.host_network).unwrap_or_default(),
        finished: matches!(phase, Some("Succeeded" | "Failed")),
        controller: controller(object),
        annotations: annotations.map(|(key, value)| (shared_key(key), value)).collect(),
    }
}

fn controller(object: &core::v1::Pod) -> PodController {
    let owner = object.owner_references().iter().find(|owner| owner.controller == Some(true));
    match owner {
        Some(owner) if owner.kind == "StatefulSet" => PodController::StatefulSet(Box::new(SetOfPod {
            name: owner.name.clone(),
            uid: owner.uid.clone(),
        })),
        Some(owner) if owner.kind == "VirtualMachineInstance" => {
            PodController::VirtualMachine(owner.name.as_str().into())
        }
        _ => PodController::Other,
    }
}

/// The keys that many pods have.
const COMMON: [&str; 4] = [NETWORKS, DEFAULT_NETWORK, NFN_NETWORK, NFN_ROUTES];

fn asks_for_networks(key: &str) -> bool {
    COMMON.contains(&key) || is_kube_ovn_annotation(key)
}

/// A key, without a copy if many pods have it.
fn shared_key(key: &str) -> SmolStr {
    let common = COMMON.into_iter().find(|common| *common == key);
    common.map_or_else(|| SmolStr::new(key), SmolStr::new_static)
}

/// True for the annotations by which Kube-OVN's users ask something of an interface.
pub(crate) fn is_kube_ovn_annotation(key: &str) -> bool {
    kube_ovn_annotation(key).is_some()
}

/// What to say of an annotation of Kube-OVN that is not acted on yet.
pub(crate) fn unsupported_annotation(key: &str) -> Option<&'static str> {
    kube_ovn_annotation(key)?.unsupported
}

/// What is wrong with an annotation about a rate, if this is one. Empty ones count as absent, as all of Kube-OVN's do.
pub(crate) fn wrong_rate(key: &str, value: &str) -> Option<FieldError> {
    let (what, value) = (kube_ovn_annotation(key)?.what, value.trim());
    let is_rate = [INGRESS_RATE, EGRESS_RATE].contains(&what) && !value.is_empty();
    let problem = is_rate.then(|| value.parse::<Rate>().err())??;
    let mut errors = FieldErrors::new();
    errors.add_problem(&FieldPath::root("metadata").field("annotations").key(key), value, &problem);
    errors.into_iter().next()
}

/// The annotation of Kube-OVN's of this key: one about a provider, or one that names its interface after a dot. Keys of others
/// that end alike are none.
fn kube_ovn_annotation(key: &str) -> Option<&'static PodAnnotation> {
    let (about, what) = key.split_once(".kubernetes.io/")?;
    let (what, interface) = what.split_once('.').map_or((what, None), |(what, name)| (what, Some(name)));
    if interface.is_none() && !about.split('.').any(|part| part == "ovn") {
        return None;
    }
    POD_ANNOTATIONS.iter().find(|annotation| annotation.what == what)
}

/// A StatefulSet as a value.
pub fn stateful_set(object: &apps::v1::StatefulSet) -> StatefulSet {
    let spec = object.spec.as_ref();
    let start = spec.and_then(|spec| spec.ordinals.as_ref()).and_then(|ordinals| ordinals.start);
    let replicas = spec.and_then(|spec| spec.replicas).unwrap_or(1);
    StatefulSet {
        namespace: object.namespace().unwrap_or_default(),
        name: object.name_any(),
        uid: object.uid().unwrap_or_default(),
        start: start.and_then(|n| u32::try_from(n).ok()).unwrap_or_default(),
        replicas: u32::try_from(replicas).unwrap_or_default(),
    }
}

/// Everything a pod's annotations ask for, before anyone knows whether it exists.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodNetworks {
    /// Its interfaces, in order: the first, then every entry of the annotations, other plugins' included.
    pub interfaces: Vec<RequestedInterface>,
    /// Further routes.
    pub routes: Vec<NfnRoute>,
    /// What is wrong.
    pub problems: Vec<FieldError>,
    /// What has no effect.
    pub warnings: Vec<FieldError>,
}

/// One interface that a pod asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestedInterface {
    /// What it is called.
    pub interface: String,
    /// What it is on.
    pub network: RequestedNetwork,
    /// Addresses it is to have.
    pub addresses: Vec<IpAddr>,
    /// Those that were written with a prefix length, which must be that of the subnet.
    pub prefixes: Vec<IpNet>,
    /// MAC address it is to have.
    pub mac: Option<Mac>,
    /// The default route goes by it: by these routers, or the subnet's gateway if there are none.
    pub default_route: Option<Vec<IpAddr>>,
    /// Further routes by it.
    pub routes: Vec<GuestRoute>,
    /// Where it was asked for.
    pub path: String,
}

/// What an interface is to be on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestedNetwork {
    /// The network of first interfaces.
    First,
    /// A network attachment definition.
    Nad {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// A subnet.
    Subnet(String),
}

/// What a pod's annotations ask for.
pub fn requested_networks(pod: &Pod) -> PodNetworks {
    let mut networks = PodNetworks::default();
    networks.first(pod);
    networks.further(pod);
    ovn4nfv::add_networks(pod, &mut networks);
    networks
}

impl PodNetworks {
    fn first(&mut self, pod: &Pod) {
        match pod.annotations.get(DEFAULT_NETWORK).map(|text| parse_default_network(text, &pod.namespace)) {
            None => self.interfaces.push(RequestedInterface {
                interface: FIRST_INTERFACE.to_owned(),
                network: RequestedNetwork::First,
                addresses: Vec::new(),
                prefixes: Vec::new(),
                mac: None,
                default_route: None,
                routes: Vec::new(),
                path: "metadata.annotations".to_owned(),
            }),
            Some(Ok(selection)) => {
                let path = format!("metadata.annotations[{DEFAULT_NETWORK}]");
                self.interfaces.push(RequestedInterface::of(selection, FIRST_INTERFACE.to_owned(), path));
            }
            Some(Err(errors)) => self.problems.extend(errors),
        }
    }

    fn further(&mut self, pod: &Pod) {
        match pod.annotations.get(NETWORKS).map(|text| parse_networks(NETWORKS, text, &pod.namespace)) {
            None => {}
            Some(Ok(selections)) => {
                self.warnings.extend(selections.warnings);
                for (i, selection) in selections.networks.into_iter().enumerate() {
                    let path = format!("metadata.annotations[{NETWORKS}][{i}]");
                    // Multus numbers all entries, whoever makes them.
                    self.interfaces.push(RequestedInterface::of(selection, format!("net{}", i + 1), path));
                }
            }
            Some(Err(errors)) => self.problems.extend(errors),
        }
    }
}

impl RequestedInterface {
    fn of(selection: NetworkSelection, interface: String, path: String) -> Self {
        Self {
            interface: selection.interface.unwrap_or(interface),
            network: RequestedNetwork::Nad { namespace: selection.namespace, name: selection.name },
            addresses: selection.ips.iter().map(|ip| ip.address).collect(),
            prefixes: Vec::new(),
            mac: selection.mac,
            default_route: (!selection.default_route.is_empty()).then_some(selection.default_route),
            routes: Vec::new(),
            path,
        }
    }
}
