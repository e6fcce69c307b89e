//! An attachment: a port of its subnet's switch, and rules for its rates.

use std::collections::{BTreeMap, BTreeSet};

use ovn_schema::nb::{LogicalSwitch, LogicalSwitchPort, PortGroup};
use portolan_api::portolan::HolderKind;
use portolan_api::{Domain, Family};
use portolan_model::Unit;
use portolan_model::view::AttachmentView;

use super::{names, rates as rate_rules};
use crate::rows::Rows;

pub(super) fn rows(unit: &Unit, view: AttachmentView<'_>) -> Rows {
    let AttachmentView { attachment, subnet, chassis, rates, leaves_by } = view;
    let mut rows = Rows::new(unit, attachment.owner());
    if matches!(subnet.domain, Domain::Vni(_)) {
        // The VXLAN fabric carries it, without OVN.
        return rows;
    }
    let switch = names::switch_row(subnet.name, subnet.uid);
    let dhcp = |family| {
        let asks = subnet.dhcp && attachment.addresses_of(family).next().is_some();
        asks.then(|| names::dhcp_row(subnet.name, subnet.uid, family))
    };
    // The chassis by its name: nodes of one machine share a hostname.
    let requested_chassis = chassis.map(|chassis| ("requested-chassis".to_owned(), chassis.to_owned()));
    // A late interface of the pod's former life must not bind the port.
    let version = attachment.pod_uid().map(|uid| ("iface-id-ver".to_owned(), uid.to_string()));
    let addresses = addresses(view);
    // What the node forwards has the addresses of others.
    let forwards = attachment.id.kind() == HolderKind::Node;
    let port = LogicalSwitchPort {
        name: attachment.iface_id(),
        port_security: if forwards { BTreeSet::new() } else { addresses.clone() },
        addresses,
        dhcpv4_options: dhcp(Family::IPv4),
        dhcpv6_options: dhcp(Family::IPv6),
        options: requested_chassis.into_iter().chain(version).collect::<BTreeMap<_, _>>(),
        ..Default::default()
    };
    for (key, rule) in rate_rules::rules(&port.name, rates) {
        rows.child(key, switch.column(LogicalSwitch::QOS_RULES), rule);
    }
    let port = rows.child(names::THE_ONE, switch.column(LogicalSwitch::PORTS), port);
    if let Some(node) = leaves_by {
        rows.row_member(&port, &names::node_group_row(node), PortGroup::PORTS);
    }
    rows
}

/// `MAC ip…`, which is what the port owns and all that it may send from.
fn addresses(view: AttachmentView<'_>) -> BTreeSet<String> {
    let mac = std::iter::once(view.attachment.mac.to_string());
    let words: Vec<_> = mac.chain(view.addresses().iter().map(ToString::to_string)).collect();
    BTreeSet::from([words.join(" ")])
}
