//! What a subnet's router port advertises to IPv6 guests.

use std::collections::BTreeMap;

use portolan_api::{Family, SubnetConfig};

/// The least MTU of IPv6; OVN leaves out the option for less.
const IPV6_MIN_MTU: u16 = 1280;

/// The `ipv6_ra_configs` of a subnet's router port: none unless the subnet has IPv6, and DHCP or advertisements are on.
///
/// A guest learns prefix, default router and MTU this way only, so DHCPv6 without advertisements would be of little use.
pub(super) fn configs(config: &SubnetConfig, mtu: u16) -> BTreeMap<String, String> {
    let wanted = config.ipv6_ra.is_some() || config.dhcp.is_some();
    if !wanted || !config.cidr.has(Family::IPv6) {
        return BTreeMap::new();
    }
    let stateless = config
        .dhcp
        .as_ref()
        .is_some_and(|dhcp| dhcp.v6.get("dhcpv6_stateless").is_some_and(|value| value == "true"));
    // Never SLAAC unless asked for: port security lets only the address pass that the guest was given.
    let mode = if stateless { "dhcpv6_stateless" } else { "dhcpv6_stateful" };
    let mut configs = BTreeMap::from([
        ("address_mode".to_owned(), mode.to_owned()),
        ("send_periodic".to_owned(), "true".to_owned()),
        ("max_interval".to_owned(), "30".to_owned()),
        ("min_interval".to_owned(), "5".to_owned()),
    ]);
    if mtu >= IPV6_MIN_MTU {
        configs.insert("mtu".to_owned(), mtu.to_string());
    }
    if let Some(user) = &config.ipv6_ra {
        if user.contains_key("max_interval") {
            // OVN's default is a third of the maximum; ours may be more than the user's maximum.
            configs.remove("min_interval");
        }
        configs.extend(user.clone());
    }
    configs
}
