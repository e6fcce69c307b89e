//! Finalizers that the API server refuses to write for good. Whoever owns the object is told, and the write is tried on.

use portolan_api::finalizer::IN_USE;

use super::{FinalizerChange, FinalizerUpdate};
use crate::engine::Engine;
use crate::engine::reports::Topic;

impl Engine {
    /// The API server refuses a change of a finalizer, and will until somebody acts: the controller lacks a right, or a rule or
    /// webhook of others refuses the object. The watch shows when it was written after all.
    pub fn finalizer_refused(&mut self, update: &FinalizerUpdate, why: &str) {
        if self.stands_by() {
            return;
        }
        let (key, uid) = ((update.object.kind, update.object.name.clone()), &update.object.uid);
        let subject = match update.change {
            FinalizerChange::Add => {
                let unprotected = self.finalizers.unprotected.get(&key).filter(|(_, of)| of == uid);
                unprotected.map(|(subject, _)| subject)
            }
            FinalizerChange::Remove => {
                let entry = self.finalizers.terminating.get(&key);
                entry.filter(|entry| entry.uid == *uid && entry.is_protected).map(|entry| &entry.subject)
            }
        };
        // It is another object by now, or has what was to be written.
        let Some(subject) = subject.cloned() else { return };
        let what = match update.change {
            FinalizerChange::Add => {
                format!("cannot be given the finalizer {IN_USE}, without which nothing may use it: {why}")
            }
            FinalizerChange::Remove => {
                format!("nothing uses it any more, but its finalizer {IN_USE} cannot be removed: {why}")
            }
        };
        let message = format!(
            "{what}; let the controller patch it (deploy/controller-rbac.yaml has the rights), or change what refuses it; it is tried again"
        );
        self.report(subject, uid.clone(), Topic::Finalizer, vec![("FinalizerRefused", message)]);
    }
}
