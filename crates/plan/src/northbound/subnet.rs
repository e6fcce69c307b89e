//! A subnet: a logical switch, its port on the VPC's router, DHCP, and who may come in.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;
use ovn_schema::nb::{LogicalRouter, LogicalRouterPort, LogicalSwitch, LogicalSwitchPort};
use portolan_api::{Family, Mac, SubnetConfig};
use portolan_model::Unit;
use portolan_model::view::{SubnetView, VpcRef};

use super::{ServiceProxy, Settings, dhcp, names, private, router_advertisement};
use crate::rows::{RowRef, Rows};

pub(super) fn rows(unit: &Unit, view: SubnetView<'_>, settings: &Settings) -> Rows {
    let subnet = view.subnet;
    let config = &subnet.config;
    let mut rows = Rows::new(unit, &subnet.uid);
    if config.vni.is_some() {
        // The VXLAN fabric carries it, without OVN.
        return rows;
    }
    let name = names::switch(&subnet.name);
    let services =
        view.vpc.filter(|vpc| vpc.is_primary && settings.service_proxy() == ServiceProxy::Portolan);
    let load_balancer_group = services.map(|vpc| names::services_group(vpc).uuid()).into_iter().collect();
    let switch = rows.root(names::THE_ONE, LogicalSwitch { name, load_balancer_group, ..Default::default() });
    let mtu = config.mtu.unwrap_or_else(|| settings.mtu_given(view.tunnel_mtu));
    if let Some(vpc) = view.vpc {
        connect(&mut rows, &switch, vpc, &subnet.name, config, mtu);
    }
    for (family, options) in dhcp::options(config, gateway_mac(config), mtu) {
        rows.root(names::dhcp_key(family), options);
    }
    if config.private {
        for (key, acl) in private::acls(config) {
            rows.child(&key, switch.column(LogicalSwitch::ACLS), acl);
        }
    }
    rows
}

/// The pair of ports by which switch and router are connected.
fn connect(
    rows: &mut Rows,
    switch: &RowRef<LogicalSwitch>,
    vpc: VpcRef<'_>,
    subnet: &str,
    config: &SubnetConfig,
    mtu: u16,
) {
    let name = names::router_port(vpc.name, subnet);
    let switch_port = LogicalSwitchPort {
        name: names::switch_router_port(subnet, vpc.name),
        r#type: "router".into(),
        addresses: BTreeSet::from(["router".into()]),
        options: BTreeMap::from([("router-port".into(), name.clone())]),
        ..Default::default()
    };
    let router_port = LogicalRouterPort {
        name,
        mac: gateway_mac(config).to_string(),
        networks: networks(config).map(|network| network.to_string()).collect(),
        ipv6_ra_configs: router_advertisement::configs(config, mtu),
        // What does not fit is answered with what would, where it is not the same everywhere.
        options: config.mtu.map(|mtu| ("gateway_mtu".into(), mtu.to_string())).into_iter().collect(),
        ..Default::default()
    };
    let router = names::router_row(vpc.name, vpc.owner);
    rows.child(names::THE_ONE, router.column(LogicalRouter::PORTS), router_port);
    rows.child(names::THE_ONE, switch.column(LogicalSwitch::PORTS), switch_port);
}

/// The gateway's address in each prefix, with the prefix's length.
fn networks(config: &SubnetConfig) -> impl Iterator<Item = IpNet> {
    [Family::IPv4, Family::IPv6].into_iter().filter_map(|family| {
        let (net, gateway) = (config.cidr.net(family)?, config.gateway.address(family)?);
        IpNet::new(gateway, net.prefix_len()).ok()
    })
}

/// No guest has the gateway's address, so none has the MAC that follows from it.
fn gateway_mac(config: &SubnetConfig) -> Mac {
    let first = config.gateway.addresses().next();
    Mac::derive(first.expect("invariant: a pair has at least one address"), None)
}
