//! A [`Store`] in one file, on [redb](https://www.redb.org).
//!
//! ```text
//!   commit ──▶ queue ──▶ Writer ── Batch ──▶ redb ── sync ──▶ Snapshot ──▶ get, list
//!                       (one thread)                      └─▶ Recent ────▶ RedbWatch ◀── log, if it is behind
//! ```
//!
//! # On disk
//!
//! | table     | key                | value                                                            |
//! |-----------|--------------------|------------------------------------------------------------------|
//! | `current` | key                | created, modified, value                                         |
//! | `log`     | revision           | total, kind, length of key, key; created, modified, value before |
//! | `ended`   | (key, revision)    | nothing                                                          |
//! | `counts`  | prefix up to a `/` | number of keys with it                                           |
//! | `marks`   | time in ms         | revision                                                         |
//! | `leaps`   | revision           | the revision before it                                           |
//! | `meta`    | name               | `format`, `oldest`                                               |
//!
//! Numbers in records are 8 bytes, little-endian; a kind is one byte.
//!
//! - Every value is stored once. The log has what a change ended, never what it made: that is in `current`, or, when
//!   it has ended too, in the record of the next change to the key.
//! - `ended` has the changes that ended something, by key: updates and deletions. It finds that next change, and what
//!   stood at an older revision in a range of keys. A creation ends nothing.
//! - The log's last record is the store's revision; the record of the oldest revision is never removed, so there always is a last
//!   one. What is before it is forgotten at once, and removed by and by.
//! - Revisions are dense, but for a leap at the first change after the store was opened again: to a number that follows from the
//!   time, so that no copy of the store makes the same revision. `leaps` has those within the history that is kept.
//! - `total` counts the bytes of all records ever written, so that the size of any stretch of the log is a subtraction.
//! - `marks` tells what is how old, coarsely.
//!
//! All tables change in the same transaction, so that they always agree.

mod batch;
mod counts;
mod history;
mod layout;
mod list;
mod recent;
mod snapshot;
mod watch;
mod writer;

use std::fs::{File, Permissions};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use redb::Database;
use tokio::sync::{Semaphore, oneshot};

use self::counts::{Continuation, Continuations};
use self::history::History;
use self::layout::failed;
use self::list::{ListState, Listing};
use self::recent::Recent;
use self::snapshot::Snapshot;
pub use self::watch::RedbWatch;
use self::writer::{Clock, Request, Work, Writer};
use crate::{Change, Got, Outcome, Page, Part, Range, Revision, Store, StoreError};

/// The bytes of changes that may wait for the writer. Whoever comes later waits for room.
const QUEUE_BYTES: usize = 16 << 20;
/// The longest key and value together: well below what redb can hold.
const MAX_CHANGE_BYTES: usize = 1 << 30;
/// How much of a list is read at once. More is read on a thread that may block.
const INLINE_BYTES: usize = 64 << 10;

/// The permissions of the file: it may hold secrets.
const PRIVATE: u32 = 0o600;

/// How a [`Redb`] store is kept.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The memory for pages of the file. With the kernel's page cache behind it, more than what the inner pages of
    /// the tables need makes little difference, unless it is enough for the whole file.
    pub cache_bytes: usize,
    /// How long history is kept, and with it the revisions that can be listed at and watched from.
    pub history_age: Duration,
    /// No more events of history than this, even if they are younger.
    pub history_events: u64,
    /// No more bytes of history than this, even if they are younger.
    pub history_bytes: u64,
    /// No more events than this in memory for watches. A watch that is further behind reads the file.
    pub recent_events: usize,
    /// No more bytes than this in memory for watches.
    pub recent_bytes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            cache_bytes: 16 << 20,
            history_age: Duration::from_secs(300),
            history_events: 1_000_000,
            history_bytes: 512 << 20,
            recent_events: 8192,
            recent_bytes: 16 << 20,
        }
    }
}

