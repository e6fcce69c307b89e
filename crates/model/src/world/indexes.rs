//! The World's indexes, grouped by what they find. All are functions of its inputs, kept as these change.

use std::collections::BTreeSet;
use std::net::IpAddr;

use portolan_api::{Domain, Provider};
use smol_str::SmolStr;

use super::Name;
use super::index::Index;
use super::prefixes::Prefixes;
use crate::attachment::{AttachmentId, PortHolder};
use crate::service::Frontend;

/// Finds subnets: the one that has the name, except where it says otherwise.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct SubnetIndexes {
    pub(super) by_vpc: Index<String, String>,
    pub(super) by_provider: Index<Provider, String>,
    /// Every subnet of either group, whether or not it has its name.
    pub(super) by_domain: Index<Domain, String>,
    pub(super) by_namespace: Index<String, String>,
    /// By the name of a lock: those whose gateway's address it is on.
    pub(super) by_gateway: Index<String, String>,
    /// Those whose gateway is not theirs to use: see [`World::gateway_problem`](super::World::gateway_problem).
    pub(super) blocked_gateways: BTreeSet<String>,
    /// Those that are marked as the default.
    pub(super) default: Index<(), String>,
    /// Those that cannot be understood, by the namespaces whose pods they would give an interface in a tenant's VPC.
    pub(super) held_by_namespace: Index<String, String>,
    /// On the primary network: the prefixes of those of its VPC.
    pub(super) primary_prefixes: Prefixes,
    /// On the primary network: the prefixes of those of tenants' VPCs.
    pub(super) tenant_prefixes: Prefixes,
}

/// Finds VPCs: the one that has the name.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct VpcIndexes {
    pub(super) by_namespace: Index<String, String>,
    /// Those that name the key as their remote.
    pub(super) by_remote: Index<String, String>,
    /// Those that cannot be understood.
    pub(super) held: BTreeSet<String>,
    /// Those that cannot be understood, by the namespaces to which they would give their Subnet.
    pub(super) held_by_namespace: Index<String, String>,
}

/// Finds locks by their names.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct LockIndexes {
    /// Those on addresses of a subnet, also those that cannot be read; without gateways.
    pub(super) by_subnet: Index<String, SmolStr>,
    /// Those that cannot be read and do not say whose they are, by what the name of their port tells of that.
    pub(super) unreadable_by_port: Index<PortHolder, String>,
}

/// Finds attachments that have addresses.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct HoldingIndexes {
    pub(super) by_subnet: Index<String, AttachmentId>,
    pub(super) by_node: Index<String, AttachmentId>,
}

/// Finds nodes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct NodeIndexes {
    /// By the size of packets that fits into their tunnels: those where that is usable.
    pub(super) by_tunnel_mtu: Index<u16, String>,
    /// On the primary network: by the addresses that they report.
    pub(super) by_address: Index<IpAddr, String>,
    /// By the MTU that they were told.
    pub(super) by_told_mtu: Index<u16, String>,
}

/// Finds Services and what belongs to them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ServiceIndexes {
    /// The names of EndpointSlices in the Service's namespace.
    pub(super) slices: Index<Name, String>,
    /// Those that want to be reached by an address and port.
    pub(super) by_frontend: Index<Frontend, Name>,
    /// Those whose traffic goes elsewhere depending on the node where it comes in.
    pub(super) per_node: BTreeSet<Name>,
}
