//! A watch: a place in the log, and a way to hear that the log has grown.

use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use tokio::sync::watch::Receiver;

use super::recent::{Recent, Stretch};
use super::snapshot::Snapshot;
use crate::{Event, Revision, StoreError, Watch};

/// The most events that one call returns.
const MAX_EVENTS: usize = 512;
/// The bytes of the log that are read before a call returns what it found in them.
const MAX_BYTES: usize = 1 << 20;

/// What happens in a [`Redb`](super::Redb) store.
///
/// It buffers nothing. Events come from memory that all watches share, or, for one that is behind, from the log; one
/// that is so far behind that the log is compacted there is told so.
pub struct RedbWatch {
    pub(super) published: Receiver<Arc<Snapshot>>,
    pub(super) recent: Arc<RwLock<Recent>>,
    pub(super) prefix: Bytes,
    /// Everything up to here is told.
    pub(super) position: u64,
}

impl Watch for RedbWatch {
    /// It can be dropped before it answers: no event is lost by that.
    async fn next(&mut self) -> Result<Vec<Event>, StoreError> {
        loop {
            let snapshot = self.published.borrow_and_update().clone();
            if self.position == snapshot.revision {
                // The pages of a snapshot cannot be used again while someone holds it.
                drop(snapshot);
                self.published.changed().await.map_err(|_| StoreError::Closed)?;
                continue;
            }
            let stretch = match self.read_recent(snapshot.revision) {
                Some(stretch) => stretch,
                None => self.read_log(snapshot).await?,
            };
            self.position = stretch.until;
            if !stretch.events.is_empty() {
                return Ok(stretch.events);
            }
        }
    }
}

impl RedbWatch {
    /// Reads no further than `until`: what is later may be in memory, but is not published.
    fn read_recent(&self, until: u64) -> Option<Stretch> {
        // Whoever panicked while it had the lock did so between two events.
        let recent = self.recent.read().unwrap_or_else(PoisonError::into_inner);
        recent.read(&self.prefix, self.position, until, MAX_EVENTS)
    }

    async fn read_log(&self, snapshot: Arc<Snapshot>) -> Result<Stretch, StoreError> {
        snapshot.check(Revision(self.position))?;
        let (prefix, position) = (self.prefix.clone(), self.position);
        super::blocking(move || snapshot.events(&prefix, position, MAX_EVENTS, MAX_BYTES)).await
    }
}

impl std::fmt::Debug for RedbWatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedbWatch")
            .field("prefix", &self.prefix)
            .field("position", &self.position)
            .finish_non_exhaustive()
    }
}
