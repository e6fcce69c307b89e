//! A Subnet holds the addresses of its gateway until it is absent, so that no guest can ever have one of them.

use super::{Read, Released};
use crate::attachment::AttachmentId;
use crate::world::World;

pub(super) fn released(world: &World, id: &AttachmentId) -> Option<Released> {
    (!id.uid().with_text(|uid| world.has_subnet_of_uid(id.name(), uid))).then_some(Released::HolderAbsent)
}

pub(super) fn reads(id: &AttachmentId) -> Vec<Read> {
    vec![Read::Subnet { name: id.name().to_owned() }]
}
