//! A node as a target: the difference between what it should have and what it has.

use std::collections::BTreeSet;

use ovsdb_core::SmolStr;

use super::names::{HolderTag, LinkName, Note, Tag};
use super::observed::{Observed, Switched};
use super::planning::{Admits, Desired, DesiredLink, DesiredPort, DesiredTap, LinkState};
use super::removals::Removal;
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
    /// Have ovs-vswitchd say when it has seen that the port was removed: raise `next_cfg`.
    RaiseNextCfg(LinkName),
    /// Make the tap, down.
    MakeTap(LinkName, DesiredTap),
    /// Remove the link, and with it the other end of a pair.
    RemoveLink(LinkName),
    /// Bring the function back from its sandbox and release its representor, which this is noted on.
    Release(LinkName, Box<Note>),
    /// Guard the link.
    Guard(LinkName, Admits),
    /// Guard the link, turn IPv6 off on it, let it answer ARP for its own addresses only, note on it whose it is, and set it up.
    Prepare(LinkName, Preparation),
    /// Set the link up, which somebody set down, or which may be up by now. After the guard.
    SetUp(LinkName),
    /// Set the link down.
    SetDown(LinkName),
    /// Remove the guard. After the link, so that no frame reaches the host's stack in between.
    RemoveGuard(LinkName),
}

/// How a link that no CNI call makes is made ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preparation {
    /// What is noted on it.
    pub tag: HolderTag,
    /// Its guard. It is made again whatever is known of one: the kernel removes a guard with its link, and says nothing. What is known may be
    /// that of a link that had the name before.
    pub guard: Option<Admits>,
}

/// What a unit may wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// OVN's bridge.
    Bridge,
    /// That ovs-vswitchd has seen a port's removal.
    Removal,
}

impl Change {
    /// The unit.
    pub fn unit(&self) -> &LinkName {
        match self {
            Change::Plug(unit, _)
            | Change::Correct(unit, _)
            | Change::Unplug(unit)
            | Change::RaiseNextCfg(unit)
            | Change::MakeTap(unit, _)
            | Change::RemoveLink(unit)
            | Change::Release(unit, _)
            | Change::Guard(unit, _)
            | Change::Prepare(unit, _)
            | Change::SetUp(unit)
            | Change::SetDown(unit)
            | Change::RemoveGuard(unit) => unit,
        }
    }

    /// True for a change of Open vSwitch; the others are the kernel's.
    pub fn is_of_vswitch(&self) -> bool {
        matches!(self, Change::Plug(..) | Change::Correct(..) | Change::Unplug(_) | Change::RaiseNextCfg(_))
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
        for (unit, Desired { port, guard, link, state }) in desired {
            let changes = &mut comparison.changes;
            let of_link = change_of_link(&unit, (link, state), guard, observed);
            let is_prepared = matches!(of_link, Some(Change::Prepare(..)));
            match (guard, observed.guard(&unit)) {
                (Some(admits), is) if is != Some(admits) && !is_prepared => {
                    changes.push(Change::Guard(unit.clone(), admits));
                }
                (None, Some(_)) => changes.push(Change::RemoveGuard(unit.clone())),
                (Some(_), _) | (None, None) => {}
            }
            changes.extend(of_link);
            match (port, observed.port(&unit)) {
                (Some(port), Some(is)) if is.iface_id != port.iface_id || is.internal != port.internal => {
                    changes.push(Change::Correct(unit, port));
                }
                (Some(_), None) if observed.datapath().is_none() => {
                    let obstacle = "Open vSwitch does not have OVN's bridge";
                    comparison.waiting.push(Waiting { unit, until: Key::Bridge, obstacle });
                }
                (Some(port), None) => match observed.removal(&unit) {
                    None => changes.push(Change::Plug(unit, port)),
                    Some(removal) => {
                        if removal == Removal::Unasked {
                            changes.push(Change::RaiseNextCfg(unit.clone()));
                        }
                        let obstacle = "ovs-vswitchd has not seen yet that the port was removed";
                        comparison.waiting.push(Waiting { unit, until: Key::Removal, obstacle });
                    }
                },
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
    if unit.is_of_holder() {
        return removal_of_holder(unit, observed);
    }
    let is_pair = observed.note(&unit).is_none_or(|note| note.function.is_none());
    if is_pair && observed.switched(&unit) == Some(Switched::Port) {
        // The link goes before its port: without that, what comes in by it would go to the node's own stack.
        return vec![Change::RemoveLink(unit)];
    }
    let mut changes = Vec::new();
    if observed.port(&unit).is_some() {
        changes.push(Change::Unplug(unit.clone()));
    }
    if let Some(note) = observed.note(&unit).filter(|note| note.function.is_some()) {
        // Its representor may stay for a while, and with it the guard, which goes once the link has its own name again.
        changes.push(Change::Release(unit.clone(), Box::new(note.clone())));
        return changes;
    }
    if observed.switched(&unit).is_some() {
        changes.push(Change::RemoveLink(unit.clone()));
    }
    if observed.is_guarded(&unit) {
        changes.push(Change::RemoveGuard(unit));
    }
    changes
}

/// The same of a port of the node itself, one after another, as each of them is seen to be gone.
fn removal_of_holder(unit: LinkName, observed: &Observed) -> Vec<Change> {
    let port = observed.port(&unit);
    match observed.switched(&unit) {
        // Open vSwitch removes the link with the port, and the kernel the guard with the link.
        _ if port.is_some_and(|port| port.internal.is_some()) => vec![Change::Unplug(unit)],
        // ovs-vswitchd removes what it has no port for.
        Some(Switched::Internal) => Vec::new(),
        Some(_) => {
            // A tap goes before its port: without that, what comes in by it would go to the node's own stack. One that is left of a port
            // that Open vSwitch forgot while it was down goes with its guard.
            let guard = port.is_none() && observed.is_guarded(&unit);
            let guard = guard.then(|| Change::RemoveGuard(unit.clone()));
            [Change::RemoveLink(unit)].into_iter().chain(guard).collect()
        }
        None if port.is_some() => vec![Change::Unplug(unit)],
        None => vec![Change::RemoveGuard(unit)],
    }
}

/// What makes a link as it should be.
fn change_of_link(
    unit: &LinkName,
    (desired, state): (Option<DesiredLink>, LinkState),
    guard: Option<Admits>,
    observed: &Observed,
) -> Option<Change> {
    let prepare = |tag| Some(Change::Prepare(unit.clone(), Preparation { tag, guard }));
    match (desired, observed.link(unit)) {
        _ if state == LinkState::Kept => None,
        (_, Some(is)) if state == LinkState::Down => is.up.then(|| Change::SetDown(unit.clone())),
        (Some(DesiredLink { tag, .. }), Some(is)) if !is.is_strict || is.tag.owner() != Some(&tag.uid) => {
            prepare(tag)
        }
        (_, Some(is)) => (!is.up).then(|| Change::SetUp(unit.clone())),
        (Some(DesiredLink { tag, .. }), None) if observed.is_unnoted(unit) => {
            (state == LinkState::Up).then_some(tag).and_then(prepare)
        }
        (Some(DesiredLink { make: Some(tap), .. }), None) => Some(Change::MakeTap(unit.clone(), tap)),
        (_, None) => None,
    }
}
