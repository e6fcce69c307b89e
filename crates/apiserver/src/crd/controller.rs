//! The controller of definitions.
//!
//! Reconciling a definition is level-triggered: it does the next step from what is stored, whatever came before. A step that
//! writes causes an event, after which the definition is reconciled again; so a crash between two steps loses nothing.

use std::collections::{BTreeMap, BTreeSet};

use apimachinery::Status;
use apimachinery::status::Reason;
use apistore::{Event, Range, Revision, StoreError};
use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt as _};
use futures::stream::{FuturesUnordered, StreamExt as _};
use serde_json::Value;

use super::condition::{Condition, ESTABLISHED, NAMES_ACCEPTED, set_condition, status_mut, to_value};
use super::definition::Definition;
use super::names::{Taken, decide};
use super::{Definitions, GROUP, PLURAL, cleanup};
use crate::admission::AdmissionChain;
use crate::api::Api;
use crate::context::Context;
use crate::endpoint::Endpoint;
use crate::options::WriteOptions;
use crate::reflector::{Observed, Reflector};
use crate::storage::{Key, ResourceKey, StoredObject};
use crate::verbs::{Existing, IfAbsent, Owner};
use crate::workqueue::WorkQueue;

/// Puts what established definitions define into the registry.
pub(super) async fn load(definitions: &Definitions, api: &Api) -> Result<(), StoreError> {
    let page = api.storage().list(range()).await?;
    for entry in &page.entries {
        if let Some(definition) = read(&entry.value, entry.modified) {
            definitions.serve(api, &definition);
        }
    }
    Ok(())
}

/// Follows definitions until the store is closed.
pub(super) async fn run(definitions: &Definitions, api: &Api) {
    // Admission is for what clients write, not for what the server does by itself.
    let (storage, hub, registry) = (api.storage().clone(), api.hub().clone(), api.registry().clone());
    let api = Api::new(storage, hub, registry, AdmissionChain::default());
    let mut reflector = Reflector::new(api.storage().clone(), range().prefix, definitions.progress().clone());
    let mut controller = Controller::new(definitions, &api);
    // They end with this: nothing that outlives it holds the store.
    let mut cleanups = Cleanups::new();
    loop {
        controller.reconcile_all(&mut cleanups).await;
        tokio::select! {
            observed = reflector.next() => match observed {
                Some(Observed::Restarted) => {
                    controller = Controller::new(definitions, &api);
                    cleanups = Cleanups::new();
                }
                Some(observed) => controller.observe(observed),
                None => return,
            },
            Some((name, cleaned)) = cleanups.next(), if !cleanups.is_empty() => {
                controller.cleaning.remove(&name);
                controller.finished(name, cleaned);
            }
            name = controller.queue.due() => controller.queue.add(name),
        }
    }
}

fn range() -> Range {
    Range { prefix: ResourceKey::new(GROUP, PLURAL).prefix(""), ..Range::default() }
}

fn read(raw: &Bytes, revision: Revision) -> Option<Definition> {
    let object = StoredObject::decode(raw.clone(), revision).and_then(|stored| stored.to_value());
    let definition = object.ok().and_then(|object| Definition::read(&object).ok());
    if definition.is_none() {
        tracing::error!("a definition in the store cannot be read");
    }
    definition
}

struct Controller<'a> {
    definitions: &'a Definitions,
    api: &'a Api,
    /// The definitions as they were last seen.
    known: BTreeMap<String, Definition>,
    queue: WorkQueue<String>,
    /// Those whose objects are being deleted.
    cleaning: BTreeSet<String>,
    /// Nothing is decided before all definitions are known: others may have the names that one asks for.
    is_synced: bool,
}

/// What is deleting the objects of definitions, with the definitions' names and the outcomes.
type Cleanups = FuturesUnordered<BoxFuture<'static, (String, Result<(), Status>)>>;

