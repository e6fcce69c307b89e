//! What a pod itself does with a packet: by which of its interfaces it leaves, and to whom.

use std::net::IpAddr;

use ipnet::IpNet;
use portolan_api::Family;
use portolan_model::doors::pod::FIRST_INTERFACE;
use portolan_model::{Attachment, InterfaceRequest, Request, Requester, Subnet, World};

/// A pod with its interfaces.
#[derive(Clone, Debug)]
pub(crate) struct Guest<'w> {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) node: Option<String>,
    pub(crate) interfaces: Vec<Interface<'w>>,
}

/// An interface of a pod.
#[derive(Clone, Debug)]
pub(crate) struct Interface<'w> {
    pub(crate) attachment: &'w Attachment,
    pub(crate) subnet: &'w Subnet,
    /// Beyond the subnet's own prefixes.
    routes: Vec<GuestRoute>,
}

/// A route of a pod.
#[derive(Clone, Copy, Debug)]
struct GuestRoute {
    to: IpNet,
    router: IpAddr,
    /// The pod has it only if it asks by DHCP.
    by_dhcp: bool,
}

/// How a packet leaves a pod.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exit<'g, 'w> {
    pub(crate) interface: &'g Interface<'w>,
    /// Whom it is handed to: the destination itself, or a router.
    pub(crate) next_hop: IpAddr,
    /// The pod knows the way only if it asks by DHCP.
    pub(crate) by_dhcp: bool,
}

impl<'w> Guest<'w> {
    /// A pod, if Portolan has made an interface for it.
    pub(crate) fn find(world: &'w World, namespace: &str, name: &str) -> Option<Self> {
        let pod = world.pod(namespace, name)?;
        let request = world.request(&Requester::pod(namespace, name));
        let interfaces = world
            .attachments()
            .filter(|attachment| {
                attachment.id.namespace() == Some(namespace) && attachment.pod_uid() == Some(&pod.uid)
            })
            .filter_map(|attachment| {
                let subnet = world.subnet(&attachment.subnet)?;
                Some(Interface { attachment, subnet, routes: routes(attachment, subnet, request.as_ref()) })
            });
        let interfaces: Vec<_> = interfaces.collect();
        (!interfaces.is_empty()).then(|| Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            node: pod.node.clone(),
            interfaces,
        })
    }

    /// The interface and router by which a packet leaves, as the kernel would choose.
    pub(crate) fn exit(&self, to: IpAddr) -> Option<Exit<'_, 'w>> {
        // Of two that are equally long, the first that was made.
        let ways = self.interfaces.iter().flat_map(|interface| interface.ways(to));
        ways.longest().map(|(_, exit)| exit)
    }

    /// The interface that has an address.
    pub(crate) fn with_address(&self, address: IpAddr) -> Option<&Interface<'w>> {
        self.interfaces.iter().find(|interface| interface.attachment.addresses.contains(&address))
    }
}

impl<'w> Interface<'w> {
    pub(crate) fn name(&self) -> &'w str {
        self.attachment.id.interface()
    }

    /// Its ways to an address, each with the length of its prefix.
    fn ways(&self, to: IpAddr) -> impl Iterator<Item = (u8, Exit<'_, 'w>)> {
        let family = Family::of(to);
        let has_family = self.attachment.addresses_of(family).next().is_some();
        let own = self.subnet.config.cidr.net(family).filter(|net| net.contains(&to) && has_family);
        let own = own.map(|net| (net.prefix_len(), Exit { interface: self, next_hop: to, by_dhcp: false }));
        let routes = self.routes.iter().filter(move |route| route.to.contains(&to)).map(|route| {
            let exit = Exit { interface: self, next_hop: route.router, by_dhcp: route.by_dhcp };
            (route.to.prefix_len(), exit)
        });
        own.into_iter().chain(routes)
    }

    /// The way to an address by this interface.
    pub(crate) fn exit(&self, to: IpAddr) -> Option<Exit<'_, 'w>> {
        self.ways(to).longest().map(|(_, exit)| exit)
    }

    /// The gateway of the subnet in a family.
    pub(crate) fn gateway(&self, family: Family) -> Option<IpAddr> {
        self.subnet.config.gateway.address(family)
    }
}

/// The longest prefix, and of several the first.
trait ByLength<T> {
    fn longest(self) -> Option<T>;
}

impl<E, I: Iterator<Item = (u8, E)>> ByLength<(u8, E)> for I {
    fn longest(self) -> Option<(u8, E)> {
        self.fold(None, |best, way| match best {
            Some(best) if way.0 <= best.0 => Some(best),
            _ => Some(way),
        })
    }
}

/// The routes that an agent gives an interface, or DHCP a guest.
fn routes(attachment: &Attachment, subnet: &Subnet, request: Option<&Request>) -> Vec<GuestRoute> {
    let name = attachment.id.interface();
    let requests = request.map(|request| request.interfaces.as_slice()).unwrap_or_default();
    let asked: Option<&InterfaceRequest> = requests.iter().find(|request| request.interface == name);
    let others = requests.iter().any(|other| other.interface != name && other.default_route.is_some());
    let config = &subnet.config;
    let has = |family: Family| attachment.addresses_of(family).next().is_some();
    let gateway = |family: Family| config.gateway.address(family).filter(|_| has(family));
    let guest_routes = config.routes.iter().chain(asked.into_iter().flat_map(|asked| &asked.routes));
    let mut routes: Vec<_> = guest_routes
        .filter_map(|route| {
            let family = Family::of_net(&route.destination);
            let router = route.gateway.or_else(|| gateway(family)).filter(|_| has(family))?;
            Some(GuestRoute { to: route.destination, router, by_dhcp: false })
        })
        .collect();
    let default_route = asked.and_then(|asked| asked.default_route.as_ref());
    // A guest that asks by DHCP is told of the router, if there is one.
    let by_dhcp = config.dhcp.is_some() && config.vpc.is_some();
    let takes_default = default_route.is_some() || (name == FIRST_INTERFACE && !others);
    if takes_default || by_dhcp {
        let named = default_route.filter(|routers| !routers.is_empty()).cloned();
        let routers =
            named.unwrap_or_else(|| [Family::IPv4, Family::IPv6].into_iter().filter_map(gateway).collect());
        let by_dhcp = !takes_default;
        routes.extend(routers.into_iter().map(|router| GuestRoute {
            to: everything(router),
            router,
            by_dhcp,
        }));
    }
    routes
}

fn everything(like: IpAddr) -> IpNet {
    match like {
        IpAddr::V4(_) => IpNet::V4(ipnet::Ipv4Net::default()),
        IpAddr::V6(_) => IpNet::V6(ipnet::Ipv6Net::default()),
    }
}
