//! Routes of the main table.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use netlink_packet_core::{NetlinkMessage, NetlinkPayload};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use nix::libc::ENODEV;

use super::{Link, Rtnetlink, bytes, family};
use crate::error::{Error, Result};
use crate::netlink::{CREATE, DUMP, EXCLUSIVE, Message};

pub(crate) const NEW_ROUTE: u16 = 24;
pub(crate) const DELETE_ROUTE: u16 = 25;
const GET_ROUTE: u16 = 26;

/// The metric that the kernel gives an IPv6 route which names none; an IPv4 route has 0.
const IPV6_METRIC: u32 = 1024;
/// Added to the metric of a route that another one takes precedence over.
const OUTRANKED: u32 = 1 << 16;

/// A route by a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Where it leads.
    pub destination: IpNet,
    /// The next hop; none if the destination is on the link.
    pub gateway: Option<IpAddr>,
}

impl Route {
    /// True for `0.0.0.0/0` and `::/0`.
    pub fn is_default(&self) -> bool {
        self.destination.prefix_len() == 0
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.gateway {
            Some(gateway) => write!(f, "{} via {gateway}", self.destination),
            None => write!(f, "{}", self.destination),
        }
    }
}

/// A route as the kernel has it.
#[derive(Clone, Debug)]
struct Existing {
    route: Route,
    /// The index of its link; none for a route by several.
    link: Option<u32>,
    metric: u32,
    message: RouteMessage,
}

/// What routes are listed by: a node may have a million others.
#[derive(Clone, Copy, Debug)]
enum By {
    /// The index of their link.
    Link(u32),
    /// Who made them.
    Protocol(RouteProtocol),
}

impl Rtnetlink {
    /// Makes `route` by `link` the one that the kernel uses for its destination.
    ///
    /// Other routes to the same destination stay with a higher metric, so that they take effect again when `link` is removed. The
    /// kernel's own route to a network that is directly on another link is never outranked: that is [`Error::RouteConflict`].
    pub fn set_route(&mut self, link: &Link, route: Route) -> Result<()> {
        let metric = default_metric(route.destination);
        for other in self.routes_to(route.destination)? {
            let same = other.link == Some(link.index) && other.route.gateway == route.gateway;
            if same && other.metric == metric {
                return Ok(());
            }
            if other.metric <= metric {
                self.outrank(link, route, &other)?;
            }
        }
        self.add_route(link, route)
    }

    /// Adds a route. Other routes to the same destination stay as they are; one that leaves no room for it is an error.
    pub fn add_route(&mut self, link: &Link, route: Route) -> Result<()> {
        let mut message = RouteMessage::default();
        message.header.address_family = family(route.destination.addr());
        message.header.table = RouteHeader::RT_TABLE_MAIN;
        message.header.protocol = RouteProtocol::Static;
        message.header.kind = RouteType::Unicast;
        message.header.scope = if route.gateway.is_some() { RouteScope::Universe } else { RouteScope::Link };
        set_destination(&mut message, route.destination);
        message.attributes.push(RouteAttribute::Oif(link.index));
        message.attributes.extend(route.gateway.map(|gateway| RouteAttribute::Gateway(gateway.into())));
        let what = || format!("add route {route} on {}", link.name);
        self.change(NEW_ROUTE, CREATE | EXCLUSIVE, &message, what)
    }

    /// Routes `networks` as the default routes by links other than `link` do now, so that they stay reachable when `link` takes the
    /// default route. A network that already has a route of its own keeps it.
    pub fn keep_networks(&mut self, link: &Link, networks: &[IpNet]) -> Result<()> {
        for network in networks {
            let defaults = self.routes_to(default_of(*network))?;
            let others = defaults.into_iter().filter(|route| route.link != Some(link.index));
            let Some(default) = others.min_by_key(|route| route.metric) else { continue };
            if !self.routes_to(*network)?.is_empty() {
                continue;
            }
            let mut message = copy(&default.message);
            set_destination(&mut message, *network);
            let what = || format!("keep {network} on the default route {}", default.route);
            self.change(NEW_ROUTE, CREATE | EXCLUSIVE, &message, what)?;
        }
        Ok(())
    }

