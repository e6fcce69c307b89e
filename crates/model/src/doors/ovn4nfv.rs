//! OVN4NFV: the annotations by which a pod asks for interfaces on networks by name. A network is a Subnet here.

use portolan_api::nfn_network::{NFN_NETWORK, NFN_ROUTES, NfnInterface, parse_nfn_network, parse_nfn_routes};

use super::pod::{PodNetworks, RequestedInterface, RequestedNetwork};
use crate::pod::Pod;

/// Adds what the annotations of OVN4NFV ask for. Names that they leave out go on counting from the others'.
pub(super) fn add_networks(pod: &Pod, networks: &mut PodNetworks) {
    match pod.annotations.get(NFN_NETWORK).map(parse_nfn_network) {
        None => {}
        Some(Err(errors)) => networks.problems.extend(errors),
        Some(Ok(request)) => {
            networks.warnings.extend(request.warnings);
            // The first interface is in the list, so its length is the number of the next.
            let next = networks.interfaces.len().max(1);
            let interfaces = request.interfaces.into_iter().enumerate();
            networks.interfaces.extend(interfaces.map(|(i, interface)| requested(interface, i, next + i)));
        }
    }
    match pod.annotations.get(NFN_ROUTES).map(parse_nfn_routes) {
        None => {}
        Some(Err(errors)) => networks.problems.extend(errors),
        Some(Ok(routes)) => networks.routes = routes,
    }
}

fn requested(interface: NfnInterface, index: usize, number: usize) -> RequestedInterface {
    let routers = || interface.gateway.map(|pair| pair.addresses().collect()).unwrap_or_default();
    RequestedInterface {
        default_route: interface.default_gateway.then(routers),
        addresses: interface.address.map(|pair| pair.addresses().collect()).unwrap_or_default(),
        prefixes: interface.prefixes,
        mac: interface.mac,
        routes: interface.routes,
        interface: interface.interface.unwrap_or_else(|| format!("net{number}")),
        network: RequestedNetwork::Subnet(interface.network),
        path: format!("metadata.annotations[{NFN_NETWORK}].interface[{index}]"),
    }
}
