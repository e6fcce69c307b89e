//! The controllers of the server itself: the garbage collector, which deletes dependents after their owners, and the namespace
//! controller, which empties namespaces that are being deleted.
//!
//! One task follows the store and queues what has to be reconciled. Reconciling is level-triggered: it reads what is stored and
//! does the next step, whatever came before. After a start everything is listed once, so a crash loses nothing.
//!
//! What cannot be decided because a kind is not served waits until the kind is.

mod garbage;
mod namespaces;
mod ownership;
mod unserved;

use std::sync::{Arc, Mutex, PoisonError};

use apimachinery::Status;
use bytes::Bytes;
use futures::stream::{FuturesUnordered, StreamExt as _};
use serde_json::Value;

use self::garbage::Garbage;
use self::namespaces::Namespaces;
use self::unserved::{Kind, Unserved};
use crate::api::Api;
use crate::context::Context;
use crate::endpoint::Endpoint;
use crate::options::WriteOptions;
use crate::reflector::{Observed, Progress, Reflector};
use crate::verbs::{Existing, IfAbsent, Owner};
use crate::workqueue::WorkQueue;

/// How many objects are reconciled at once.
const CONCURRENCY: usize = 32;

const PREFIX: &[u8] = b"/registry/";

/// Something to reconcile.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Work {
    /// The object at this key, as an owner and as a dependent.
    Object(Bytes),
    /// The namespace of this name, which is being deleted.
    Namespace(String),
}

/// The outcome of a reconciliation.
#[derive(Debug)]
enum Outcome {
    /// Everything is done that can be done now.
    Done,
    /// It failed, and is tried again after a pause.
    Failed,
    /// It waits until one of these kinds is served.
    Unserved(Vec<Kind>),
}

/// The garbage collector and the namespace controller.
#[derive(Clone, Debug, Default)]
pub struct Controllers {
    progress: Progress,
}

impl Controllers {
    /// Whether they follow the store.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Runs until the store is closed. To be given to [`ServerBuilder::task`](crate::server::ServerBuilder::task).
    pub async fn run(self, api: Api) {
        let mut reflector = Reflector::new(api.storage().clone(), PREFIX, self.progress);
        let mut registry = api.registry().subscribe();
        let mut state = State::default();
        loop {
            state.start_work(&api);
            tokio::select! {
                observed = reflector.next() => match observed {
                    Some(observed) => state.observe(observed),
                    None => return,
                },
                Some((work, outcome)) = state.running.next(), if !state.running.is_empty() => {
                    state.finished(&api, work, outcome);
                }
                work = state.queue.due() => state.queue.add(work),
                // The sender is the registry's own, which the API holds.
                _ = registry.changed() => state.registry_changed(&api),
            }
        }
    }
}

#[derive(Default)]
struct State {
    garbage: Arc<Mutex<Garbage>>,
    namespaces: Namespaces,
    queue: WorkQueue<Work>,
    unserved: Unserved,
    running: FuturesUnordered<futures::future::BoxFuture<'static, (Work, Outcome)>>,
    /// Nothing is reconciled before everything is listed: what is not known yet looks as if it were not there.
    is_synced: bool,
}

impl State {
    fn observe(&mut self, observed: Observed) {
        match observed {
            Observed::Restarted => *self = State::default(),
            Observed::Listed(entries) => {
                entries.iter().for_each(|entry| self.changed(&entry.key, Some(&entry.value), None));
            }
            Observed::Synced(_) => self.is_synced = true,
            Observed::Changed(events) => {
                for event in &events {
                    let previous = event.previous.as_ref().map(|(value, _)| value);
                    self.changed(&event.key, event.value.as_ref(), previous);
                }
            }
        }
    }

    fn changed(&mut self, key: &Bytes, value: Option<&Bytes>, previous: Option<&Bytes>) {
        let mut affected = Vec::new();
        self.lock_garbage().changed(key, value, previous, &mut affected);
        self.namespaces.changed(key, value, previous, &mut affected);
        if value.is_none() {
            self.unserved.remove(&Work::Object(key.clone()));
        }
        affected.into_iter().for_each(|work| self.queue.add(work));
    }

    fn start_work(&mut self, api: &Api) {
        while self.is_synced
            && self.running.len() < CONCURRENCY
            && let Some(work) = self.queue.start()
        {
            let api = api.clone();
            self.running.push(match work {
                Work::Object(key) => {
                    let garbage = Arc::clone(&self.garbage);
                    Box::pin(async move {
                        let outcome = garbage::reconcile(&api, &garbage, &key).await;
                        (Work::Object(key), outcome)
                    })
                }
                Work::Namespace(name) => {
                    let stored = self.namespaces.stored_resources();
                    Box::pin(async move {
                        let outcome = namespaces::reconcile(&api, &name, &stored).await;
                        (Work::Namespace(name), outcome)
                    })
                }
            });
        }
    }

    fn finished(&mut self, api: &Api, work: Work, outcome: Outcome) {
        match outcome {
            Outcome::Done => self.queue.done(work),
            Outcome::Failed => self.queue.failed(work),
            Outcome::Unserved(kinds) => {
                self.queue.done(work.clone());
                self.unserved.insert(work, kinds);
                // A kind may have been served since the work looked for it.
                self.registry_changed(api);
            }
        }
    }

    fn registry_changed(&mut self, api: &Api) {
        let registry = api.registry().snapshot();
        self.unserved.take_served(&registry).into_iter().for_each(|work| self.queue.add(work));
    }

    fn lock_garbage(&self) -> std::sync::MutexGuard<'_, Garbage> {
        self.garbage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Changes an object, whatever others do to it meanwhile.
async fn change_object(
    api: &Api,
    endpoint: &Endpoint,
    context: &Context,
    mut change: impl FnMut(&mut Value) + Send,
) -> Result<(), Status> {
    let mut change = |existing: Existing<'_>| match existing {
        Existing::Object(object) => {
            let mut object = object.clone();
            change(&mut object);
            Ok((object, Owner::Writer))
        }
        Existing::Nothing => Err(endpoint.resource.not_found(&endpoint.name)),
    };
    api.modify(endpoint, context, &WriteOptions::default(), IfAbsent::Fail, &mut change).await.map(drop)
}
