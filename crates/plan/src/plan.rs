//! What rows a unit should have.

mod attachment;
mod dhcp;
mod names;
mod peering;
mod private;
mod router_advertisement;
mod subnet;
mod vpc;

use ovsdb_core::SmolStr;
use portolan_model::view::View;
use portolan_model::{Unit, UnitState, World};

use crate::rows::Rows;

/// What a cluster's operator decides, and no object says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The MTU of subnets that name none: what the tunnel leaves of the underlay's.
    pub mtu: u16,
}

/// What to do about a unit.
#[derive(Clone, Debug, PartialEq)]
pub enum Plan {
    /// It should have exactly these rows.
    Rows(Rows),
    /// What it has stays as it is.
    Hold,
    /// It should have none: it is stale.
    Remove(SmolStr),
}

/// What to do about a unit, given the World.
pub fn plan(unit: &Unit, world: &World, settings: &Settings) -> Plan {
    // There is a view of live units only, and most units that are planned are live.
    match world.view(unit) {
        Some(view) => Plan::Rows(rows(unit, &view, settings)),
        None if world.state(unit) == UnitState::Held => Plan::Hold,
        None => Plan::Remove(unit.to_string().into()),
    }
}

/// The rows that a unit should have, given what its plan may look at.
pub fn rows(unit: &Unit, view: &View<'_>, settings: &Settings) -> Rows {
    match view {
        View::Vpc(view) => vpc::rows(unit, *view),
        View::Subnet(view) => subnet::rows(unit, *view, settings),
        View::Peering(view) => peering::rows(unit, *view),
        View::Attachment(view) => attachment::rows(unit, *view),
    }
}

impl Default for Settings {
    /// Geneve over Ethernet, with the same room to spare that Kube-OVN leaves.
    fn default() -> Self {
        Settings { mtu: 1400 }
    }
}
