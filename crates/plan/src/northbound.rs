//! OVN's northbound database: what rows a unit should have there.
//!
//! | unit | rows |
//! |---|---|
//! | VPC | a logical router, its static routes and policy routes |
//! | subnet | a logical switch; its pair of ports with the VPC's router; DHCP options; ACLs if it is private |
//! | peering | a pair of router ports that name each other |
//! | attachment | a port of its subnet's switch; rules for its rates |
//! | node | on the primary network: the way to its addresses and by it out of the cluster, and a group of ports that take it |
//! | chassis | the variables that Services have at a node |
//! | Service | load balancers in the group of the primary network |

mod acl_priority;
mod attachment;
mod chassis;
mod dhcp;
mod names;
mod node;
mod peering;
mod primary;
mod private;
mod rates;
mod router_advertisement;
mod service;
pub mod southbound;
mod subnet;
mod tables;
mod vpc;

use ipnet::IpNet;
use portolan_model::view::View;
use portolan_model::{Unit, UnitState, World};

pub use self::tables::DATABASE;
use crate::reconciler::Plan;
use crate::rows::Rows;

/// What a cluster's operator decides, and no object says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The MTU of subnets that name none. Unless it is given, it is what fits into the tunnels of every node.
    pub mtu: Option<u16>,
    /// The prefixes of the Services that Portolan itself serves on the primary network; none where another does.
    pub service_cidrs: Vec<IpNet>,
}

/// The MTU of subnets where nothing is known: Geneve over Ethernet, with the same room to spare that Kube-OVN leaves.
pub const DEFAULT_MTU: u16 = 1400;

/// What to do about a unit, given the World.
pub fn plan(unit: &Unit, world: &World, settings: &Settings) -> Plan<Rows> {
    // There is a view of live units only, and most units that are planned are live.
    match world.view(unit) {
        Some(view) => Plan::Desired(rows(unit, &view, settings)),
        None if world.state(unit) == UnitState::Held => Plan::Hold { owner: world.owner(unit) },
        None => Plan::Remove,
    }
}

/// The rows that a unit should have, given what its plan may look at.
pub fn rows(unit: &Unit, view: &View<'_>, settings: &Settings) -> Rows {
    match view {
        View::Vpc(view) => vpc::rows(unit, *view, settings),
        View::Subnet(view) => subnet::rows(unit, *view, settings),
        View::Peering(view) => peering::rows(unit, *view),
        View::Attachment(view) => attachment::rows(unit, *view),
        View::Node(view) => node::rows(unit, view, settings),
        View::Chassis(view) => chassis::rows(unit, *view, settings),
        View::Service(view) => service::rows(unit, view, settings),
    }
}

/// Who brings traffic to the endpoints of Services.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceProxy {
    /// Portolan, in OVN.
    Portolan,
    /// Another, such as kube-proxy.
    Other,
}

impl Settings {
    /// Who brings traffic to the endpoints of Services.
    pub fn service_proxy(&self) -> ServiceProxy {
        if self.service_cidrs.is_empty() { ServiceProxy::Other } else { ServiceProxy::Portolan }
    }

    /// The MTU of subnets that name none.
    pub fn mtu(&self, world: &World) -> u16 {
        self.mtu_given(world.tunnel_mtu())
    }

    fn mtu_given(&self, tunnel_mtu: Option<u16>) -> u16 {
        self.mtu.or(tunnel_mtu).unwrap_or(DEFAULT_MTU)
    }
}
