//! Objects that make no sense by themselves and have no condition that says so: whoever wrote one is told by an Event.

use std::collections::BTreeMap;

use kube::{Resource, ResourceExt};
use portolan_api::nad::NetworkAttachmentDefinition;
use portolan_api::{FieldErrors, kubeovn, portolan};
use portolan_model::{Group, doors};

use super::{Action, Change, Engine, Subject};

/// What was told about whom: its UID, and what is wrong.
pub(super) type ToldMistakes = BTreeMap<Subject, (String, String)>;

/// A kind whose mistakes are told.
pub(super) trait Mistakable: Resource {
    /// The reason of the Event.
    const REASON: &'static str;
    fn subject(&self) -> Subject;
    fn mistakes(&self) -> Option<FieldErrors>;
    /// Whether someone is of this kind.
    fn is_of_kind(subject: &Subject) -> bool;
}

impl Mistakable for NetworkAttachmentDefinition {
    const REASON: &'static str = "InvalidDefinition";

    fn subject(&self) -> Subject {
        Subject::Definition { namespace: self.namespace().unwrap_or_default(), name: self.name_any() }
    }

    fn mistakes(&self) -> Option<FieldErrors> {
        self.parse().err()
    }

    fn is_of_kind(subject: &Subject) -> bool {
        matches!(subject, Subject::Definition { .. })
    }
}

macro_rules! mistakable_vpc {
    ($object:ty, $group:expr, $door:path) => {
        impl Mistakable for $object {
            const REASON: &'static str = "InvalidVpc";

            fn subject(&self) -> Subject {
                Subject::Vpc { group: $group, name: self.name_any() }
            }

            fn mistakes(&self) -> Option<FieldErrors> {
                $door(self).err()
            }

            fn is_of_kind(subject: &Subject) -> bool {
                matches!(subject, Subject::Vpc { group, .. } if *group == $group)
            }
        }
    };
}

mistakable_vpc!(portolan::Vpc, Group::Portolan, doors::portolan::vpc);
mistakable_vpc!(kubeovn::Vpc, Group::KubeOvn, doors::kubeovn::vpc);

impl Engine {
    /// Tells what is wrong with objects, once.
    pub(super) fn tell_mistakes<K: Mistakable>(&mut self, change: &Change<K>) {
        match change {
            Change::Applied(object) => self.tell_mistakes_of(object),
            Change::Deleted(object) => drop(self.told_mistakes.remove(&object.subject())),
            Change::Listed(objects) => {
                let there: Vec<_> = objects.iter().map(K::subject).collect();
                self.told_mistakes.retain(|subject, _| !K::is_of_kind(subject) || there.contains(subject));
                objects.iter().for_each(|object| self.tell_mistakes_of(object));
            }
        }
    }

    fn tell_mistakes_of<K: Mistakable>(&mut self, object: &K) {
        let (subject, uid) = (object.subject(), object.uid().unwrap_or_default());
        let Some(mistakes) = object.mistakes() else {
            self.told_mistakes.remove(&subject);
            return;
        };
        let message = mistakes.to_string();
        let told = (uid.clone(), message.clone());
        if self.told_mistakes.get(&subject) != Some(&told) {
            self.told_mistakes.insert(subject.clone(), told);
            self.actions.push(Action::Tell { subject, uid, reason: K::REASON, message });
        }
    }
}
