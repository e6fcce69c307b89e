//! A node of the primary network: the way to its own addresses, the way by it out of the cluster, and what it may always do.
//!
//! A change of one node costs these rows alone. There are as many as nodes, never as many as nodes times subnets.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ovn_schema::nb::{Acl, LogicalRouter, LogicalRouterPolicy, LogicalSwitch, PortGroup};
use portolan_api::Family;
use portolan_model::Unit;
use portolan_model::view::{NodePort, NodeView};

use super::{ServiceProxy, Settings, acl_priority, names, primary};
use crate::rows::Rows;
use crate::service_addresses;

/// Above what users' policy routes usually have, and below what they may have.
const EXIT_PRIORITY: i64 = 20_000;

pub(super) fn rows(unit: &Unit, view: &NodeView<'_>, settings: &Settings) -> Rows {
    let NodeView { node, addresses, port, .. } = view;
    let mut rows = Rows::new(unit, node.uid);
    let name = names::node_group(node.name);
    // The ports join by themselves.
    let group = rows.root(names::THE_ONE, PortGroup { name: name.clone(), ..Default::default() });
    let Some(port) = port else { return rows };
    let router = names::router_row(view.vpc.name, view.vpc.owner);
    // One of a Service's prefixes would take over what goes to the Service.
    let is_of_service = |address: &IpAddr| settings.service_cidrs.iter().any(|net| net.contains(address));
    for address in addresses.iter().filter(|address| !is_of_service(address)) {
        if let Some(hop) = own(port, Family::of(*address)) {
            let length = if address.is_ipv4() { 32 } else { 128 };
            let route = primary::to(&format!("{address}/{length}"), &hop.to_string());
            rows.child(&address.to_string(), router.column(LogicalRouter::STATIC_ROUTES), route);
        }
    }
    for family in families(port) {
        if let Some(policy) = exit(view, port, family, &name) {
            rows.child(ip(family), router.column(LogicalRouter::POLICIES), policy);
        }
    }
    let switch = names::switch_row(port.subnet.name, port.subnet.uid);
    rows.child("services", switch.column(LogicalSwitch::ACLS), second_pass(port, settings));
    let probes = format!("outport == @{name} && {}", from(families(port).filter_map(|f| own(port, f))));
    rows.child("probes", group.column(PortGroup::ACLS), acl("allow", probes));
    rows
}

/// What leaves the cluster from the node's pods goes to the node.
fn exit(
    view: &NodeView<'_>,
    port: &NodePort<'_>,
    family: Family,
    group: &str,
) -> Option<LogicalRouterPolicy> {
    let ip = ip(family);
    let prefix = view.prefixes.and_then(|prefixes| prefixes.net(family));
    let by_prefix = prefix.map(|prefix| format!("{ip}.src == {prefix} || "));
    // The addresses of a group's ports are a set that OVN keeps.
    let r#match = format!(
        "outport == \"{}\" && ({}{ip}.src == ${group}_{ip})",
        names::void_port(view.vpc.name),
        by_prefix.unwrap_or_default(),
    );
    Some(LogicalRouterPolicy {
        priority: EXIT_PRIORITY,
        r#match,
        action: "reroute".to_owned(),
        nexthops: BTreeSet::from([own(port, family)?.to_string()]),
        ..Default::default()
    })
}

/// A node that calls a Service whose backend it is itself passes its port a second time. Connection tracking has the connection in that
/// zone already, and would take it for invalid as soon as any ACL of the switch is stateful.
fn second_pass(port: &NodePort<'_>, settings: &Settings) -> Acl {
    let masquerade = port_addresses(port).filter(|address| !is_own(port, *address)).map(|a| a.to_string());
    let services = settings
        .service_cidrs
        .iter()
        .filter(|net| port.attachment.addresses_of(Family::of_net(net)).next().is_some());
    let has = |family| port.attachment.addresses_of(family).next().is_some();
    let serves = settings.service_proxy() == ServiceProxy::Portolan;
    let frontends =
        service_addresses::cluster_wide().into_iter().filter(|one| serves && has(Family::of(*one)));
    let sources = masquerade.chain(services.map(ToString::to_string));
    let sources: Vec<String> = sources.chain(frontends.map(|address| address.to_string())).collect();
    acl("allow-stateless", format!("outport == \"{}\" && {}", port.attachment.iface_id(), from(sources)))
}

/// To the ports of the switch or group.
fn acl(action: &str, matches: String) -> Acl {
    Acl {
        priority: acl_priority::NODE,
        direction: "to-lport".into(),
        r#match: matches,
        action: action.to_owned(),
        ..Default::default()
    }
}

/// A match on sources of both families.
fn from(sources: impl IntoIterator<Item = impl ToString>) -> String {
    let sources: Vec<String> = sources.into_iter().map(|source| source.to_string()).collect();
    let of = |family: Family| {
        let is_of = |source: &&String| source.contains(':') == (family == Family::IPv6);
        let list: Vec<&str> = sources.iter().filter(is_of).map(String::as_str).collect();
        (!list.is_empty()).then(|| format!("{}.src == {{{}}}", ip(family), list.join(", ")))
    };
    let parts: Vec<String> = [Family::IPv4, Family::IPv6].into_iter().filter_map(of).collect();
    format!("({})", parts.join(" || "))
}

fn families(port: &NodePort<'_>) -> impl Iterator<Item = Family> {
    let attachment = port.attachment;
    [Family::IPv4, Family::IPv6]
        .into_iter()
        .filter(move |family| attachment.addresses_of(*family).next().is_some())
}

fn port_addresses<'a>(port: &NodePort<'a>) -> impl Iterator<Item = IpAddr> + use<'a> {
    port.attachment.addresses.iter().copied()
}

/// The node's own address of a family on its port; the other one is not configured there.
fn own(port: &NodePort<'_>, family: Family) -> Option<IpAddr> {
    port.attachment.addresses_of(family).next()
}

fn is_own(port: &NodePort<'_>, address: IpAddr) -> bool {
    own(port, Family::of(address)) == Some(address)
}

fn ip(family: Family) -> &'static str {
    match family {
        Family::IPv4 => "ip4",
        Family::IPv6 => "ip6",
    }
}