impl<'a> Controller<'a> {
    fn new(definitions: &'a Definitions, api: &'a Api) -> Controller<'a> {
        Controller {
            definitions,
            api,
            known: BTreeMap::new(),
            queue: WorkQueue::default(),
            cleaning: BTreeSet::new(),
            is_synced: false,
        }
    }

    fn observe(&mut self, observed: Observed) {
        match observed {
            Observed::Restarted => {}
            Observed::Listed(entries) => {
                entries.iter().for_each(|entry| self.changed(&entry.key, Some(&entry.value), entry.modified));
            }
            Observed::Synced(_) => {
                self.is_synced = true;
                // What is served and was deleted.
                self.definitions.served_names().into_iter().for_each(|name| self.queue.add(name));
            }
            Observed::Changed(events) => {
                for Event { key, value, revision, .. } in &events {
                    self.changed(key, value.as_ref(), *revision);
                }
            }
        }
    }

    async fn reconcile_all(&mut self, cleanups: &mut Cleanups) {
        while self.is_synced
            && let Some(name) = self.queue.start()
        {
            let reconciled = self.reconcile(&name).await;
            let awaits_cleanup = self.known.get(&name).is_some_and(Definition::awaits_cleanup);
            if awaits_cleanup && self.cleaning.insert(name.clone()) {
                cleanups.push(clean(self.definitions.clone(), self.api.clone(), name.clone()).boxed());
            }
            self.finished(name, reconciled);
        }
    }

    fn changed(&mut self, key: &Bytes, value: Option<&Bytes>, revision: Revision) {
        let Some(name) = Key::parse(key).map(|key| key.name.to_owned()) else { return };
        // What was written here is known before the store's event of it, and of what came before it.
        if self.known.get(&name).is_some_and(|known| known.revision() > revision) {
            return;
        }
        match value.map(|raw| read(raw, revision)) {
            Some(Some(definition)) => self.keep(definition),
            Some(None) => {}
            None => {
                if let Some(deleted) = self.known.remove(&name) {
                    // Others may have waited for its names.
                    self.queue_group(&deleted.spec.group);
                }
                self.queue.add(name);
            }
        }
    }

    fn keep(&mut self, definition: Definition) {
        let name = definition.metadata.name.clone();
        let names_changed = self
            .known
            .get(&name)
            .is_none_or(|known| known.status.accepted_names != definition.status.accepted_names);
        if names_changed {
            self.queue_group(&definition.spec.group);
        }
        self.queue.add(name.clone());
        self.known.insert(name, definition);
    }

    fn queue_group(&mut self, group: &str) {
        let others = self.known.iter().filter(|(_, known)| known.spec.group == group);
        others.for_each(|(name, _)| self.queue.add(name.clone()));
    }

    /// Does the next step about a definition.
    async fn reconcile(&mut self, name: &str) -> Result<(), Status> {
        let Some(definition) = self.known.get(name) else {
            self.definitions.withdraw(self.api, name);
            self.definitions.finished(name);
            return Ok(());
        };
        if let Some(named) = self.name(definition).await? {
            self.keep(named);
            return Ok(());
        }
        // Whoever sees that it is established can use it.
        self.definitions.serve(self.api, definition);
        if definition.is(NAMES_ACCEPTED) && !definition.is(ESTABLISHED) && !definition.is_deleting() {
            let established = self.establish(definition).await?;
            self.keep(established);
        }
        Ok(())
    }

    /// Decides on names, if there is anything to decide; returns the definition as it is then.
    async fn name(&self, definition: &Definition) -> Result<Option<Definition>, Status> {
        let taken = self.taken(&definition.spec.group);
        if decide(definition, &taken).is_none() {
            return Ok(None);
        }
        let written = self.write_status(definition, |object, now| {
            // Who wrote in the meantime may have asked for other names.
            let Some(naming) = Definition::read(object).ok().and_then(|current| decide(&current, &taken))
            else {
                return;
            };
            status_mut(object).insert("acceptedNames".into(), to_value(&naming.accepted));
            set_condition(object, naming.names_accepted, now);
            set_condition(object, naming.established, now);
        });
        written.await.map(Some)
    }

    fn taken(&self, group: &str) -> Taken<'_> {
        let of_group = self.known.values().filter(|known| known.spec.group == group);
        Taken::of(of_group.map(|known| &known.status.accepted_names))
    }

    async fn establish(&self, definition: &Definition) -> Result<Definition, Status> {
        let message = "the initial names have been accepted";
        let established = Condition::new(ESTABLISHED, true, "InitialNamesAccepted", message);
        self.write_status(definition, |object, now| {
            let accepted = Definition::read(object).is_ok_and(|current| current.is(NAMES_ACCEPTED));
            if accepted {
                set_condition(object, established.clone(), now);
            }
        })
        .await
    }

    async fn write_status(
        &self,
        definition: &Definition,
        mut change: impl FnMut(&mut Value, &str) + Send,
    ) -> Result<Definition, Status> {
        let endpoint = endpoint(self.api, &definition.metadata.name)?;
        change_status(self.api, &endpoint, &mut change).await?;
        let object = endpoint.read(&self.api.read(&endpoint).await?)?;
        Definition::read(&object).map_err(Status::internal_error)
    }

    fn finished(&mut self, name: String, reconciled: Result<(), Status>) {
        match reconciled {
            Ok(()) => self.queue.done(name),
            // It was deleted, of which the store's event comes too.
            Err(status) if status.reason == Reason::NotFound => self.queue.done(name),
            Err(status) => {
                tracing::warn!(
                    definition = name,
                    error = status.message,
                    "cannot reconcile the definition; trying again later"
                );
                self.queue.failed(name);
            }
        }
    }
}

async fn clean(definitions: Definitions, api: Api, name: String) -> (String, Result<(), Status>) {
    let cleaned = cleanup::clean(&definitions, &api, &name).await;
    (name, cleaned)
}

/// The definition of a name.
pub(super) fn endpoint(api: &Api, name: &str) -> Result<Endpoint, Status> {
    let registry = api.registry().snapshot();
    let resource = registry.resource(GROUP, PLURAL).ok_or_else(Status::no_such_resource)?;
    Ok(Endpoint::object(resource.clone(), "", name))
}

/// Changes the status of a definition. `change` is given the time, and may be asked more than once.
pub(super) async fn change_status(
    api: &Api,
    endpoint: &Endpoint,
    change: &mut (dyn FnMut(&mut Value, &str) + Send),
) -> Result<(), Status> {
    let context = Context::internal("crd-controller");
    let now = context.now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let status = Endpoint { subresource: "status".into(), ..endpoint.clone() };
    let mut change = |existing: Existing<'_>| match existing {
        Existing::Object(object) => {
            let mut object = object.clone();
            change(&mut object, &now);
            Ok((object, Owner::Writer))
        }
        Existing::Nothing => Err(endpoint.resource.not_found(&endpoint.name)),
    };
    api.modify(&status, &context, &WriteOptions::default(), IfAbsent::Fail, &mut change).await.map(drop)
}
