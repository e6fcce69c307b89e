//! A Service: load balancers on all switches of the primary network.
//!
//! | what comes | load balancer |
//! |---|---|
//! | what goes to the same endpoints wherever it comes in | one for each protocol |
//! | what goes elsewhere on each node: policy `Local`, and hints | one for each protocol and family, with a variable for each chassis |
//!
//! A change of endpoints is a change of the first alone, or of the variables of the chassis that it concerns.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use ovn_schema::nb::{ChassisTemplateVar, LoadBalancer, LoadBalancerGroup};
use portolan_api::Family;
use portolan_model::Unit;
use portolan_model::service::{Affinity, Backend, Backends, Protocol, Service, ServicePort, TrafficPolicy};
use portolan_model::view::ServiceView;

use super::{ServiceProxy, Settings, names};
use crate::rows::{RowRef, Rows};
use crate::service_addresses::{cluster_wide_frontend, hairpin, node_local_frontend};

pub(super) fn rows(unit: &Unit, view: &ServiceView<'_>, settings: &Settings) -> Rows {
    let service = view.service;
    let mut rows = service.uid.with_text(|uid| Rows::new(unit, uid));
    if settings.service_proxy() == ServiceProxy::Other {
        return rows;
    }
    let group = names::services_group(view.vpc);
    for protocol in Protocol::ALL {
        let mut everywhere = BTreeMap::new();
        for family in [Family::IPv4, Family::IPv6] {
            let mut per_node = PerNode::default();
            for (at, port) in service.ports.iter().enumerate().filter(|(_, port)| port.protocol == protocol) {
                let backends = Backends::of(view.slices.iter().copied(), port, family);
                let anywhere = backends.anywhere();
                let mut add = |vip: SocketAddr, spread: Spread| {
                    // Where nothing answers anywhere, who asks is told at once: the list is empty.
                    if anywhere.is_empty() || spread == Spread::Same {
                        everywhere.insert(vip.to_string(), list(&anywhere));
                    } else {
                        per_node.add(vip, spread, port.port, &backends, view);
                    }
                };
                for vip in vips(view, port, family) {
                    add(vip, spread(service, vip.ip(), &backends));
                }
                let on_node = node_local_frontend(service, at, family).map(|vip| (vip, Spread::OnNode));
                let anywhere = cluster_wide_frontend(service, at, family);
                let anywhere = anywhere.map(|vip| (vip, spread_of_cluster(&backends)));
                // A node offers a Service in the families in which it has an address.
                let of_nodes = on_node.into_iter().chain(anywhere).filter(|_| has_family(service, family));
                of_nodes.for_each(|(vip, spread)| add(vip, spread));
            }
            per_node.add_rows(&mut rows, view, protocol, family, &group);
        }
        if !everywhere.is_empty() {
            let row = load_balancer(service, protocol, everywhere);
            let row = rows.root(protocol.lower_case(), row);
            rows.row_member(&row, &group, LoadBalancerGroup::LOAD_BALANCER);
        }
    }
    rows
}

/// Where what comes to an address goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Spread {
    /// To the same endpoints wherever it comes in.
    Same,
    /// To the endpoints that hints say.
    Near,
    /// To the endpoints of the node where it comes in.
    OnNode,
}

fn spread(service: &Service, address: IpAddr, backends: &Backends<'_>) -> Spread {
    // What pods send to an address of the outside goes to any endpoint, whatever the policy for the outside says.
    if service.internal == TrafficPolicy::Local && service.is_cluster_ip(address) {
        Spread::OnNode
    } else {
        spread_of_cluster(backends)
    }
}

fn spread_of_cluster(backends: &Backends<'_>) -> Spread {
    if backends.have_hints() { Spread::Near } else { Spread::Same }
}

/// The addresses of a port that are this Service's.
fn vips(view: &ServiceView<'_>, port: &ServicePort, family: Family) -> impl Iterator<Item = SocketAddr> {
    let ours = view.frontends.iter();
    let of_port = ours.filter(move |one| one.protocol == port.protocol && one.port == port.port);
    let of_family = of_port.filter(move |one| Family::of(one.address) == family);
    of_family.map(|one| SocketAddr::new(one.address, one.port))
}

fn has_family(service: &Service, family: Family) -> bool {
    service.cluster_ips.iter().any(|address| Family::of(*address) == family)
}

