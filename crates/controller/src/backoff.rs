//! When what has failed is tried again: soon at first, later if it goes on failing.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use crate::engine::Retry;

const FIRST: Duration = Duration::from_millis(250);
const LONGEST: Duration = Duration::from_secs(30);

/// What is to be tried again, and when.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    queue: BTreeSet<(Instant, Retry)>,
    known: BTreeMap<Retry, Pause>,
}

#[derive(Clone, Copy, Debug)]
struct Pause {
    length: Duration,
    /// When it ends. What has not failed again for as long as it paused has succeeded.
    until: Instant,
    queued: bool,
}

impl Backoff {
    /// Something failed.
    pub(crate) fn failed(&mut self, retry: Retry, now: Instant) {
        let length = match self.known.get(&retry) {
            Some(pause) if pause.queued => return,
            Some(pause) if now < pause.until + pause.length.max(Duration::from_secs(1)) => {
                (pause.length * 2).min(LONGEST)
            }
            _ => FIRST,
        };
        let until = now + length;
        self.queue.insert((until, retry.clone()));
        self.known.insert(retry, Pause { length, until, queued: true });
    }

    /// When the next is due.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.queue.first().map(|(at, _)| *at)
    }

    /// Everything is due now, and what fails again is a first failure.
    pub(crate) fn hasten(&mut self, now: Instant) {
        self.known.retain(|_, pause| pause.queued);
        for pause in self.known.values_mut() {
            (pause.length, pause.until) = (FIRST, now);
        }
        let queue = std::mem::take(&mut self.queue);
        self.queue = queue.into_iter().map(|(_, retry)| (now, retry)).collect();
    }

    /// What is due now.
    pub(crate) fn due(&mut self, now: Instant) -> Vec<Retry> {
        let mut due = Vec::new();
        while self.next().is_some_and(|at| at <= now) {
            let Some((_, retry)) = self.queue.pop_first() else { break };
            if let Some(pause) = self.known.get_mut(&retry) {
                pause.queued = false;
            }
            due.push(retry);
        }
        // What was tried again long ago has not failed since.
        self.known.retain(|_, pause| pause.queued || now < pause.until + LONGEST * 2);
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(name: &str) -> Retry {
        Retry::Lock(name.into())
    }

    #[test]
    fn pauses_double_up_to_a_limit_and_start_anew_after_success() {
        let mut backoff = Backoff::default();
        let mut now = Instant::now();
        let mut pauses = Vec::new();
        for _ in 0..9 {
            backoff.failed(lock("a"), now);
            let at = backoff.next().unwrap();
            pauses.push((at - now).as_millis());
            now = at;
            assert_eq!(backoff.due(now), [lock("a")]);
        }
        assert_eq!(pauses, [250, 500, 1000, 2000, 4000, 8000, 16000, 30000, 30000]);
        now += Duration::from_secs(61);
        backoff.failed(lock("a"), now);
        assert_eq!(backoff.next().unwrap() - now, FIRST);
    }

    #[test]
    fn everything_is_due_once_the_api_server_is_back() {
        let mut backoff = Backoff::default();
        let mut now = Instant::now();
        for _ in 0..6 {
            backoff.failed(lock("a"), now);
            now = backoff.next().unwrap();
            backoff.due(now);
        }
        backoff.failed(lock("a"), now);
        backoff.hasten(now);
        assert_eq!(backoff.due(now), [lock("a")]);
        backoff.failed(lock("a"), now);
        assert_eq!(backoff.next().unwrap() - now, FIRST * 2);
    }

    #[test]
    fn what_fails_twice_before_it_is_tried_again_is_tried_once() {
        let mut backoff = Backoff::default();
        let now = Instant::now();
        backoff.failed(lock("a"), now);
        backoff.failed(lock("a"), now);
        backoff.failed(lock("b"), now);
        assert_eq!(backoff.due(now), []);
        assert_eq!(backoff.due(now + FIRST), [lock("a"), lock("b")]);
        assert_eq!(backoff.due(now + FIRST), []);
    }
}
