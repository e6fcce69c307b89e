//! What a node translates for Services: from its own ports, and from addresses for the outside, to addresses that load balancers of OVN have.
//!
//! | client | policy for the outside | goes on to |
//! |---|---|---|
//! | anybody | `Cluster` | the cluster IP |
//! | outside, other nodes | `Local` | the node-local frontend, which has the endpoints of this node alone |
//! | pods, the node itself | `Local` | the cluster IP, as with kube-proxy |
//!
//! Where the cluster IP leads to the node's own endpoints alone (`internalTrafficPolicy: Local`), a frontend with all of them is in its place.
//!
//! Each Service is planned alone. An address that several name is [`World::service_of`]'s; of a node port, which only such Services can share
//! as are not known to be gone yet, the same order decides. So what there is depends on the Services and not on what happened to them.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use portolan_api::Family;
use portolan_model::service::{Frontend, Protocol, Service, ServicePort};
use portolan_model::{Uid, World};

use crate::service_addresses::{cluster_wide_frontend, node_local_frontend};

#[cfg(test)]
mod tests;

/// One thing that a node has for a Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ServiceElement {
    /// What comes to a port at the node's own addresses, of the family of `to`, goes there.
    NodePort {
        /// From whom.
        from: Clients,
        /// By which protocol.
        protocol: Protocol,
        /// The port.
        port: u16,
        /// Where it goes.
        to: SocketAddr,
    },
    /// What comes to an address for the outside goes there.
    Address {
        /// From whom.
        from: Clients,
        /// The address.
        address: Frontend,
        /// Where it goes.
        to: SocketAddr,
    },
    /// Only who is admitted may send there.
    Guarded(Frontend),
    /// Who comes from this network may.
    Admitted(Frontend, IpNet),
}

/// Who sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Clients {
    /// Anybody for whom there is nothing else.
    All,
    /// Neither pods nor the node itself.
    Outside,
}

impl fmt::Display for ServiceElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let to = |address: &Frontend| {
            let Frontend { address, protocol, port } = *address;
            format!("{} {protocol}", SocketAddr::new(address, port))
        };
        match self {
            ServiceElement::NodePort { from, protocol, port, to } => {
                write!(f, "{from} to node port {port} {protocol}: {to}")
            }
            ServiceElement::Address { from, address, to: goes } => {
                write!(f, "{from} to {}: {goes}", to(address))
            }
            ServiceElement::Guarded(address) => write!(f, "guarded {}", to(address)),
            ServiceElement::Admitted(address, network) => write!(f, "admitted to {} {network}", to(address)),
        }
    }
}

impl fmt::Display for Clients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Clients::All => "all",
            Clients::Outside => "outside",
        })
    }
}

/// What a node has for all Services, kept by each change of one.
#[derive(Debug, Default)]
pub struct NodeServices {
    /// Where each Service asks for something, and with which rank.
    asked: BTreeMap<(String, String), (Rank, Vec<Place>)>,
    /// In order: the first has it.
    claims: BTreeMap<Place, BTreeMap<Rank, ServiceElement>>,
}

/// The oldest Service comes first.
type Rank = (i64, Uid);

/// What can be there only once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    NodePort(Clients, Family, Protocol, u16),
    Address(Clients, Frontend),
    Guarded(Frontend),
    Admitted(Frontend, IpNet),
}

/// What has to change for a node to have what it should.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceChange {
    /// What goes first.
    pub remove: Vec<ServiceElement>,
    /// What comes then.
    pub add: Vec<ServiceElement>,
}

impl ServiceChange {
    /// Whether nothing has to change.
    pub fn is_empty(&self) -> bool {
        self.remove.is_empty() && self.add.is_empty()
    }
}

impl NodeServices {
    /// Takes in what became of some Services, by namespace and name. It costs what these have.
    pub fn update(
        &mut self,
        world: &World,
        changed: impl IntoIterator<Item = (String, String)>,
    ) -> ServiceChange {
        let mut before = BTreeMap::<Place, Option<ServiceElement>>::new();
        for key in changed {
            if let Some((rank, places)) = self.asked.remove(&key) {
                for place in places {
                    before.entry(place).or_insert_with(|| first(&self.claims, place));
                    if let Some(claims) = self.claims.get_mut(&place) {
                        claims.remove(&rank);
                        if claims.is_empty() {
                            self.claims.remove(&place);
                        }
                    }
                }
            }
            let Some(service) = world.service(&key.0, &key.1) else { continue };
            let rank = (service.created.unwrap_or(i64::MAX), service.uid.clone());
            let elements = elements_of(world, service);
            for element in &elements {
                let place = element.place();
                before.entry(place).or_insert_with(|| first(&self.claims, place));
                self.claims.entry(place).or_default().insert(rank.clone(), *element);
            }
            self.asked.insert(key, (rank, elements.iter().map(ServiceElement::place).collect()));
        }
        let mut change = ServiceChange::default();
        for (place, before) in before {
            let after = first(&self.claims, place);
            if before != after {
                change.remove.extend(before);
                change.add.extend(after);
            }
        }
        change
    }

