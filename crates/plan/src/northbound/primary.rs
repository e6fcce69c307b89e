//! What the primary network has beside what its VPC asks for: the ways out of the cluster, and the group of all Services.
//!
//! Everything without a more specific route leaves by a port without a peer, `void`. That is only a place for policies to look at: what
//! goes there is sent to the node by which it leaves, by the policy of that node's unit, and is dropped without one. A route by source would
//! not do: it ranks above shorter routes by destination, so users' static routes would lose their meaning.

use std::net::IpAddr;

use ipnet::IpNet;
use ovn_schema::nb::{LoadBalancerGroup, LogicalRouter, LogicalRouterPort, LogicalRouterStaticRoute};
use portolan_api::vpc_config::RoutePolicy;
use portolan_api::{Family, Mac};
use portolan_model::Vpc;

use super::{ServiceProxy, Settings, names, vpc as vpc_rows};
use crate::rows::{RowRef, Rows};
use crate::service_addresses::NODE_LOCAL;

/// The network of the port, and the router behind it that does not exist. Link-local for IPv4, and of a prefix of this project's own for
/// IPv6, so that it can be no subnet's.
const VOID: [(Family, &str, &str); 2] = [
    (Family::IPv4, "169.254.252.1/30", "169.254.252.2"),
    (Family::IPv6, "fd8a:3c51:9e07:fc::1/126", "fd8a:3c51:9e07:fc::2"),
];
/// Adds the group of load balancers that all switches have, if Portolan serves Services.
pub(super) fn add_services(rows: &mut Rows, settings: &Settings) {
    if settings.service_proxy() == ServiceProxy::Portolan {
        rows.root(names::SERVICES, LoadBalancerGroup::default());
    }
}

/// Adds the port and the routes.
pub(super) fn add_exits(rows: &mut Rows, router: &RowRef<LogicalRouter>, vpc: &Vpc, settings: &Settings) {
    let name = names::void_port(&vpc.name);
    let port = LogicalRouterPort {
        name: name.clone(),
        mac: Mac::derive(IpAddr::from([169, 254, 252, 1]), None).to_string(),
        networks: VOID.iter().map(|(_, network, _)| (*network).to_owned()).collect(),
        ..Default::default()
    };
    rows.child("void", router.column(LogicalRouter::PORTS), port);
    for (family, _, hop) in VOID.iter().filter(|(family, ..)| !has_own_default(vpc, *family)) {
        let everything = if *family == Family::IPv4 { "0.0.0.0/0" } else { "::/0" };
        let route = LogicalRouterStaticRoute { output_port: Some(name.clone()), ..to(everything, hop) };
        rows.child(&format!("void {everything}"), router.column(LogicalRouter::STATIC_ROUTES), route);
    }
    // An address that means something on a node alone, or of a Service that is not there, must not go round between router and node.
    let services = settings.service_cidrs.iter().map(ToString::to_string);
    for prefix in NODE_LOCAL.iter().map(ToString::to_string).chain(services) {
        let route = to(&prefix, "discard");
        rows.child(&format!("discard {prefix}"), router.column(LogicalRouter::STATIC_ROUTES), route);
    }
}

/// A route by destination.
pub(super) fn to(prefix: &str, hop: &str) -> LogicalRouterStaticRoute {
    LogicalRouterStaticRoute {
        ip_prefix: prefix.to_owned(),
        nexthop: hop.to_owned(),
        policy: Some(vpc_rows::policy(RoutePolicy::Destination).to_owned()),
        ..Default::default()
    }
}

/// Whether the user gives the router a default route: two would share the load.
fn has_own_default(vpc: &Vpc, family: Family) -> bool {
    let is_default = |net: &IpNet| net.prefix_len() == 0 && Family::of_net(net) == family;
    let mut routes = vpc.config.static_routes.iter();
    routes.any(|route| route.policy == RoutePolicy::Destination && is_default(&route.prefix))
}
