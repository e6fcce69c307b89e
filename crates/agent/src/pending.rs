//! Objects to be written to, off the critical path: a few at a time, and whoever fails holds up nobody else. What is said of one twice before
//! it is written is written once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use portolan_watch::Retries;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// How many are written at a time.
const AT_A_TIME: usize = 4;
/// Pauses after a write that failed, of each object by itself.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// How long something has to be so that usually passes by itself, until it is written.
const LASTS: Duration = Duration::from_secs(1);

/// Objects to be checked.
#[derive(Debug)]
pub(crate) struct Pending<K> {
    keys: Mutex<BTreeSet<K>>,
    wake: Notify,
}

impl<K> Default for Pending<K> {
    fn default() -> Self {
        Self { keys: Mutex::default(), wake: Notify::new() }
    }
}

/// How long an object has been in a state that usually passes by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Since {
    /// Not long enough to be written.
    Now,
    /// For a while.
    AWhile,
}

/// What became of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Checked {
    /// There is nothing left to write.
    Done,
    /// What is to be written usually passes by itself: the object is to be checked again after a while.
    Passes,
}

impl<K: Ord + Clone> Pending<K> {
    /// Something may have to be written to an object.
    pub(crate) fn check(&self, key: K) {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).insert(key);
        self.wake.notify_one();
    }

    fn take(&self, busy: &BTreeSet<K>) -> Option<K> {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        let key = keys.iter().find(|key| !busy.contains(key))?.clone();
        keys.take(&key)
    }

    /// Writes what objects need, for ever.
    pub(crate) async fn serve<W: Future<Output = Result<Checked, String>>>(
        &self,
        write: impl Fn(K, Since) -> W,
    ) -> std::convert::Infallible {
        let mut writing = FuturesUnordered::new();
        let mut later = Retries::new(FIRST_PAUSE, LONGEST_PAUSE);
        // Those that are being written or pause.
        let mut busy = BTreeSet::new();
        // Those that are in a state that usually passes, each with the moment from which that is so for a while.
        let mut passing = BTreeMap::<K, Instant>::new();
        // Those of them that were checked again since.
        let mut lasting = BTreeSet::<K>::new();
        loop {
            while writing.len() < AT_A_TIME
                && let Some(key) = self.take(&busy)
            {
                busy.insert(key.clone());
                let lasts = passing.get(&key).is_some_and(|due| *due <= Instant::now());
                let written = write(key.clone(), if lasts { Since::AWhile } else { Since::Now });
                writing.push(async move { (key, written.await) });
            }
            let next = passing.iter().filter(|(key, _)| !lasting.contains(key)).map(|(_, due)| *due).min();
            tokio::select! {
                Some((key, written)) = writing.next(), if !writing.is_empty() => match written {
                    Ok(Checked::Done) => {
                        busy.remove(&key);
                        passing.remove(&key);
                        lasting.remove(&key);
                    }
                    Ok(Checked::Passes) => {
                        busy.remove(&key);
                        passing.entry(key).or_insert_with(|| Instant::now() + LASTS);
                    }
                    Err(_) => later.failed(key, Instant::now()),
                },
                () = later.wait() => {
                    for key in later.take_due(Instant::now()) {
                        busy.remove(&key);
                        self.check(key);
                    }
                }
                () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {
                    let due = passing.iter().filter(|(_, due)| **due <= Instant::now()).map(|(key, _)| key);
                    for key in due.filter(|key| !lasting.contains(key)).cloned().collect::<Vec<_>>() {
                        lasting.insert(key.clone());
                        self.check(key);
                    }
                }
                () = self.wake.notified() => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

    use std::sync::Arc;

    use tokio::sync::mpsc;

    use super::*;

    type Attempt = (&'static str, Since);

    /// Serves with a writer that fails, hangs or waits by the object's name, and tells of every attempt.
    fn serve(pending: &Arc<Pending<&'static str>>) -> mpsc::UnboundedReceiver<Attempt> {
        let (sender, attempts) = mpsc::unbounded_channel();
        let pending = Arc::clone(pending);
        tokio::spawn(async move {
            pending
                .serve(|name, since| {
                    _ = sender.send((name, since));
                    async move {
                        match (name, since) {
                            ("fails", _) => Err("the API server is away".to_owned()),
                            ("hangs", _) => std::future::pending().await,
                            ("passes" | "passes too", Since::Now) => Ok(Checked::Passes),
                            _ => Ok(Checked::Done),
                        }
                    }
                })
                .await
        });
        attempts
    }

    /// The next attempt. The clock stands still while anything goes on, so this only ends a test that would never end.
    async fn next(attempts: &mut mpsc::UnboundedReceiver<Attempt>) -> Attempt {
        tokio::time::timeout(Duration::from_secs(3600), attempts.recv()).await.unwrap().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_whose_write_fails_or_hangs_holds_up_no_other() {
        let pending = Arc::new(Pending::default());
        let mut attempts = serve(&pending);
        pending.check("fails");
        pending.check("hangs");
        assert_eq!(next(&mut attempts).await.0, "fails");
        assert_eq!(next(&mut attempts).await.0, "hangs");
        let before = Instant::now();
        pending.check("well");
        assert_eq!(next(&mut attempts).await.0, "well");
        assert_eq!(before.elapsed(), Duration::ZERO, "nobody waits for another's pause");
        // The one that failed has pauses of its own, which grow.
        for _ in 0..3 {
            assert_eq!(next(&mut attempts).await.0, "fails");
        }
        assert_eq!(before.elapsed(), Duration::from_millis(1750));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_said_of_an_object_that_is_being_written_is_written_after_it() {
        let pending = Arc::new(Pending::default());
        let mut attempts = serve(&pending);
        pending.check("a");
        assert_eq!(next(&mut attempts).await.0, "a");
        pending.check("a");
        assert_eq!(next(&mut attempts).await.0, "a");
    }

    /// The moment of the second passes while a thread does something else, so that it is past already when anybody looks.
    #[tokio::test(start_paused = true)]
    async fn of_several_that_last_none_is_forgotten() {
        let pending = Arc::new(Pending::default());
        let mut attempts = serve(&pending);
        pending.check("passes");
        assert_eq!(next(&mut attempts).await, ("passes", Since::Now));
        tokio::time::advance(LASTS / 2).await;
        pending.check("passes too");
        assert_eq!(next(&mut attempts).await, ("passes too", Since::Now));
        tokio::task::yield_now().await;
        pending.check("well");
        tokio::time::advance(LASTS * 2).await;
        let mut lasted = std::collections::BTreeSet::new();
        while lasted.len() < 2 {
            if let (name, Since::AWhile) = next(&mut attempts).await {
                lasted.insert(name);
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_usually_passes_is_written_once_it_has_lasted_whatever_else_happens() {
        let pending = Arc::new(Pending::default());
        let mut attempts = serve(&pending);
        let before = Instant::now();
        pending.check("passes");
        assert_eq!(next(&mut attempts).await, ("passes", Since::Now));
        tokio::time::sleep(LASTS / 2).await;
        // News that change nothing do not begin it anew.
        pending.check("passes");
        assert_eq!(next(&mut attempts).await, ("passes", Since::Now));
        assert_eq!(next(&mut attempts).await, ("passes", Since::AWhile));
        assert_eq!(before.elapsed(), LASTS);
        pending.check("passes");
        assert_eq!(next(&mut attempts).await, ("passes", Since::Now), "it was written, and begins again");
    }
}
