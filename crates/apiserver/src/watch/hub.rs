//! The one reader of the store's events, and the watchers it dispatches them to.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use apistore::{Event, Revision, StoreError};
use bytes::Bytes;
use tokio::sync::watch;

use super::event::WatchEvent;
use super::index::{Bucket, Index, Watcher};
use super::recent::Recent;
use super::subscription::Subscription;
use crate::selection::Selection;
use crate::storage::{Key, ResourceKey, Storage, StorageWatch};

/// How much may be queued for a watcher before it is dropped. Its client watches again from the last event it has read, and loses
/// nothing.
#[derive(Clone, Copy, Debug)]
pub struct HubLimits {
    /// Events.
    pub events: usize,
    /// Bytes of objects.
    pub bytes: usize,
}

impl Default for HubLimits {
    fn default() -> Self {
        HubLimits { events: 1024, bytes: 4 << 20 }
    }
}

/// Counters of the hub.
#[derive(Debug, Default)]
pub struct HubStats {
    /// Events of objects read from the store.
    pub events: AtomicU64,
    /// Watchers that an event was compared with.
    pub considered: AtomicU64,
    /// Events queued for watchers.
    pub delivered: AtomicU64,
    /// Watchers dropped because their queue was full.
    pub dropped: AtomicU64,
    /// Watchers that follow events now.
    pub watchers: AtomicU64,
}

/// The outcome of a registration.
pub(super) enum Registered {
    /// The watcher gets all events from now on, after these.
    Following { id: u64, recent: Vec<Arc<WatchEvent>> },
    /// Some events are only in the store's log.
    Behind,
    /// There are no more events.
    Closed,
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

/// A resource that somebody watches or has watched.
#[derive(Debug)]
struct Watched {
    index: Index,
    recent: Recent,
    /// The resource's last event; or, if there was none since, where the hub was when somebody first watched it.
    changed: Revision,
}

impl State {
    fn watched(&mut self, resource: &ResourceKey) -> &mut Watched {
        let position = self.position;
        self.resources.entry(resource.as_str().into()).or_insert_with(|| Watched {
            index: Index::default(),
            recent: Recent::new(position),
            changed: position,
        })
    }
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

    /// A revision since which no object of a resource has changed, and the revision up to which that is known.
    pub fn unchanged_since(&self, resource: &ResourceKey) -> (Revision, Revision) {
        let mut state = self.state();
        let changed = state.watched(resource).changed;
        (changed, state.position)
    }

    /// What happens to the objects that are selected, after a revision.
    ///
    /// # Errors
    /// When the store does not have the events after that revision, or never made such a revision.
    pub async fn subscribe(
        &self,
        resource: ResourceKey,
        selection: Arc<Selection>,
        after: Revision,
    ) -> Result<Subscription, StoreError> {
        if self.state().closed {
            return Err(StoreError::Closed);
        }
        // The store refuses revisions that it never made or no longer has.
        let log = self.shared.storage.watch(Bytes::new(), after).await?;
        let mut subscription = Subscription::new(self.clone(), resource, selection, log, after);
        subscription.follow_if_recent();
        Ok(subscription)
    }

    /// Adds a watcher that has seen everything up to `after`, unless the hub no longer remembers all that came later. Returns what
    /// came later.
    pub(super) fn register(
        &self,
        resource: &ResourceKey,
        bucket: &Bucket,
        after: Revision,
        watcher: impl FnOnce(u64) -> Watcher,
    ) -> Registered {
        let mut state = self.state();
        if state.closed {
            return Registered::Closed;
        }
        let watched = state.watched(resource);
        let Some(recent) = watched.recent.after(after) else { return Registered::Behind };
        let recent = recent.cloned().collect();
        let id = self.shared.next_id.fetch_add(1, Ordering::Relaxed);
        // Under one lock: what was dispatched up to now is in `recent`, everything later comes by the queue.
        watched.index.insert(bucket, watcher(id));
        self.shared.stats.watchers.fetch_add(1, Ordering::Relaxed);
        Registered::Following { id, recent }
    }

    /// How many events may be queued for a watcher.
    pub(super) fn queue_length(&self) -> usize {
        self.shared.limits.events
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
                    watched.changed = event.revision;
                    let dispatched = watched.index.dispatch(&event, self.shared.limits.bytes);
                    stats.considered.fetch_add(dispatched.considered, Ordering::Relaxed);
                    stats.delivered.fetch_add(dispatched.delivered, Ordering::Relaxed);
                    stats.dropped.fetch_add(dispatched.dropped, Ordering::Relaxed);
                    stats.watchers.fetch_sub(dispatched.dropped, Ordering::Relaxed);
                    if dispatched.dropped > 0 {
                        let (resource, dropped) = (key.resource, dispatched.dropped);
                        tracing::info!(resource, dropped, "watchers dropped: they did not read their events");
                    }
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