    /// Removes a route by a link; it is no error if there is none.
    pub fn remove_route(&mut self, link: &Link, route: Route) -> Result<()> {
        for existing in self.list_routes(By::Link(link.index))? {
            let is_meant = existing.link == Some(link.index)
                && existing.route == Route { destination: route.destination.trunc(), ..route };
            if is_meant && existing.message.header.protocol != RouteProtocol::Kernel {
                let what = || format!("remove route {route} by {}", link.name);
                self.change(DELETE_ROUTE, 0, &existing.message, what)?;
            }
        }
        Ok(())
    }

    /// The routes by a link, those of the kernel's own making included.
    pub fn routes(&mut self, link: &Link) -> Result<Vec<Route>> {
        let by_link = |one: &Existing| one.link == Some(link.index);
        let listed = self.list_routes(By::Link(link.index))?;
        Ok(listed.into_iter().filter(by_link).map(|one| one.route).collect())
    }

    /// The routes that are asked for; of kernels that are too old for this, all.
    fn list_routes(&mut self, by: By) -> Result<Vec<Existing>> {
        let what = || "list the routes".to_owned();
        let mut found = Vec::new();
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let mut request = RouteMessage::default();
            request.header.address_family = family;
            match by {
                By::Link(index) => request.attributes.push(RouteAttribute::Oif(index)),
                By::Protocol(protocol) => request.header.protocol = protocol,
            }
            let answer = match self.socket.ask_filtered(GET_ROUTE, &bytes(&request), what) {
                // The link went meanwhile.
                Err(error) if error.os_error() == Some(ENODEV) => continue,
                answer => answer?,
            };
            for message in &answer {
                found.extend(read_route(message, what)?);
            }
        }
        Ok(found)
    }

    /// The networks that links other than `link` are directly in, as the kernel knows by the addresses of those links.
    pub fn connected_networks(&mut self, link: &Link) -> Result<Vec<IpNet>> {
        let others = self.list_routes(By::Protocol(RouteProtocol::Kernel))?.into_iter().filter(|route| {
            route.link != Some(link.index) && route.message.header.protocol == RouteProtocol::Kernel
        });
        let is_link_local = |net: &IpNet| matches!(net, IpNet::V6(v6) if v6.addr().is_unicast_link_local());
        Ok(others.map(|route| route.route.destination).filter(|net| !is_link_local(net)).collect())
    }

    /// The indexes of the links with routes that a router has advertised and the kernel has taken.
    pub fn links_with_advertised_routes(&mut self) -> Result<BTreeSet<u32>> {
        let listed = self.list_routes(By::Protocol(RouteProtocol::Ra))?;
        let advertised = listed.into_iter().filter(|one| one.message.header.protocol == RouteProtocol::Ra);
        Ok(advertised.filter_map(|route| route.link).collect())
    }

    /// Gives an existing route a metric that is higher than that of `route`.
    fn outrank(&mut self, link: &Link, route: Route, other: &Existing) -> Result<()> {
        if other.message.header.protocol == RouteProtocol::Kernel {
            let route = format!("{route} on {}", link.name);
            return Err(Error::RouteConflict { route, network: other.route.destination });
        }
        let mut message = copy(&other.message);
        message.attributes.push(RouteAttribute::Priority(other.metric.saturating_add(OUTRANKED)));
        let what = || format!("raise the metric of route {}", other.route);
        match self.change(NEW_ROUTE, CREATE | EXCLUSIVE, &message, what) {
            Err(error) if error.os_error() == Some(nix::libc::EEXIST) => {}
            outcome => outcome?,
        }
        let mut old = copy(&other.message);
        old.attributes.push(RouteAttribute::Priority(other.metric));
        self.change(DELETE_ROUTE, 0, &old, what)
    }

    /// The routes to exactly this destination, of all that there are: only for the namespaces of pods.
    fn routes_to(&mut self, destination: IpNet) -> Result<Vec<Existing>> {
        let what = || format!("list routes to {destination}");
        let mut request = RouteMessage::default();
        request.header.address_family = family(destination.addr());
        let answer = self.socket.ask(GET_ROUTE, DUMP, &bytes(&request), what)?;
        let mut found = Vec::new();
        for message in &answer {
            found.extend(
                read_route(message, what)?.filter(|one| one.route.destination == destination.trunc()),
            );
        }
        Ok(found)
    }
}

fn default_metric(destination: IpNet) -> u32 {
    match destination {
        IpNet::V4(_) => 0,
        IpNet::V6(_) => IPV6_METRIC,
    }
}

