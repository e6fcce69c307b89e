//! An ordinal of a StatefulSet holds its addresses across the pods of its name: until the set is absent or has no such ordinal,
//! **and** no pod uses them.
//!
//! The UID of the holder is that of the set. So
//!
//! - `kubectl delete statefulset`: the pods terminate in their own time, and each keeps its addresses until it is absent;
//! - `--cascade=orphan`: the pods run on without a controller, and keep their addresses for as long as they run;
//! - a set that is made again under the same name adopts such pods. They keep the addresses, still held in the name of the old set,
//!   until they go; the pods that follow are the new set's, with addresses of their own.

use portolan_api::portolan::{Holder, HolderKind};

use super::{Read, Released, Users, namespace};
use crate::attachment::AttachmentId;
use crate::pod::{Pod, PodController};
use crate::world::World;

pub(super) fn holder(pod: &Pod, set_uid: &str) -> Holder {
    Holder {
        kind: HolderKind::StatefulSet,
        namespace: Some(pod.namespace.to_string()),
        name: pod.name.to_string(),
        uid: set_uid.to_owned(),
        interface: None,
    }
}

pub(super) fn released(world: &World, id: &AttachmentId, users: &Users) -> Option<Released> {
    let set = set_name(id).and_then(|set| world.stateful_set(namespace(id), set));
    let reason = match set.filter(|set| set.uid == *id.uid()) {
        Some(set) if set.has_ordinal(id.name()) => return None,
        Some(_) => Released::OrdinalAbsent,
        None => Released::HolderAbsent,
    };
    // The pod may be about to take the addresses over from an earlier one.
    let may_use = |pod: &Pod| {
        let of_set = matches!(&pod.controller, PodController::StatefulSet(set) if set.uid == *id.uid());
        !pod.finished && (of_set || users.user.is_none())
    };
    let used =
        users.any_runs(world, namespace(id)) || world.pod(namespace(id), id.name()).is_some_and(may_use);
    (!used).then_some(reason)
}

pub(super) fn reads(id: &AttachmentId) -> Vec<Read> {
    let namespace = namespace(id);
    let set =
        set_name(id).map(|set| Read::StatefulSet { namespace: namespace.to_owned(), name: set.to_owned() });
    let pod = Read::Pod { namespace: namespace.to_owned(), name: id.name().to_owned() };
    set.into_iter().chain([pod]).collect()
}

/// The set of an ordinal's name.
fn set_name(id: &AttachmentId) -> Option<&str> {
    id.name().rsplit_once('-').map(|(set, _)| set)
}
