//! What a unit should have.

use std::collections::{BTreeMap, BTreeSet};

use portolan_model::{Attachment, Requester, World};

use super::names::{LinkName, Note, Sandbox};
use super::observed::{Datapath, Observed};
use crate::reconciler::Plan;

/// What a unit should have. Its link exists; only a CNI call makes one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Desired {
    /// Its port; none to leave the port as it is.
    pub port: Option<DesiredPort>,
    /// Whether its link has a guard.
    pub guarded: bool,
}

/// A port of OVN's bridge, with its interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DesiredPort {
    /// What its tags say.
    pub note: Note,
    /// Its pod, as `namespace/name`.
    pub pod: String,
    /// `iface-id` of its interface; none if a newer sandbox of the pod has it.
    pub iface_id: Option<String>,
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
}

/// What is to be done about a unit.
pub fn plan(unit: &LinkName, facts: &Facts<'_>) -> Plan<Desired> {
    let observed = facts.observed;
    if observed.note(unit).is_some_and(|note| facts.ended.contains(&note.sandbox)) {
        return Plan::Remove;
    }
    if let Some(link) = observed.link(unit) {
        let guarded = observed.datapath() == Some(Datapath::Netdev);
        // Without a bridge nobody knows: what there is stays.
        let guarded = guarded || (observed.datapath().is_none() && observed.is_guarded(unit));
        return Plan::Desired(Desired { port: port(unit, &link.note, facts), guarded });
    }
    if observed.is_unnoted(unit) && observed.port(unit).is_none() {
        // No call goes on with it.
        return Plan::Remove;
    }
    match observed.port(unit) {
        // The namespace is gone. If the pod is not, its sandbox may be about to be made again; DEL or the pod's deletion ends this.
        Some(port) if is_known(port.note.pod_uid.as_deref(), facts) => Plan::Hold { owner: None },
        Some(_) => Plan::Remove,
        // A guard that has outlived its link protects nothing.
        None => Plan::Desired(Desired::default()),
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
        note: note.clone(),
        pod: format!("{namespace}/{name}"),
        iface_id: (newest == Some(unit)).then(|| attachment.iface_id()),
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
    of_interface.filter_map(|id| world.attachment(id)).find(|attachment| attachment.pod_uid() == Some(uid))
}
