//! A node as a target: the difference between what it should have and what it has.

use std::collections::BTreeSet;

use ovsdb_core::SmolStr;

use super::names::LinkName;
use super::observed::Observed;
use super::planning::{Desired, DesiredPort};
use crate::reconciler::{Comparison, Target, Waiting};

/// One node.
#[derive(Clone, Copy, Debug, Default)]
pub struct Node;

/// A change of one unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Make the port with its interface.
    Plug(LinkName, DesiredPort),
    /// Correct `iface-id` of the port's interface.
    Correct(LinkName, DesiredPort),
    /// Remove the port.
    Unplug(LinkName),
    /// Remove the link, and with it the pod's end.
    RemoveLink(LinkName),
    /// Guard the link.
    Guard(LinkName),
    /// Set the link up again, which somebody set down. After the guard.
    SetUp(LinkName),
    /// Remove the guard. After the link, so that no frame reaches the host's stack in between.
    RemoveGuard(LinkName),
}

/// What a unit may wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// OVN's bridge.
    Bridge,
}

impl Change {
    /// The unit.
    pub fn unit(&self) -> &LinkName {
        match self {
            Change::Plug(unit, _)
            | Change::Correct(unit, _)
            | Change::Unplug(unit)
            | Change::RemoveLink(unit)
            | Change::Guard(unit)
            | Change::SetUp(unit)
            | Change::RemoveGuard(unit) => unit,
        }
    }

    /// True for a change of Open vSwitch; the others are the kernel's.
    pub fn is_of_vswitch(&self) -> bool {
        matches!(self, Change::Plug(..) | Change::Correct(..) | Change::Unplug(_))
    }
}

impl Target for Node {
    type Unit = LinkName;
    type Desired = Desired;
    type Observed = Observed;
    type Change = Change;
    type Key = Key;
    type Obstacle = &'static str;

    /// The UID of the pod.
    fn owners(&self, unit: &LinkName, observed: &Observed) -> BTreeSet<SmolStr> {
        if !observed.has(unit) {
            return BTreeSet::new();
        }
        let uid = observed.note(unit).and_then(|note| note.pod_uid.as_deref());
        BTreeSet::from([uid.unwrap_or_default().into()])
    }

    fn compare(
        &self,
        desired: Vec<(LinkName, Desired)>,
        stale: Vec<LinkName>,
        observed: &Observed,
    ) -> Comparison<Self> {
        let mut comparison = Comparison { changes: Vec::new(), waiting: Vec::new() };
        for unit in stale {
            let changes = &mut comparison.changes;
            changes.extend(observed.port(&unit).map(|_| Change::Unplug(unit.clone())));
            let has_link = observed.link(&unit).is_some() || observed.is_unnoted(&unit);
            changes.extend(has_link.then(|| Change::RemoveLink(unit.clone())));
            changes.extend(observed.is_guarded(&unit).then_some(Change::RemoveGuard(unit)));
        }
        for (unit, Desired { port, guarded }) in desired {
            match (guarded, observed.is_guarded(&unit)) {
                (true, false) => comparison.changes.push(Change::Guard(unit.clone())),
                (false, true) => comparison.changes.push(Change::RemoveGuard(unit.clone())),
                (true, true) | (false, false) => {}
            }
            if observed.link(&unit).is_some_and(|link| !link.up) {
                comparison.changes.push(Change::SetUp(unit.clone()));
            }
            match (port, observed.port(&unit)) {
                (Some(port), Some(is)) if is.iface_id != port.iface_id => {
                    comparison.changes.push(Change::Correct(unit, port));
                }
                (Some(port), None) if observed.datapath().is_some() => {
                    comparison.changes.push(Change::Plug(unit, port));
                }
                (Some(_), None) => {
                    let obstacle = "Open vSwitch does not have OVN's bridge";
                    comparison.waiting.push(Waiting { unit, until: Key::Bridge, obstacle });
                }
                (Some(_), Some(_)) | (None, _) => {}
            }
        }
        comparison
    }

    fn unit_of(&self, change: &Change) -> Option<LinkName> {
        Some(change.unit().clone())
    }
}
