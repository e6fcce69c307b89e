//! Who watches a resource, by what they select.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use apistore::Revision;
use tokio::sync::mpsc;

use super::event::WatchEvent;
use super::subscription::Delivery;
use crate::selection::{SelectableField, Selection};

/// One watcher, as the feed sees it.
#[derive(Debug)]
pub(super) struct Watcher {
    pub(super) id: u64,
    pub(super) selection: Arc<Selection>,
    /// It has seen everything up to here.
    pub(super) after: Revision,
    pub(super) queue: mpsc::Sender<Delivery>,
    /// The bytes of events in the queue.
    pub(super) queued: Arc<AtomicUsize>,
}

impl Watcher {
    /// Whether the event was taken or does not concern the watcher; a full queue is the watcher's end.
    fn offer(&self, event: &Arc<WatchEvent>, most_bytes: usize) -> Offer {
        if event.revision <= self.after {
            return Offer::NotConcerned;
        }
        let Some(kind) = event.kind_for(&self.selection) else { return Offer::NotConcerned };
        let size = event.size();
        // One event always fits, however large.
        let queued = self.queued.load(Ordering::Acquire);
        if queued > 0 && queued + size > most_bytes {
            return Offer::Full;
        }
        self.queued.fetch_add(size, Ordering::AcqRel);
        match self.queue.try_send(Delivery { kind, event: event.clone() }) {
            Ok(()) => Offer::Taken,
            Err(_) => Offer::Full,
        }
    }
}

enum Offer {
    Taken,
    NotConcerned,
    Full,
}

/// The most selective thing a watcher asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Bucket {
    Name(Box<str>),
    Field(SelectableField, Box<str>),
    Namespace(Box<str>),
    All,
}

impl Bucket {
    pub(super) fn of(selection: &Selection) -> Bucket {
        if let Some(name) = selection.name() {
            Bucket::Name(name.into())
        } else if let Some((field, value)) = selection.exact_field() {
            Bucket::Field(field.clone(), value.into())
        } else if selection.namespace().is_empty() {
            Bucket::All
        } else {
            Bucket::Namespace(selection.namespace().into())
        }
    }
}

/// The watchers of one resource. Invariant: each is in one bucket.
#[derive(Debug, Default)]
pub(super) struct Index {
    by_name: HashMap<Box<str>, Vec<Watcher>>,
    by_field: HashMap<SelectableField, HashMap<Box<str>, Vec<Watcher>>>,
    by_namespace: HashMap<Box<str>, Vec<Watcher>>,
    all: Vec<Watcher>,
}

/// What the dispatch of one event came to.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Dispatched {
    /// Watchers that were looked at.
    pub(super) considered: u64,
    /// Watchers that got the event.
    pub(super) delivered: u64,
    /// Watchers that were too slow for it, and are gone.
    pub(super) dropped: u64,
}

impl Index {
    pub(super) fn insert(&mut self, bucket: &Bucket, watcher: Watcher) {
        match bucket {
            Bucket::Name(name) => self.by_name.entry(name.clone()).or_default().push(watcher),
            Bucket::Field(field, value) => {
                self.by_field
                    .entry(field.clone())
                    .or_default()
                    .entry(value.clone())
                    .or_default()
                    .push(watcher);
            }
            Bucket::Namespace(namespace) => {
                self.by_namespace.entry(namespace.clone()).or_default().push(watcher);
            }
            Bucket::All => self.all.push(watcher),
        }
    }

    /// Takes a watcher out. Absent if it was dropped before.
    pub(super) fn remove(&mut self, bucket: &Bucket, id: u64) -> Option<Watcher> {
        match bucket {
            Bucket::Name(name) => remove_from_map(&mut self.by_name, name, id),
            Bucket::Field(field, value) => {
                let values = self.by_field.get_mut(field)?;
                let watcher = remove_from_map(values, value, id);
                if values.is_empty() {
                    self.by_field.remove(field);
                }
                watcher
            }
            Bucket::Namespace(namespace) => remove_from_map(&mut self.by_namespace, namespace, id),
            Bucket::All => remove_from(&mut self.all, id),
        }
    }

    /// Offers an event to those whose bucket the object is in, or was in.
    pub(super) fn dispatch(&mut self, event: &Arc<WatchEvent>, most_bytes: usize) -> Dispatched {
        let mut dispatched = Dispatched::default();
        dispatched.offer(&mut self.all, event, most_bytes);
        dispatched.offer_at(&mut self.by_namespace, &event.namespace, event, most_bytes);
        dispatched.offer_at(&mut self.by_name, &event.name, event, most_bytes);
        // The object is parsed only if somebody selects by a field of it.
        self.by_field.retain(|field, values| {
            let mut last = None;
            for object in event.values() {
                let value = field.value(object);
                if last.as_deref() != Some(&*value) {
                    dispatched.offer_at(values, &value, event, most_bytes);
                }
                last = Some(value.into_owned());
            }
            !values.is_empty()
        });
        dispatched
    }
}

impl Dispatched {
    fn offer(&mut self, bucket: &mut Vec<Watcher>, event: &Arc<WatchEvent>, most_bytes: usize) {
        bucket.retain(|watcher| {
            self.considered += 1;
            match watcher.offer(event, most_bytes) {
                Offer::Taken => self.delivered += 1,
                Offer::NotConcerned => {}
                Offer::Full => {
                    self.dropped += 1;
                    return false;
                }
            }
            true
        });
    }

    fn offer_at(
        &mut self,
        buckets: &mut HashMap<Box<str>, Vec<Watcher>>,
        value: &str,
        event: &Arc<WatchEvent>,
        most_bytes: usize,
    ) {
        let Some(bucket) = buckets.get_mut(value) else { return };
        self.offer(bucket, event, most_bytes);
        if bucket.is_empty() {
            buckets.remove(value);
        }
    }
}

fn remove_from_map(buckets: &mut HashMap<Box<str>, Vec<Watcher>>, value: &str, id: u64) -> Option<Watcher> {
    let bucket = buckets.get_mut(value)?;
    let watcher = remove_from(bucket, id);
    if bucket.is_empty() {
        buckets.remove(value);
    }
    watcher
}

fn remove_from(bucket: &mut Vec<Watcher>, id: u64) -> Option<Watcher> {
    let position = bucket.iter().position(|watcher| watcher.id == id)?;
    Some(bucket.swap_remove(position))
}
