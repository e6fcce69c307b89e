//! A node holds the addresses of its own port until it is absent, or nobody's primary network is Portolan's any more.

use super::{Read, Released};
use crate::attachment::AttachmentId;
use crate::world::{FirstInterface, World};

pub(super) fn released(world: &World, id: &AttachmentId) -> Option<Released> {
    let is_there = world.node(id.name()).is_some_and(|node| node.uid == *id.uid());
    let held = is_there && world.settings().first_interface != FirstInterface::NoLonger;
    (!held).then_some(Released::HolderAbsent)
}

pub(super) fn reads(id: &AttachmentId) -> Vec<Read> {
    vec![Read::Node { name: id.name().to_owned() }]
}