    /// What the node should have.
    pub fn elements(&self) -> impl Iterator<Item = ServiceElement> {
        self.claims.values().filter_map(|claims| claims.values().next().copied())
    }
}

fn first(claims: &BTreeMap<Place, BTreeMap<Rank, ServiceElement>>, place: Place) -> Option<ServiceElement> {
    claims.get(&place)?.values().next().copied()
}

impl ServiceElement {
    fn place(&self) -> Place {
        match *self {
            ServiceElement::NodePort { from, protocol, port, to } => {
                Place::NodePort(from, Family::of(to.ip()), protocol, port)
            }
            ServiceElement::Address { from, address, .. } => Place::Address(from, address),
            ServiceElement::Guarded(address) => Place::Guarded(address),
            ServiceElement::Admitted(address, network) => Place::Admitted(address, network),
        }
    }
}

/// What a Service asks for.
fn elements_of(world: &World, service: &Service) -> Vec<ServiceElement> {
    let mut elements = Vec::new();
    for (at, port) in service.ports.iter().enumerate() {
        for family in [Family::IPv4, Family::IPv6] {
            let of_family = |address: &&IpAddr| Family::of(**address) == family;
            // A Service is served in the families in which it has an address.
            let Some(cluster_ip) = service.cluster_ips.iter().find(of_family) else { continue };
            let cluster_ip = SocketAddr::new(*cluster_ip, port.port);
            let inside = (Clients::All, cluster_wide_frontend(service, at, family).unwrap_or(cluster_ip));
            let outside = node_local_frontend(service, at, family).map(|to| (Clients::Outside, to));
            for (from, to) in [Some(inside), outside].into_iter().flatten() {
                let node_port = port.node_port;
                elements.extend(node_port.map(|number| ServiceElement::NodePort {
                    from,
                    protocol: port.protocol,
                    port: number,
                    to,
                }));
                let addresses =
                    addresses_of(world, service, port).filter(|one| Family::of(one.address) == family);
                elements.extend(addresses.map(|address| ServiceElement::Address { from, address, to }));
            }
            elements.extend(guards(world, service, port, family));
        }
    }
    elements
}

/// The addresses for the outside, with a port, that are this Service's.
fn addresses_of<'a>(
    world: &'a World,
    service: &'a Service,
    port: &'a ServicePort,
) -> impl Iterator<Item = Frontend> + 'a {
    let usable = service.external_addresses().filter(|address| !is_special(**address));
    let with_port =
        usable.map(move |address| Frontend { address: *address, protocol: port.protocol, port: port.port });
    with_port.filter(move |frontend| world.service_of(frontend).is_some_and(|of| of.uid == service.uid))
}

/// Addresses that a node has for itself alone, or that are none: translating them would cut off what it runs.
fn is_special(address: IpAddr) -> bool {
    let is_link_local = match address {
        IpAddr::V4(address) => address.is_link_local() || address.is_broadcast(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    is_link_local || address.is_loopback() || address.is_unspecified() || address.is_multicast()
}

/// Who may send to the addresses of its load balancer. Node ports and `externalIPs` are open, as with kube-proxy, and so is a family of which
/// no range is.
fn guards(world: &World, service: &Service, port: &ServicePort, family: Family) -> Vec<ServiceElement> {
    let ranges: Vec<IpNet> =
        service.source_ranges.iter().filter(|range| Family::of_net(range) == family).copied().collect();
    if ranges.is_empty() || ranges.iter().any(|range| range.prefix_len() == 0) {
        return Vec::new();
    }
    let addresses = addresses_of(world, service, port).filter(|one| Family::of(one.address) == family);
    let guarded = addresses.filter(|one| service.load_balancer_ips.contains(&one.address));
    // None that lies in another: sets of ranges refuse these.
    let ranges = IpNet::aggregate(&ranges);
    guarded
        .flat_map(|address| {
            let admitted = ranges.iter().map(move |range| ServiceElement::Admitted(address, *range));
            std::iter::once(ServiceElement::Guarded(address)).chain(admitted)
        })
        .collect()
}
