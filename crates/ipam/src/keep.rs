//! Whether the addresses that a holder has are the ones that are asked for.
//!
//! A holder that outlives its pods may be asked for something else by the next one: the template of a StatefulSet names other networks,
//! or another address. What does not fit is released first; only then the new is locked.

use std::net::IpAddr;

use portolan_api::{Domain, Family, IpRange, Mac};
use portolan_model::{AttachmentId, InterfaceRequest, Pool, Request, World};

use crate::release::is_of;

/// True if a request asks for an interface with the addresses that its holder has, and perhaps more.
pub(crate) fn keeps(world: &World, request: &Request, id: &AttachmentId) -> bool {
    let interface = request.interfaces.iter().find(|interface| interface.interface == id.interface());
    interface.is_some_and(|interface| is_of(request.holder_of(interface), id) && fits(world, interface, id))
}

fn fits(world: &World, interface: &InterfaceRequest, id: &AttachmentId) -> bool {
    let held = world.held_locks(id);
    let Some(first) = held.counted.iter().find(|lock| lock.ip().is_some()) else { return true };
    let Some(subnet) = world.subnet(&interface.subnet) else { return true };
    let ips: Vec<IpAddr> = held.ips().collect();
    let asked = |family: Family| interface.addresses.iter().any(|ip| Family::of(*ip) == family);
    let address_fits = |ip: &IpAddr| {
        if asked(Family::of(*ip)) {
            interface.addresses.contains(ip)
        } else {
            !interface.addresses.is_empty()
                || match &interface.pool {
                    Pool::Any => true,
                    Pool::Listed(pairs) => {
                        pairs.iter().any(|pair| pair.addresses().any(|address| address == *ip))
                    }
                    Pool::Named { ranges, .. } => {
                        let of_family = |range: &&IpRange| range.family() == Family::of(*ip);
                        let mut ranges = ranges.iter().filter(of_family).peekable();
                        ranges.peek().is_none() || ranges.any(|range| range.contains(*ip))
                    }
                }
        }
    };
    let vni = match first.domain() {
        Domain::Vni(vni) => Some(*vni),
        Domain::Vpc(_) | Domain::Subnet(_) => None,
    };
    let mac_fits = match (interface.mac, held.mac) {
        (_, None) => true,
        (Some(asked), Some(mac)) => asked == mac,
        (None, Some(mac)) => ips.iter().any(|ip| Mac::derive(*ip, vni) == mac),
    };
    (*first.subnet() == subnet.name && *first.domain() == subnet.domain)
        && ips.iter().all(address_fits)
        && mac_fits
}
