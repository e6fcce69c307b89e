//! What a controller has to reconcile: each item once at a time, and with growing pauses after failures.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::time::Duration;

use tokio::time::Instant;

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Items to reconcile.
#[derive(Debug)]
pub(crate) struct WorkQueue<T> {
    ready: BTreeSet<T>,
    /// What is being reconciled, and whether it was added again meanwhile.
    running: HashMap<T, bool>,
    later: BTreeSet<(Instant, T)>,
    failures: HashMap<T, u32>,
}

impl<T: Clone + Ord + Hash> WorkQueue<T> {
    /// Adds an item. If it is being reconciled, it is reconciled again after that.
    pub(crate) fn add(&mut self, item: T) {
        match self.running.get_mut(&item) {
            Some(again) => *again = true,
            None => {
                self.ready.insert(item);
            }
        }
    }

    /// The next item. It counts as being reconciled until [`WorkQueue::done`] or [`WorkQueue::failed`] is called.
    pub(crate) fn start(&mut self) -> Option<T> {
        let item = self.ready.pop_first()?;
        self.running.insert(item.clone(), false);
        Some(item)
    }

    pub(crate) fn done(&mut self, item: T) {
        self.failures.remove(&item);
        self.finish(item);
    }

    /// It is due again after a pause.
    pub(crate) fn failed(&mut self, item: T) {
        let failures = self.failures.entry(item.clone()).or_default();
        let pause = (FIRST_PAUSE * 2u32.saturating_pow(*failures)).min(LONGEST_PAUSE);
        *failures = failures.saturating_add(1).min(16);
        self.later.insert((Instant::now() + pause, item.clone()));
        self.finish(item);
    }

    /// Waits for the first item whose pause is over. It is to be added then.
    pub(crate) async fn due(&mut self) -> T {
        match self.later.first() {
            Some((at, _)) => tokio::time::sleep_until(*at).await,
            None => std::future::pending().await,
        }
        match self.later.pop_first() {
            Some((_, item)) => item,
            None => std::future::pending().await,
        }
    }

    fn finish(&mut self, item: T) {
        if self.running.remove(&item) == Some(true) {
            self.ready.insert(item);
        }
    }
}

impl<T> Default for WorkQueue<T> {
    fn default() -> Self {
        WorkQueue {
            ready: BTreeSet::new(),
            running: HashMap::new(),
            later: BTreeSet::new(),
            failures: HashMap::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_that_changes_while_it_is_reconciled_is_reconciled_again() {
        let mut queue = WorkQueue::default();
        queue.add("a");
        assert_eq!(queue.start(), Some("a"));
        queue.add("a");
        assert_eq!(queue.start(), None, "each item is reconciled once at a time");
        queue.done("a");
        assert_eq!(queue.start(), Some("a"));
        queue.done("a");
        assert_eq!(queue.start(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_with_failures_and_end_with_success() {
        let mut queue = WorkQueue::default();
        let mut pauses = Vec::new();
        for succeed in [false, false, false, true, false] {
            queue.add("a");
            assert_eq!(queue.start(), Some("a"));
            if succeed {
                queue.done("a");
                continue;
            }
            queue.failed("a");
            let began = Instant::now();
            assert_eq!(queue.due().await, "a");
            pauses.push(began.elapsed().as_millis() / 100);
        }
        assert_eq!(pauses, [1, 2, 4, 1]);
    }
}
