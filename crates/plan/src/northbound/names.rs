//! The names of rows, and the rows that other units may refer to.
//!
//! Names are for `ovn-nbctl show`. Kubernetes names have neither colons nor slashes, so no two of these are alike;
//! switch ports and router ports share one space of names in OVN.

use ovn_schema::nb::{
    ChassisTemplateVar, DhcpOptions, LoadBalancerGroup, LogicalRouter, LogicalSwitch, PortGroup,
};
use ovsdb_core::Uuid;
use portolan_api::Family;
use portolan_model::Unit;
use portolan_model::node_subnet::node_of_subnet;
use portolan_model::service::{Protocol, Service};
use portolan_model::view::{NodeRef, VpcRef};

use crate::rows::RowRef;

/// The router of a VPC, and the prefix of its ports' names.
pub(super) fn router(vpc: &str) -> String {
    format!("vpc:{vpc}")
}

/// The switch of a subnet, and the prefix of its router port's name. That of a node has the node's name, as the subnet itself.
pub(super) fn switch(subnet: &str) -> String {
    match node_of_subnet(subnet) {
        Some(_) => subnet.to_owned(),
        None => format!("subnet:{subnet}"),
    }
}

/// The router's port on a subnet's switch.
pub(super) fn router_port(vpc: &str, subnet: &str) -> String {
    format!("{}/{}", router(vpc), switch(subnet))
}

/// The switch's port on its VPC's router.
pub(super) fn switch_router_port(subnet: &str, vpc: &str) -> String {
    format!("{}/{}", switch(subnet), router(vpc))
}

/// The router's port towards another router.
pub(super) fn peer_port(vpc: &str, remote: &str) -> String {
    format!("{}/{}", router(vpc), router(remote))
}

/// The router's port by which everything leaves that is for no network of its own.
pub(super) fn void_port(vpc: &str) -> String {
    format!("{}/void", router(vpc))
}

/// The group of a node's ports on subnets that span nodes. OVN's matches take names of letters, digits, `_` and `.` only, and no node has
/// a `_` in its name.
pub(super) fn node_group(node: &str) -> String {
    format!("node.{}", node.replace('-', "_"))
}

/// The row of that group.
pub(super) fn node_group_row(node: NodeRef<'_>) -> RowRef<PortGroup> {
    RowRef::new(&Unit::Node(node.name.to_owned()), node.uid, THE_ONE)
}

/// The row of a VPC's router.
pub(super) fn router_row(vpc: &str, owner: &str) -> RowRef<LogicalRouter> {
    RowRef::new(&Unit::Vpc(vpc.to_owned()), owner, THE_ONE)
}

/// The row of a subnet's switch.
pub(super) fn switch_row(subnet: &str, uid: &str) -> RowRef<LogicalSwitch> {
    RowRef::new(&Unit::Subnet(subnet.to_owned()), uid, THE_ONE)
}

/// The row of a subnet's DHCP options.
pub(super) fn dhcp_row(subnet: &str, uid: &str, family: Family) -> Uuid {
    RowRef::<DhcpOptions>::new(&Unit::Subnet(subnet.to_owned()), uid, dhcp_key(family)).uuid()
}

/// What tells the rows of a subnet's DHCP options apart.
pub(super) fn dhcp_key(family: Family) -> &'static str {
    match family {
        Family::IPv4 => "v4",
        Family::IPv6 => "v6",
    }
}

/// A load balancer of a Service.
pub(super) fn load_balancer(service: &Service, protocol: Protocol) -> String {
    format!("service:{}/{}/{}", service.namespace, service.name, protocol.lower_case())
}

/// The row of the load balancers of a VPC, which its switches have in common.
pub(super) fn services_group(vpc: VpcRef<'_>) -> RowRef<LoadBalancerGroup> {
    RowRef::new(&Unit::Vpc(vpc.name.to_owned()), vpc.owner, SERVICES)
}

/// The row of the variables at a node's chassis.
pub(super) fn chassis_row(node: NodeRef<'_>) -> RowRef<ChassisTemplateVar> {
    RowRef::new(&Unit::Chassis(node.name.to_owned()), node.uid, THE_ONE)
}

/// The key of a VPC's group of load balancers.
pub(super) const SERVICES: &str = "services";

/// The key of a row that is its unit's only one in its table.
pub(super) const THE_ONE: &str = "";
