//! One watcher's end of a watch.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use apistore::{Revision, StoreError};
use tokio::sync::mpsc;

use super::event::{EventKind, WatchEvent};
use super::hub::Hub;
use super::index::Bucket;
use crate::selection::Selection;
use crate::storage::{Key, ResourceKey, StorageWatch};

/// An event, and what it is for this watcher.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// What it is called.
    pub kind: EventKind,
    /// The event.
    pub event: Arc<WatchEvent>,
}

/// What happens to the objects of a resource that a watcher selects, from a revision on, without gap and without repetition.
#[derive(Debug)]
pub struct Subscription {
    pub(super) hub: Hub,
    pub(super) resource: ResourceKey,
    pub(super) selection: Arc<Selection>,
    pub(super) id: u64,
    pub(super) bucket: Bucket,
    /// Everything up to here was seen before.
    pub(super) after: Revision,
    /// What happened between `after` and the subscription.
    pub(super) past: Past,
    pub(super) queue: mpsc::Receiver<Delivery>,
    pub(super) queued: Arc<AtomicUsize>,
}

/// How the past is caught up with.
#[derive(Debug)]
pub(super) enum Past {
    /// From memory.
    Recent(VecDeque<Delivery>),
    /// From the store's log, up to and including a revision; the queue has what is later.
    Log { watch: StorageWatch, until: Revision, read: VecDeque<Delivery> },
}

impl Subscription {
    /// The next event. Absent when the watch is over: the watcher was too slow, or the server ends. A new watch from the
    /// last event's revision loses nothing.
    pub async fn next(&mut self) -> Result<Option<Delivery>, StoreError> {
        if let Some(delivery) = self.next_past().await? {
            return Ok(Some(delivery));
        }
        let delivery = self.queue.recv().await;
        if let Some(delivery) = &delivery {
            self.queued.fetch_sub(delivery.event.size(), Ordering::AcqRel);
        }
        Ok(delivery)
    }

    /// The next event, if it is there already.
    pub fn try_next(&mut self) -> Option<Delivery> {
        let Past::Recent(recent) = &mut self.past else { return None };
        if let Some(delivery) = recent.pop_front() {
            return Some(delivery);
        }
        let delivery = self.queue.try_recv().ok()?;
        self.queued.fetch_sub(delivery.event.size(), Ordering::AcqRel);
        Some(delivery)
    }

    /// The revision up to which everything was delivered; absent while something is under way.
    pub fn progress(&self) -> Option<Revision> {
        let Past::Recent(recent) = &self.past else { return None };
        // Events are queued before the position passes them. So if nothing is queued after the position was read, all up
        // to it was delivered.
        let position = self.hub.position();
        (recent.is_empty() && self.queue.is_empty()).then_some(position.max(self.after))
    }

    async fn next_past(&mut self) -> Result<Option<Delivery>, StoreError> {
        loop {
            match &mut self.past {
                Past::Recent(recent) => return Ok(recent.pop_front()),
                Past::Log { watch, until, read } => {
                    if let Some(delivery) = read.pop_front() {
                        return Ok(Some(delivery));
                    }
                    // Cancel safe: the events are kept before anything else is awaited.
                    let events = watch.next().await?;
                    let mut reached = false;
                    for event in events {
                        if event.revision > *until {
                            reached = true;
                            break;
                        }
                        reached = event.revision == *until;
                        let Some(key) = Key::parse(&event.key) else { continue };
                        if key.resource != self.resource.as_str() {
                            continue;
                        }
                        match WatchEvent::new(key, &event) {
                            Ok(event) => {
                                if let Some(kind) = event.kind_for(&self.selection) {
                                    read.push_back(Delivery { kind, event: Arc::new(event) });
                                }
                            }
                            Err(error) => tracing::error!(key = ?event.key, %error, "event is skipped"),
                        }
                    }
                    if reached {
                        self.past = Past::Recent(std::mem::take(read));
                    }
                }
            }
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.hub.unsubscribe(&self.resource, &self.bucket, self.id);
    }
}
