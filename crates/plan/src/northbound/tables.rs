//! The tables of the northbound database that Portolan writes, and those that services, policy and gateways will.

use std::net::IpAddr;

use ovn_schema::nb::{
    Acl, AddressSet, ChassisTemplateVar, DhcpOptions, GatewayChassis, HaChassis, HaChassisGroup,
    LoadBalancer, LoadBalancerGroup, LogicalRouter, LogicalRouterPolicy, LogicalRouterPort,
    LogicalRouterStaticRoute, LogicalSwitch, LogicalSwitchPort, Nat, PortGroup, QoS,
};
use ovsdb_core::{Atom as Value, Datum, TypedRow as _};

use crate::database::{ColumnsOf, Database, Exclusive};
use crate::table::{Owned, Planned as _, Strength, planned};
use crate::tag;

/// OVN's northbound database.
pub static DATABASE: Database = Database {
    tables: &[
        LogicalRouter::RULES,
        LogicalSwitch::RULES,
        DhcpOptions::RULES,
        PortGroup::RULES,
        AddressSet::RULES,
        LoadBalancer::RULES,
        LoadBalancerGroup::RULES,
        HaChassisGroup::RULES,
        ChassisTemplateVar::RULES,
        LogicalRouterPort::RULES,
        LogicalSwitchPort::RULES,
        LogicalRouterStaticRoute::RULES,
        LogicalRouterPolicy::RULES,
        Nat::RULES,
        Acl::RULES,
        QoS::RULES,
        GatewayChassis::RULES,
        HaChassis::RULES,
    ],
    // A writer whose watches are behind may have left the port of a pod that is gone. Two ports of a switch with one address would
    // answer for each other.
    exclusive: &[Exclusive {
        table: LogicalSwitchPort::TABLE,
        index: "portolan/address",
        values: addresses_in_subnet,
    }],
};

/// The addresses of a port of ours, each with the unit of its switch.
fn addresses_in_subnet(columns: ColumnsOf<'_>) -> Vec<Value> {
    let parent = columns("external_ids").and_then(|ids| ids.map_get(tag::PARENT)?.as_str());
    let addresses = columns(LogicalSwitchPort::ADDRESSES.name()).into_iter().flat_map(Datum::keys);
    let words = addresses.filter_map(Value::as_str).flat_map(|text| text.split(' '));
    let ips = words.filter(|word| word.parse::<IpAddr>().is_ok());
    parent
        .map(|parent| ips.map(|ip| Value::String(format!("{parent} {ip}").into())).collect())
        .unwrap_or_default()
}

const NAME: Option<&str> = Some("name");

// Root tables.

planned!(LogicalRouter, held by [], unique: None, owns [
    Owned::whole(LogicalRouter::NAME.name()),
    Owned::keys(LogicalRouter::OPTIONS.name(), &["always_learn_from_arp_request", "mac_binding_age_threshold"]),
    Owned::row_members(LogicalRouter::LOAD_BALANCER.name(), LoadBalancer::TABLE, Strength::Weak),
    Owned::row_members(LogicalRouter::LOAD_BALANCER_GROUP.name(), LoadBalancerGroup::TABLE, Strength::Strong),
]);

planned!(LogicalSwitch, held by [], unique: None, owns [
    Owned::whole(LogicalSwitch::NAME.name()),
    Owned::row_members(LogicalSwitch::LOAD_BALANCER.name(), LoadBalancer::TABLE, Strength::Weak),
    Owned::strong(LogicalSwitch::LOAD_BALANCER_GROUP.name(), LoadBalancerGroup::TABLE),
]);

planned!(DhcpOptions, held by [], unique: None, owns [
    Owned::whole(DhcpOptions::CIDR.name()),
    Owned::whole(DhcpOptions::OPTIONS.name()),
]);

planned!(PortGroup, held by [], unique: NAME, owns [
    Owned::whole(PortGroup::NAME.name()),
    Owned::row_members(PortGroup::PORTS.name(), LogicalSwitchPort::TABLE, Strength::Weak),
]);

planned!(AddressSet, held by [], unique: NAME, owns [
    Owned::whole(AddressSet::NAME.name()),
    Owned::text_members(AddressSet::ADDRESSES.name()),
]);

planned!(LoadBalancer, held by [], unique: None, owns [
    Owned::whole(LoadBalancer::NAME.name()),
    Owned::whole(LoadBalancer::PROTOCOL.name()),
    Owned::whole(LoadBalancer::VIPS.name()),
    Owned::whole(LoadBalancer::SELECTION_FIELDS.name()),
    Owned::whole(LoadBalancer::OPTIONS.name()),
]);

planned!(named LoadBalancerGroup, held by [], unique: NAME, owns [
    Owned::row_members(LoadBalancerGroup::LOAD_BALANCER.name(), LoadBalancer::TABLE, Strength::Weak),
]);