/// What differs per node, of a protocol and family.
#[derive(Default)]
struct PerNode {
    /// The addresses, each with the name of the variable that has its endpoints.
    vips: BTreeMap<SocketAddr, String>,
    /// By the variable and the node's place: the endpoints.
    values: BTreeMap<(String, usize), String>,
}

impl PerNode {
    fn add(
        &mut self,
        vip: SocketAddr,
        spread: Spread,
        port: u16,
        backends: &Backends<'_>,
        view: &ServiceView<'_>,
    ) {
        let variable = format!("{port}_{}", if spread == Spread::Near { "near" } else { "local" });
        let with_endpoints = backends.node_names();
        for (at, node) in view.nodes.iter().enumerate() {
            let found = match spread {
                Spread::OnNode if !with_endpoints.contains(node.node.name) => continue,
                Spread::OnNode => backends.on(node.node.name),
                Spread::Near | Spread::Same => backends.near(*node),
            };
            // Without a variable the chassis drops what comes, as Kubernetes wants it.
            if !found.is_empty() {
                self.values.insert((variable.clone(), at), list(&found));
            }
        }
        self.vips.insert(vip, variable);
    }

    fn add_rows(
        self,
        rows: &mut Rows,
        view: &ServiceView<'_>,
        protocol: Protocol,
        family: Family,
        group: &RowRef<LoadBalancerGroup>,
    ) {
        if self.vips.is_empty() {
            return;
        }
        let key = format!("{}/per-node/{}", protocol.lower_case(), ip_version(family));
        let uuid = rows.uuid_of::<LoadBalancer>(&key);
        let variable = |name: &str| format!("^{}", crate::pair::key(uuid, name));
        let addresses: BTreeSet<IpAddr> = self.vips.keys().map(SocketAddr::ip).collect();
        let addresses: Vec<(String, IpAddr)> =
            addresses.into_iter().enumerate().map(|(at, address)| (format!("vip{at}"), address)).collect();
        let frontend = |vip: &SocketAddr| match addresses.iter().find(|(_, address)| *address == vip.ip()) {
            // OVN 23.03 splits templates at colons: an IPv6 address must be a variable too.
            Some((name, IpAddr::V6(_))) => format!("{}:{}", variable(name), vip.port()),
            _ => vip.to_string(),
        };
        let vips = self.vips.iter().map(|(vip, name)| (frontend(vip), variable(name)));
        let mut row = load_balancer(view.service, protocol, vips.collect());
        row.name = format!("{}/per-node/{}", row.name, ip_version(family));
        row.options.extend([
            ("template".to_owned(), "true".to_owned()),
            ("address-family".to_owned(), ip_version(family).to_owned()),
        ]);
        let row = rows.root(&key, row);
        rows.row_member(&row, group, LoadBalancerGroup::LOAD_BALANCER);
        let mut pair = |at: usize, name: &str, value: String| {
            let chassis = names::chassis_row(view.nodes[at].node);
            rows.pair(&row, name, &chassis, ChassisTemplateVar::VARIABLES, value);
        };
        for (name, address) in addresses.iter().filter(|(_, address)| address.is_ipv6()) {
            (0..view.nodes.len()).for_each(|at| pair(at, name, address.to_string()));
        }
        for ((name, at), value) in self.values {
            pair(at, &name, value);
        }
    }
}

fn load_balancer(service: &Service, protocol: Protocol, vips: BTreeMap<String, String>) -> LoadBalancer {
    let hairpin = [Family::IPv4, Family::IPv6].map(|family| hairpin(family).to_string()).join(" ");
    LoadBalancer {
        name: names::load_balancer(service, protocol),
        protocol: Some(protocol.lower_case().to_owned()),
        vips,
        // How long a client has been away does not matter to OVN 23.03: it keeps its endpoint while the endpoints stay the same.
        selection_fields: match service.affinity {
            Affinity::None => BTreeSet::new(),
            Affinity::ClientIp(_) => BTreeSet::from(["ip_dst".to_owned(), "ip_src".to_owned()]),
        },
        options: BTreeMap::from([
            ("hairpin_snat_ip".to_owned(), hairpin),
            ("reject".to_owned(), "true".to_owned()),
        ]),
        ..Default::default()
    }
}

fn list(backends: &[Backend<'_>]) -> String {
    backends.iter().map(|backend| backend.address.to_string()).collect::<Vec<_>>().join(",")
}

fn ip_version(family: Family) -> &'static str {
    match family {
        Family::IPv4 => "ipv4",
        Family::IPv6 => "ipv6",
    }
}
