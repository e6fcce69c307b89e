//! Ports of the node itself: what one should have whose addresses a holder has, a `NetworkAttachment`.
//!
//! Open vSwitch makes the link of an internal port, with its MAC address and MTU, and leaves it down. So no frame reaches the node's stack
//! before the link was given its guard and settings, and was set up: the note on it says that this was done. A tap is made by the agent. On the
//! userspace datapath it is made like this and then plugged. In the kernel's datapath a tap that is a port needs no guard, and one that is none
//! cannot have one, as it would keep what comes in from the datapath too: so it is plugged first, up only as long as it is a port, and removed
//! before its port.

use portolan_api::Domain;
use portolan_api::portolan::AttachmentConfig;
use portolan_model::{Attachment, Requester, Subnet, World};

use super::names::{HolderTag, LinkName, Tag};
use super::observed::{Datapath, Internal};
use super::planning::{
    Admits, Desired, DesiredLink, DesiredPort, DesiredTap, Facts, LinkState, guard_of_plugged,
    state_of_plugged,
};
use crate::reconciler::Plan;

pub(super) fn plan(unit: &LinkName, facts: &Facts<'_>) -> Plan<Desired> {
    let observed = facts.observed;
    let has_link = observed.link(unit).is_some() || observed.is_unnoted(unit);
    let Some(holders) = facts.holders else { return Plan::Hold { owner: None } };
    let Some(tag) = holders.get(unit) else {
        return match has_link || observed.port(unit).is_some() {
            true => Plan::Remove,
            // A guard that has outlived its link protects nothing.
            false => Plan::Desired(Desired::default()),
        };
    };
    // What cannot be understood keeps what it has.
    let Some(config) = config(facts.world, tag) else { return Plan::Hold { owner: None } };
    let guard = match config.tap {
        Some(_) => guard_of_plugged(unit, observed),
        None => Some(Admits::OwnAddresses),
    };
    let state = match config.tap {
        Some(_) => state_of_plugged(unit, observed),
        None => LinkState::Up,
    };
    let plugged = plugged(facts.world, tag);
    let mtu = plugged.and_then(|(_, subnet)| subnet.config.mtu.or(facts.mtu));
    // A tap is made once its port can be, and any other link by Open vSwitch: then it is there.
    // Without a bridge nobody knows whether it needs a guard.
    let make = config.tap.zip(mtu).filter(|_| observed.datapath().is_some());
    let make = make.map(|(access, mtu)| DesiredTap { access, mtu });
    let link = (has_link || make.is_some()).then(|| DesiredLink { tag: tag.clone(), make });
    let port = plugged.and_then(|(attachment, _)| {
        let internal = match config.tap {
            Some(_) => None,
            None => Some(internal(unit, facts, attachment, mtu)?),
        };
        let is_ready = match observed.datapath() {
            // It waits for the bridge.
            None => true,
            Some(Datapath::System) => internal.is_some() || has_link,
            Some(Datapath::Netdev) => internal.is_some() || observed.link(unit).is_some(),
        };
        is_ready.then(|| DesiredPort {
            tag: Tag::Holder(tag.clone()),
            pod: String::new(),
            iface_id: Some(attachment.iface_id()),
            internal,
        })
    });
    Plan::Desired(Desired { port, guard: guard.filter(|_| has_link), link, state })
}

/// The link of an internal port. It keeps the MTU that it was made with: connections would stall, and whoever uses it may have told others.
fn internal(
    unit: &LinkName,
    facts: &Facts<'_>,
    attachment: &Attachment,
    mtu: Option<u16>,
) -> Option<Internal> {
    let is = facts.observed.port(unit).and_then(|port| port.internal);
    let mtu = is.and_then(|internal| internal.mtu).or(mtu)?;
    Some(Internal { mac: Some(attachment.mac), mtu: Some(mtu) })
}

/// What a holder asks for, if it can be understood.
fn config<'w>(world: &'w World, tag: &HolderTag) -> Option<&'w AttachmentConfig> {
    let (namespace, name) = tag.name.as_ref()?;
    let object = world.network_attachment(namespace, name).filter(|object| object.uid == tag.uid)?;
    object.config.as_ref().ok()
}

/// What a holder has, if all of its addresses are in effect and OVN carries them.
fn plugged<'w>(world: &'w World, tag: &HolderTag) -> Option<(&'w Attachment, &'w Subnet)> {
    let (namespace, name) = tag.name.as_ref()?;
    let ids = world.holdings_of(&Requester::network_attachment(namespace, name));
    let attachment = ids.iter().filter(|id| *id.uid() == tag.uid).find_map(|id| world.attachment(id))?;
    let subnet = world.subnet(attachment.subnet())?;
    (!matches!(subnet.domain, Domain::Vni(_))).then_some((attachment, subnet))
}

#[cfg(test)]
mod tests;
