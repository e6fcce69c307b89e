//! A node as a target: the difference between what it should have and what it has.

use std::collections::BTreeSet;

use ovsdb_core::SmolStr;

use super::names::{HolderTag, LinkName, Note, Tag};
use super::observed::Observed;
use super::planning::{Admits, Desired, DesiredLink, DesiredPort, DesiredTap};
use crate::reconciler::{Comparison, Target, Waiting};

/// One node.
#[derive(Clone, Copy, Debug, Default)]
pub struct Node;

/// A change of one unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Make the port with its interface.
    Plug(LinkName, DesiredPort),
    /// Correct `iface-id` of the port's interface, and the link that Open vSwitch makes for it.
    Correct(LinkName, DesiredPort),
    /// Remove the port.
    Unplug(LinkName),
    /// Make the tap, down.
    MakeTap(LinkName, DesiredTap),
    /// Remove the link, and with it the other end of a pair.
    RemoveLink(LinkName),
    /// Bring the function back from its sandbox and release its representor, which this is noted on.
    Release(LinkName, Box<Note>),
    /// Guard the link.
    Guard(LinkName, Admits),
    /// Turn IPv6 off on the link, let it answer ARP for its own addresses only, note on it whose it is, and set it up. After the guard.
    Prepare(LinkName, HolderTag),
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
            | Change::MakeTap(unit, _)
            | Change::RemoveLink(unit)
            | Change::Release(unit, _)
            | Change::Guard(unit, _)
            | Change::Prepare(unit, _)
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

    /// The UID of the pod or of the holder.
    fn owners(&self, unit: &LinkName, observed: &Observed) -> BTreeSet<SmolStr> {
        if !observed.has(unit) {
            return BTreeSet::new();
        }
        let uid = observed.tag(unit).and_then(Tag::owner);
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
            comparison.changes.extend(removal(unit, observed));
        }
        for (unit, Desired { port, guard, link }) in desired {
            let changes = &mut comparison.changes;
            match (guard, observed.is_guarded(&unit)) {
                (Some(admits), false) => changes.push(Change::Guard(unit.clone(), admits)),
                (None, true) => changes.push(Change::RemoveGuard(unit.clone())),
                (Some(_), true) | (None, false) => {}
            }
            changes.extend(change_of_link(&unit, link, observed));
            match (port, observed.port(&unit)) {
                (Some(port), Some(is)) if is.iface_id != port.iface_id || is.internal != port.internal => {
                    changes.push(Change::Correct(unit, port));
                }
                (Some(port), None) if observed.datapath().is_some() => {
                    changes.push(Change::Plug(unit, port));
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

/// What removes all there is of a unit.
fn removal(unit: LinkName, observed: &Observed) -> Vec<Change> {
    let mut changes = Vec::new();
    let has_port = observed.port(&unit).is_some();
    if has_port {
        changes.push(Change::Unplug(unit.clone()));
    }
    // A link that Open vSwitch made goes with its port, unless Open vSwitch was not there to see that. So does its guard.
    if has_port && unit.is_of_holder() {
        return changes;
    }
    if let Some(note) = observed.note(&unit).filter(|note| note.function.is_some()) {
        // Its representor may stay for a while, and with it the guard, which goes once the link has its own name again.
        changes.push(Change::Release(unit.clone(), Box::new(note.clone())));
        return changes;
    }
    if observed.link(&unit).is_some() || observed.is_unnoted(&unit) {
        changes.push(Change::RemoveLink(unit.clone()));
    }
    if observed.is_guarded(&unit) {
        changes.push(Change::RemoveGuard(unit));
    }
    changes
}

/// What makes a link as it should be.
fn change_of_link(unit: &LinkName, desired: Option<DesiredLink>, observed: &Observed) -> Option<Change> {
    match (desired, observed.link(unit)) {
        (Some(DesiredLink { tag, .. }), Some(is)) if !is.is_strict || is.tag.owner() != Some(&tag.uid) => {
            Some(Change::Prepare(unit.clone(), tag))
        }
        (_, Some(is)) => (!is.up).then(|| Change::SetUp(unit.clone())),
        (Some(DesiredLink { tag, .. }), None) if observed.is_unnoted(unit) => {
            Some(Change::Prepare(unit.clone(), tag))
        }
        (Some(DesiredLink { make: Some(tap), .. }), None) => Some(Change::MakeTap(unit.clone(), tap)),
        (_, None) => None,
    }
}
