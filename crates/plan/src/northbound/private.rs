//! Private subnets: ACLs that let in nothing that begins outside, except from prefixes that the user allows.
//!
//! The rules are stateful, so that guests of a private subnet are answered by whom they call. ovn-northd itself lets
//! neighbour discovery and DHCP pass ahead of all ACLs.

use ovn_schema::nb::Acl;
use portolan_api::{Family, SubnetConfig};

use super::acl_priority::{PRIVATE_ALLOW as ALLOW_PRIORITY, PRIVATE_DROP as DROP_PRIORITY};

/// The ACLs of a private subnet, each with what tells it from the others.
pub(super) fn acls(config: &SubnetConfig) -> impl Iterator<Item = (String, Acl)> {
    config.cidr.families().flat_map(|family| {
        let ip = match family {
            Family::IPv4 => "ip4",
            Family::IPv6 => "ip6",
        };
        let allow =
            acl(ALLOW_PRIORITY, "allow-related", format!("{ip}.src == {{{}}}", sources(config, family)));
        let drop = acl(DROP_PRIORITY, "drop", ip.to_owned());
        [(format!("allow {ip}"), allow), (format!("drop {ip}"), drop)]
    })
}

/// To the guests' ports. Packets towards the router pass here too, but only with a source of this subnet.
fn acl(priority: i64, action: &str, matches: String) -> Acl {
    Acl {
        priority,
        direction: "to-lport".into(),
        r#match: matches,
        action: action.to_owned(),
        ..Default::default()
    }
}

/// The prefixes that may begin to talk to the subnet: its own, and the allowed ones.
fn sources(config: &SubnetConfig, family: Family) -> String {
    let own = config.cidr.net(family);
    // No router forwards link-local packets, so they come from the subnet itself.
    let link_local = (family == Family::IPv6).then(|| "fe80::/10".to_owned());
    let allowed = config.allow_subnets.iter().filter(|net| Family::of_net(net) == family);
    let all = own.iter().map(ToString::to_string).chain(link_local).chain(allowed.map(ToString::to_string));
    all.collect::<Vec<_>>().join(", ")
}
