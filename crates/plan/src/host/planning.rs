//! What a unit should have.

use std::collections::{BTreeMap, BTreeSet};

use portolan_api::portolan::TapAccess;
use portolan_model::{Attachment, Requester, World};

use super::holder;
use super::names::{HolderTag, LinkName, Note, Sandbox, Tag};
use super::observed::{Datapath, Internal, Observed, ObservedLink, PodEnd, Switched};
use crate::reconciler::Plan;

/// What a unit should have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Desired {
    /// Its port; none to leave the port as it is.
    pub port: Option<DesiredPort>,
    /// The guard of its link.
    pub guard: Option<Admits>,
    /// What the engine itself makes of its link; none where a CNI call does.
    pub link: Option<DesiredLink>,
    /// Whether its link is to be set up, if it has one.
    pub state: LinkState,
}

/// A port of OVN's bridge, with its interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DesiredPort {
    /// What its tags say.
    pub tag: Tag,
    /// Its pod, as `namespace/name`; empty if it is no pod's.
    pub pod: String,
    /// `iface-id` of its interface; none if a newer sandbox of the pod has it.
    pub iface_id: Option<String>,
    /// The link that Open vSwitch makes for it; none if it plugs one that is there.
    pub internal: Option<Internal>,
}

/// What a guard lets through to the node's own stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Admits {
    /// Nothing: Open vSwitch alone reads the link.
    Nothing,
    /// What is for an IPv4 address of that very link, and ARP.
    OwnAddresses,
}

/// A link that no CNI call makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DesiredLink {
    /// What is noted on it.
    pub tag: HolderTag,
    /// The tap to be made if there is none; any other link is made by Open vSwitch, for its port.
    pub make: Option<DesiredTap>,
}

/// Whether a link is to be set up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LinkState {
    /// It is.
    #[default]
    Up,
    /// Not yet, or not any more: what comes in by it would go to the node's own stack.
    Down,
    /// Nobody knows yet what sees what comes in by it: it stays as it is.
    Kept,
}

/// A tap that another process is to open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DesiredTap {
    /// The user and the group that may open it besides root.
    pub access: TapAccess,
    /// Its MTU.
    pub mtu: u16,
}

/// What plans depend on.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// What the node has.
    pub observed: &'a Observed,
    /// What users ask for.
    pub world: &'a World,
    /// The pods of the node that were seen and not seen deleted, by UID: namespace and name.
    pub pods: &'a BTreeMap<String, (String, String)>,
    /// Sandboxes that the container runtime has ended.
    pub ended: &'a BTreeSet<Sandbox>,
    /// Who asked for ports of the node itself and was not seen deleted; none before that was listed.
    pub holders: Option<&'a BTreeMap<LinkName, HolderTag>>,
    /// The MTU on subnets that name none, if it is known.
    pub mtu: Option<u16>,
}

/// What is to be done about a unit.
pub fn plan(unit: &LinkName, facts: &Facts<'_>) -> Plan<Desired> {
    match unit.is_of_holder() {
        true => holder::plan(unit, facts),
        false => plan_sandbox(unit, facts),
    }
}

fn plan_sandbox(unit: &LinkName, facts: &Facts<'_>) -> Plan<Desired> {
    let observed = facts.observed;
    if observed.note(unit).is_some_and(|note| facts.ended.contains(&note.sandbox)) {
        return Plan::Remove;
    }
    if let Some(plan) = observed.link(unit).and_then(|link| plan_of_function(unit, link, facts)) {
        return plan;
    }
    if let Some(note) = observed.link(unit).and_then(|link| link.tag.note()) {
        let (guard, state) = (guard_of_plugged(unit, observed), state_of_plugged(unit, observed));
        return Plan::Desired(Desired { port: port(unit, note, facts), guard, link: None, state });
    }
    if observed.is_unnoted(unit) && observed.port(unit).is_none() {
        // No call goes on with it.
        return Plan::Remove;
    }
    match observed.port(unit) {
        // The namespace is gone. If the pod is not, its sandbox may be about to be made again; DEL or the pod's deletion ends this.
        Some(port) if is_known(port.tag.owner(), facts) => Plan::Hold { owner: None },
        Some(_) => Plan::Remove,
        // A guard that has outlived its link protects nothing.
        None => Plan::Desired(Desired::default()),
    }
}

