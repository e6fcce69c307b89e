//! The store as the server sees it: any [`Store`], behind one type.
//!
//! The server is not generic over its store: one boxed future per storage call costs nothing beside the call itself, and
//! the machinery is compiled once.

mod continuation;
mod key;
mod object;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use apistore::{Change, Event, Got, Outcome, Page, Part, Range, Revision, Store, StoreError, Watch};
use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt};

pub use continuation::{Continuation, ContinuationError};
pub use key::{Key, ResourceKey};
pub use object::{Corrupt, StoredObject, TypePrefix};

/// A store of any kind.
#[derive(Clone)]
pub struct Storage {
    store: Arc<dyn AnyStore>,
    /// Why the last write failed; absent if it did not.
    write_failure: Arc<Mutex<Option<String>>>,
}

/// A stream of what happens in a store of any kind.
pub struct StorageWatch {
    watch: Box<dyn AnyWatch>,
}

impl Storage {
    /// Hides which store it is.
    pub fn new<S: Store>(store: S) -> Storage {
        Storage { store: Arc::new(store), write_failure: Arc::default() }
    }

    /// Reads one key.
    pub async fn get(&self, key: &Bytes) -> Result<Got, StoreError> {
        self.store.get(key).await
    }

    /// Lists keys.
    pub async fn list(&self, range: Range) -> Result<Page, StoreError> {
        self.store.list(range).await
    }

    /// Lists keys until their entries have about this many bytes.
    pub async fn list_part(&self, range: Range, max_bytes: usize) -> Result<Part, StoreError> {
        self.store.list_part(range, max_bytes).await
    }

    /// Makes a change if its key is as expected.
    pub async fn commit(&self, change: Change) -> Result<Outcome, StoreError> {
        let outcome = self.store.commit(change).await;
        let failure = match &outcome {
            Ok(_)
            | Err(StoreError::Compacted { .. } | StoreError::Unknown { .. } | StoreError::Future { .. }) => {
                None
            }
            Err(error @ (StoreError::Failed(_) | StoreError::Closed)) => Some(error.to_string()),
        };
        *self.write_failure.lock().unwrap_or_else(PoisonError::into_inner) = failure;
        outcome
    }

    /// Whether the store takes writes, as far as the last one tells.
    ///
    /// # Errors
    /// Why the last write failed, for people.
    pub fn writable(&self) -> Result<(), String> {
        let failure = self.write_failure.lock().unwrap_or_else(PoisonError::into_inner).clone();
        failure.map_or(Ok(()), Err)
    }

    /// Everything that happened to keys with this prefix after `after`, then everything as it happens.
    pub async fn watch(&self, prefix: Bytes, after: Revision) -> Result<StorageWatch, StoreError> {
        self.store.watch(prefix, after).await
    }

    /// The last revision.
    pub fn revision(&self) -> Revision {
        self.store.revision()
    }

    /// Forgets history before `oldest`.
    pub async fn compact(&self, oldest: Revision) -> Result<(), StoreError> {
        self.store.compact(oldest).await
    }
}

impl fmt::Debug for Storage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Storage").field("revision", &self.revision()).finish_non_exhaustive()
    }
}

impl StorageWatch {
    /// The next events, at least one.
    pub async fn next(&mut self) -> Result<Vec<Event>, StoreError> {
        self.watch.next().await
    }
}

impl fmt::Debug for StorageWatch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("StorageWatch").finish_non_exhaustive()
    }
}

trait AnyStore: Send + Sync {
    fn get<'a>(&'a self, key: &'a Bytes) -> BoxFuture<'a, Result<Got, StoreError>>;
    fn list(&self, range: Range) -> BoxFuture<'_, Result<Page, StoreError>>;
    fn list_part(&self, range: Range, max_bytes: usize) -> BoxFuture<'_, Result<Part, StoreError>>;
    fn commit(&self, change: Change) -> BoxFuture<'_, Result<Outcome, StoreError>>;
    fn watch(&self, prefix: Bytes, after: Revision) -> BoxFuture<'_, Result<StorageWatch, StoreError>>;
    fn revision(&self) -> Revision;
    fn compact(&self, oldest: Revision) -> BoxFuture<'_, Result<(), StoreError>>;
}

impl<S: Store> AnyStore for S {
    fn get<'a>(&'a self, key: &'a Bytes) -> BoxFuture<'a, Result<Got, StoreError>> {
        Store::get(self, key).boxed()
    }

    fn list(&self, range: Range) -> BoxFuture<'_, Result<Page, StoreError>> {
        Store::list(self, range).boxed()
    }

    fn list_part(&self, range: Range, max_bytes: usize) -> BoxFuture<'_, Result<Part, StoreError>> {
        Store::list_part(self, range, max_bytes).boxed()
    }

    fn commit(&self, change: Change) -> BoxFuture<'_, Result<Outcome, StoreError>> {
        Store::commit(self, change).boxed()
    }

    fn watch(&self, prefix: Bytes, after: Revision) -> BoxFuture<'_, Result<StorageWatch, StoreError>> {
        async move { Ok(StorageWatch { watch: Box::new(Store::watch(self, prefix, after).await?) }) }.boxed()
    }

    fn revision(&self) -> Revision {
        Store::revision(self)
    }

    fn compact(&self, oldest: Revision) -> BoxFuture<'_, Result<(), StoreError>> {
        Store::compact(self, oldest).boxed()
    }
}

trait AnyWatch: Send {
    fn next(&mut self) -> BoxFuture<'_, Result<Vec<Event>, StoreError>>;
}

impl<W: Watch> AnyWatch for W {
    fn next(&mut self) -> BoxFuture<'_, Result<Vec<Event>, StoreError>> {
        Watch::next(self).boxed()
    }
}
