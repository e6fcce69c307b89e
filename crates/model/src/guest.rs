//! The network inside a guest: the addresses and routes of each of its interfaces.
//!
//! A pure function of the World, used by the agent that configures a guest and by `portolan trace`, which predicts what the guest does
//! with a packet. Routes come, in order of precedence, from
//!
//! 1. the requester (annotations of the pod),
//! 2. the network attachment definition of the interface,
//! 3. the Subnet;
//!
//! of several to one destination the first counts. The default route of a family goes by the first further interface that takes it (asked
//! for as a default route, or as a route to `0.0.0.0/0` or `::/0`), by that in the VPC of the pod's namespace if nothing that the requester
//! or a network says takes it, and by the pod's first interface otherwise. A first interface that loses it keeps routes to the cluster's own
//! networks, so that probes and services go on working.
//!
//! What was decided stands: an interface that a running pod would be given, or would not be given any more, changes nothing about it.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;
use portolan_api::{Family, GuestRoute};

use crate::attachment::Attachment;
use crate::doors::pod::{FIRST_INTERFACE, VPC_INTERFACE};
use crate::pod::Pod;
use crate::request::{InterfaceRequest, Needs, Requester, Wait};
use crate::subnet::Subnet;
use crate::world::World;

/// The network inside a guest.
#[derive(Clone, Debug, PartialEq)]
pub struct Guest<'w> {
    /// The interfaces that can be configured, in the order in which they were decided.
    pub interfaces: Vec<GuestInterface<'w>>,
    /// Interfaces that were decided and cannot be configured yet.
    pub missing: Vec<Missing>,
    /// The families whose default route goes by an interface of Portolan's other than the guest's first.
    pub default_taken: Vec<Family>,
}

/// One interface of a guest.
#[derive(Clone, Debug, PartialEq)]
pub struct GuestInterface<'w> {
    /// Its addresses and MAC address, as locked.
    pub attachment: &'w Attachment,
    /// The subnet it is on.
    pub subnet: &'w Subnet,
    /// Its addresses with the lengths of their prefixes, IPv4 first.
    pub addresses: Vec<IpNet>,
    /// The subnet's gateways in the families that the interface has.
    pub gateways: Vec<IpAddr>,
    /// Its routes beyond the prefixes of its addresses; no two have one destination.
    pub routes: Vec<Route>,
    /// Routers that DHCP announces to a guest which asks, where the interface has no default route.
    pub dhcp_routers: Vec<IpAddr>,
}

/// A route inside a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Where to.
    pub destination: IpNet,
    /// By which router; without one the destination is on the link.
    pub gateway: Option<IpAddr>,
    /// Why the guest has it.
    pub origin: RouteOrigin,
}

/// Why a guest has a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RouteOrigin {
    /// The requester asks for it.
    Requester,
    /// The network attachment definition has it.
    Network,
    /// The interface is the one in the VPC of the pod's namespace.
    Namespace,
    /// The Subnet has it.
    Subnet,
    /// The default route goes by this interface.
    Default,
    /// It leads to a network of the cluster, which the first interface keeps although another has the default route.
    Kept,
}

/// An interface that was decided and cannot be configured yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The interface.
    pub interface: String,
    /// What is missing.
    pub what: MissingPart,
}

/// What is missing of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MissingPart {
    /// Its addresses, or its subnet, are not in effect.
    Attachment,
    /// What the pod asks of it is not known: it names networks that were not seen here.
    Request(Vec<Wait>),
}

/// What there is to configure in a guest.
#[derive(Clone, Debug, PartialEq)]
pub enum GuestState<'w> {
    /// The pod was not seen, or has no node yet.
    Unknown,
    /// It needs nothing of Portolan's.
    Nothing,
    /// No address has been locked for it yet.
    Undecided,
    /// Addresses have been locked for it; whether all of them is said by [`Guest::missing`].
    Decided(Guest<'w>),
}

