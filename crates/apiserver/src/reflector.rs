//! Following a part of the store: one list, then every change after it, for as long as the store is open.
//!
//! ```text
//! store ─ list, watch ─▶ Reflector ─▶ Informer<C>: a cache that others read      (RBAC, webhook configurations)
//!                                 └─▶ a controller that works off a queue        (CRDs, garbage, namespaces)
//! ```
//!
//! A [`Reflector`] never gives up: after a failure it lists anew, with a growing pause between attempts. Its [`Progress`] says
//! whether it is in sync, for health checks, and up to which revision its consumer has acted. It ends only when the store is
//! closed; whoever runs it is a task of the [`Server`](crate::Server), which ends when one of its tasks does.

mod informer;
mod progress;

use std::time::Duration;

use apistore::{Entry, Event, Range, Revision, StoreError};
use bytes::Bytes;
use tokio::time::Instant;

pub use informer::{Cache, Informer, InformerTask};
pub use progress::Progress;

use crate::storage::{Storage, StorageWatch};

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// How many entries are listed at once.
const PAGE: usize = 1000;

/// What a [`Reflector`] saw in the store.
#[derive(Debug)]
pub enum Observed {
    /// A list begins. What was known before is replaced when it is complete.
    Restarted,
    /// Entries of the list.
    Listed(Vec<Entry>),
    /// The list is complete, as of this revision. Changes follow.
    Synced(Revision),
    /// What changed since, in order.
    Changed(Vec<Event>),
}

/// Lists and watches the keys with a prefix.
#[derive(Debug)]
pub struct Reflector {
    storage: Storage,
    prefix: Bytes,
    state: State,
    progress: Progress,
    /// The revision that the consumer has acted on once it asks for more.
    delivered: Option<Revision>,
    failures: u32,
    retry_at: Option<Instant>,
}

#[derive(Debug)]
enum State {
    Start,
    Listing(Range),
    Listed(Revision),
    Watching(StorageWatch),
}

impl Reflector {
    /// Follows the keys with this prefix. `progress` is kept up to date.
    pub fn new(storage: Storage, prefix: impl Into<Bytes>, progress: Progress) -> Reflector {
        let prefix = prefix.into();
        Reflector {
            storage,
            prefix,
            state: State::Start,
            progress,
            delivered: None,
            failures: 0,
            retry_at: None,
        }
    }

    /// What is seen next; absent once the store is closed. By asking, the consumer says that it has acted on all that it got
    /// before. Nothing is lost if this is dropped before it answers.
    pub async fn next(&mut self) -> Option<Observed> {
        self.acknowledge();
        loop {
            if let Some(at) = self.retry_at {
                tokio::time::sleep_until(at).await;
                self.retry_at = None;
            }
            match self.advance().await {
                Ok(observed) => return Some(observed),
                Err(StoreError::Closed) => {
                    self.progress.failed("the store is closed");
                    return None;
                }
                Err(error) => self.failed(&error),
            }
        }
    }

    /// The consumer has acted on all that it got.
    fn acknowledge(&mut self) {
        if let Some(revision) = self.delivered.take() {
            self.progress.reached(revision);
        }
    }

    async fn advance(&mut self) -> Result<Observed, StoreError> {
        match &mut self.state {
            State::Start => {
                let range = Range { prefix: self.prefix.clone(), limit: PAGE, ..Range::default() };
                self.state = State::Listing(range);
                Ok(Observed::Restarted)
            }
            State::Listing(range) => {
                let page = self.storage.list(range.clone()).await?;
                range.at = Some(page.revision);
                match page.entries.last() {
                    Some(last) if page.remaining > 0 => range.after = Some(last.key.clone()),
                    _ => self.state = State::Listed(page.revision),
                }
                Ok(Observed::Listed(page.entries))
            }
            State::Listed(revision) => {
                let revision = *revision;
                let watch = self.storage.watch(self.prefix.clone(), revision).await?;
                self.state = State::Watching(watch);
                self.failures = 0;
                self.delivered = Some(revision);
                Ok(Observed::Synced(revision))
            }
            State::Watching(watch) => {
                let events = watch.next().await?;
                self.delivered = events.last().map(|event| event.revision);
                Ok(Observed::Changed(events))
            }
        }
    }

    /// Lists anew after a pause. What was compacted before it was read is listed at once: nothing is wrong with the store.
    fn failed(&mut self, error: &StoreError) {
        let prefix = String::from_utf8_lossy(&self.prefix).into_owned();
        tracing::warn!(prefix, %error, "the store is listed anew");
        self.progress.failed(&error.to_string());
        self.state = State::Start;
        let pause = (FIRST_PAUSE * 2u32.saturating_pow(self.failures)).min(LONGEST_PAUSE);
        self.failures = self.failures.saturating_add(1).min(16);
        self.retry_at = Some(Instant::now() + pause);
    }
}