fn default_of(network: IpNet) -> IpNet {
    match network {
        IpNet::V4(_) => IpNet::V4(ipnet::Ipv4Net::default()),
        IpNet::V6(_) => IpNet::V6(ipnet::Ipv6Net::default()),
    }
}

fn set_destination(message: &mut RouteMessage, destination: IpNet) {
    message.header.destination_prefix_length = destination.prefix_len();
    message.attributes.retain(|attribute| !matches!(attribute, RouteAttribute::Destination(_)));
    if destination.prefix_len() > 0 {
        message.attributes.push(RouteAttribute::Destination(destination.network().into()));
    }
}

/// A message that makes the same route again, without its metric and without what the kernel reports about it.
fn copy(message: &RouteMessage) -> RouteMessage {
    let mut copy = message.clone();
    copy.header.flags &= RouteFlags::Onlink;
    copy.attributes.retain(|attribute| {
        matches!(
            attribute,
            RouteAttribute::Destination(_)
                | RouteAttribute::Gateway(_)
                | RouteAttribute::Oif(_)
                | RouteAttribute::PrefSource(_)
                | RouteAttribute::Via(_)
                | RouteAttribute::MultiPath(_)
                | RouteAttribute::Metrics(_)
        )
    });
    copy
}

fn read_route(message: &Message, what: impl Fn() -> String) -> Result<Option<Existing>> {
    if message.kind != NEW_ROUTE {
        return Ok(None);
    }
    let parsed = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&message.bytes)
        .map_err(|error| Error::Answer { what: what(), reason: error.to_string() })?;
    let NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewRoute(message)) = parsed.payload else {
        return Ok(None);
    };
    let header = &message.header;
    if header.table != RouteHeader::RT_TABLE_MAIN || header.kind != RouteType::Unicast {
        return Ok(None);
    }
    let unspecified = match header.address_family {
        AddressFamily::Inet => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        _ => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let (mut destination, mut gateway, mut link, mut metric) = (unspecified, None, None, 0);
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Destination(address) => destination = ip(address).unwrap_or(unspecified),
            RouteAttribute::Gateway(address) => gateway = ip(address),
            RouteAttribute::Oif(index) => link = Some(*index),
            RouteAttribute::Priority(priority) => metric = *priority,
            _ => {}
        }
    }
    let destination = IpNet::new(destination, header.destination_prefix_length)
        .map_err(|error| Error::Answer { what: what(), reason: error.to_string() })?;
    Ok(Some(Existing { route: Route { destination, gateway }, link, metric, message }))
}

fn ip(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(v4) => Some(IpAddr::V4(*v4)),
        RouteAddress::Inet6(v6) => Some(IpAddr::V6(*v6)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

    use super::*;

    /// A look at a link must not cost more where a routing daemon has filled the table with routes by another one.
    #[test]
    fn the_kernel_lists_the_routes_that_are_asked_for_and_no_others() {
        portolan_testbed::test(async |lab| {
            let links = "link add veth0 type veth peer name veth1\nlink set veth0 up\nlink set veth1 up\n\
                         address add 192.0.2.1/24 dev veth0\naddress add 198.51.100.1/24 dev veth1\n\
                         address add fd00::1/64 dev veth0 nodad\nroute add fd01::/64 dev veth1\n";
            let others = (0..1000)
                .map(|number| format!("route add 10.1.{}.{} dev veth1\n", number / 250, number % 250));
            lab.home().ip(&(links.to_owned() + &others.collect::<String>())).unwrap();
            let mut host = Rtnetlink::open().unwrap();
            let link = host.link("veth0").unwrap().unwrap();
            let by_link = host.list_routes(By::Link(link.index)).unwrap();
            assert!(
                by_link.len() >= 2 && by_link.iter().all(|one| one.link == Some(link.index)),
                "{by_link:?}"
            );
            let by_protocol = host.list_routes(By::Protocol(RouteProtocol::Kernel)).unwrap();
            assert!(by_protocol.len() >= 3, "{by_protocol:?}");
            assert!(by_protocol.iter().all(|one| one.message.header.protocol == RouteProtocol::Kernel));
            assert_eq!(host.routes_to("0.0.0.0/0".parse().unwrap()).unwrap().len(), 0);
            lab.home().ip("link del veth0").unwrap();
            assert_eq!(host.routes(&link).unwrap(), []);
        });
    }
}
