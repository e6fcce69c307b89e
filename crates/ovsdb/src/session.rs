//! The task behind a client: connects, keeps the cache in step, and carries requests.
//!
//! ```text
//!  offline ──connect──▶ greeting ──schema, _Server──▶ syncing ──monitor reply──▶ ready
//!     ▲                     │                            │                         │
//!     └──── backoff ◀───────┴────── any error ◀──────────┴─────────────────────────┘
//! ```
//!
//! Only a ready session takes transactions; at all other times they are refused at once, so that nothing that was
//! computed from an old cache is sent later.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ovsdb_core::{SmolStr, Uuid};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep, timeout};

use crate::client::{Config, Shared, Status};
use crate::endpoint::Endpoint;
use crate::error::{ConditionError, ConnectionError, TransactError};
use crate::link::Link;
use crate::lock::{LockMode, LockState};
use crate::monitor::{Condition, Monitor};
use crate::server::Progress;

/// A `transact` request on its way.
pub(crate) struct Request {
    /// The request's parameters.
    pub(crate) params: Vec<u8>,
    /// Where the answer goes.
    pub(crate) reply: oneshot::Sender<Result<Answer, TransactError>>,
    /// The connection on which the cache was in step when the request was made. On another one it would be stale.
    pub(crate) connection: u64,
}

/// The answer to a `transact` request.
pub(crate) struct Answer {
    /// The result, as JSON.
    pub(crate) result: Vec<u8>,
    /// The cache's revision when the answer came. The server sends a transaction's changes before its answer.
    pub(crate) revision: u64,
}

/// What a client asks of its session besides transactions. These are remembered while there is no connection.
#[derive(Debug)]
pub(crate) enum Control {
    Lock { name: SmolStr, wanted: WantedLock },
    Unlock { name: SmolStr, token: u64 },
    Condition { table: SmolStr, condition: Condition, done: ConditionDone },
}

/// Who waits for a condition to take effect.
pub(crate) type ConditionDone = oneshot::Sender<Result<(), ConditionError>>;

/// A lock that a client wants.
#[derive(Debug)]
pub(crate) struct WantedLock {
    /// Tells the handles of one lock apart.
    pub(crate) token: u64,
    pub(crate) mode: LockMode,
    pub(crate) state: watch::Sender<LockState>,
}

/// The session's memory across connections.
pub(crate) struct Session {
    pub(crate) shared: Arc<Shared>,
    pub(crate) config: Config,
    pub(crate) monitors: Vec<Monitor>,
    pub(crate) requests: mpsc::Receiver<Request>,
    pub(crate) controls: mpsc::UnboundedReceiver<Control>,
    pub(crate) locks: HashMap<SmolStr, WantedLock>,
    /// Who waits for a new condition that the next connection begins with.
    pub(crate) waiting_for_sync: Vec<ConditionDone>,
    /// Since when the present connection is in step.
    pub(crate) ready_since: Option<Instant>,
    /// The last transaction in the cache, by which a server can continue; nil if there is none.
    pub(crate) last_transaction: Uuid,
    pub(crate) progress: Progress,
}

/// The servers in the order in which they are tried.
struct Turns {
    order: Vec<Endpoint>,
    next: usize,
    tried: usize,
}

impl Turns {
    fn new(mut order: Vec<Endpoint>) -> Self {
        // Clients that start together should not all choose the same server.
        fastrand::shuffle(&mut order);
        Self { order, next: 0, tried: 0 }
    }

    fn next(&mut self) -> Option<Endpoint> {
        let endpoint = self.order.get(self.next)?.clone();
        self.next = (self.next + 1) % self.order.len();
        self.tried += 1;
        Some(endpoint)
    }

    fn begin_round(&mut self) {
        self.tried = 0;
    }

    fn is_round_over(&self) -> bool {
        self.tried.is_multiple_of(self.order.len().max(1))
    }
}

/// Why the session stops working with a server.
pub(crate) enum End {
    /// All clients are gone.
    Dropped,
    /// Something happened to the connection.
    Lost(ConnectionError),
}

impl<E: Into<ConnectionError>> From<E> for End {
    fn from(error: E) -> Self {
        End::Lost(error.into())
    }
}

impl Session {
    pub(crate) async fn run(mut self) {
        let _close = CloseOnDrop(self.shared.clone());
        let mut told = self.config.endpoints.clone();
        let mut turns = Turns::new(told.take());
        let mut backoff = Backoff::new(self.config.backoff);
        loop {
            if told.have_changed() {
                turns = Turns::new(told.take());
            }
            let Some(endpoint) = turns.next() else {
                if self.offline(told.changed()).await.is_none() {
                    return;
                }
                turns = Turns::new(told.take());
                continue;
            };
            match self.connect(&endpoint).await {
                Err(End::Dropped) => return,
                Err(End::Lost(error)) => self.lost(&endpoint, error),
            }
            // A server that is in step only to die at once is no better than one that is not there.
            if self.ready_since.take().is_some_and(|since| since.elapsed() > backoff.next) {
                backoff.reset();
                turns.begin_round();
                continue;
            }
            // Each server is tried once before the next round waits; others may be told of meanwhile.
            if turns.is_round_over() {
                let pause = sleep(backoff.next());
                let other = told.clone();
                let waited = self.offline(async move {
                    let mut other = other;
                    tokio::select! {
                        () = pause => {}
                        () = other.changed() => {}
                    }
                });
                if waited.await.is_none() {
                    return;
                }
            }
        }
    }