/// What there is to configure in a pod. `kept` are the cluster's own networks: of pods, services and nodes.
pub fn guest<'w>(world: &'w World, namespace: &str, name: &str, kept: &[IpNet]) -> GuestState<'w> {
    let requester = Requester::pod(namespace, name);
    let Some(pod) = world.pod(namespace, name) else { return GuestState::Unknown };
    let ids = world.holdings_of(&requester);
    let attachments: Vec<_> = ids
        .iter()
        .filter_map(|id| world.attachment(id))
        .filter(|attachment| {
            attachment.pod_uid().is_some_and(|uid| pod.uid == uid) && attachment.node() == pod.node()
        })
        .collect();
    let decided = world.decided_interfaces(&attachments);
    let (mut requests, waits) = match world.needs(&requester) {
        Needs::Interfaces(request) => (request.interfaces, request.waits),
        Needs::Unknown if attachments.is_empty() => return GuestState::Unknown,
        Needs::Nothing { .. } if attachments.is_empty() => return GuestState::Nothing,
        Needs::Unknown | Needs::Nothing { .. } => (Vec::new(), Vec::new()),
    };
    if attachments.is_empty() {
        return GuestState::Undecided;
    }
    // What the pod would get now and did not takes nothing from what it has.
    requests.retain(|request| decided.contains(&request.interface));
    let in_vpc = attachments.iter().find(|attachment| attachment.id.interface() == VPC_INTERFACE);
    if let Some(attachment) = in_vpc.filter(|_| world.settings().first_interface.is_portolan()) {
        // It is what it was, whatever Subnet is for the pod's namespace now.
        match requests.iter_mut().find(|request| request.interface == VPC_INTERFACE) {
            Some(request) => request.subnet = attachment.subnet().to_string(),
            None => requests.push(InterfaceRequest {
                is_way_out: true,
                ..InterfaceRequest::new(VPC_INTERFACE, attachment.subnet())
            }),
        }
    }
    let (mut parts, mut missing) = (Vec::new(), Vec::new());
    for interface in decided {
        let request = requests.iter().find(|request| request.interface == interface);
        let attachment = attachments.iter().find(|attachment| attachment.id.interface() == interface);
        let part = attachment.and_then(|attachment| Some((*attachment, world.subnet(attachment.subnet())?)));
        match (part, request) {
            (None, _) => missing.push(Missing { interface, what: MissingPart::Attachment }),
            // What was not asked for by annotations has no routes of its own.
            (Some(_), None) if !waits.is_empty() => {
                missing.push(Missing { interface, what: MissingPart::Request(waits.clone()) });
            }
            (Some((attachment, subnet)), request) => parts.push(Part { attachment, subnet, request }),
        }
    }
    let default_taken = default_taken(&requests, world);
    let kept = if default_taken.is_empty() { Vec::new() } else { world.kept_networks(pod, kept) };
    let kept = kept.as_slice();
    let interfaces = parts.iter().map(|part| part.configure(&requests, world, kept)).collect();
    GuestState::Decided(Guest { interfaces, missing, default_taken })
}

impl GuestInterface<'_> {
    /// Its name in the guest.
    pub fn name(&self) -> &str {
        self.attachment.id.interface()
    }
}

/// What is known of one interface.
struct Part<'w, 'r> {
    attachment: &'w Attachment,
    subnet: &'w Subnet,
    request: Option<&'r InterfaceRequest>,
}

impl<'w> Part<'w, '_> {
    fn configure(&self, requests: &[InterfaceRequest], world: &World, kept: &[IpNet]) -> GuestInterface<'w> {
        let config = &self.subnet.config;
        // A lock's address lies in its subnet, or the attachment would not be in effect.
        let addresses: Vec<IpNet> = self
            .attachment
            .addresses
            .iter()
            .filter_map(|ip| IpNet::new(*ip, config.cidr.net(Family::of(*ip))?.prefix_len()).ok())
            .collect();
        let families: Vec<Family> = [Family::IPv4, Family::IPv6]
            .into_iter()
            .filter(|family| self.attachment.addresses_of(*family).next().is_some())
            .collect();
        let gateways: Vec<IpAddr> =
            families.iter().filter_map(|family| config.gateway.address(*family)).collect();
        let mut routes =
            Routes { gateways: &gateways, families: &families, on_link: &addresses, found: Vec::new() };
        if let Some(request) = self.request {
            routes.extend(&request.routes, RouteOrigin::Requester);
            routes.extend(&request.network_routes, RouteOrigin::Network);
        }
        routes.extend(&config.routes, RouteOrigin::Subnet);
        let name = self.attachment.id.interface();
        for family in &families {
            let owner = default_owner(requests, world, *family);
            let own = config.gateway.address(*family);
            let router = match (&owner, self.request) {
                (Some(owner), Some(request)) if owner == name => {
                    LEVELS.into_iter().find_map(|level| default_router(request, self.subnet, *family, level))
                }
                (None, _) if name == FIRST_INTERFACE => own,
                _ => None,
            };
            match router {
                Some(router) => routes.add(everything(*family), Some(router), RouteOrigin::Default),
                // Another interface has it, whatever the Subnet or the network says.
                None if owner.is_some() => {
                    routes.found.retain(|route| route.destination != everything(*family));
                }
                None => {}
            }
            let loses_default = name == FIRST_INTERFACE && owner.as_ref().is_some_and(|owner| owner != name);
            for net in kept.iter().filter(|net| loses_default && Family::of_net(net) == *family) {
                routes.add(net.trunc(), None, RouteOrigin::Kept);
            }
        }
        let routes = routes.found;
        let has_default = |family: Family| routes.iter().any(|route| route.destination == everything(family));
        let announces = config.dhcp.is_some() && config.vpc.is_some();
        let dhcp_routers = gateways
            .iter()
            .copied()
            .filter(|router| announces && !has_default(Family::of(*router)))
            .collect();
        GuestInterface {
            attachment: self.attachment,
            subnet: self.subnet,
            addresses,
            gateways,
            routes,
            dhcp_routers,
        }
    }
}

