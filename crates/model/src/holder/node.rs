//! A node holds the addresses of its own port until it is absent.

use super::{Read, Released};
use crate::attachment::AttachmentId;
use crate::world::World;

pub(super) fn released(world: &World, id: &AttachmentId) -> Option<Released> {
    let held = world.node(id.name()).is_some_and(|node| node.uid == *id.uid());
    (!held).then_some(Released::HolderAbsent)
}

pub(super) fn reads(id: &AttachmentId) -> Vec<Read> {
    vec![Read::Node { name: id.name().to_owned() }]
}
