//! One watcher's end of a watch.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use apistore::{Revision, StoreError};
use tokio::sync::mpsc;

use super::event::{EventKind, WatchEvent};
use super::hub::{Hub, Registered};
use super::index::{Bucket, Watcher};
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
    hub: Hub,
    resource: ResourceKey,
    selection: Arc<Selection>,
    bucket: Bucket,
    source: Source,
}

/// Where the next events come from.
#[derive(Debug)]
enum Source {
    /// From the store's log, while the hub does not remember all that is still to be delivered.
    Log {
        watch: StorageWatch,
        /// Everything up to here was read.
        position: Revision,
        /// What was read and not delivered yet.
        read: VecDeque<Delivery>,
    },
    /// From the hub.
    Hub {
        id: u64,
        /// Everything up to here was seen before the hub was followed.
        after: Revision,
        /// What the hub remembered of the time before it was followed.
        recent: VecDeque<Delivery>,
        queue: mpsc::Receiver<Delivery>,
        /// The bytes of events in the queue.
        queued: Arc<AtomicUsize>,
    },
    /// There are no more events.
    Ended,
}

impl Subscription {
    /// Everything after a revision, from the log of the store.
    pub(super) fn new(
        hub: Hub,
        resource: ResourceKey,
        selection: Arc<Selection>,
        watch: StorageWatch,
        after: Revision,
    ) -> Subscription {
        let bucket = Bucket::of(&selection);
        let source = Source::Log { watch, position: after, read: VecDeque::new() };
        Subscription { hub, resource, selection, bucket, source }
    }

    /// The next event. Absent when the watch is over: the watcher was too slow, or the server ends. A new watch from the
    /// last event's revision loses nothing.
    pub async fn next(&mut self) -> Result<Option<Delivery>, StoreError> {
        loop {
            match &mut self.source {
                Source::Ended => return Ok(None),
                Source::Hub { recent, queue, queued, .. } => {
                    if let Some(delivery) = recent.pop_front() {
                        return Ok(Some(delivery));
                    }
                    let delivery = queue.recv().await;
                    if let Some(delivery) = &delivery {
                        queued.fetch_sub(delivery.event.size(), Ordering::AcqRel);
                    }
                    return Ok(delivery);
                }
                Source::Log { read, .. } => {
                    if let Some(delivery) = read.pop_front() {
                        return Ok(Some(delivery));
                    }
                    if !self.follow_if_recent() {
                        self.read_log().await?;
                    }
                }
            }
        }
    }

    /// The next event, if it is at hand.
    pub fn try_next(&mut self) -> Option<Delivery> {
        match &mut self.source {
            Source::Ended => None,
            Source::Log { read, .. } => read.pop_front(),
            Source::Hub { recent, queue, queued, .. } => {
                if let Some(delivery) = recent.pop_front() {
                    return Some(delivery);
                }
                let delivery = queue.try_recv().ok()?;
                queued.fetch_sub(delivery.event.size(), Ordering::AcqRel);
                Some(delivery)
            }
        }
    }

    /// The revision up to which everything was delivered; absent while something is under way.
    pub fn progress(&self) -> Option<Revision> {
        let Source::Hub { after, recent, queue, .. } = &self.source else { return None };
        // Events are queued before the position passes them. So if nothing is queued after the position was read, all up
        // to it was delivered.
        let position = self.hub.position();
        (recent.is_empty() && queue.is_empty()).then_some(position.max(*after))
    }

    /// Follows the hub from here on if it remembers everything that is still to be delivered. Nothing is queued for a watcher before
    /// that, however far behind it begins.
    pub(super) fn follow_if_recent(&mut self) -> bool {
        let Source::Log { position: after, .. } = self.source else { return true };
        let (sender, queue) = mpsc::channel(self.hub.queue_length());
        let queued = Arc::new(AtomicUsize::new(0));
        let (selection, counter) = (self.selection.clone(), queued.clone());
        let watcher = |id| Watcher { id, selection, after, queue: sender, queued: counter };
        self.source = match self.hub.register(&self.resource, &self.bucket, after, watcher) {
            Registered::Behind => return false,
            Registered::Closed => Source::Ended,
            Registered::Following { id, recent } => {
                let deliver =
                    |event: Arc<WatchEvent>| Some(Delivery { kind: event.kind_for(&self.selection)?, event });
                let recent = recent.into_iter().filter_map(deliver).collect();
                Source::Hub { id, after, recent, queue, queued }
            }
        };
        true
    }

    /// Reads on in the log of all resources, because only so is it certain where the hub can be followed. It can be dropped before
    /// it is done: nothing is lost.
    async fn read_log(&mut self) -> Result<(), StoreError> {
        let Source::Log { watch, position, read } = &mut self.source else { return Ok(()) };
        for event in watch.next().await? {
            *position = event.revision;
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
        Ok(())
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if let Source::Hub { id, .. } = self.source {
            self.hub.unsubscribe(&self.resource, &self.bucket, id);
        }
    }
}
