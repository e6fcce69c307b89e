//! Watching objects: those that exist already, then every change.

use std::sync::Arc;

use apimachinery::Status;
use apistore::{Range, Revision, StoreError};
use bytes::Bytes;

use super::list::{matches, one_object};
use crate::api::Api;
use crate::endpoint::Endpoint;
use crate::options::ListOptions;
use crate::selection::Selection;
use crate::storage::StoredObject;
use crate::watch::Subscription;

/// A watch that has begun.
#[derive(Debug)]
pub struct Watching {
    /// Where its events come from next.
    pub phase: Phase,
    /// Whether a bookmark marks the end of the initial objects.
    pub marks_initial_end: bool,
}

/// Where the events of a watch come from.
#[derive(Debug)]
pub enum Phase {
    /// From the objects that exist already. Changes after that are followed once all of these were read, so that a client may take
    /// its time for them: nothing is queued for it meanwhile.
    Initial(InitialObjects),
    /// From changes.
    Following(Subscription),
}

/// The objects that exist when a watch begins, as they stood then. They are read page by page, whenever the client has room.
#[derive(Debug)]
pub struct InitialObjects {
    api: Api,
    endpoint: Endpoint,
    selection: Arc<Selection>,
    /// The revision at which they are shown. Changes after it are events.
    pub revision: Revision,
    /// A revision at which the resource's objects were the same. Watches that begin at different revisions of the store have it in
    /// common for as long as no object of the resource changes.
    pub unchanged_since: Revision,
}

/// Some of the objects.
#[derive(Debug)]
pub struct InitialPage {
    /// Those of the page that are selected, by namespace and name.
    pub objects: Vec<StoredObject>,
    /// The key after which the next page begins; absent if this is the last one.
    pub next: Option<Bytes>,
}

// The size of a page, roughly; a single object may be larger.
const PAGE_BYTES: usize = 64 << 10;

impl Api {
    /// Begins to watch what is selected. A Status that says that the revision cannot be watched from is sent as an event, any other
    /// as the response.
    pub async fn watch(
        &self,
        endpoint: &Endpoint,
        selection: Selection,
        options: &ListOptions,
    ) -> Result<Watching, Status> {
        let (resource, selection) = (&endpoint.resource, Arc::new(selection));
        let resource_version = options.resource_version.unwrap_or(0);
        let sends_initial = match options.send_initial_events {
            Some(sends) => sends,
            // A watch that names no revision begins with the objects that exist.
            None => resource_version == 0,
        };
        let phase = if sends_initial {
            self.wait_for_revision(resource_version).await?;
            // What was acknowledged before must be shown.
            self.hub().reached(self.storage().revision()).await;
            let (unchanged_since, revision) = self.hub().unchanged_since(&resource.key);
            let (api, endpoint) = (self.clone(), endpoint.clone());
            Phase::Initial(InitialObjects { api, endpoint, selection, revision, unchanged_since })
        } else {
            let after = match resource_version {
                0 => self.storage().revision(),
                revision => Revision(revision),
            };
            let subscription = self.hub().subscribe(resource.key.clone(), selection, after).await;
            Phase::Following(subscription.map_err(|error| watch_failed(endpoint, &error))?)
        };
        let marks_initial_end = options.send_initial_events == Some(true) && options.allow_bookmarks;
        Ok(Watching { phase, marks_initial_end })
    }
}

impl InitialObjects {
    /// Whether the pages hold every object of the namespace, and so are the same for every such watch.
    pub fn is_everything(&self) -> bool {
        self.selection.is_everything()
    }

    /// What the keys of the objects begin with.
    pub fn prefix(&self) -> Bytes {
        self.endpoint.resource.key.prefix(self.selection.namespace())
    }

    /// The page that begins after a key, or the first one.
    ///
    /// # Errors
    /// That the revision was compacted, if the client took too long to read the pages before.
    pub async fn page(&self, after: Option<Bytes>) -> Result<InitialPage, Status> {
        let mut range = Range { prefix: self.prefix(), after, limit: 0, at: Some(self.revision) };
        let one = one_object(&self.endpoint, &self.selection);
        if let Some(name) = one {
            // The first key that begins with another key is that key.
            range.prefix = self.endpoint.resource.key.object(self.selection.namespace(), name);
            range.limit = 1;
        }
        let part = self.api.storage().list_part(range, PAGE_BYTES).await;
        let part = part.map_err(|error| watch_failed(&self.endpoint, &error))?;
        let mut objects = Vec::with_capacity(part.entries.len());
        for entry in &part.entries {
            let stored = StoredObject::from_entry(entry).map_err(Status::internal_error)?;
            if self.selection.is_everything()
                || matches(&self.endpoint, &self.selection, &entry.key, &stored)?
            {
                objects.push(stored);
            }
        }
        let last = part.entries.last().map(|entry| entry.key.clone());
        Ok(InitialPage { objects, next: last.filter(|_| part.more && one.is_none()) })
    }

    /// Follows the changes after the initial objects.
    ///
    /// # Errors
    /// That the revision was compacted, if the client took too long to read the initial objects.
    pub async fn follow(&self) -> Result<Subscription, Status> {
        let resource = self.endpoint.resource.key.clone();
        let subscription = self.api.hub().subscribe(resource, self.selection.clone(), self.revision).await;
        subscription.map_err(|error| watch_failed(&self.endpoint, &error))
    }
}

/// Why a watch cannot begin or go on. Clients list again when they are told that their revision expired, which is what helps too
/// when it is one that the store never made: it was restored from a copy, or replaced, since they read it.
fn watch_failed(endpoint: &Endpoint, error: &StoreError) -> Status {
    match error {
        StoreError::Future { asked, current } => {
            Status::expired(format!("too large resource version: {} (current: {})", asked.0, current.0))
        }
        error => endpoint.resource.store_failed(error),
    }
}