/// What is to be done about a representor whose sandbox is gone, as far as can be seen: the link itself would stay for ever.
fn plan_of_function(unit: &LinkName, link: &ObservedLink, facts: &Facts<'_>) -> Option<Plan<Desired>> {
    let function = link.function()?;
    let has_port = facts.observed.port(unit).is_some();
    let is_known = is_known(link.tag.owner(), facts);
    match (link.is_returning(), link.pod_end) {
        (true, PodEnd::OnNode) => Some(Plan::Remove),
        // Nobody came to remove the port after the note had been written, which says that the sandbox was ended.
        (true, PodEnd::InSandbox) if has_port => Some(Plan::Remove),
        (true, PodEnd::InSandbox) => Some(Plan::Hold { owner: None }),
        // As with a port whose link is gone: the sandbox may be about to be made again.
        (false, PodEnd::OnNode) if is_known => Some(Plan::Hold { owner: None }),
        (false, PodEnd::OnNode) => Some(Plan::Remove),
        // Of a function without a link the pod is all that shows whether it is in use.
        (false, PodEnd::InSandbox) => (function.link.is_none() && !is_known).then_some(Plan::Remove),
    }
}

/// The guard of a link that Open vSwitch plugs.
pub(super) fn guard_of_plugged(unit: &LinkName, observed: &Observed) -> Option<Admits> {
    let guarded = match observed.datapath() {
        Some(datapath) => datapath == Datapath::Netdev,
        // Without a bridge nobody knows: what there is stays.
        None => observed.is_guarded(unit),
    };
    guarded.then_some(Admits::Nothing)
}

/// Whether a link that Open vSwitch plugs is to be set up. In the kernel's datapath it has no guard: what comes in by one that is no port goes to
/// the node's own stack.
pub(super) fn state_of_plugged(unit: &LinkName, observed: &Observed) -> LinkState {
    let is_switched = observed.switched(unit).is_some_and(|switched| switched != Switched::No);
    match observed.datapath() {
        None => LinkState::Kept,
        Some(Datapath::System) if !is_switched => LinkState::Down,
        Some(Datapath::System | Datapath::Netdev) => LinkState::Up,
    }
}

fn is_known(pod_uid: Option<&str>, facts: &Facts<'_>) -> bool {
    pod_uid.is_some_and(|uid| facts.pods.contains_key(uid))
}

/// The port of a link, if its attachment is known.
fn port(unit: &LinkName, note: &Note, facts: &Facts<'_>) -> Option<DesiredPort> {
    let uid = note.pod_uid.as_deref()?;
    let (namespace, name) = facts.pods.get(uid)?;
    let attachment = attachment(facts.world, (namespace, name), uid, &note.interface)?;
    let newest = facts.observed.links_of_pod(uid, &note.interface).last();
    Some(DesiredPort {
        tag: Tag::Sandbox(note.clone()),
        pod: format!("{namespace}/{name}"),
        iface_id: (newest == Some(unit)).then(|| attachment.iface_id()),
        internal: None,
    })
}

fn attachment<'w>(
    world: &'w World,
    (namespace, name): (&str, &str),
    uid: &str,
    interface: &str,
) -> Option<&'w Attachment> {
    let ids = world.holdings_of(&Requester::pod(namespace, name));
    let of_interface = ids.iter().filter(|id| id.interface() == interface);
    of_interface
        .filter_map(|id| world.attachment(id))
        .find(|attachment| attachment.pod_uid().as_deref() == Some(uid))
}
