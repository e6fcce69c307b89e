//! Parts of responses that the client has not read yet.
//!
//! The HTTP layer takes parts of a response only while it has room: little per connection and per HTTP/2 stream. What it has
//! taken it drops as soon as it is written to the connection. So a part that exists for long belongs to a client that does not
//! read, whether the whole connection or only one HTTP/2 stream is blocked.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::time::Instant;

/// The parts of one connection's responses that are not written yet.
#[derive(Debug, Default)]
pub(super) struct Unwritten {
    parts: Mutex<Parts>,
    added: Notify,
}

#[derive(Debug, Default)]
struct Parts {
    next: u64,
    /// Since when each part waits. Later parts have greater numbers.
    since: BTreeMap<u64, Instant>,
}

/// The bytes of a part; they are written when it is dropped.
struct Part {
    bytes: Bytes,
    number: u64,
    of: Arc<Unwritten>,
}

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.of.lock().since.remove(&self.number);
    }
}

impl Unwritten {
    /// The same bytes, which count as unwritten until they are dropped.
    pub(super) fn track(self: &Arc<Self>, bytes: Bytes) -> Bytes {
        let mut parts = self.lock();
        let number = parts.next;
        parts.next += 1;
        let was_empty = parts.since.is_empty();
        parts.since.insert(number, Instant::now());
        drop(parts);
        if was_empty {
            self.added.notify_one();
        }
        Bytes::from_owner(Part { bytes, number, of: self.clone() })
    }

    /// Waits until some part is unwritten for longer than `limit`.
    pub(super) async fn exceeds(&self, limit: Duration) {
        loop {
            match self.oldest() {
                None => self.added.notified().await,
                Some((number, since)) => {
                    tokio::time::sleep_until(since + limit).await;
                    if self.oldest().is_some_and(|(oldest, _)| oldest == number) {
                        return;
                    }
                }
            }
        }
    }

    fn oldest(&self) -> Option<(u64, Instant)> {
        self.lock().since.first_key_value().map(|(number, since)| (*number, *since))
    }

    fn lock(&self) -> MutexGuard<'_, Parts> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn a_part_that_is_never_written_is_noticed_however_many_others_are() {
        let unwritten = Arc::new(Unwritten::default());
        let begin = Instant::now();
        let stuck = unwritten.track(Bytes::from_static(b"stuck"));
        let writing = async {
            loop {
                let part = unwritten.track(Bytes::from_static(b"written"));
                tokio::time::sleep(Duration::from_secs(1)).await;
                drop(part);
            }
        };
        tokio::select! {
            () = unwritten.exceeds(LIMIT) => assert_eq!(begin.elapsed(), LIMIT),
            () = writing => {}
        }
        drop(stuck);
    }

    #[tokio::test(start_paused = true)]
    async fn parts_that_are_written_in_time_are_not_noticed() {
        let unwritten = Arc::new(Unwritten::default());
        let writing = async {
            for _ in 0..100 {
                let part = unwritten.track(Bytes::from_static(b"slow"));
                tokio::time::sleep(LIMIT - Duration::from_secs(1)).await;
                drop(part);
            }
        };
        tokio::select! {
            () = unwritten.exceeds(LIMIT) => panic!("all parts were written in time"),
            () = writing => {}
        }
        assert!(unwritten.lock().since.is_empty());
    }
}
