//! Changes of the node's links and guards under way, off the reconcile loop: one that hangs holds up its own unit and nobody else.
//!
//! A thread that is in a call of the kernel cannot be ended. One that is late gives its place to another, and is waited for beside.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use portolan_plan::host::{Change, LinkName};
use tokio::task::JoinHandle;

/// How many changes are applied at a time, each on a thread of its own.
const AT_A_TIME: usize = 8;
/// How long changes keep their place. The kernel and nft have deadlines of their own, which most of what hangs ends by.
const LATE: Duration = Duration::from_secs(2);
/// How many may be late before no others are begun: each has a thread, and the process must not run out of them.
const MOST_LATE: usize = 256;

/// A change, and why it could not be applied if it could not.
pub(crate) type Outcome = (Change, Result<(), String>);

/// Applies changes of one unit one after another, on a thread that may block. What it leaves out was not tried.
type Apply = Arc<dyn Fn(Vec<Change>) -> Vec<Outcome> + Send + Sync>;

/// Changes that are being applied, and those that wait for a thread.
pub(crate) struct HostWork {
    apply: Apply,
    waiting: VecDeque<Vec<Change>>,
    running: FuturesUnordered<BoxFuture<'static, Result<Done, Running>>>,
    late: FuturesUnordered<BoxFuture<'static, Done>>,
}

/// Changes of a unit that are being applied.
struct Running {
    tried: Vec<Change>,
    applied: JoinHandle<Vec<Outcome>>,
}

/// Changes of a unit that were applied.
pub(crate) struct Done {
    pub(crate) units: BTreeSet<LinkName>,
    pub(crate) outcomes: Vec<Outcome>,
}

impl HostWork {
    pub(crate) fn new(apply: impl Fn(Vec<Change>) -> Vec<Outcome> + Send + Sync + 'static) -> Self {
        Self {
            apply: Arc::new(apply),
            waiting: VecDeque::new(),
            running: FuturesUnordered::new(),
            late: FuturesUnordered::new(),
        }
    }

    /// Applies these too. Those of one unit keep their order.
    pub(crate) fn begin(&mut self, changes: Vec<Change>) {
        let mut units = BTreeMap::<LinkName, Vec<Change>>::new();
        for change in changes {
            units.entry(change.unit().clone()).or_default().push(change);
        }
        self.waiting.extend(units.into_values());
        self.start();
    }

    fn start(&mut self) {
        while self.running.len() < AT_A_TIME
            && self.late.len() < MOST_LATE
            && let Some(changes) = self.waiting.pop_front()
        {
            let apply = Arc::clone(&self.apply);
            let tried = changes.clone();
            let applied = tokio::task::spawn_blocking(move || apply(changes));
            self.running.push(Box::pin(Running { tried, applied }.in_time()));
        }
    }

    /// Waits for the next changes to be done. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Done {
        loop {
            let done = tokio::select! {
                Some(done) = self.running.next(), if !self.running.is_empty() => done,
                Some(done) = self.late.next(), if !self.late.is_empty() => Ok(done),
                else => return std::future::pending().await,
            };
            let done = match done {
                Ok(done) => done,
                Err(late) => {
                    tracing::warn!(changes = ?late.tried, "changes of links are not done after {LATE:?}; others go on");
                    self.late.push(Box::pin(late.done()));
                    self.start();
                    continue;
                }
            };
            self.start();
            return done;
        }
    }
}

impl Running {
    /// What was done, unless it takes long.
    async fn in_time(mut self) -> Result<Done, Self> {
        match tokio::time::timeout(LATE, &mut self.applied).await {
            Ok(applied) => Ok(Done::of(&self.tried, applied)),
            Err(_) => Err(self),
        }
    }

    async fn done(self) -> Done {
        let applied = self.applied.await;
        Done::of(&self.tried, applied)
    }
}

impl Done {
    fn of(tried: &[Change], applied: Result<Vec<Outcome>, tokio::task::JoinError>) -> Self {
        let units = tried.iter().map(|change| change.unit().clone()).collect();
        let outcomes = applied.unwrap_or_else(|error| {
            tried.iter().map(|change| (change.clone(), Err(error.to_string()))).collect()
        });
        Self { units, outcomes }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

    use std::sync::{Mutex, mpsc};

    use portolan_plan::host::Admits;

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

    /// Each of them has a thread that hangs, and there are more of them than are applied at a time.
    #[tokio::test(start_paused = true)]
    async fn many_changes_that_hang_hold_up_no_other_unit() {
        let (release, released) = mpsc::channel::<()>();
        let released = Mutex::new(released);
        let mut work = HostWork::new(move |changes| {
            if matches!(changes[0], Change::SetUp(_)) {
                let _ = released.lock().unwrap().recv();
            }
            changes.into_iter().map(|change| (change, Ok(()))).collect()
        });
        let stuck = (0..3 * AT_A_TIME).map(|number| LinkName::new(&format!("stuck{number}"), "eth0"));
        let stuck: BTreeSet<_> = stuck.collect();
        work.begin(stuck.iter().cloned().map(Change::SetUp).collect());
        let other = LinkName::new("other", "eth0");
        work.begin(vec![Change::RemoveLink(other.clone())]);
        let done = {
            let mut next = std::pin::pin!(work.next());
            loop {
                // Threads at work keep the clock of a test from going on by itself.
                tokio::select! {
                    biased;
                    done = &mut next => break done,
                    () = tokio::task::yield_now() => tokio::time::advance(LATE / 4).await,
                }
            }
        };
        assert_eq!(units(&done), [&other]);
        drop(release);
        let mut others = BTreeSet::new();
        while others.len() < stuck.len() {
            others.extend(work.next().await.units);
        }
        assert_eq!(others, stuck, "they are waited for");
    }

    #[tokio::test]
    async fn a_panic_is_a_failure() {
        let links = ["c1", "c2", "c3"].map(|container| LinkName::new(container, "eth0"));
        let mut work = HostWork::new(|changes| panic!("{changes:?}"));
        work.begin(links.iter().map(|link| Change::Guard(link.clone(), Admits::Nothing)).collect());
        let mut failed = BTreeSet::new();
        for _ in &links {
            let done = work.next().await;
            assert!(done.outcomes.iter().all(|(_, outcome)| outcome.is_err()));
            failed.extend(done.units);
        }
        assert_eq!(failed, links.into_iter().collect());
    }
}
