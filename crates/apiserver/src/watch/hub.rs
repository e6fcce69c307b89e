//! The one reader of the store's events, and those it tells.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use apistore::{Event, Revision, StoreError};
use bytes::Bytes;
use tokio::sync::{mpsc, watch};

use super::event::WatchEvent;
use super::index::{Bucket, Index, Watcher};
use super::recent::Recent;
use super::subscription::{Delivery, Past, Subscription};
use crate::selection::Selection;
use crate::storage::{Key, ResourceKey, Storage, StorageWatch};

/// How much a slow watcher may leave unread before it is dropped.
#[derive(Clone, Copy, Debug)]
pub struct HubLimits {
    /// Events.
    pub events: usize,
    /// Bytes of objects.
    pub bytes: usize,
}

impl Default for HubLimits {
    fn default() -> Self {
        HubLimits { events: 1024, bytes: 16 << 20 }
    }
}

/// What the hub has done so far.
#[derive(Debug, Default)]
pub struct HubStats {
    /// Events of objects read from the store.
    pub events: AtomicU64,
    /// Watchers looked at for events.
    pub considered: AtomicU64,
    /// Events given to watchers.
    pub delivered: AtomicU64,
    /// Watchers dropped for being slow.
    pub dropped: AtomicU64,
    /// Watchers now.
    pub watchers: AtomicU64,
}

/// The one reader of the store's events.
#[derive(Clone, Debug)]
pub struct Hub {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    storage: Storage,
    limits: HubLimits,
    stats: HubStats,
    next_id: AtomicU64,
    state: Mutex<State>,
    position: watch::Sender<Revision>,
}

#[derive(Debug)]
struct State {
    /// Everything up to here was dispatched.
    position: Revision,
    resources: HashMap<Box<str>, Watched>,
    closed: bool,
}

#[derive(Debug)]
struct Watched {
    index: Index,
    recent: Recent,
}

impl Hub {
    /// Begins to read what happens from now on. The returned future reads until the store is closed; it must be polled.
    pub async fn new(
        storage: Storage,
        limits: HubLimits,
    ) -> Result<(Hub, impl Future<Output = ()> + Send + use<>), StoreError> {
        let start = storage.revision();
        let feed = storage.watch(Bytes::new(), start).await?;
        let state = State { position: start, resources: HashMap::new(), closed: false };
        let hub = Hub {
            shared: Arc::new(Shared {
                storage,
                limits,
                stats: HubStats::default(),
                next_id: AtomicU64::new(0),
                state: Mutex::new(state),
                position: watch::Sender::new(start),
            }),
        };
        Ok((hub.clone(), hub.read(feed)))
    }

    /// The revision up to which everything was dispatched.
    pub fn position(&self) -> Revision {
        *self.shared.position.borrow()
    }

    /// Waits until everything up to a revision was dispatched.
    pub async fn reached(&self, revision: Revision) {
        // The sender lives as long as self, so the wait cannot fail.
        let _ = self.shared.position.subscribe().wait_for(|position| *position >= revision).await;
    }

    /// What was done so far.
    pub fn stats(&self) -> &HubStats {
        &self.shared.stats
    }

