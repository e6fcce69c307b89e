//! Writes that are not urgent: what an object should say is kept by object, the newest replaces the older, a few are written at
//! a time, and what fails is written again after a pause. Whoever wants something written never waits. While there is much urgent
//! work these writes give way: now and then one goes on, so that they never stop.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use portolan_watch::{Recoveries, Retries};
use tokio::sync::Notify;
use tokio::time::Instant;

/// How many are written at a time.
const AT_A_TIME: usize = 8;
/// So much urgent work under way is much: the API server has little left for anything else.
const MUCH: usize = 8;
/// How long after one write began the next one does, beside much urgent work.
const PACE: Duration = Duration::from_millis(20);
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// How to write what is wanted.
pub(crate) trait Write: Send + Sync + 'static {
    /// What is written to.
    type Key: Clone + Debug + Ord + Send;
    /// What it should say.
    type Value: Clone + Send;
    /// How often a write is tried; none: until it succeeds or is replaced.
    const ATTEMPTS: Option<u32>;

    /// What is wanted once both are.
    fn merge(older: Self::Value, newer: Self::Value) -> Self::Value;

    /// Writes it, if it differs from what is there.
    fn write(&self, key: Self::Key, value: Self::Value) -> impl Future<Output = Result<(), String>> + Send;
}

/// How much urgent work is under way.
#[derive(Clone, Debug, Default)]
pub(crate) struct Urgent(Arc<AtomicUsize>);

impl Urgent {
    pub(crate) fn set(&self, under_way: usize) {
        self.0.store(under_way, Ordering::Relaxed);
    }

    fn is_much(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= MUCH
    }

    /// How many writes that are not urgent may go on beside it.
    fn leaves_room_for(&self) -> usize {
        if self.is_much() { 1 } else { AT_A_TIME }
    }
}

/// Where to leave what is wanted.
pub(crate) struct Writer<W: Write>(Arc<Shared<W>>);

struct Shared<W: Write> {
    write: W,
    wanted: Mutex<Wanted<W>>,
    news: Notify,
    urgent: Urgent,
}

/// What is to be written.
struct Wanted<W: Write> {
    values: BTreeMap<W::Key, W::Value>,
    paused: bool,
    /// How often there was a pause: what was wanted before one is not written again after it.
    pauses: u64,
}

impl<W: Write> Clone for Writer<W> {
    fn clone(&self) -> Self {
        Writer(Arc::clone(&self.0))
    }
}

impl<W: Write> Writer<W> {
    pub(crate) fn new(write: W, urgent: &Urgent) -> Self {
        let wanted = Mutex::new(Wanted { values: BTreeMap::new(), paused: false, pauses: 0 });
        Writer(Arc::new(Shared { write, wanted, news: Notify::new(), urgent: urgent.clone() }))
    }

    /// Wants this to be written. During a pause nothing is.
    pub(crate) fn want(&self, key: W::Key, value: W::Value) {
        let mut wanted = self.wanted();
        if wanted.paused {
            return;
        }
        let value = match wanted.values.remove(&key) {
            Some(older) => W::merge(older, value),
            None => value,
        };
        wanted.values.insert(key, value);
        drop(wanted);
        self.0.news.notify_one();
    }

    /// Forgets what is wanted, and takes nothing more. What is being written comes to its end, and is not tried again.
    pub(crate) fn pause(&self) {
        let mut wanted = self.wanted();
        wanted.values.clear();
        wanted.paused = true;
        wanted.pauses += 1;
    }

    /// The pause is over.
    pub(crate) fn resume(&self) {
        self.wanted().paused = false;
    }

    fn wanted(&self) -> MutexGuard<'_, Wanted<W>> {
        self.0.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How much is wanted and not being written.
    pub(crate) fn waiting(&self) -> usize {
        self.wanted().values.len()
    }

    /// This failed, and is wanted still unless there was a pause since it was taken. What was wanted meanwhile comes after it.
    fn put_back(&self, key: W::Key, value: W::Value, pauses: u64) -> bool {
        let mut wanted = self.wanted();
        if wanted.paused || wanted.pauses != pauses {
            return false;
        }
        let value = match wanted.values.remove(&key) {
            Some(newer) => W::merge(value, newer),
            None => value,
        };
        wanted.values.insert(key, value);
        true
    }

    /// Takes something to be written now, and which pause it comes after.
    fn take(&self, busy: &BTreeSet<W::Key>) -> Option<(W::Key, W::Value, u64)> {
        let mut wanted = self.wanted();
        let key = wanted.values.keys().find(|key| !busy.contains(key))?.clone();
        let (key, value) = wanted.values.remove_entry(&key)?;
        Some((key, value, wanted.pauses))
    }

    /// Writes what is wanted, for ever.
    pub(crate) async fn run(self, mut recoveries: Recoveries) {
        let mut writing = FuturesUnordered::new();
        let mut later = Retries::new(FIRST_PAUSE, LONGEST_PAUSE);
        // What is being written or pauses; and how often each has failed.
        let (mut busy, mut failures) = (BTreeSet::new(), BTreeMap::<W::Key, u32>::new());
        let mut next_begins = Instant::now();
        loop {
            while next_begins <= Instant::now()
                && writing.len() < self.0.urgent.leaves_room_for()
                && let Some((key, value, pauses)) = self.take(&busy)
            {
                if self.0.urgent.is_much() {
                    next_begins = Instant::now() + PACE;
                }
                busy.insert(key.clone());
                let shared = Arc::clone(&self.0);
                writing.push(async move {
                    let result = shared.write.write(key.clone(), value.clone()).await;
                    (key, value, pauses, result)
                });
            }
            let (key, value, pauses, error) = tokio::select! {
                Some((key, value, pauses, result)) = writing.next(), if !writing.is_empty() => match result {
                    Ok(()) => {
                        failures.remove(&key);
                        busy.remove(&key);
                        continue;
                    }
                    Err(error) => (key, value, pauses, error),
                },
                () = later.wait() => {
                    for key in later.take_due(Instant::now()) {
                        busy.remove(&key);
                    }
                    continue;
                }
                () = tokio::time::sleep_until(next_begins), if next_begins > Instant::now() => continue,
                () = self.0.news.notified() => continue,
                () = recoveries.next() => {
                    // The API server is back: nothing need wait any longer.
                    later.hasten(Instant::now());
                    continue;
                }
            };
            let failed = failures.entry(key.clone()).or_default();
            *failed += 1;
            if W::ATTEMPTS.is_some_and(|attempts| *failed >= attempts) {
                tracing::debug!(?key, error, "giving up a write");
                failures.remove(&key);
                busy.remove(&key);
                continue;
            }
            tracing::warn!(?key, error, "cannot write yet");
            if !self.put_back(key.clone(), value, pauses) {
                failures.remove(&key);
            }
            later.failed(key, Instant::now());
        }
    }
}
