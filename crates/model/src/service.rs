//! Services, as the primary network serves them.
//!
//! Which of a Service's endpoints get its traffic is decided here, by the rules that kube-proxy follows: see [`Backends`].

mod backends;
mod endpoints;

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use smol_str::SmolStr;

pub use self::backends::{Backend, Backends};
pub use self::endpoints::{Endpoint, EndpointSlice, SlicePort};
use crate::uid::Uid;

/// A Service that has addresses of its own: no headless one, and none by `externalName`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// Its namespace.
    pub namespace: SmolStr,
    /// Its name.
    pub name: SmolStr,
    /// Its UID.
    pub uid: Uid,
    /// When it was created, in seconds; never for one that was not.
    pub created: Option<i64>,
    /// Its ports.
    pub ports: Box<[ServicePort]>,
    /// The addresses that the cluster gave it, one of each family at most.
    pub cluster_ips: Box<[IpAddr]>,
    /// `externalIPs`.
    pub external_ips: Box<[IpAddr]>,
    /// Addresses for clients outside that it names and that are reserved: see [`is_reserved`].
    pub refused_ips: Box<[IpAddr]>,
    /// What the status of the load balancer names, as far as packets come in with these addresses.
    pub load_balancer_ips: Box<[IpAddr]>,
    /// Who may send to the addresses of the load balancer; everybody, if it is empty.
    pub source_ranges: Box<[IpNet]>,
    /// Where what comes to its cluster IPs goes.
    pub internal: TrafficPolicy,
    /// Where what comes from outside goes.
    pub external: TrafficPolicy,
    /// Whether a client keeps its endpoint.
    pub affinity: Affinity,
    /// Where load balancers outside ask whether a node has endpoints.
    pub health_check_node_port: Option<u16>,
}

/// A port of a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServicePort {
    /// Its name; empty for the only one.
    pub name: SmolStr,
    /// Its protocol.
    pub protocol: Protocol,
    /// The port at the Service's addresses.
    pub port: u16,
    /// The port at every node's addresses.
    pub node_port: Option<u16>,
}

/// A protocol that Services are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

impl Protocol {
    /// All of them.
    pub const ALL: [Protocol; 3] = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];

    /// As OVN and Linux write it.
    pub fn lower_case(self) -> &'static str {
        match self {
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
            Protocol::Sctp => "sctp",
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Protocol::Tcp => "TCP",
            Protocol::Udp => "UDP",
            Protocol::Sctp => "SCTP",
        })
    }
}

/// Where traffic of a Service goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TrafficPolicy {
    /// To any endpoint.
    #[default]
    Cluster,
    /// To endpoints of the node that it is on.
    Local,
}

/// Whether a client keeps its endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Affinity {
    /// Each connection goes where it goes.
    #[default]
    None,
    /// A client's connections go to one endpoint for this many seconds after the last.
    ClientIp(u32),
}

/// An address and port by which a Service is reached, besides the nodes' own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Frontend {
    /// The address.
    pub address: IpAddr,
    /// The protocol.
    pub protocol: Protocol,
    /// The port.
    pub port: u16,
}

/// Whether an address means something on each node alone, or to the router of the primary network: no Service may be reached by it.
pub fn is_reserved(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local() || address.segments()[..3] == RESERVED_V6,
    }
}

/// The first groups of the project's own IPv6 addresses, `fd8a:3c51:9e07::/48`.
const RESERVED_V6: [u16; 3] = [0xfd8a, 0x3c51, 0x9e07];

impl Service {
    /// The addresses and ports by which it wants to be reached from everywhere in the cluster.
    pub fn frontends(&self) -> impl Iterator<Item = Frontend> + '_ {
        let addresses = self.cluster_ips.iter().chain(self.external_addresses());
        addresses.flat_map(|address| {
            let of =
                |port: &ServicePort| Frontend { address: *address, protocol: port.protocol, port: port.port };
            self.ports.iter().map(of)
        })
    }

    /// The addresses by which it is reached from outside, those of nodes aside.
    pub fn external_addresses(&self) -> impl Iterator<Item = &IpAddr> {
        self.external_ips.iter().chain(&self.load_balancer_ips)
    }

    /// Whether an address is one that the cluster itself gave it.
    pub fn is_cluster_ip(&self, address: IpAddr) -> bool {
        self.cluster_ips.contains(&address)
    }

    /// Whether something outside can reach it.
    pub fn is_reached_from_outside(&self) -> bool {
        self.ports.iter().any(|port| port.node_port.is_some()) || self.external_addresses().next().is_some()
    }

    /// Whether what comes from outside stays on the node where it came in.
    pub fn keeps_outside_on_node(&self) -> bool {
        self.external == TrafficPolicy::Local && self.is_reached_from_outside()
    }
}
