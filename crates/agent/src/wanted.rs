//! Which interfaces an ADD has to make, as far as is known of the cluster.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;
use portolan_cni::{CniError, Code};
use portolan_host::Route;
use portolan_model::doors::pod::{FIRST_INTERFACE, RequestedNetwork, requested_networks};
use portolan_model::guest::{Guest, GuestInterface, GuestState, MissingPart, guest};
use portolan_model::node::{MTU_ANNOTATION, TUNNEL_MTU_ANNOTATION};
use portolan_model::{Needs, Requester, Wait};

use crate::call::{PodArgs, Selection};
use crate::cluster::Known;
use crate::links::PodEnd;

/// What an ADD is for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'a> {
    pub(crate) node: &'a str,
    pub(crate) pod: &'a PodArgs,
    /// The interface that the call names.
    pub(crate) interface: &'a str,
    pub(crate) selection: &'a Selection,
    /// The cluster's networks of pods and services, as configured.
    pub(crate) cluster_networks: &'a [IpNet],
    /// The cluster's networks of services, where they are named apart.
    pub(crate) service_networks: &'a [IpNet],
}

/// What an ADD has to make.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Wanted {
    /// Nothing: the pod asks Portolan for nothing that this call would make.
    Nothing,
    /// These interfaces, of the pod with this UID.
    Interfaces { pod_uid: String, interfaces: Vec<Planned> },
    /// It cannot be made as it is asked for: someone has to change something.
    Refused(CniError),
    /// Not known yet: what is missing.
    Missing(Vec<String>),
}

/// An interface to be made.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Planned {
    pub(crate) interface: String,
    pub(crate) iface_id: String,
    pub(crate) end: PodEnd,
    pub(crate) gateways: Vec<IpAddr>,
}

/// What an ADD has to make, given what is known.
pub(crate) fn wanted(call: &Call<'_>, known: &Known) -> Wanted {
    let PodArgs { namespace, name, uid } = call.pod;
    let facts = known.pods.get(namespace, name).filter(|facts| facts.is(uid.as_deref()));
    let Some(facts) = facts else {
        return Wanted::Missing(vec![format!("pod {} was not seen on node {} yet", call.pod, call.node)]);
    };
    if facts.terminating {
        return Wanted::Refused(pod_ended(call.pod));
    }
    let kept = kept_networks(call, known);
    match guest(&known.world, namespace, name, &kept) {
        GuestState::Unknown => Wanted::Missing(vec![format!("pod {} has no node yet", call.pod)]),
        GuestState::Nothing if *call.selection == Selection::Further => Wanted::Nothing,
        GuestState::Nothing => Wanted::Refused(asks_for_nothing(call)),
        GuestState::Undecided => undecided(call, known),
        GuestState::Decided(guest) => select(call, known, &guest, &facts.uid, &kept),
    }
}

/// The refusal of an ADD whose pod is being deleted, or gone.
pub(crate) fn pod_ended(pod: &PodArgs) -> CniError {
    let msg = format!("pod {pod} is being deleted");
    CniError::new(Code::TryAgainLater, msg, "its sandbox is not needed any more")
}

/// What stays reachable by the first interface when another one takes the default route: pods, services, and this node, whose kubelet
/// probes the pod.
fn kept_networks(call: &Call<'_>, known: &Known) -> Vec<IpNet> {
    let node = known.world.node(call.node).into_iter().flat_map(|node| &node.addresses);
    let networks = call.cluster_networks.iter().chain(call.service_networks);
    networks.copied().chain(node.map(|address| IpNet::from(*address))).collect()
}

fn asks_for_nothing(call: &Call<'_>) -> CniError {
    let msg = match call.selection {
        Selection::Nfn(Some(network)) => {
            format!("pod {} asks for no interface on network {network}", call.pod)
        }
        Selection::Nfn(None) => format!("pod {} asks for no network of OVN4NFV's", call.pod),
        _ => format!("pod {} asks Portolan for no interface {}", call.pod, call.interface),
    };
    let details = match call.selection {
        Selection::All => {
            "name a network in its annotation k8s.v1.cni.cncf.io/networks; or, where another plugin makes first interfaces, \
             put portolan-cni after it with \"interfaces\": \"further\""
        }
        Selection::Nfn(_) => "name networks in its annotation k8s.plugin.opnfv.org/nfn-network",
        _ => "name the network in its annotation k8s.v1.cni.cncf.io/networks",
    };
    CniError::new(Code::InvalidConfig, msg, details)
}

/// No address has been locked for the pod.
fn undecided(call: &Call<'_>, known: &Known) -> Wanted {
    let requester = Requester::pod(&call.pod.namespace, &call.pod.name);
    let Needs::Interfaces(request) = known.world.needs(&requester) else {
        return Wanted::Missing(vec![format!("the requests of pod {}", call.pod)]);
    };
    if !request.problems.is_empty() {
        let problems: Vec<_> = request.problems.iter().map(ToString::to_string).collect();
        let msg = format!("pod {} asks for interfaces that it cannot have", call.pod);
        return Wanted::Refused(CniError::new(Code::InvalidConfig, msg, problems.join("; ")));
    }
    // Virtual machines and pools are the controller's to follow: what is not known of one here says nothing.
    let is_followed = |wait: &&Wait| !matches!(wait, Wait::VirtualMachine { .. } | Wait::IpPool(_));
    let mut waits = request.waits.iter().filter(is_followed).peekable();
    if waits.peek().is_some() {
        return Wanted::Missing(waits.map(|wait| format!("pod {}: {wait}", call.pod)).collect());
    }
    let interfaces = request.interfaces.iter();
    let missing = interfaces.map(|one| no_address(call, &one.interface, Some(&one.subnet)));
    Wanted::Missing(missing.collect())
}

