//! The addresses that serving Services takes on every node alike, beside those of the Services.
//!
//! No router sends any of them anywhere: they mean something on a node alone, and as different things on each.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use portolan_api::Family;
use portolan_model::Service;
use portolan_model::service::TrafficPolicy;

/// The prefixes that have them. Clouds answer by themselves at higher addresses of the same kind.
pub const NODE_LOCAL: [&str; 2] = ["169.254.169.0/26", "fd8a:3c51:9e07:a9::/64"];

/// The first three groups of all of them.
const V4: [u8; 3] = [169, 254, 169];
const V6: [u16; 7] = [0xfd8a, 0x3c51, 0x9e07, 0xa9, 0, 0, 0];

/// What a pod's own packets come from that a Service sent back to it.
const HAIRPIN: u8 = 2;
/// Where a node offers what comes in by a node port to its own endpoints alone.
const FRONTEND: u8 = 3;
/// Where a node offers what comes in by a node port to all endpoints, though the cluster IP leads to the node's own alone.
const CLUSTER_WIDE: u8 = 4;
/// The first of those for ports without a node port.
const FIRST_WITHOUT_NODE_PORT: u8 = 8;
/// How many ports of a Service without node ports are reached from outside under policy `Local`.
pub const PORTS_WITHOUT_NODE_PORT: u8 = 56;

/// The address that a pod sees when a Service sends its packets back to it.
pub fn hairpin(family: Family) -> IpAddr {
    address(family, HAIRPIN)
}

/// Where a node offers the port of a Service at this place among its ports to clients outside, with the endpoints of the node alone. None
/// if nothing outside reaches it, or for want of addresses: see [`PORTS_WITHOUT_NODE_PORT`].
pub fn node_local_frontend(service: &Service, at: usize, family: Family) -> Option<SocketAddr> {
    let port = service.ports.get(at).filter(|_| service.keeps_outside_on_node())?;
    let without = || {
        let at = u8::try_from(at).ok().filter(|at| *at < PORTS_WITHOUT_NODE_PORT)?;
        // No two Services have the same, so that each has all of these addresses for itself.
        Some(SocketAddr::new(address(family, FIRST_WITHOUT_NODE_PORT + at), service.health_check_node_port?))
    };
    match port.node_port {
        Some(number) => Some(SocketAddr::new(address(family, FRONTEND), number)),
        None => without(),
    }
}

/// Where a node offers the port of a Service at this place among its ports to all endpoints, if its cluster IP leads to the node's own alone.
pub fn cluster_wide_frontend(service: &Service, at: usize, family: Family) -> Option<SocketAddr> {
    let port = service.ports.get(at).filter(|_| service.internal == TrafficPolicy::Local)?;
    Some(SocketAddr::new(address(family, CLUSTER_WIDE), port.node_port?))
}

/// The addresses of all of these.
pub fn cluster_wide() -> [IpAddr; 2] {
    [Family::IPv4, Family::IPv6].map(|family| address(family, CLUSTER_WIDE))
}

fn address(family: Family, host: u8) -> IpAddr {
    match family {
        Family::IPv4 => Ipv4Addr::new(V4[0], V4[1], V4[2], host).into(),
        Family::IPv6 => {
            let [a, b, c, d, e, f, g] = V6;
            Ipv6Addr::new(a, b, c, d, e, f, g, host.into()).into()
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]
mod tests {
    use ipnet::IpNet;

    use super::*;

    #[test]
    fn all_are_in_the_prefixes() {
        for (family, prefix) in [Family::IPv4, Family::IPv6].into_iter().zip(NODE_LOCAL) {
            let prefix: IpNet = prefix.parse().unwrap();
            for host in
                [HAIRPIN, FRONTEND, CLUSTER_WIDE, FIRST_WITHOUT_NODE_PORT + PORTS_WITHOUT_NODE_PORT - 1]
            {
                assert!(prefix.contains(&address(family, host)), "{host}");
            }
        }
    }
}
