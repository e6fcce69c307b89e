//! A `NetworkAttachment` holds its addresses until it is absent.

use super::{Read, Released, namespace};
use crate::attachment::AttachmentId;
use crate::world::World;

pub(super) fn released(world: &World, id: &AttachmentId) -> Option<Released> {
    let object = world.network_attachment(namespace(id), id.name());
    let held = object.is_some_and(|object| object.uid == *id.uid());
    (!held).then_some(Released::HolderAbsent)
}

pub(super) fn reads(id: &AttachmentId) -> Vec<Read> {
    vec![Read::NetworkAttachment { namespace: namespace(id).to_owned(), name: id.name().to_owned() }]
}
