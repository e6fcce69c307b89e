//! Following the definitions of the store.
//!
//! Looking at a definition is level-triggered: it does the next step from what is there, whatever came before. A step that
//! writes makes an event, after which the definition is looked at again; so a crash between two steps loses nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use apimachinery::Status;
use apimachinery::status::Reason;
use apistore::{Event, Range, Revision, StoreError};
use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt as _};
use futures::stream::{FuturesUnordered, StreamExt as _};
use serde_json::Value;
use tokio::time::Instant;

use super::condition::{Condition, ESTABLISHED, NAMES_ACCEPTED, set_condition, status_mut, to_value};
use super::definition::Definition;
use super::names::{Taken, decide};
use super::{Definitions, GROUP, PLURAL, cleanup};
use crate::admission::AdmissionChain;
use crate::api::Api;
use crate::context::Context;
use crate::endpoint::Endpoint;
use crate::options::WriteOptions;
use crate::storage::{Key, ResourceKey, StorageWatch, StoredObject};
use crate::verbs::{Existing, IfAbsent, Owner};

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

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
    // What the server does by itself is not up to those who have a say in what clients do.
    let (storage, hub, registry) = (api.storage().clone(), api.hub().clone(), api.registry().clone());
    let api = Api::new(storage, hub, registry, AdmissionChain::default());
    loop {
        match follow(definitions, &api).await {
            StoreError::Closed => return,
            error => tracing::warn!(%error, "definitions are read anew"),
        }
        tokio::time::sleep(FIRST_PAUSE).await;
    }
}

async fn follow(definitions: &Definitions, api: &Api) -> StoreError {
    let mut controller = Controller::new(definitions, api);
    // They end with this: nothing that outlives it holds the store.
    let mut cleanups = Cleanups::new();
    match controller.list().await {
        Err(error) => error,
        Ok(mut events) => loop {
            if let Err(error) = controller.step(&mut events, &mut cleanups).await {
                return error;
            }
        },
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
    /// The names of those to look at.
    queue: BTreeSet<String>,
    /// The last change that was told.
    told: Revision,
    later: BTreeSet<(Instant, String)>,
    failures: HashMap<String, u32>,
    /// Those whose objects are being deleted.
    cleaning: BTreeSet<String>,
}

/// What is deleting the objects of definitions, and then tells their names and how it went.
type Cleanups = FuturesUnordered<BoxFuture<'static, (String, Result<(), Status>)>>;

impl<'a> Controller<'a> {
    fn new(definitions: &'a Definitions, api: &'a Api) -> Controller<'a> {
        Controller {
            definitions,
            api,
            known: BTreeMap::new(),
            queue: BTreeSet::new(),
            told: Revision(0),
            later: BTreeSet::new(),
            failures: HashMap::new(),
            cleaning: BTreeSet::new(),
        }
    }

    async fn list(&mut self) -> Result<StorageWatch, StoreError> {
        let page = self.api.storage().list(range()).await?;
        for entry in &page.entries {
            self.tell(&entry.key, Some(&entry.value), entry.modified);
        }
        // What was served and is gone.
        self.queue.extend(self.definitions.served_names());
        self.told = page.revision;
        self.api.storage().watch(range().prefix, page.revision).await
    }

    async fn step(&mut self, events: &mut StorageWatch, cleanups: &mut Cleanups) -> Result<(), StoreError> {
        while let Some(name) = self.queue.pop_first() {
            let looked = self.look(&name).await;
            let awaits = self.known.get(&name).is_some_and(Definition::awaits_cleanup);
            if awaits && self.cleaning.insert(name.clone()) {
                cleanups.push(clean(self.definitions.clone(), self.api.clone(), name.clone()).boxed());
            }
            self.looked(name, looked);
        }
        self.definitions.reached.send_replace(self.told);
        let timer = async {
            match self.later.first() {
                Some((at, _)) => tokio::time::sleep_until(*at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            events = events.next() => {
                for Event { key, value, revision, .. } in events? {
                    self.tell(&key, value.as_ref(), revision);
                    self.told = revision;
                }
            }
            Some((name, cleaned)) = cleanups.next(), if !cleanups.is_empty() => {
                self.cleaning.remove(&name);
                self.looked(name, cleaned);
            }
            () = timer => {
                if let Some((_, name)) = self.later.pop_first() {
                    self.queue.insert(name);
                }
            }
        }
        Ok(())
    }

    fn tell(&mut self, key: &Bytes, value: Option<&Bytes>, revision: Revision) {
        let Some(name) = Key::parse(key).map(|key| key.name.to_owned()) else { return };
        // What was written here is known before the store tells of it, and of what came before it.
        if self.known.get(&name).is_some_and(|known| known.revision() > revision) {
            return;
        }
        match value.map(|raw| read(raw, revision)) {
            Some(Some(definition)) => self.keep(definition),
            Some(None) => {}
            None => {
                if let Some(gone) = self.known.remove(&name) {
                    // Others may have waited for its names.
                    self.queue_group(&gone.spec.group);
                }
                self.queue.insert(name);
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
        self.queue.insert(name.clone());
        self.known.insert(name, definition);
    }

    fn queue_group(&mut self, group: &str) {
        let others = self.known.iter().filter(|(_, known)| known.spec.group == group);
        self.queue.extend(others.map(|(name, _)| name.clone()));
    }

    /// Does the next step about a definition.
    async fn look(&mut self, name: &str) -> Result<(), Status> {
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

    fn looked(&mut self, name: String, looked: Result<(), Status>) {
        let Err(status) = looked else {
            self.failures.remove(&name);
            return;
        };
        if status.reason == Reason::NotFound {
            // It is gone, which the store tells too.
            return;
        }
        tracing::warn!(definition = name, error = status.message, "the definition is looked at again later");
        let failures = self.failures.entry(name.clone()).or_default();
        let pause = (FIRST_PAUSE * 2u32.saturating_pow(*failures)).min(LONGEST_PAUSE);
        *failures = failures.saturating_add(1).min(16);
        self.later.insert((Instant::now() + pause, name));
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
