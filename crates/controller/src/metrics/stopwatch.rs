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
/// What has not come to an end after this never will, such as pods that were deleted meanwhile.
const LONG: Duration = Duration::from_secs(60);

/// Since when interfaces are on their way.
#[derive(Debug, Default)]
pub(crate) struct Stopwatch(Mutex<Started>);

#[derive(Debug, Default)]
struct Started {
    since: HashMap<AttachmentId, Instant>,
    /// When those that had been on their way for long were forgotten last: that looks at all of them.
    cleared: Option<Instant>,
}

impl Stopwatch {
    /// A lock was decided upon because of a change that came in then. If it was decided before, that counts.
    pub(crate) fn start(&self, lock: &IPLock, since: Instant) {
        let Ok(lock) = doors::portolan::lock(lock) else { return };
        // A gateway and a Vip are no interfaces: nobody waits for their locks, and they have no rows of their own.
        if matches!(lock.attachment.kind(), HolderKind::Subnet | HolderKind::Vip) {
            return;
        }
        let mut started = self.started();
        if started.since.len() >= MOST {
            let now = Instant::now();
            if started.cleared.is_some_and(|cleared| now - cleared < LONG) {
                return;
            }
            started.since.retain(|_, since| now - *since < LONG);
            started.cleared = Some(now);
        }
        if started.since.len() < MOST {
            started.since.entry(lock.attachment).or_insert(since);
        }
    }

    /// Since when a lock is on its way. To be asked before it is created: its rows may be committed before the creation is answered.
    pub(crate) fn since(&self, lock: &IPLock) -> Option<Instant> {
        let lock = doors::portolan::lock(lock).ok()?;
        self.started().since.get(&lock.attachment).copied()
    }

    /// A unit's rows are committed: how long that took.
    pub(crate) fn committed(&self, unit: &Unit) -> Option<Duration> {
        let Unit::Attachment(id) = unit else { return None };
        self.started().since.remove(id).map(|since| since.elapsed())
    }

    fn started(&self) -> MutexGuard<'_, Started> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