    /// What happens to the objects that are selected, after a revision.
    pub async fn subscribe(
        &self,
        resource: ResourceKey,
        selection: Arc<Selection>,
        after: Revision,
    ) -> Result<Subscription, StoreError> {
        let bucket = Bucket::of(&selection);
        let (sender, queue) = mpsc::channel(self.shared.limits.events);
        let queued = Arc::new(AtomicUsize::new(0));
        let id = self.shared.next_id.fetch_add(1, Ordering::Relaxed);
        let watcher =
            Watcher { id, selection: selection.clone(), after, queue: sender, queued: queued.clone() };

        // Under one lock: everything up to the position is the past, everything after it comes by the queue.
        let (until, recent) = {
            let mut state = self.state();
            if state.closed {
                return Err(StoreError::Closed);
            }
            let position = state.position;
            let watched = state
                .resources
                .entry(resource.as_str().into())
                .or_insert_with(|| Watched { index: Index::default(), recent: Recent::new(position) });
            let recent = watched.recent.after(after).map(|events| {
                events
                    .filter_map(|event| {
                        Some(Delivery { kind: event.kind_for(&selection)?, event: event.clone() })
                    })
                    .collect::<VecDeque<_>>()
            });
            watched.index.insert(&bucket, watcher);
            self.shared.stats.watchers.fetch_add(1, Ordering::Relaxed);
            (position, recent)
        };

        let mut subscription = Subscription {
            hub: self.clone(),
            resource,
            selection,
            id,
            bucket,
            after,
            past: Past::Recent(VecDeque::new()),
            queue,
            queued,
        };
        match recent {
            Some(recent) => subscription.past = Past::Recent(recent),
            None if after >= until => {}
            None => {
                // The log of all resources is read, because only so is it certain to reach `until`.
                let watch = self.shared.storage.watch(Bytes::new(), after).await?;
                subscription.past = Past::Log { watch, until, read: VecDeque::new() };
            }
        }
        Ok(subscription)
    }

    pub(super) fn unsubscribe(&self, resource: &ResourceKey, bucket: &Bucket, id: u64) {
        let mut state = self.state();
        if let Some(watched) = state.resources.get_mut(resource.as_str())
            && watched.index.remove(bucket, id).is_some()
        {
            self.shared.stats.watchers.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Ends all watches, now and for ever.
    pub fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        state.resources.clear();
        self.shared.stats.watchers.store(0, Ordering::Relaxed);
    }

    async fn read(self, mut feed: StorageWatch) {
        loop {
            match feed.next().await {
                Ok(events) => self.dispatch(&events),
                Err(StoreError::Closed) => return self.close(),
                Err(error) => {
                    tracing::warn!(%error, "the store's events were lost; all watches end and may resume");
                    let Some(restarted) = self.restart().await else { return self.close() };
                    feed = restarted;
                }
            }
        }
    }

    /// Reads on from now. What was missed is not known, so all watchers must come back by themselves.
    async fn restart(&self) -> Option<StorageWatch> {
        loop {
            let start = self.shared.storage.revision();
            match self.shared.storage.watch(Bytes::new(), start).await {
                Ok(feed) => {
                    let mut state = self.state();
                    state.resources.clear();
                    self.shared.stats.watchers.store(0, Ordering::Relaxed);
                    state.position = start;
                    self.shared.position.send_replace(start);
                    return Some(feed);
                }
                Err(StoreError::Closed) => return None,
                Err(error) => {
                    tracing::error!(%error, "the store cannot be watched");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    fn dispatch(&self, events: &[Event]) {
        let stats = &self.shared.stats;
        let mut state = self.state();
        for event in events {
            state.position = event.revision;
            let Some(key) = Key::parse(&event.key) else { continue };
            stats.events.fetch_add(1, Ordering::Relaxed);
            // What nobody has ever watched costs nothing.
            let Some(watched) = state.resources.get_mut(key.resource) else { continue };
            match WatchEvent::new(key, event) {
                Ok(event) => {
                    let event = Arc::new(event);
                    let dispatched = watched.index.dispatch(&event, self.shared.limits.bytes);
                    stats.considered.fetch_add(dispatched.considered, Ordering::Relaxed);
                    stats.delivered.fetch_add(dispatched.delivered, Ordering::Relaxed);
                    stats.dropped.fetch_add(dispatched.dropped, Ordering::Relaxed);
                    stats.watchers.fetch_sub(dispatched.dropped, Ordering::Relaxed);
                    watched.recent.push(event);
                }
                Err(error) => tracing::error!(key = ?event.key, %error, "event is skipped"),
            }
        }
        let position = state.position;
        drop(state);
        self.shared.position.send_replace(position);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
