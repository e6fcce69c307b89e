//! A pod holds its addresses until it is absent, or has Succeeded or Failed.

use portolan_api::portolan::{Holder, HolderKind};

use super::{Read, Released, namespace};
use crate::attachment::AttachmentId;
use crate::pod::Pod;
use crate::world::World;

pub(crate) fn holder(pod: &Pod) -> Holder {
    Holder {
        kind: HolderKind::Pod,
        namespace: Some(pod.namespace.to_string()),
        name: pod.name.to_string(),
        uid: pod.uid.to_string(),
        interface: None,
    }
}

pub(super) fn released(world: &World, id: &AttachmentId) -> Option<Released> {
    match world.pod(namespace(id), id.name()) {
        Some(pod) if pod.uid == *id.uid() => pod.finished.then_some(Released::HolderFinished),
        _ => Some(Released::HolderAbsent),
    }
}

pub(super) fn reads(id: &AttachmentId) -> Vec<Read> {
    vec![Read::Pod { namespace: namespace(id).to_owned(), name: id.name().to_owned() }]
}

/// True if the pod has Succeeded or Failed: its interfaces go out of effect at once, before their locks are released.
pub(crate) fn is_finished(world: &World, id: &AttachmentId) -> bool {
    id.kind() == HolderKind::Pod && released(world, id) == Some(Released::HolderFinished)
}
