//! A store that fails when a test wants it to.

use std::sync::{Arc, Mutex};

use apistore::{
    Change, Event, Got, Outcome, Page, Part, Range, Redb, RedbWatch, Revision, Store, StoreError, Watch,
};
use bytes::Bytes;
use tokio::sync::watch;

/// What is about to be done to the store.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// A list of keys with this prefix.
    List(Bytes),
    /// A write of this key.
    Commit(Bytes),
}

/// Says whether an operation fails.
type Fails = Box<dyn FnMut(&Operation) -> bool + Send>;

/// Which operations fail. Clones are one and the same.
#[derive(Clone)]
pub(crate) struct Faults {
    fails: Arc<Mutex<Fails>>,
    broken: watch::Sender<()>,
}

impl Default for Faults {
    fn default() -> Self {
        Faults { fails: Arc::new(Mutex::new(Box::new(|_| false))), broken: watch::Sender::default() }
    }
}

impl Faults {
    /// From now on, those operations fail for which this says so.
    pub(crate) fn fail(&self, fails: impl FnMut(&Operation) -> bool + Send + 'static) {
        *self.fails.lock().unwrap() = Box::new(fails);
    }

    /// Ends every watch with an error.
    pub(crate) fn break_watches(&self) {
        self.broken.send_replace(());
    }

    fn check(&self, operation: &Operation) -> Result<(), StoreError> {
        let fails = (self.fails.lock().unwrap())(operation);
        if fails { Err(StoreError::Failed(format!("{operation:?} was made to fail"))) } else { Ok(()) }
    }
}

/// A store in a file, with faults.
pub(crate) struct FaultyStore {
    pub(crate) store: Redb,
    pub(crate) faults: Faults,
}

pub(crate) struct FaultyWatch {
    watch: RedbWatch,
    broken: watch::Receiver<()>,
}

impl Store for FaultyStore {
    type Watch = FaultyWatch;

    async fn get(&self, key: &Bytes) -> Result<Got, StoreError> {
        self.store.get(key).await
    }

    async fn list(&self, range: Range) -> Result<Page, StoreError> {
        self.faults.check(&Operation::List(range.prefix.clone()))?;
        self.store.list(range).await
    }

    async fn list_part(&self, range: Range, max_bytes: usize) -> Result<Part, StoreError> {
        self.store.list_part(range, max_bytes).await
    }

    async fn commit(&self, change: Change) -> Result<Outcome, StoreError> {
        self.faults.check(&Operation::Commit(change.key.clone()))?;
        self.store.commit(change).await
    }

    async fn watch(&self, prefix: Bytes, after: Revision) -> Result<FaultyWatch, StoreError> {
        let broken = self.faults.broken.subscribe();
        Ok(FaultyWatch { watch: self.store.watch(prefix, after).await?, broken })
    }

    fn revision(&self) -> Revision {
        self.store.revision()
    }

    async fn compact(&self, oldest: Revision) -> Result<(), StoreError> {
        self.store.compact(oldest).await
    }
}

impl Watch for FaultyWatch {
    async fn next(&mut self) -> Result<Vec<Event>, StoreError> {
        tokio::select! {
            biased;
            // The sender is the store's own, which outlives the watch.
            _ = self.broken.changed() => Err(StoreError::Failed("the watch was broken".to_owned())),
            events = self.watch.next() => events,
        }
    }
}
