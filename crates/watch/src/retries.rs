//! When what has failed is tried again: soon at first, later if it goes on failing.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use crate::ANSWER;

/// How long an attempt may take that makes a few requests. What has not failed again by then has succeeded.
const ATTEMPT: Duration = ANSWER.saturating_mul(2);

/// What is to be tried again, and when: each thing after pauses of its own, which double from `first` to `longest`.
#[derive(Debug)]
pub struct Retries<T> {
    first: Duration,
    longest: Duration,
    queue: BTreeSet<(Instant, T)>,
    known: BTreeMap<T, Known>,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    length: Duration,
    /// When its pause ends.
    until: Instant,
    queued: bool,
}

impl Known {
    fn counts(&self, now: Instant) -> bool {
        self.queued || now < self.until + self.length.max(ATTEMPT)
    }
}

impl<T: Clone + Ord> Retries<T> {
    /// Nothing is to be tried again yet.
    pub fn new(first: Duration, longest: Duration) -> Self {
        Retries { first, longest, queue: BTreeSet::new(), known: BTreeMap::new() }
    }

    /// Something failed.
    pub fn failed(&mut self, what: T, now: Instant) {
        let length = match self.known.get(&what) {
            Some(known) if known.queued => return,
            Some(known) if known.counts(now) => (known.length * 2).min(self.longest),
            _ => self.first,
        };
        let until = now + length;
        self.queue.insert((until, what.clone()));
        self.known.insert(what, Known { length, until, queued: true });
    }

    /// When the next is due.
    pub fn next_due(&self) -> Option<Instant> {
        self.queue.first().map(|(at, _)| *at)
    }

    /// Waits until something is due. Cancel-safe.
    pub async fn wait(&self) {
        match self.next_due() {
            Some(at) => tokio::time::sleep_until(at).await,
            None => std::future::pending().await,
        }
    }

    /// Everything is due now, and what fails again is a first failure.
    pub fn hasten(&mut self, now: Instant) {
        self.known.retain(|_, known| known.queued);
        for known in self.known.values_mut() {
            (known.length, known.until) = (self.first, now);
        }
        let queue = std::mem::take(&mut self.queue);
        self.queue = queue.into_iter().map(|(_, what)| (now, what)).collect();
    }

    /// Takes what is due now.
    pub fn take_due(&mut self, now: Instant) -> Vec<T> {
        let mut due = Vec::new();
        while self.next_due().is_some_and(|at| at <= now) {
            let Some((_, what)) = self.queue.pop_first() else { break };
            if let Some(known) = self.known.get_mut(&what) {
                known.queued = false;
            }
            due.push(what);
        }
        self.known.retain(|_, known| known.counts(now));
        due
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

    use super::*;

    const FIRST: Duration = Duration::from_millis(250);

    fn retries() -> Retries<&'static str> {
        Retries::new(FIRST, Duration::from_secs(30))
    }

    #[test]
    fn pauses_double_up_to_a_limit_and_start_anew_after_success() {
        let mut retries = retries();
        let mut now = Instant::now();
        let mut pauses = Vec::new();
        for _ in 0..9 {
            retries.failed("a", now);
            let at = retries.next_due().unwrap();
            pauses.push((at - now).as_millis());
            now = at;
            assert_eq!(retries.take_due(now), ["a"]);
        }
        assert_eq!(pauses, [250, 500, 1000, 2000, 4000, 8000, 16000, 30000, 30000]);
        now += ATTEMPT;
        retries.failed("a", now);
        assert_eq!(retries.next_due().unwrap() - now, FIRST);
    }

    #[test]
    fn an_attempt_that_fails_by_its_deadline_makes_the_pause_longer_too() {
        let mut retries = retries();
        let mut now = Instant::now();
        for length in [1, 2, 4, 8] {
            retries.failed("a", now);
            assert_eq!(retries.next_due().unwrap() - now, FIRST * length);
            now = retries.next_due().unwrap();
            assert_eq!(retries.take_due(now), ["a"]);
            now += ANSWER;
        }
    }

    #[test]
    fn everything_is_due_once_the_api_server_is_back() {
        let mut retries = retries();
        let mut now = Instant::now();
        for _ in 0..6 {
            retries.failed("a", now);
            now = retries.next_due().unwrap();
            retries.take_due(now);
        }
        retries.failed("a", now);
        retries.hasten(now);
        assert_eq!(retries.take_due(now), ["a"]);
        retries.failed("a", now);
        assert_eq!(retries.next_due().unwrap() - now, FIRST * 2);
    }

    #[test]
    fn what_fails_twice_before_it_is_tried_again_is_tried_once() {
        let mut retries = retries();
        let now = Instant::now();
        retries.failed("a", now);
        retries.failed("a", now);
        retries.failed("b", now);
        assert_eq!(retries.take_due(now), [""; 0]);
        assert_eq!(retries.take_due(now + FIRST), ["a", "b"]);
        assert_eq!(retries.take_due(now + FIRST), [""; 0]);
    }
}
