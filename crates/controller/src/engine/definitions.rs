//! Network attachment definitions that make no sense: whoever wrote one is told on the definition itself. It has no status.

use std::collections::BTreeMap;

use kube::ResourceExt;
use portolan_api::nad::NetworkAttachmentDefinition;

use super::feed::{Change, Fed, Kind};
use super::{Action, Engine, Subject};

/// What was told about which definition: by namespace and name, its UID and what is wrong.
pub(super) type ToldDefinitions = BTreeMap<(String, String), (String, String)>;

impl Fed for NetworkAttachmentDefinition {
    const KIND: Kind = Kind::Nad;

    fn told(engine: &mut Engine, change: &Change<Self>) {
        match change {
            Change::Applied(definition) => engine.tell_about(definition),
            Change::Deleted(definition) => drop(engine.told_definitions.remove(&key(definition))),
            Change::Listed(definitions) => {
                let there: Vec<_> = definitions.iter().map(key).collect();
                engine.told_definitions.retain(|key, _| there.contains(key));
                definitions.iter().for_each(|definition| engine.tell_about(definition));
            }
        }
    }
}

impl Engine {
    fn tell_about(&mut self, definition: &NetworkAttachmentDefinition) {
        let (key, uid) = (key(definition), definition.uid().unwrap_or_default());
        let Err(errors) = definition.parse() else {
            self.told_definitions.remove(&key);
            return;
        };
        let news = (uid.clone(), errors.to_string());
        if self.told_definitions.get(&key) == Some(&news) {
            return;
        }
        let (namespace, name) = key.clone();
        let message = news.1.clone();
        self.told_definitions.insert(key, news);
        let subject = Subject::Definition { namespace, name };
        self.actions.push(Action::Tell { subject, uid, reason: "InvalidDefinition", message });
    }
}

fn key(definition: &NetworkAttachmentDefinition) -> (String, String) {
    (definition.namespace().unwrap_or_default(), definition.name_any())
}
