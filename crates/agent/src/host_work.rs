//! Changes of the node's links and guards under way, off the reconcile loop: one that hangs holds up its own unit and nobody else.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use portolan_plan::host::{Change, LinkName};

/// How many changes are applied at a time, each on a thread of its own.
const AT_A_TIME: usize = 8;

/// A change, and why it could not be applied if it could not.
pub(crate) type Outcome = (Change, Result<(), String>);

/// Applies changes one after another, on a thread that may block. What it leaves out was not tried.
type Apply = Arc<dyn Fn(Vec<Change>) -> Vec<Outcome> + Send + Sync>;

/// Changes that are being applied, and those that wait for a thread.
pub(crate) struct HostWork {
    apply: Apply,
    waiting: VecDeque<Vec<Change>>,
    running: FuturesUnordered<BoxFuture<'static, Done>>,
}

/// Changes that were applied together.
pub(crate) struct Done {
    pub(crate) units: BTreeSet<LinkName>,
    pub(crate) outcomes: Vec<Outcome>,
}

impl HostWork {
    pub(crate) fn new(apply: impl Fn(Vec<Change>) -> Vec<Outcome> + Send + Sync + 'static) -> Self {
        Self { apply: Arc::new(apply), waiting: VecDeque::new(), running: FuturesUnordered::new() }
    }

    /// Applies these too. Those of one unit keep their order; guards that are all that their units need go together.
    pub(crate) fn begin(&mut self, changes: Vec<Change>) {
        let mut units = BTreeMap::<LinkName, Vec<Change>>::new();
        for change in changes {
            units.entry(change.unit().clone()).or_default().push(change);
        }
        let mut guards = Vec::new();
        for changes in units.into_values() {
            match &changes[..] {
                [Change::Guard(_)] => guards.extend(changes),
                _ => self.waiting.push_back(changes),
            }
        }
        if !guards.is_empty() {
            self.waiting.push_front(guards);
        }
        self.start();
    }

    fn start(&mut self) {
        while self.running.len() < AT_A_TIME
            && let Some(changes) = self.waiting.pop_front()
        {
            let apply = Arc::clone(&self.apply);
            let tried = changes.clone();
            let units = changes.iter().map(|change| change.unit().clone()).collect();
            let applied = tokio::task::spawn_blocking(move || apply(changes));
            self.running.push(Box::pin(async move {
                let outcomes = applied.await.unwrap_or_else(|error| {
                    tried.into_iter().map(|change| (change, Err(error.to_string()))).collect()
                });
                Done { units, outcomes }
            }));
        }
    }

    /// Waits for the next changes to be done. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Done {
        match self.running.next().await {
            Some(done) => {
                self.start();
                done
            }
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

    use std::sync::{Mutex, mpsc};

    use super::*;

    fn units(done: &Done) -> Vec<&LinkName> {
        done.units.iter().collect()
    }

    #[tokio::test]
    async fn a_change_that_hangs_holds_up_no_other_unit() {
        let (stuck, other) = (LinkName::new("c1", "eth0"), LinkName::new("c2", "eth0"));
        let (release, released) = mpsc::channel::<()>();
        let (name, released) = (stuck.clone(), Mutex::new(released));
        let mut work = HostWork::new(move |changes| {
            if changes[0].unit() == &name {
                let _ = released.lock().unwrap().recv();
            }
            changes.into_iter().map(|change| (change, Ok(()))).collect()
        });
        work.begin(vec![Change::RemoveLink(stuck.clone())]);
        work.begin(vec![Change::RemoveLink(other.clone()), Change::RemoveGuard(other.clone())]);
        let done = work.next().await;
        assert_eq!(units(&done), [&other]);
        assert_eq!(done.outcomes.len(), 2, "those of one unit go one after another, on one thread");
        drop(release);
        assert_eq!(units(&work.next().await), [&stuck]);
    }

    #[tokio::test]
    async fn guards_go_together_and_a_panic_is_a_failure() {
        let links = ["c1", "c2", "c3"].map(|container| LinkName::new(container, "eth0"));
        let mut work = HostWork::new(|changes| panic!("{changes:?}"));
        work.begin(links.iter().cloned().map(Change::Guard).collect());
        let done = work.next().await;
        assert_eq!(done.units, links.into_iter().collect());
        assert!(done.outcomes.iter().all(|(_, outcome)| outcome.is_err()));
    }
}
