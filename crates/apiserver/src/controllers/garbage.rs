//! The garbage collector: an object whose owners are all deleted is deleted too.
//!
//! Only the graph of owners and dependents is in memory: an object without owners costs nothing.

mod misplaced;
mod reconcile;

use std::collections::{BTreeMap, HashMap};

use apistore::Revision;
use bytes::Bytes;

pub(super) use self::reconcile::reconcile;
use super::Work;
use super::ownership::Metadata;
use crate::storage::StoredObject;
use crate::verbs::{FOREGROUND, ORPHAN};

/// The graph of owners and dependents.
#[derive(Debug, Default)]
pub(super) struct Garbage {
    /// The dependents of an owner's uid, by key, each with whether it blocks its owner's deletion.
    dependents: HashMap<String, BTreeMap<Bytes, bool>>,
    /// The uids of an object's owners.
    owners: HashMap<Bytes, Vec<String>>,
    /// Objects, by uid, whose deletion waits for their dependents.
    waiting: HashMap<String, Bytes>,
    /// The uids of owners, by the dependent's key, that were not looked up yet.
    unchecked: HashMap<Bytes, Vec<String>>,
}

impl Garbage {
    /// What is at a key has changed.
    pub(super) fn changed(
        &mut self,
        key: &Bytes,
        value: Option<&Bytes>,
        previous: Option<&Bytes>,
        affected: &mut Vec<Work>,
    ) {
        let now = value.and_then(decoded);
        let metadata = now.as_ref().and_then(Metadata::if_concerned).unwrap_or_default();
        let before = self.owners.remove(key).unwrap_or_default();
        let owners: Vec<String> = metadata.owner_references.iter().map(|owner| owner.uid.clone()).collect();

        for owner in before.iter().filter(|owner| !owners.contains(owner)) {
            self.forget(owner, key);
            affected.extend(self.waiting.get(owner).cloned().map(Work::Object));
        }
        for reference in &metadata.owner_references {
            let dependents = self.dependents.entry(reference.uid.clone()).or_default();
            dependents.insert(key.clone(), reference.block_owner_deletion);
            affected.extend(self.waiting.get(&reference.uid).cloned().map(Work::Object));
        }
        if !owners.is_empty() {
            // An owner may be deleted before its dependent is created: each new reference is checked.
            if owners != before {
                affected.push(Work::Object(key.clone()));
                let new = owners.iter().filter(|owner| !before.contains(owner)).cloned();
                self.unchecked.entry(key.clone()).or_default().extend(new);
            }
            self.owners.insert(key.clone(), owners);
        }
        if metadata.is_deleting() && (metadata.has_finalizer(FOREGROUND) || metadata.has_finalizer(ORPHAN)) {
            affected.push(Work::Object(key.clone()));
        }
        if metadata.waits_for_dependents() {
            self.waiting.insert(metadata.uid.clone(), key.clone());
            // They are deleted because it is.
            affected.extend(self.dependents_of(&metadata.uid).into_keys().map(Work::Object));
        }
        if value.is_none() {
            self.unchecked.remove(key);
        }
        if value.is_none()
            && !self.dependents.is_empty()
            && let Some(deleted) = previous.and_then(decoded)
        {
            let uid = Metadata::read(&deleted).uid;
            self.waiting.remove(&uid);
            affected.extend(self.dependents_of(&uid).into_keys().map(Work::Object));
        }
    }

    /// The dependents of an object, by key, each with whether it blocks its owner's deletion.
    pub(super) fn dependents_of(&self, uid: &str) -> BTreeMap<Bytes, bool> {
        self.dependents.get(uid).cloned().unwrap_or_default()
    }

    /// The uids of an object's owners that were not looked up yet; they count as looked up from here on.
    pub(super) fn take_unchecked(&mut self, key: &Bytes) -> Vec<String> {
        self.unchecked.remove(key).unwrap_or_default()
    }

    fn forget(&mut self, owner: &str, dependent: &Bytes) {
        if let Some(dependents) = self.dependents.get_mut(owner) {
            dependents.remove(dependent);
            if dependents.is_empty() {
                self.dependents.remove(owner);
            }
        }
    }
}

fn decoded(raw: &Bytes) -> Option<StoredObject> {
    StoredObject::decode(raw.clone(), Revision(0)).ok()
}
