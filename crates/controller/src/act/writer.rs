//! Writes that are not urgent: what an object should say is kept by object, the newest replaces the older, a few are written at
//! a time, and what fails is written again after a pause. Whoever wants something written never waits.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use portolan_watch::{Recoveries, Retries};
use tokio::sync::Notify;
use tokio::time::Instant;

/// How many are written at a time.
const AT_A_TIME: usize = 8;
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

/// Where to leave what is wanted.
pub(crate) struct Writer<W: Write>(Arc<Shared<W>>);

struct Shared<W: Write> {
    write: W,
    wanted: Mutex<BTreeMap<W::Key, W::Value>>,
    news: Notify,
}

impl<W: Write> Clone for Writer<W> {
    fn clone(&self) -> Self {
        Writer(Arc::clone(&self.0))
    }
}

impl<W: Write> Writer<W> {
    pub(crate) fn new(write: W) -> Self {
        Writer(Arc::new(Shared { write, wanted: Mutex::default(), news: Notify::new() }))
    }

    /// Wants this to be written.
    pub(crate) fn want(&self, key: W::Key, value: W::Value) {
        self.put(key, |older| match older {
            Some(older) => W::merge(older, value),
            None => value,
        });
        self.0.news.notify_one();
    }

    /// How much is wanted and not being written.
    pub(crate) fn waiting(&self) -> usize {
        self.0.wanted.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    fn put(&self, key: W::Key, value: impl FnOnce(Option<W::Value>) -> W::Value) {
        let mut wanted = self.0.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        let older = wanted.remove(&key);
        wanted.insert(key, value(older));
    }

    fn take(&self, busy: &BTreeSet<W::Key>) -> Option<(W::Key, W::Value)> {
        let mut wanted = self.0.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        let key = wanted.keys().find(|key| !busy.contains(key))?.clone();
        wanted.remove_entry(&key)
    }

    /// Writes what is wanted, for ever.
    pub(crate) async fn run(self, mut recoveries: Recoveries) {
        let mut writing = FuturesUnordered::new();
        let mut later = Retries::new(FIRST_PAUSE, LONGEST_PAUSE);
        // What is being written or pauses; and how often each has failed.
        let (mut busy, mut failures) = (BTreeSet::new(), BTreeMap::<W::Key, u32>::new());
        loop {
            while writing.len() < AT_A_TIME
                && let Some((key, value)) = self.take(&busy)
            {
                busy.insert(key.clone());
                let shared = Arc::clone(&self.0);
                writing.push(async move {
                    let result = shared.write.write(key.clone(), value.clone()).await;
                    (key, value, result)
                });
            }
            let (key, value, error) = tokio::select! {
                Some((key, value, result)) = writing.next(), if !writing.is_empty() => match result {
                    Ok(()) => {
                        failures.remove(&key);
                        busy.remove(&key);
                        continue;
                    }
                    Err(error) => (key, value, error),
                },
                () = later.wait() => {
                    for key in later.take_due(Instant::now()) {
                        busy.remove(&key);
                    }
                    continue;
                }
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
            // What was wanted meanwhile comes after it.
            self.put(key.clone(), |newer| match newer {
                Some(newer) => W::merge(value, newer),
                None => value,
            });
            later.failed(key, Instant::now());
        }
    }
}
