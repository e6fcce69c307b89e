//! How long the steps of an ADD took, and which one it is at.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The steps of one call. Interfaces go through them side by side; of each step the longest counts.
#[derive(Debug)]
pub(crate) struct Steps {
    began: Instant,
    taken: Mutex<BTreeMap<&'static str, Duration>>,
    waiting_for: Mutex<Vec<String>>,
}

impl Steps {
    pub(crate) fn new() -> Self {
        Self { began: Instant::now(), taken: Mutex::default(), waiting_for: Mutex::default() }
    }

    /// Runs a step. Until it ends, the call waits for `waiting_for`.
    pub(crate) async fn step<T>(
        &self,
        name: &'static str,
        waiting_for: String,
        step: impl Future<Output = T>,
    ) -> T {
        let began = Instant::now();
        self.waiting_for.lock().unwrap_or_else(PoisonError::into_inner).push(waiting_for.clone());
        let outcome = step.await;
        self.waiting_for
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|waiting| *waiting != waiting_for);
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let longest = taken.entry(name).or_default();
        *longest = (*longest).max(began.elapsed());
        outcome
    }

    /// What the call waits for now.
    pub(crate) fn waiting_for(&self) -> Vec<String> {
        self.waiting_for.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Logs how long each step took, as the event `cni.add`.
    pub(crate) fn report(&self, sandbox: &str, pod: &str) {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let ms = |duration: Duration| duration.as_secs_f64() * 1000.0;
        let step = |name: &str| taken.get(name).copied().map(ms);
        tracing::debug!(
            name: "cni.add",
            sandbox,
            pod,
            locks_ms = step("locks"),
            link_ms = step("link"),
            configure_ms = step("configure"),
            plug_ms = step("plug"),
            installed_ms = step("installed"),
            announce_ms = step("announce"),
            total_ms = ms(self.began.elapsed()),
            "cni.add"
        );
    }
}
