//! What a pod is told about its interfaces by annotations, each by the API through which it asked for the interface.

use std::collections::BTreeMap;

use portolan_api::Provider;
use portolan_api::nfn_network::{NFN_INTERFACES, NfnResult, nfn_interfaces};
use portolan_api::pod_annotations::{InterfaceResult, result_annotations};

use super::World;
use crate::doors::pod::{RequestedNetwork, VPC_INTERFACE, requested_networks};
use crate::group::Group;
use crate::guest::{GuestInterface, GuestState, guest};
use crate::pod::Pod;
use crate::request::{InterfaceRequest, Requester};

impl World {
    /// The annotations that tell a pod what it got. Nothing before all of it is known, nothing for a pod that has finished, and nothing for
    /// one that asked in no words of Kube-OVN's or OVN4NFV's. What the pod itself asks for is never among them.
    pub fn results(&self, namespace: &str, name: &str) -> BTreeMap<String, String> {
        let mut annotations = BTreeMap::new();
        let Some(pod) = self.pods.get(namespace, name).filter(|pod| !pod.finished) else {
            return annotations;
        };
        // The plain pod of the cluster's own network.
        if pod.annotations.is_empty() {
            return annotations;
        }
        let GuestState::Decided(guest) = guest(self, namespace, name, &[]) else { return annotations };
        if !guest.missing.is_empty() {
            return annotations;
        }
        let Some(request) = self.request(&Requester::pod(namespace, name)) else { return annotations };
        let networks = requested_networks(pod);
        let asked_by = |interface: &str| {
            let asked = networks.interfaces.iter().find(|asked| asked.interface == interface);
            asked.map(|asked| &asked.network)
        };
        let mut nfn = Vec::new();
        for interface in &guest.interfaces {
            match asked_by(interface.name()) {
                Some(RequestedNetwork::Subnet(_)) => nfn.push(nfn_result(interface)),
                Some(RequestedNetwork::Nad { .. } | RequestedNetwork::First) => {
                    kubeovn_result(interface, &request.interfaces, pod, &mut annotations);
                }
                None if interface.name() == VPC_INTERFACE => {
                    kubeovn_result(interface, &request.interfaces, pod, &mut annotations);
                }
                None => {}
            }
        }
        if !nfn.is_empty() {
            annotations.insert(NFN_INTERFACES.to_owned(), nfn_interfaces(&nfn));
        }
        annotations
    }
}

fn kubeovn_result(
    interface: &GuestInterface<'_>,
    requests: &[InterfaceRequest],
    pod: &Pod,
    annotations: &mut BTreeMap<String, String>,
) {
    if interface.subnet.group != Group::KubeOvn {
        return;
    }
    let request = requests.iter().find(|request| request.interface == interface.name());
    let Some(provider) = request.and_then(|request| request.provider.as_ref()) else { return };
    let asks = || pod.annotations.keys().any(|key| key.starts_with("ovn.kubernetes.io/"));
    if *provider == Provider::Default && !asks() {
        return;
    }
    let several = requests.iter().filter(|other| other.provider.as_ref() == Some(provider)).count() > 1;
    let config = &interface.subnet.config;
    let result = InterfaceResult {
        addresses: &interface.attachment.addresses,
        mac: interface.attachment.mac,
        cidr: config.cidr.to_string(),
        gateway: config.gateway.to_string(),
        subnet: &interface.subnet.name,
        vpc: interface.subnet.vpc(),
    };
    annotations.extend(result_annotations(
        &result,
        provider,
        several.then(|| interface.name()),
        &pod.annotations,
    ));
}

fn nfn_result(interface: &GuestInterface<'_>) -> NfnResult {
    let default = interface.routes.iter().any(|route| route.destination.prefix_len() == 0);
    NfnResult {
        ip_address: interface.addresses.iter().map(ToString::to_string).collect(),
        mac_address: interface.attachment.mac.to_string(),
        gateway_ip: interface.gateways.iter().map(ToString::to_string).collect(),
        default_gateway: default.to_string(),
        interface: interface.name().to_owned(),
    }
}
