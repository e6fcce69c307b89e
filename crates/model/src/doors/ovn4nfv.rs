//! OVN4NFV: the annotations by which a pod asks for interfaces on networks by name. A network is a Subnet here.

use portolan_api::nfn_network::{NFN_NETWORK, NFN_ROUTES, NfnInterface, parse_nfn_network, parse_nfn_routes};

use super::pod::{Wish, WishedNetwork, Wishes};
use crate::pod::Pod;

/// Adds what the annotations of OVN4NFV wish for. Names that they leave out go on counting from the others'.
pub(super) fn add_wishes(pod: &Pod, wishes: &mut Wishes) {
    match pod.annotations.get(NFN_NETWORK).map(|text| parse_nfn_network(text)) {
        None => {}
        Some(Err(errors)) => wishes.problems.extend(errors),
        Some(Ok(request)) => {
            wishes.warnings.extend(request.warnings);
            // The first interface is in the list, so its length is the number of the next.
            let next = wishes.interfaces.len().max(1);
            let interfaces = request.interfaces.into_iter().enumerate();
            wishes.interfaces.extend(interfaces.map(|(i, interface)| wish(interface, i, next + i)));
        }
    }
    match pod.annotations.get(NFN_ROUTES).map(|text| parse_nfn_routes(text)) {
        None => {}
        Some(Err(errors)) => wishes.problems.extend(errors),
        Some(Ok(routes)) => wishes.routes = routes,
    }
}

fn wish(interface: NfnInterface, index: usize, number: usize) -> Wish {
    let routers = || interface.gateway.map(|pair| pair.addresses().collect()).unwrap_or_default();
    Wish {
        default_route: interface.default_gateway.then(routers),
        addresses: interface.address.map(|pair| pair.addresses().collect()).unwrap_or_default(),
        mac: interface.mac,
        interface: interface.interface.unwrap_or_else(|| format!("net{number}")),
        network: WishedNetwork::Subnet(interface.network),
        path: format!("metadata.annotations[{NFN_NETWORK}].interface[{index}]"),
    }
}