planned!(HaChassisGroup, held by [], unique: NAME, owns [Owned::whole(HaChassisGroup::NAME.name())]);

planned!(ChassisTemplateVar, held by [], unique: Some("chassis"), owns [
    Owned::whole(ChassisTemplateVar::CHASSIS.name()),
    Owned::pairs(ChassisTemplateVar::VARIABLES.name(), LoadBalancer::TABLE),
]);

// Tables whose rows something else holds.

planned!(LogicalRouterPort, held by [LogicalRouter::PORTS], unique: NAME, owns [
    Owned::whole(LogicalRouterPort::NAME.name()),
    Owned::whole(LogicalRouterPort::MAC.name()),
    Owned::whole(LogicalRouterPort::NETWORKS.name()),
    Owned::whole(LogicalRouterPort::PEER.name()),
    Owned::whole(LogicalRouterPort::IPV6_RA_CONFIGS.name()),
    Owned::strong(LogicalRouterPort::HA_CHASSIS_GROUP.name(), HaChassisGroup::TABLE),
    Owned::keys(LogicalRouterPort::OPTIONS.name(), &["gateway_mtu"]),
]);

planned!(LogicalSwitchPort, held by [LogicalSwitch::PORTS], unique: NAME, owns [
    Owned::whole(LogicalSwitchPort::NAME.name()),
    Owned::whole(LogicalSwitchPort::TYPE.name()),
    Owned::whole(LogicalSwitchPort::ADDRESSES.name()),
    Owned::whole(LogicalSwitchPort::PORT_SECURITY.name()),
    Owned::weak(LogicalSwitchPort::DHCPV4_OPTIONS.name(), DhcpOptions::TABLE),
    Owned::weak(LogicalSwitchPort::DHCPV6_OPTIONS.name(), DhcpOptions::TABLE),
    Owned::keys(LogicalSwitchPort::OPTIONS.name(), &["iface-id-ver", "requested-chassis", "router-port"]),
]);

planned!(LogicalRouterStaticRoute, held by [LogicalRouter::STATIC_ROUTES], unique: None, owns [
    Owned::whole(LogicalRouterStaticRoute::IP_PREFIX.name()),
    Owned::whole(LogicalRouterStaticRoute::NEXTHOP.name()),
    Owned::whole(LogicalRouterStaticRoute::OUTPUT_PORT.name()),
    Owned::whole(LogicalRouterStaticRoute::POLICY.name()),
    Owned::keys(LogicalRouterStaticRoute::OPTIONS.name(), &["ecmp_symmetric_reply"]),
]);

planned!(LogicalRouterPolicy, held by [LogicalRouter::POLICIES], unique: None, owns [
    Owned::whole(LogicalRouterPolicy::PRIORITY.name()),
    Owned::whole(LogicalRouterPolicy::MATCH.name()),
    Owned::whole(LogicalRouterPolicy::ACTION.name()),
    Owned::whole(LogicalRouterPolicy::NEXTHOPS.name()),
]);

planned!(Nat, held by [LogicalRouter::NAT], unique: None, owns [
    Owned::whole(Nat::TYPE.name()),
    Owned::whole(Nat::EXTERNAL_IP.name()),
    Owned::whole(Nat::EXTERNAL_MAC.name()),
    Owned::whole(Nat::LOGICAL_IP.name()),
    Owned::whole(Nat::LOGICAL_PORT.name()),
    Owned::weak(Nat::GATEWAY_PORT.name(), LogicalRouterPort::TABLE),
]);

planned!(Acl, held by [LogicalSwitch::ACLS, PortGroup::ACLS], unique: None, owns [
    Owned::whole(Acl::PRIORITY.name()),
    Owned::whole(Acl::DIRECTION.name()),
    Owned::whole(Acl::MATCH.name()),
    Owned::whole(Acl::ACTION.name()),
]);

planned!(QoS, held by [LogicalSwitch::QOS_RULES], unique: None, owns [
    Owned::whole(QoS::PRIORITY.name()),
    Owned::whole(QoS::DIRECTION.name()),
    Owned::whole(QoS::MATCH.name()),
    Owned::whole(QoS::BANDWIDTH.name()),
]);

planned!(GatewayChassis, held by [LogicalRouterPort::GATEWAY_CHASSIS], unique: NAME, owns [
    Owned::whole(GatewayChassis::NAME.name()),
    Owned::whole(GatewayChassis::CHASSIS_NAME.name()),
    Owned::whole(GatewayChassis::PRIORITY.name()),
]);

planned!(HaChassis, held by [HaChassisGroup::HA_CHASSIS], unique: None, owns [
    Owned::whole(HaChassis::CHASSIS_NAME.name()),
    Owned::whole(HaChassis::PRIORITY.name()),
]);

#[cfg(test)]
mod tests {
    use ovn_schema::nb;

    #[test]
    fn the_rules_fit_the_schema() {
        assert_eq!(super::DATABASE.misfits(nb::schema()), [""; 0]);
    }
}
