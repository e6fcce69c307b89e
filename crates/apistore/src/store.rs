//! What a store is, whoever implements it.

use std::future::Future;

use bytes::Bytes;

/// The place of a change in the one order of all changes. Zero is before everything. Not every number is the revision of a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

/// A key and what it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: Bytes,
    /// What it holds.
    pub value: Bytes,
    /// The change that made it.
    pub created: Revision,
    /// The last change to it.
    pub modified: Revision,
}

/// The answer to a read of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Got {
    /// What is there, if anything.
    pub entry: Option<Entry>,
    /// The store's revision at the read.
    pub revision: Revision,
}

/// Which keys to list.
#[derive(Clone, Debug, Default)]
pub struct Range {
    /// The keys that start with this.
    pub prefix: Bytes,
    /// Only those after this key.
    pub after: Option<Bytes>,
    /// No more than this many; zero for all.
    pub limit: usize,
    /// As they stood then; absent for now.
    pub at: Option<Revision>,
}

/// A list, or one page of it, in the order of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The entries.
    pub entries: Vec<Entry>,
    /// The revision that the list shows.
    pub revision: Revision,
    /// How many more there are after this page.
    pub remaining: usize,
}

/// A part of a list, in the order of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The entries.
    pub entries: Vec<Entry>,
    /// The revision that the list shows.
    pub revision: Revision,
    /// Whether there may be more after this part.
    pub more: bool,
}

/// A change that is made only if its key is as expected.
#[derive(Clone, Debug)]
pub struct Change {
    /// The key.
    pub key: Bytes,
    /// What must be there.
    pub expect: Expect,
    /// What shall be there; absent to delete. Where nothing is, there is nothing to delete: that is a mismatch.
    pub value: Option<Bytes>,
}

/// What must be at a key for a change to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Nothing.
    Absent,
    /// What that change left there.
    Modified(Revision),
}

/// What became of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is made, durable, and has this place in the order.
    Done(Revision),
    /// The key was not as expected: this is there.
    Mismatch(Option<Entry>),
}

/// Something that happened to a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When.
    pub revision: Revision,
    /// To which key.
    pub key: Bytes,
    /// What it holds since; absent if it was deleted.
    pub value: Option<Bytes>,
    /// What it held before, and since when; absent if it was created.
    pub previous: Option<(Bytes, Revision)>,
}

/// Why a store did not do as asked.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// The history asked for is gone.
    #[error("revision {asked} is compacted; the oldest kept is {oldest}", asked = asked.0, oldest = oldest.0)]
    Compacted {
        /// The revision asked for.
        asked: Revision,
        /// The oldest that can be listed at or watched from.
        oldest: Revision,
    },
    /// The store never made the revision asked for, although it made later ones: whoever knows it read it from another store, of
    /// which this one was a copy once.
    #[error("revision {asked} is not in this store's history: the store was restored from a copy", asked = asked.0)]
    Unknown {
        /// The revision asked for.
        asked: Revision,
    },
    /// The revision asked for has not happened.
    #[error("revision {asked} is in the future; the store is at {current}", asked = asked.0, current = current.0)]
    Future {
        /// The revision asked for.
        asked: Revision,
        /// The last there is.
        current: Revision,
    },
    /// The storage below failed; whether a change was made is not known.
    #[error("storage failed: {0}")]
    Failed(String),
    /// The store is closed.
    #[error("the store is closed")]
    Closed,
}

/// A revisioned key-value store.
pub trait Store: Send + Sync + 'static {
    /// A stream of what happens.
    type Watch: Watch;

    /// Reads one key.
    fn get(&self, key: &Bytes) -> impl Future<Output = Result<Got, StoreError>> + Send;

    /// Lists keys.
    fn list(&self, range: Range) -> impl Future<Output = Result<Page, StoreError>> + Send;

    /// Lists keys until their entries have about this many bytes; at least one, if there is any. What follows is not counted, so
    /// that a list of any size can be read in parts at a cost that depends on the part alone.
    fn list_part(
        &self,
        range: Range,
        max_bytes: usize,
    ) -> impl Future<Output = Result<Part, StoreError>> + Send;

    /// Makes a change if its key is as expected. When this answers, the change is durable.
    fn commit(&self, change: Change) -> impl Future<Output = Result<Outcome, StoreError>> + Send;

    /// Everything that happened to keys with this prefix after `after`, then everything as it happens.
    fn watch(
        &self,
        prefix: Bytes,
        after: Revision,
    ) -> impl Future<Output = Result<Self::Watch, StoreError>> + Send;

    /// The last revision.
    fn revision(&self) -> Revision;

    /// Forgets history before `oldest`.
    fn compact(&self, oldest: Revision) -> impl Future<Output = Result<(), StoreError>> + Send;
}

/// A stream of what happens, in order, each event once.
pub trait Watch: Send + 'static {
    /// The next events, waiting for one at least. An error ends the stream: a watcher that is too slow is told
    /// `Compacted`.
    fn next(&mut self) -> impl Future<Output = Result<Vec<Event>, StoreError>> + Send;
}
