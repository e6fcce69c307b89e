//! What the server itself does about objects after they are written: dependents follow their owners, and a namespace that ends is
//! emptied.
//!
//! One task reads every event of the store and tells the controllers, which answer what is to be looked at again. Looking is
//! level-triggered: it reads what is there and does the next step, whatever came before. After a start everything is read once,
//! so a crash loses nothing.

mod garbage;
mod namespaces;
mod ownership;

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use apimachinery::Status;
use apistore::{Event, Range, StoreError};
use bytes::Bytes;
use futures::stream::{FuturesUnordered, StreamExt as _};
use serde_json::Value;
use tokio::time::Instant;

use self::garbage::Garbage;
use self::namespaces::Namespaces;
use crate::api::Api;
use crate::context::Context;
use crate::endpoint::Endpoint;
use crate::options::WriteOptions;
use crate::storage::StorageWatch;
use crate::verbs::{Existing, IfAbsent, Owner};

/// How many objects are worked on at once.
const AT_ONCE: usize = 32;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Something to be looked at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Work {
    /// The object at this key, as an owner and as a dependent.
    Object(Bytes),
    /// The namespace of this name, which is ending.
    Namespace(String),
}

/// What became of a look.
enum Looked {
    /// All is done that can be done now.
    Done,
    /// It failed; look again later.
    Failed,
}

/// Follows the store until the store is closed. To be given to [`ServerBuilder::task`](crate::server::ServerBuilder::task).
pub async fn run(api: Api) {
    loop {
        let ended = follow(&api).await;
        match ended {
            StoreError::Closed => return,
            // History was compacted faster than it was read: everything is read anew.
            error => tracing::warn!(%error, "the controllers start anew"),
        }
        tokio::time::sleep(FIRST_PAUSE).await;
    }
}

async fn follow(api: &Api) -> StoreError {
    let mut controllers = Controllers::default();
    match controllers.list(api).await {
        Err(error) => error,
        Ok(mut events) => loop {
            if let Err(error) = controllers.step(api, &mut events).await {
                return error;
            }
        },
    }
}

#[derive(Default)]
struct Controllers {
    garbage: Arc<Mutex<Garbage>>,
    namespaces: Namespaces,
    queue: BTreeSet<Work>,
    /// What is being looked at, and whether it is to be looked at again after that.
    busy: HashMap<Work, bool>,
    later: BTreeSet<(Instant, Work)>,
    failures: HashMap<Work, u32>,
    looking: FuturesUnordered<futures::future::BoxFuture<'static, (Work, Looked)>>,
}

impl Controllers {
    /// Reads everything once, page by page at one revision; what happens since is told by what is returned.
    async fn list(&mut self, api: &Api) -> Result<StorageWatch, StoreError> {
        let mut range = Range { prefix: Bytes::from_static(b"/registry/"), limit: 1000, ..Range::default() };
        loop {
            let page = api.storage().list(range.clone()).await?;
            for entry in &page.entries {
                self.told(&entry.key, Some(&entry.value), None);
            }
            range.at = Some(page.revision);
            match page.entries.last() {
                Some(last) if page.remaining > 0 => range.after = Some(last.key.clone()),
                _ => return api.storage().watch(range.prefix, page.revision).await,
            }
        }
    }

    /// Waits for something to happen or to be done, and goes on from there.
    async fn step(&mut self, api: &Api, events: &mut StorageWatch) -> Result<(), StoreError> {
        while self.busy.len() < AT_ONCE
            && let Some(work) = self.queue.pop_first()
        {
            self.start(api, &work);
        }
        let timer = async {
            match self.later.first() {
                Some((at, _)) => tokio::time::sleep_until(*at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            events = events.next() => {
                for Event { key, value, previous, .. } in events? {
                    self.told(&key, value.as_ref(), previous.as_ref().map(|(value, _)| value));
                }
            }
            Some((work, looked)) = self.looking.next(), if !self.looking.is_empty() => self.ended(work, &looked),
            () = timer => {
                if let Some((_, work)) = self.later.pop_first() {
                    self.wants(work);
                }
            }
        }
        Ok(())
    }

    fn told(&mut self, key: &Bytes, value: Option<&Bytes>, previous: Option<&Bytes>) {
        let mut wanted = Vec::new();
        self.garbage.lock().unwrap_or_else(PoisonError::into_inner).told(key, value, previous, &mut wanted);
        self.namespaces.told(key, value, &mut wanted);
        for work in wanted {
            self.wants(work);
        }
    }

    fn wants(&mut self, work: Work) {
        match self.busy.get_mut(&work) {
            Some(again) => *again = true,
            None => {
                self.queue.insert(work);
            }
        }
    }

    fn start(&mut self, api: &Api, work: &Work) {
        let (api, looked_at) = (api.clone(), work.clone());
        self.busy.insert(work.clone(), false);
        self.looking.push(match work {
            Work::Object(key) => {
                let (garbage, key) = (Arc::clone(&self.garbage), key.clone());
                Box::pin(async move { (looked_at, garbage::look(&api, &garbage, &key).await) })
            }
            Work::Namespace(name) => {
                let name = name.clone();
                Box::pin(async move { (looked_at, namespaces::look(&api, &name).await) })
            }
        });
    }

    fn ended(&mut self, work: Work, looked: &Looked) {
        let again = self.busy.remove(&work).unwrap_or(false);
        match looked {
            Looked::Done => {
                self.failures.remove(&work);
            }
            Looked::Failed => {
                let failures = self.failures.entry(work.clone()).or_default();
                let pause = (FIRST_PAUSE * 2u32.saturating_pow(*failures)).min(LONGEST_PAUSE);
                *failures = failures.saturating_add(1).min(16);
                self.later.insert((Instant::now() + pause, work.clone()));
            }
        }
        if again {
            self.queue.insert(work);
        }
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
