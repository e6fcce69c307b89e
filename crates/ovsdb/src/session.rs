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
use std::time::Duration;

use ovsdb_core::{SmolStr, Uuid};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{sleep, timeout};

use crate::client::{Config, Shared, Status};
use crate::endpoint::Endpoint;
use crate::error::{ConnectionError, TransactError};
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
    Lock { name: SmolStr, mode: LockMode, state: watch::Sender<LockState> },
    Unlock { name: SmolStr },
    Condition { table: SmolStr, condition: Condition, done: oneshot::Sender<()> },
}

/// The session's memory across connections.
pub(crate) struct Session {
    pub(crate) shared: Arc<Shared>,
    pub(crate) config: Config,
    pub(crate) monitors: Vec<Monitor>,
    pub(crate) requests: mpsc::Receiver<Request>,
    pub(crate) controls: mpsc::UnboundedReceiver<Control>,
    pub(crate) locks: HashMap<SmolStr, (LockMode, watch::Sender<LockState>)>,
    /// Who waits for a new condition to take effect.
    pub(crate) waiting_for_sync: Vec<oneshot::Sender<()>>,
    /// The last transaction in the cache, by which a server can continue; nil if there is none.
    pub(crate) last_transaction: Uuid,
    pub(crate) progress: Progress,
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
        let mut endpoints = self.config.endpoints.clone();
        // Clients that start together should not all choose the same server.
        fastrand::shuffle(&mut endpoints);
        let mut backoff = Backoff::new(self.config.backoff);
        let mut failures = 0;
        'clients: for endpoint in endpoints.iter().cycle() {
            let was_ready = match self.connect(endpoint).await {
                Err(End::Dropped) => break,
                Err(End::Lost(error)) => self.lost(endpoint, error),
            };
            if was_ready {
                backoff.reset();
                failures = 0;
                continue;
            }
            failures += 1;
            // Each server is tried once before the next round waits.
            if failures % endpoints.len() == 0 && self.offline(sleep(backoff.next())).await.is_none() {
                break 'clients;
            }
        }
        self.shared.close();
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
                Some(control) = self.controls.recv() => drop(self.remember(control)),
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
            Control::Lock { name, mode, state } => {
                self.locks.insert(name.clone(), (mode, state));
                Some(Told::Lock(name, mode))
            }
            Control::Unlock { name } => self.locks.remove(&name).map(|_| Told::Unlock(name)),
            Control::Condition { table, condition, done } => {
                let Some(monitor) = self.monitors.iter_mut().find(|m| m.table == table) else {
                    // Dropping `done` tells the caller.
                    return None;
                };
                monitor.condition = condition;
                // Until the server has confirmed the condition, "the changes since" would be those under another one.
                self.last_transaction = Uuid::nil();
                self.waiting_for_sync.push(done);
                Some(Told::Condition(table))
            }
        }
    }

    /// Reports that a connection ended; whether it had been ready.
    fn lost(&self, endpoint: &Endpoint, error: ConnectionError) -> bool {
        let was_ready = matches!(*self.shared.status.borrow(), Status::Ready { .. });
        let (database, chain) = (&self.shared.database, Chain(&error));
        match error {
            ConnectionError::NotLeader => tracing::debug!(%database, %endpoint, "{chain}"),
            _ if was_ready => tracing::warn!(%database, %endpoint, "lost the database: {chain}"),
            _ => tracing::info!(%database, %endpoint, "no database: {chain}"),
        }
        for (_, state) in self.locks.values() {
            state.send_if_modified(|state| {
                std::mem::replace(
                    state,
                    if *state == LockState::Stolen { *state } else { LockState::Waiting },
                ) == LockState::Held
            });
        }
        let error = Some(Arc::new(error));
        self.shared.status.send_replace(Status::Connecting { endpoint: Some(endpoint.clone()), error });
        was_ready
    }
}

/// What a connected server has to be told of a [`Control`].
pub(crate) enum Told {
    Lock(SmolStr, LockMode),
    Unlock(SmolStr),
    Condition(SmolStr),
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
