//! A Vip holds its addresses until it is absent.

use super::{Read, Released};
use crate::attachment::AttachmentId;
use crate::world::World;

pub(super) fn released(world: &World, id: &AttachmentId) -> Option<Released> {
    let held = world.vip(id.name()).is_some_and(|vip| vip.uid == *id.uid());
    (!held).then_some(Released::HolderAbsent)
}

pub(super) fn reads(id: &AttachmentId) -> Vec<Read> {
    vec![Read::Vip { name: id.name().to_owned() }]
}
