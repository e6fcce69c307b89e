//! How much the server takes at once.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How much the server takes at once.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Requests that change nothing, watches aside.
    pub reading: usize,
    /// Requests that change something.
    pub mutating: usize,
    /// How long a request may take, watches aside.
    pub request: Duration,
    /// How long a client may take to send its headers.
    pub headers: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            reading: 400,
            mutating: 200,
            request: Duration::from_secs(60),
            headers: Duration::from_secs(32),
        }
    }
}

/// The requests that are under way.
#[derive(Debug)]
pub(crate) struct InFlight {
    limits: Limits,
    reading: Arc<Semaphore>,
    mutating: Arc<Semaphore>,
}

impl InFlight {
    pub(crate) fn new(limits: Limits) -> InFlight {
        InFlight {
            limits,
            reading: Arc::new(Semaphore::new(limits.reading)),
            mutating: Arc::new(Semaphore::new(limits.mutating)),
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
}