fn no_address(call: &Call<'_>, interface: &str, subnet: Option<&str>) -> String {
    let subnet = subnet.map(|subnet| format!(" on Subnet {subnet}")).unwrap_or_default();
    format!(
        "interface {interface} of pod {}{subnet} has no address yet, which the controller assigns; the pod's Events say why",
        call.pod
    )
}

/// The interfaces of a call, among all that were decided for the pod.
fn select(call: &Call<'_>, known: &Known, guest: &Guest<'_>, pod_uid: &str, kept: &[IpNet]) -> Wanted {
    let nfn = nfn_interfaces(call, known);
    let selected = |name: &str| match call.selection {
        Selection::All => true,
        Selection::Further => name != FIRST_INTERFACE,
        Selection::Named | Selection::Provider(_) => name == call.interface,
        Selection::Nfn(_) => nfn.contains(name),
    };
    let missing: Vec<_> = guest.missing.iter().filter(|one| selected(&one.interface)).collect();
    let found: Vec<_> = guest.interfaces.iter().filter(|one| selected(one.name())).collect();
    if matches!(call.selection, Selection::Nfn(_)) && missing.is_empty() && found.is_empty() {
        return Wanted::Refused(asks_for_nothing(call));
    }
    let names_one = call.selection.makes_named();
    let has = |name: &str| found.iter().any(|one| one.name() == name);
    if names_one && !has(call.interface) && !missing.iter().any(|one| one.interface == call.interface) {
        let names = guest.interfaces.iter().map(GuestInterface::name);
        let names: Vec<_> = names.chain(guest.missing.iter().map(|one| one.interface.as_str())).collect();
        let msg = format!("pod {} has no interface {} of Portolan's", call.pod, call.interface);
        let details = format!("it has {}; the call's interface name must be one of these", names.join(", "));
        return Wanted::Refused(CniError::new(Code::InvalidConfig, msg, details));
    }
    if let Selection::Provider(provider) = call.selection
        && let Some(other) = found.iter().find(|one| one.subnet.config.provider.as_ref() != Some(provider))
    {
        let msg = format!("interface {} of pod {} is not of provider {provider}", call.interface, call.pod);
        let details = format!("it is on Subnet {}; correct provider in the definition", other.subnet.name);
        return Wanted::Refused(CniError::new(Code::InvalidConfig, msg, details));
    }
    if !missing.is_empty() {
        let text = missing.iter().flat_map(|one| match &one.what {
            MissingPart::Attachment => vec![no_address(call, &one.interface, None)],
            MissingPart::Request(waits) => waits
                .iter()
                .map(|wait| format!("interface {} of pod {}: {wait}", one.interface, call.pod))
                .collect(),
        });
        return Wanted::Missing(text.collect());
    }
    // A guess would be lost packets, once they are large: it is waited for.
    let default = known.world.node(call.node).and_then(|node| node.told_mtu);
    let planned = |one: &&GuestInterface<'_>| Some(planned(one, one.subnet.config.mtu.or(default)?, kept));
    match found.iter().map(planned).collect() {
        Some(interfaces) => Wanted::Interfaces { pod_uid: pod_uid.to_owned(), interfaces },
        None => Wanted::Missing(vec![mtu_unknown(call.node)]),
    }
}

/// Why the MTU of pods is not known.
pub(crate) fn mtu_unknown(node: &str) -> String {
    format!(
        "Node {node} has no annotation {MTU_ANNOTATION}, by which the controller says the MTU of pods: see whether the controller runs and is of \
         this version, and whether this agent could report {TUNNEL_MTU_ANNOTATION} on the Node; or start the controller with --mtu"
    )
}

/// The interfaces that the pod's annotation of OVN4NFV asks for, of those that the call is about.
fn nfn_interfaces(call: &Call<'_>, known: &Known) -> BTreeSet<String> {
    let Selection::Nfn(network) = call.selection else { return BTreeSet::new() };
    let Some(pod) = known.world.pod(&call.pod.namespace, &call.pod.name) else { return BTreeSet::new() };
    let asked = requested_networks(pod).interfaces.into_iter();
    let of_network = asked.filter(|one| match &one.network {
        RequestedNetwork::Subnet(subnet) => network.as_ref().is_none_or(|network| network == subnet),
        RequestedNetwork::First | RequestedNetwork::Nad { .. } => false,
    });
    of_network.map(|one| one.interface).collect()
}

fn planned(interface: &GuestInterface<'_>, mtu: u16, kept: &[IpNet]) -> Planned {
    let routes = interface.routes.iter();
    Planned {
        interface: interface.name().to_owned(),
        iface_id: interface.attachment.iface_id(),
        end: PodEnd {
            mac: interface.attachment.mac,
            mtu,
            addresses: interface.addresses.clone(),
            routes: routes
                .map(|route| Route { destination: route.destination, gateway: route.gateway })
                .collect(),
            kept: if interface.name() == FIRST_INTERFACE { Vec::new() } else { kept.to_vec() },
        },
        gateways: interface.gateways.clone(),
    }
}