    async fn connect(&mut self, endpoint: &Endpoint) -> Result<std::convert::Infallible, End> {
        let patience = self.config.connect_timeout;
        let connecting = self.config.connector.connect(endpoint);
        let stream = match self.offline(timeout(patience, connecting)).await {
            None => return Err(End::Dropped),
            Some(Err(_)) => return Err(ConnectionError::ConnectTimeout(patience).into()),
            Some(Ok(stream)) => stream?,
        };
        Link::new(stream, self).run(self, endpoint).await
    }

    /// Waits for something while there is no connection; none when all clients are gone.
    async fn offline<T>(&mut self, future: impl Future<Output = T>) -> Option<T> {
        let mut future = std::pin::pin!(future);
        loop {
            tokio::select! {
                value = &mut future => return Some(value),
                request = self.requests.recv() => self.refuse(request?),
                Some(control) = self.controls.recv() => {
                    if let Some(Told::Condition(new)) = self.remember(control) {
                        self.waiting_for_sync.push(new.done);
                    }
                }
            }
        }
    }

    pub(crate) fn refuse(&self, request: Request) {
        let error = TransactError::NotConnected(self.shared.database.clone());
        // The caller may have given up.
        drop(request.reply.send(Err(error)));
    }

    /// Notes what a client wants, for this connection or the next, and returns what has to be told to the server.
    pub(crate) fn remember(&mut self, control: Control) -> Option<Told> {
        match control {
            Control::Lock { name, wanted } => {
                let (token, mode) = (wanted.token, wanted.mode);
                // A server takes no second request for a lock before the first is taken back.
                let again = self.locks.insert(name.clone(), wanted).is_some();
                Some(Told::Lock { name, token, mode, again })
            }
            Control::Unlock { name, token } => {
                // An older handle must not undo what a newer one asked for.
                let own = self.locks.get(&name).is_some_and(|lock| lock.token == token);
                own.then(|| self.locks.remove(&name)).map(|_| Told::Unlock(name))
            }
            Control::Condition { table, condition, done } => {
                let Some(monitor) = self.monitors.iter_mut().find(|m| m.table == table) else {
                    let _ = done.send(Err(ConditionError::NotMonitored(table)));
                    return None;
                };
                let before = std::mem::replace(&mut monitor.condition, condition);
                // Until the server has confirmed the condition, "the changes since" would be those under another one.
                self.last_transaction = Uuid::nil();
                Some(Told::Condition(NewCondition { table, before, done }))
            }
        }
    }

    /// Reports that a connection ended.
    fn lost(&self, endpoint: &Endpoint, error: ConnectionError) {
        let was_ready = self.ready_since.is_some();
        let (database, chain) = (&self.shared.database, Chain(&error));
        match error {
            ConnectionError::NotLeader => tracing::debug!(%database, %endpoint, "{chain}"),
            _ if was_ready => tracing::warn!(%database, %endpoint, "lost the database: {chain}"),
            _ => tracing::info!(%database, %endpoint, "no database: {chain}"),
        }
        for lock in self.locks.values() {
            lock.state
                .send_if_modified(|state| std::mem::replace(state, LockState::Waiting) != LockState::Waiting);
        }
        let error = Some(Arc::new(error));
        self.shared.status.send_replace(Status::Connecting { endpoint: Some(endpoint.clone()), error });
        // After the status: who then sees the new number and a status of readiness sees those of the next connection.
        self.shared.connection.fetch_add(1, Ordering::SeqCst);
    }
}

/// What a connected server has to be told of a [`Control`].
pub(crate) enum Told {
    Lock { name: SmolStr, token: u64, mode: LockMode, again: bool },
    Unlock(SmolStr),
    Condition(NewCondition),
}

/// A condition that a server has not confirmed.
pub(crate) struct NewCondition {
    pub(crate) table: SmolStr,
    /// The condition that stays in effect if the server refuses.
    pub(crate) before: Condition,
    pub(crate) done: ConditionDone,
}

/// Tells everybody when the session ends, in whatever way.
struct CloseOnDrop(Arc<Shared>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Growing pauses with jitter.
struct Backoff {
    range: (Duration, Duration),
    next: Duration,
}

impl Backoff {
    fn new(range: (Duration, Duration)) -> Self {
        Backoff { range, next: range.0 }
    }

    fn reset(&mut self) {
        self.next = self.range.0;
    }

    /// Between half and one and a half times the pause, which doubles up to the maximum.
    fn next(&mut self) -> Duration {
        let pause = self.next.mul_f64(0.5 + fastrand::f64());
        self.next = (self.next * 2).min(self.range.1);
        pause
    }
}

/// An error with its causes on one line.
pub(crate) struct Chain<'a>(pub(crate) &'a dyn std::error::Error);

impl std::fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}