/// The routes of one interface in the making.
struct Routes<'a> {
    gateways: &'a [IpAddr],
    families: &'a [Family],
    on_link: &'a [IpNet],
    found: Vec<Route>,
}

impl Routes<'_> {
    fn extend(&mut self, routes: &[GuestRoute], origin: RouteOrigin) {
        for route in routes {
            self.add(route.destination, route.gateway, origin);
        }
    }

    /// Adds a route by a router, or by the subnet's gateway; unless there is one to the same destination.
    fn add(&mut self, destination: IpNet, gateway: Option<IpAddr>, origin: RouteOrigin) {
        let family = Family::of_net(&destination);
        let known = self.found.iter().any(|route| route.destination == destination)
            || self.on_link.iter().any(|net| net.trunc() == destination);
        if !known && self.families.contains(&family) {
            let own = || self.gateways.iter().copied().find(|gateway| Family::of(*gateway) == family);
            self.found.push(Route { destination, gateway: gateway.or_else(own), origin });
        }
    }
}

/// Who may say that an interface takes the default route, the first to be asked first.
const LEVELS: [RouteOrigin; 4] =
    [RouteOrigin::Requester, RouteOrigin::Network, RouteOrigin::Namespace, RouteOrigin::Subnet];

/// The interface that takes the default route of a family: the first for which the requester asks so, or else whose network
/// says so, or else that in the VPC of the pod's namespace, or else whose Subnet says so.
fn default_owner(requests: &[InterfaceRequest], world: &World, family: Family) -> Option<String> {
    let takes = |request: &InterfaceRequest, level: RouteOrigin| {
        let subnet = world.subnet(&request.subnet);
        subnet.is_some_and(|subnet| default_router(request, subnet, family, level).is_some())
    };
    let owner = LEVELS.into_iter().find_map(|level| requests.iter().find(|request| takes(request, level)));
    owner.map(|request| request.interface.clone())
}

/// The router by which an interface takes the default route of a family, as one origin has it.
fn default_router(
    request: &InterfaceRequest,
    subnet: &Subnet,
    family: Family,
    level: RouteOrigin,
) -> Option<IpAddr> {
    let own = || subnet.config.gateway.address(family);
    let by_route = |routes: &[GuestRoute]| {
        let route = routes.iter().find(|route| route.destination == everything(family))?;
        route.gateway.or_else(own)
    };
    match level {
        RouteOrigin::Requester => {
            let asked = match request.default_route.as_deref() {
                None => None,
                Some([]) => own(),
                Some(routers) => routers.iter().copied().find(|router| Family::of(*router) == family),
            };
            asked.or_else(|| by_route(&request.routes))
        }
        RouteOrigin::Network => by_route(&request.network_routes),
        RouteOrigin::Namespace => request.is_way_out.then(own)?,
        RouteOrigin::Subnet => by_route(&subnet.config.routes),
        RouteOrigin::Default | RouteOrigin::Kept => None,
    }
}

fn default_taken(requests: &[InterfaceRequest], world: &World) -> Vec<Family> {
    let taken = |family: &Family| {
        default_owner(requests, world, *family).is_some_and(|interface| interface != FIRST_INTERFACE)
    };
    [Family::IPv4, Family::IPv6].into_iter().filter(taken).collect()
}

fn everything(family: Family) -> IpNet {
    match family {
        Family::IPv4 => IpNet::V4(ipnet::Ipv4Net::default()),
        Family::IPv6 => IpNet::V6(ipnet::Ipv6Net::default()),
    }
}

impl World {
    /// What a first interface keeps that loses the default route: what the caller knows of the cluster's networks, and on the primary network
    /// those of its Subnets and nodes, and the addresses of the pod's node.
    fn kept_networks(&self, pod: &Pod, kept: &[IpNet]) -> Vec<IpNet> {
        let mut networks = kept.to_vec();
        if self.settings().first_interface.is_portolan() {
            networks.extend(self.networks_of_primary());
            let node = pod.node().and_then(|node| self.node(node));
            networks.extend(node.iter().flat_map(|node| &node.addresses).copied().map(IpNet::from));
            return IpNet::aggregate(&networks);
        }
        networks
    }

    /// The interfaces that were decided for the pod which has these attachments, in order: what their locks say.
    fn decided_interfaces(&self, attachments: &[&Attachment]) -> Vec<String> {
        let mut seen = BTreeSet::new();
        let mut names = Vec::new();
        for attachment in attachments {
            let locks = self.held_locks(&attachment.id);
            let decided = locks
                .counted
                .iter()
                .flat_map(|lock| lock.interfaces.iter())
                .map(|one| one.interface.as_str());
            let own = std::iter::once(attachment.id.interface());
            names
                .extend(decided.chain(own).filter(|name| seen.insert((*name).to_owned())).map(str::to_owned));
        }
        names
    }
}