/// A store in one file. Dropping it waits for the writer to end and closes the file.
///
/// A change is durable when it is answered. A `commit` that is dropped before that may or may not be made.
pub struct Redb {
    queue: Option<mpsc::Sender<Request>>,
    room: Arc<Semaphore>,
    published: tokio::sync::watch::Receiver<Arc<Snapshot>>,
    recent: Arc<RwLock<Recent>>,
    continuations: Mutex<Continuations>,
    writer: Option<JoinHandle<()>>,
}

impl Redb {
    /// Opens the store in this file, and makes it if there is none. This blocks; after a crash, for as long as it
    /// takes to read the file once.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Self, StoreError> {
        let path = path.as_ref();
        let file = open_private(path).map_err(|error| StoreError::Failed(error.to_string()))?;
        let mut builder = Database::builder();
        let database = builder.set_cache_size(options.cache_bytes).create_file(file).map_err(failed)?;
        sync_directory(path).map_err(|error| StoreError::Failed(error.to_string()))?;
        Self::start(database, options, Box::new(unix_time))
    }

    fn start(database: Database, options: Options, clock: Clock) -> Result<Self, StoreError> {
        let snapshot = Snapshot::first(&database)?;
        let history = History::open(&database, &options)?;
        let recent = Recent::new(snapshot.revision, options.recent_events, options.recent_bytes);
        let recent = Arc::new(RwLock::new(recent));
        let (publish, published) = tokio::sync::watch::channel(Arc::new(snapshot));
        let (queue, requests) = mpsc::channel();
        let writer = Writer::new(database, history, clock, recent.clone(), publish)?;
        let writer = std::thread::Builder::new()
            .name("apistore-writer".to_owned())
            .spawn(move || writer.run(&requests))
            .map_err(|error| StoreError::Failed(error.to_string()))?;
        Ok(Redb {
            queue: Some(queue),
            room: Arc::new(Semaphore::new(QUEUE_BYTES)),
            published,
            recent,
            continuations: Mutex::default(),
            writer: Some(writer),
        })
    }

    /// The oldest revision that can be listed at or watched from.
    pub fn oldest(&self) -> Revision {
        Revision(self.published.borrow().oldest)
    }

    fn snapshot(&self) -> Arc<Snapshot> {
        self.published.borrow().clone()
    }

    async fn ask(&self, work: Work) -> Result<Outcome, StoreError> {
        let room = match &work {
            Work::Change(change) => Some(self.make_room(change).await?),
            Work::Compact(_) => None,
        };
        let (answer, answered) = oneshot::channel();
        let queue = self.queue.as_ref().ok_or(StoreError::Closed)?;
        queue.send(Request { work, answer, room }).map_err(|_| StoreError::Closed)?;
        answered.await.unwrap_or_else(|_| Err(StoreError::Failed("the writer has ended".to_owned())))
    }

    async fn make_room(&self, change: &Change) -> Result<tokio::sync::OwnedSemaphorePermit, StoreError> {
        let bytes = size_of::<Request>() + change.key.len() + change.value.as_ref().map_or(0, Bytes::len);
        if bytes > MAX_CHANGE_BYTES {
            return Err(StoreError::Failed(format!("a change of {bytes} bytes is too large")));
        }
        // One that is larger than the queue has the queue for itself.
        let permits = u32::try_from(bytes.min(QUEUE_BYTES)).unwrap_or(u32::MAX);
        self.room.clone().acquire_many_owned(permits).await.map_err(|_| StoreError::Closed)
    }

    /// How many keys follow the page that was read from `start` on.
    async fn rest(&self, listing: Listing, start: Option<Bytes>) -> Result<(usize, Listing), StoreError> {
        let place = |after| Continuation { at: listing.at, prefix: listing.prefix.clone(), after };
        let from_start = match start {
            None if listing.at == listing.snapshot.revision => listing.snapshot.count(&listing.prefix)?,
            None => None,
            Some(start) => self.lock_continuations().rest(&place(start)),
        };
        let end = listing.after.clone().map(place);
        let (rest, listing) = match from_start {
            Some(count) => (count.saturating_sub(listing.entries.len()), listing),
            None => blocking(move || Ok((listing.count_rest()?, listing))).await?,
        };
        if let Some(end) = end
            && rest > 0
        {
            self.lock_continuations().remember(end, rest);
        }
        Ok((rest, listing))
    }

    fn lock_continuations(&self) -> std::sync::MutexGuard<'_, Continuations> {
        // What is remembered is a hint that is right or absent, whoever panicked.
        self.continuations.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for Redb {
    type Watch = RedbWatch;

    async fn get(&self, key: &Bytes) -> Result<Got, StoreError> {
        let snapshot = self.snapshot();
        Ok(Got { entry: snapshot.get(key)?, revision: Revision(snapshot.revision) })
    }

    async fn list(&self, range: Range) -> Result<Page, StoreError> {
        let after = range.after.clone();
        let mut listing = Listing::new(self.snapshot(), range)?;
        // The past may take many steps to find a few entries.
        if listing.is_current() {
            listing.read(INLINE_BYTES)?;
        }
        if listing.state == ListState::Reading {
            listing = blocking(move || listing.read(usize::MAX).map(|()| listing)).await?;
        }
        let revision = Revision(listing.at);
        let (remaining, listing) = match listing.state {
            ListState::Full => self.rest(listing, after).await?,
            ListState::Reading | ListState::Ended => (0, listing),
        };
        Ok(Page { entries: listing.entries, revision, remaining })
    }

    async fn list_part(&self, range: Range, max_bytes: usize) -> Result<Part, StoreError> {
        let mut listing = Listing::new(self.snapshot(), range)?;
        if listing.is_current() && max_bytes <= INLINE_BYTES {
            listing.read(max_bytes)?;
        } else {
            listing = blocking(move || listing.read(max_bytes).map(|()| listing)).await?;
        }
        let more = listing.state != ListState::Ended;
        Ok(Part { revision: Revision(listing.at), entries: listing.entries, more })
    }

    async fn commit(&self, change: Change) -> Result<Outcome, StoreError> {
        self.ask(Work::Change(change)).await
    }

    async fn watch(&self, prefix: Bytes, after: Revision) -> Result<RedbWatch, StoreError> {
        self.snapshot().check(after)?;
        Ok(RedbWatch {
            published: self.published.clone(),
            recent: self.recent.clone(),
            prefix,
            position: after.0,
        })
    }

    fn revision(&self) -> Revision {
        Revision(self.published.borrow().revision)
    }

    async fn compact(&self, oldest: Revision) -> Result<(), StoreError> {
        self.ask(Work::Compact(oldest)).await.map(|_| ())
    }
}

impl Drop for Redb {
    fn drop(&mut self) {
        drop(self.queue.take());
        if let Some(writer) = self.writer.take() {
            // If it panicked, the panic was shown; there is nothing left to close.
            let _ = writer.join();
        }
    }
}

impl std::fmt::Debug for Redb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redb")
            .field("revision", &self.revision())
            .field("oldest", &self.oldest())
            .finish_non_exhaustive()
    }
}

/// Runs what may take long on a thread that may block.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(StoreError::Closed),
        },
    }
}

/// Opens a file that only its owner can read, and makes it if there is none.
fn open_private(path: &Path) -> std::io::Result<File> {
    let file =
        File::options().read(true).write(true).create(true).truncate(false).mode(PRIVATE).open(path)?;
    // Earlier versions made files that everybody could read.
    if file.metadata()?.permissions().mode() & 0o077 != 0 {
        file.set_permissions(Permissions::from_mode(PRIVATE))?;
    }
    Ok(file)
}

/// Makes sure that a file that was just made is found after a power loss.
fn sync_directory(path: &Path) -> std::io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
}

fn unix_time() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
