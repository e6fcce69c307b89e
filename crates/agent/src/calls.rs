//! The calls in progress: those for one container take turns, and all of them are bounded.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{
    OwnedMutexGuard, OwnedRwLockReadGuard, OwnedRwLockWriteGuard, OwnedSemaphorePermit, RwLock, Semaphore,
    SemaphorePermit,
};

/// Connections at a time. Further ones wait in the socket's queue.
pub(crate) const CONNECTIONS: usize = 512;
/// ADDs in progress at a time. Further ones are refused at once, so that there are connections left for other calls: pods that wait
/// for their addresses keep no sandbox from being removed. More than a node has pods.
pub(crate) const ADDS: usize = 384;

/// How many threads make links at a time. The kernel has one lock for all links: more of them would only take processors from each other, and
/// every call would wait for all others.
const MAKING_LINKS: usize = 4;

/// The calls in progress.
#[derive(Debug)]
pub(crate) struct Calls {
    containers: Mutex<HashMap<String, Weak<Container>>>,
    connections: Arc<Semaphore>,
    adds: Semaphore,
    making_links: Arc<Semaphore>,
}

impl Default for Calls {
    fn default() -> Self {
        Self {
            containers: Mutex::default(),
            connections: Arc::new(Semaphore::new(CONNECTIONS)),
            adds: Semaphore::new(ADDS),
            making_links: Arc::new(Semaphore::new(MAKING_LINKS)),
        }
    }
}

/// What the calls for one container share.
#[derive(Debug, Default)]
struct Container {
    turn: Arc<tokio::sync::Mutex<()>>,
    /// Held by every thread that works on links: these cannot be cancelled, and may outlive their call.
    working: Arc<RwLock<()>>,
}

/// The turn of a call: no other call for its container works meanwhile.
#[derive(Debug)]
pub(crate) struct Turn {
    container: Arc<Container>,
    _turn: OwnedMutexGuard<()>,
}

/// The threads that work for a container.
#[derive(Clone, Debug)]
pub(crate) struct Threads(Arc<Container>);

/// A thread is at work.
#[derive(Debug)]
pub(crate) struct AtWork {
    _working: OwnedRwLockReadGuard<()>,
    _container: Arc<Container>,
}

/// No thread is at work, and none begins.
#[derive(Debug)]
pub(crate) struct NoneAtWork {
    _none: OwnedRwLockWriteGuard<()>,
    _container: Arc<Container>,
}

impl Calls {
    fn container(&self, id: &str) -> Arc<Container> {
        let mut containers = self.containers.lock().unwrap_or_else(PoisonError::into_inner);
        containers.retain(|_, container| container.strong_count() > 0);
        let container = containers.get(id).and_then(Weak::upgrade).unwrap_or_default();
        containers.insert(id.to_owned(), Arc::downgrade(&container));
        container
    }

    /// Waits for the calls for a container that came before.
    pub(crate) async fn turn(&self, container: &str) -> Turn {
        let container = self.container(container);
        let turn = Arc::clone(&container.turn).lock_owned().await;
        Turn { container, _turn: turn }
    }

    /// The turn, unless a call for the container is in progress.
    pub(crate) fn turn_now(&self, container: &str) -> Option<Turn> {
        let container = self.container(container);
        let turn = Arc::clone(&container.turn).try_lock_owned().ok()?;
        Some(Turn { container, _turn: turn })
    }

    /// Waits until there are few enough connections for one more.
    pub(crate) async fn connection(&self) -> OwnedSemaphorePermit {
        let permit = Arc::clone(&self.connections).acquire_owned().await;
        permit.expect("invariant: nobody closes it")
    }

    /// Waits for its turn to make links.
    pub(crate) async fn place_for_links(&self) -> OwnedSemaphorePermit {
        let place = Arc::clone(&self.making_links).acquire_owned().await;
        place.expect("invariant: nobody closes it")
    }

    /// Counts an ADD as being in progress; none if there are too many.
    pub(crate) fn add(&self) -> Option<SemaphorePermit<'_>> {
        self.adds.try_acquire().ok()
    }
}

impl Turn {
    /// The threads that work for the container.
    pub(crate) fn threads(&self) -> Threads {
        Threads(Arc::clone(&self.container))
    }
}

impl Threads {
    /// Counts a thread as being at work.
    pub(crate) async fn begin(&self) -> AtWork {
        let working = Arc::clone(&self.0.working).read_owned().await;
        AtWork { _working: working, _container: Arc::clone(&self.0) }
    }

    /// Waits until no thread is at work. While the answer is held, none begins. Those who wait are served in their order.
    pub(crate) fn ended(&self) -> impl Future<Output = NoneAtWork> + Send + use<> {
        let container = Arc::clone(&self.0);
        async move {
            let none = Arc::clone(&container.working).write_owned().await;
            NoneAtWork { _none: none, _container: container }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Whether something comes at once. The clock stands still, so nothing else comes meanwhile.
    async fn at_once<T>(body: impl Future<Output = T>) -> Option<T> {
        tokio::time::timeout(Duration::from_millis(1), body).await.ok()
    }

    #[tokio::test(start_paused = true)]
    async fn adds_that_wait_leave_connections_for_other_calls() {
        let calls = Calls::default();
        let mut connections = Vec::new();
        for _ in 0..CONNECTIONS {
            connections.push(at_once(calls.connection()).await);
        }
        assert!(connections.iter().all(Option::is_some));
        assert!(at_once(calls.connection()).await.is_none(), "one too many waits");
        connections.pop();
        assert!(at_once(calls.connection()).await.is_some());
        let adds: Vec<_> = (0..ADDS).map(|_| calls.add()).collect();
        assert!(adds.iter().all(Option::is_some));
        assert!(calls.add().is_none(), "one too many is refused");
        const { assert!(ADDS < CONNECTIONS) };
        drop(adds);
        assert!(calls.add().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn calls_for_one_container_take_turns_and_its_threads_outlive_them() {
        let calls = Calls::default();
        let turn = calls.turn("a").await;
        assert!(calls.turn_now("a").is_none() && at_once(calls.turn("a")).await.is_none());
        assert!(calls.turn_now("b").is_some());
        let at_work = turn.threads().begin().await;
        drop(turn);
        // The next call has its turn, and sees that a thread of the one before is still at work.
        let turn = calls.turn_now("a");
        let threads = turn.as_ref().map(Turn::threads);
        let threads = threads.expect("the turn is free");
        assert!(at_once(threads.ended()).await.is_none());
        drop(at_work);
        assert!(at_once(threads.ended()).await.is_some());
    }
}
