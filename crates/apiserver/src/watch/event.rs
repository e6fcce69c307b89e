//! Something that happened to an object, shared by all who watch it.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use apistore::{Event, Revision};
use bytes::Bytes;
use serde_json::Value;

use crate::selection::Selection;
use crate::storage::{Corrupt, Key, StoredObject};

/// What an event is called. For a watcher with a selector, an object that begins to match is added, and one that ceases to
/// match is deleted, whatever happened in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// `ADDED`
    Added,
    /// `MODIFIED`
    Modified,
    /// `DELETED`
    Deleted,
}

impl EventKind {
    /// As it is written in a watch event.
    pub fn as_str(self) -> &'static str {
        match self {
            EventKind::Added => "ADDED",
            EventKind::Modified => "MODIFIED",
            EventKind::Deleted => "DELETED",
        }
    }
}

/// How an event's object is written: watchers with equal keys share the bytes.
pub type EncodingKey = Arc<str>;

/// Something that happened to an object.
#[derive(Debug)]
pub struct WatchEvent {
    /// When.
    pub revision: Revision,
    /// Empty for objects without a namespace.
    pub namespace: Box<str>,
    /// The object's name.
    pub name: Box<str>,
    current: Option<Side>,
    previous: Option<Side>,
    // A handful of entries at most: one for each representation and kind of event that somebody asked for.
    encoded: Mutex<Vec<(EncodingKey, EventKind, Bytes)>>,
}

#[derive(Debug)]
struct Side {
    stored: StoredObject,
    // Parsed when somebody's selector or representation needs it, and then once.
    value: OnceLock<Result<Value, Corrupt>>,
}

impl Side {
    fn new(raw: Bytes, revision: Revision) -> Result<Side, Corrupt> {
        Ok(Side { stored: StoredObject::decode(raw, revision)?, value: OnceLock::new() })
    }

    fn value(&self) -> Result<&Value, Corrupt> {
        self.value.get_or_init(|| self.stored.to_value()).as_ref().map_err(|corrupt| *corrupt)
    }

    fn matches(&self, selection: &Selection, namespace: &str, name: &str) -> bool {
        selection.matches_key(namespace, name)
            && (!selection.needs_object()
                || self.value().is_ok_and(|object| selection.matches_object(object)))
    }
}

impl WatchEvent {
    /// Reads an event of the store.
    pub fn new(key: Key<'_>, event: &Event) -> Result<WatchEvent, Corrupt> {
        let current = event.value.clone().map(|raw| Side::new(raw, event.revision)).transpose()?;
        // What is gone is shown at the revision at which it went.
        let previous = event.previous.clone().map(|(raw, _)| Side::new(raw, event.revision)).transpose()?;
        Ok(WatchEvent {
            revision: event.revision,
            namespace: key.namespace.into(),
            name: key.name.into(),
            current,
            previous,
            encoded: Mutex::default(),
        })
    }

    /// What the event is for a watcher; absent if nothing.
    pub fn kind_for(&self, selection: &Selection) -> Option<EventKind> {
        let matches = |side: &Option<Side>| {
            side.as_ref().is_some_and(|side| side.matches(selection, &self.namespace, &self.name))
        };
        match (matches(&self.previous), matches(&self.current)) {
            (false, true) => Some(EventKind::Added),
            (true, true) => Some(EventKind::Modified),
            (true, false) => Some(EventKind::Deleted),
            (false, false) => None,
        }
    }

    /// The new and the old object, parsed, where there are such.
    pub fn values(&self) -> impl Iterator<Item = &Value> {
        [&self.current, &self.previous].into_iter().flatten().filter_map(|side| side.value().ok())
    }

    /// The object to show: the new one, or for a deletion the old one.
    pub fn shown(&self, kind: EventKind) -> Option<&StoredObject> {
        self.shown_side(kind).map(|side| &side.stored)
    }

    /// The object to show, parsed.
    pub fn shown_value(&self, kind: EventKind) -> Result<&Value, Corrupt> {
        self.shown_side(kind).ok_or(Corrupt)?.value()
    }

    /// The bytes for a representation, made by the first who asks.
    pub fn encoded(&self, key: &EncodingKey, kind: EventKind, encode: impl FnOnce() -> Bytes) -> Bytes {
        let mut encoded = self.encoded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, _, bytes)) = encoded.iter().find(|(other, of, _)| *of == kind && other == key) {
            return bytes.clone();
        }
        let bytes = encode();
        encoded.push((key.clone(), kind, bytes.clone()));
        bytes
    }

    /// How much memory it holds, roughly.
    pub fn size(&self) -> usize {
        let side = |side: &Option<Side>| side.as_ref().map_or(0, |side| side.stored.raw().len());
        size_of::<WatchEvent>() + side(&self.current) + side(&self.previous)
    }

    fn shown_side(&self, kind: EventKind) -> Option<&Side> {
        match kind {
            EventKind::Added | EventKind::Modified => self.current.as_ref(),
            EventKind::Deleted => self.previous.as_ref(),
        }
    }
}
