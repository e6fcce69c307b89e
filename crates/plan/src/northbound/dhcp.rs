//! What a subnet's guests are told by DHCP.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ovn_schema::nb::DhcpOptions;
use portolan_api::subnet_config::DhcpConfig;
use portolan_api::{Family, Mac, SubnetConfig};

/// For how many seconds an address is leased where the user says nothing.
const LEASE_TIME: &str = "3600";

const DEFAULT_ROUTE: &str = "0.0.0.0/0";
/// DHCPv4 options 121 and 249. A guest that gets one of them ignores option 3, the router.
const CLASSLESS_ROUTES: &str = "classless_static_route";
const MS_CLASSLESS_ROUTES: &str = "ms_classless_static_route";

/// The DHCP options of each family that the subnet has, if DHCP is on. `mac` is the gateway's.
pub(super) fn options(config: &SubnetConfig, mac: Mac, mtu: u16) -> Vec<(Family, DhcpOptions)> {
    let Some(dhcp) = &config.dhcp else { return Vec::new() };
    let of_family = |family| {
        let cidr = config.cidr.net(family)?.to_string();
        let gateway = config.gateway.address(family)?;
        let options = match family {
            Family::IPv4 => v4(config, dhcp, gateway, mac, mtu),
            Family::IPv6 => v6(dhcp, mac),
        };
        Some((family, DhcpOptions { cidr, options, ..Default::default() }))
    };
    [Family::IPv4, Family::IPv6].into_iter().filter_map(of_family).collect()
}

fn v4(
    config: &SubnetConfig,
    dhcp: &DhcpConfig,
    gateway: IpAddr,
    mac: Mac,
    mtu: u16,
) -> BTreeMap<String, String> {
    let mut options = BTreeMap::from([
        ("lease_time".to_owned(), LEASE_TIME.to_owned()),
        ("mtu".to_owned(), mtu.to_string()),
        // In the subnet, as OVN asks, so that guests send renewals to where they are answered.
        ("server_id".to_owned(), gateway.to_string()),
        ("server_mac".to_owned(), mac.to_string()),
    ]);
    // An isolated switch has no router, and a default route to nowhere would cost a guest its other networks.
    if config.vpc.is_some() {
        options.insert("router".to_owned(), gateway.to_string());
    }
    options.extend(dhcp.v4.clone());

    let mut routes = routes_in(options.get(CLASSLESS_ROUTES));
    routes.extend(guest_routes(config, gateway));
    set_routes(&mut options, CLASSLESS_ROUTES, routes);
    let routes = routes_in(options.get(MS_CLASSLESS_ROUTES));
    set_routes(&mut options, MS_CLASSLESS_ROUTES, routes);
    options
}

/// OVN's DHCPv6 tells address and DNS; the rest comes by router advertisement.
fn v6(dhcp: &DhcpConfig, mac: Mac) -> BTreeMap<String, String> {
    let mut options = BTreeMap::from([("server_id".to_owned(), mac.to_string())]);
    options.extend(dhcp.v6.clone());
    options
}

/// The subnet's routes for guests, each as `prefix,gateway`.
fn guest_routes(config: &SubnetConfig, gateway: IpAddr) -> impl Iterator<Item = String> {
    let routes = config.routes.iter().filter(|route| Family::of_net(&route.destination) == Family::IPv4);
    routes.map(move |route| format!("{},{}", route.destination, route.gateway.unwrap_or(gateway)))
}

/// The elements of `{prefix,gateway, prefix,gateway}`.
fn routes_in(value: Option<&String>) -> Vec<String> {
    let inner = value.map_or("", |value| value.trim_start_matches('{').trim_end_matches('}'));
    inner.split(", ").filter(|route| !route.is_empty()).map(str::to_owned).collect()
}

/// Sets an option of routes, if there are any, and repeats the default route in it.
fn set_routes(options: &mut BTreeMap<String, String>, key: &str, mut routes: Vec<String>) {
    if routes.is_empty() {
        return;
    }
    let has_default = routes.iter().any(|route| route.split(',').next() == Some(DEFAULT_ROUTE));
    let router = options.get("router").and_then(|router| {
        router.trim_start_matches('{').trim_end_matches('}').split(',').next().map(str::trim)
    });
    if let Some(router) = router.filter(|_| !has_default) {
        routes.push(format!("{DEFAULT_ROUTE},{router}"));
    }
    options.insert(key.to_owned(), format!("{{{}}}", routes.join(", ")));
}
