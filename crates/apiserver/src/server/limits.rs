//! How much the server accepts at once, and for how long it waits for a client.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

/// How much the server accepts at once, and for how long it waits for a client.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Open connections. Further ones are closed as soon as they are accepted.
    pub connections: usize,
    /// Requests under way that change nothing. A watch counts until its response begins.
    pub reading: usize,
    /// Requests under way that change something.
    pub mutating: usize,
    /// Watches under way.
    pub watches: usize,
    /// Pages of initial events that watches read at once. The others wait for their turn; a client that does not read its
    /// events has no turn.
    pub initial_pages: usize,
    /// How long a request may take until its response begins.
    pub request: Duration,
    /// How long a client may take for its TLS handshake.
    pub handshake: Duration,
    /// How long a connection may be open without a first request, and how long a client may take to send a request's headers.
    pub headers: Duration,
    /// How long a connection may stay open without a request under way.
    pub idle: Duration,
    /// How long a client may leave a part of a response (at most 64 KiB as a rule) unread before its connection is closed.
    pub write: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: 10_000,
            reading: 400,
            mutating: 200,
            watches: 20_000,
            initial_pages: 16,
            request: Duration::from_secs(60),
            handshake: Duration::from_secs(10),
            headers: Duration::from_secs(32),
            idle: Duration::from_secs(180),
            write: Duration::from_secs(60),
        }
    }
}

/// What is under way.
#[derive(Debug)]
pub(crate) struct InFlight {
    limits: Limits,
    reading: Arc<Semaphore>,
    mutating: Arc<Semaphore>,
    watches: Arc<Semaphore>,
    initial_pages: Semaphore,
}

impl InFlight {
    pub(crate) fn new(limits: Limits) -> InFlight {
        let semaphore = |permits: usize| Semaphore::new(permits.min(Semaphore::MAX_PERMITS));
        InFlight {
            limits,
            reading: Arc::new(semaphore(limits.reading)),
            mutating: Arc::new(semaphore(limits.mutating)),
            watches: Arc::new(semaphore(limits.watches)),
            initial_pages: semaphore(limits.initial_pages),
        }
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// A place for a request; absent if there is none.
    pub(crate) fn enter(&self, mutating: bool) -> Option<OwnedSemaphorePermit> {
        let places = if mutating { &self.mutating } else { &self.reading };
        places.clone().try_acquire_owned().ok()
    }

    /// A place for a watch; absent if there is none.
    pub(crate) fn enter_watch(&self) -> Option<OwnedSemaphorePermit> {
        self.watches.clone().try_acquire_owned().ok()
    }

    /// Waits for the turn to read a page of initial events.
    pub(crate) async fn initial_page(&self) -> SemaphorePermit<'_> {
        self.initial_pages.acquire().await.expect("the semaphore is never closed")
    }
}
