//! How long interfaces take: from the change that made a decision possible, to the lock, to the rows.
//!
//! The `creationTimestamp` of objects has whole seconds, of another machine's clock. What is measured is when the change came in here.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use portolan_api::portolan::{HolderKind, IPLock};
use portolan_model::{AttachmentId, Unit, doors};
use tokio::time::Instant;

/// How many interfaces are timed at once. More are under way only when everything starts at once, which the first ones show.
const MOST: usize = 16 * 1024;

/// Since when interfaces are on their way.
#[derive(Debug, Default)]
pub(crate) struct Stopwatch(Mutex<HashMap<AttachmentId, Instant>>);

impl Stopwatch {
    /// A lock was decided upon because of a change that came in then. If it was decided before, that counts.
    pub(crate) fn start(&self, lock: &IPLock, since: Instant) {
        let Ok(lock) = doors::portolan::lock(lock) else { return };
        // A gateway and a Vip are no interfaces: nobody waits for their locks, and they have no rows of their own.
        if matches!(lock.attachment.kind(), HolderKind::Subnet | HolderKind::Vip) {
            return;
        }
        let mut started = self.started();
        if started.len() >= MOST {
            // What never came to an end, such as pods that were deleted meanwhile, goes first.
            let now = Instant::now();
            started.retain(|_, since| now - *since < Duration::from_secs(60));
        }
        if started.len() < MOST {
            started.entry(lock.attachment).or_insert(since);
        }
    }

    /// Since when a lock is on its way. To be asked before it is created: its rows may be committed before the creation is answered.
    pub(crate) fn since(&self, lock: &IPLock) -> Option<Instant> {
        let lock = doors::portolan::lock(lock).ok()?;
        self.started().get(&lock.attachment).copied()
    }

    /// A unit's rows are committed: how long that took.
    pub(crate) fn committed(&self, unit: &Unit) -> Option<Duration> {
        let Unit::Attachment(id) = unit else { return None };
        self.started().remove(id).map(|since| since.elapsed())
    }

    fn started(&self) -> MutexGuard<'_, HashMap<AttachmentId, Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
