//! What is known of one object that is followed.

use kube::ResourceExt as _;

use crate::{Change, Listed, Object};

/// What is known of one object.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Observed<K> {
    /// Nothing: no list has succeeded yet, or it cannot be decoded.
    #[default]
    NotRead,
    /// It was deleted, or the last list does not have it. Confirm by a live read before removing anything for it.
    Absent,
    /// It is there.
    Present(K),
}

impl<K: Object> Observed<K> {
    /// What is known after a change; none if that is about another object.
    pub(crate) fn after(change: Change<K>, name: &str) -> Option<Self> {
        match change {
            Change::Applied(object) => (object.name_any() == name).then_some(Observed::Present(object)),
            // It exists, and nothing is known of it.
            Change::Unreadable(unreadable) => {
                (unreadable.object.name_any() == name).then_some(Observed::NotRead)
            }
            Change::Deleted(object) => (object.name_any() == name).then_some(Observed::Absent),
            Change::Listed(Listed { objects, unreadable }) => {
                let is_unreadable = unreadable.iter().any(|one| one.object.name_any() == name);
                let otherwise = if is_unreadable { Observed::NotRead } else { Observed::Absent };
                let object = objects.into_iter().find(|object| object.name_any() == name);
                Some(object.map_or(otherwise, Observed::Present))
            }
        }
    }
}
