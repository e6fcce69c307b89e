//! The handle by which a program uses a database.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use ovsdb_core::message::transact_params;
use ovsdb_core::{Cache, DatabaseSchema, Layout, SmolStr, Transaction, Uuid};
use tokio::sync::{mpsc, oneshot, watch};

use crate::changes::{Changes, Publisher};
use crate::connection::Traffic;
use crate::endpoint::{Endpoint, Endpoints};
use crate::error::{ConditionError, ConnectionError, TransactError};
use crate::lock::{Lock, LockMode, LockState};
use crate::monitor::{Condition, Monitor};
use crate::reply::{self, Reply};
use crate::server::{Members, Progress};
use crate::session::{Control, Request, Session, WantedLock};
use crate::tls::TlsFiles;
use crate::transport::{Connector, Sockets};

/// A connection to one database that repairs itself, with a copy of the monitored tables.
///
/// Clones share the connection; it ends with the last of them.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
    requests: mpsc::Sender<Request>,
    controls: mpsc::UnboundedSender<Control>,
}

/// Whether the cache is in step with a server.
#[derive(Clone, Debug)]
pub enum Status {
    /// Not now.
    Connecting {
        /// The server that was tried last.
        endpoint: Option<Endpoint>,
        /// Why that failed.
        error: Option<Arc<ConnectionError>>,
    },
    /// Yes: the cache follows this server, and transactions are taken.
    Ready {
        /// The server.
        endpoint: Endpoint,
    },
    /// The session has ended: all clients are gone, the runtime is shutting down, or a bug ended it.
    Closed,
}

/// Bytes moved over all of a client's connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrafficCount {
    /// From the server.
    pub read: u64,
    /// To the server.
    pub written: u64,
}

/// How to connect; see [`Client::builder`].
pub struct Builder {
    database: SmolStr,
    monitors: Vec<Monitor>,
    tls: Option<TlsFiles>,
    connector: Option<Arc<dyn Connector>>,
    config: Config,
}

pub(crate) struct Config {
    pub(crate) endpoints: Endpoints,
    pub(crate) connector: Arc<dyn Connector>,
    pub(crate) members: Members,
    pub(crate) probe_interval: Option<Duration>,
    pub(crate) connect_timeout: Duration,
    pub(crate) backoff: (Duration, Duration),
    pub(crate) max_message: usize,
}

pub(crate) struct Shared {
    pub(crate) database: SmolStr,
    cache: RwLock<Cache>,
    pub(crate) publisher: Publisher,
    pub(crate) schema: RwLock<Option<Arc<DatabaseSchema>>>,
    pub(crate) traffic: Arc<Traffic>,
    pub(crate) status: watch::Sender<Status>,
    /// The number of the present connection, or of the next one while there is none.
    pub(crate) connection: AtomicU64,
    /// What the next lock's handle is called.
    next_token: AtomicU64,
    pub(crate) revision: watch::Sender<u64>,
}

impl Client {
    /// Describes a client of `database` that tries the endpoints in turn. Where a channel tells of them, a connection that is there stays,
    /// and the next attempt goes by what was told last.
    pub fn builder(database: impl Into<SmolStr>, endpoints: impl Into<Endpoints>) -> Builder {
        Builder {
            database: database.into(),
            monitors: Vec::new(),
            tls: None,
            connector: None,
            config: Config {
                endpoints: endpoints.into(),
                connector: Arc::new(Sockets::default()),
                members: Members::Any,
                probe_interval: Some(Duration::from_secs(5)),
                connect_timeout: Duration::from_secs(5),
                // A refused attempt costs next to nothing, and whoever waits for the database waits for the pause too.
                backoff: (Duration::from_millis(50), Duration::from_secs(1)),
                max_message: 1 << 30,
            },
        }
    }

    /// Waits until the cache is in step with a server; `false` if it never will be, because the session has ended.
    pub async fn ready(&self) -> bool {
        let settled = |status: &Status| !matches!(status, Status::Connecting { .. });
        let mut status = self.shared.status.subscribe();
        status.wait_for(settled).await.is_ok_and(|status| matches!(*status, Status::Ready { .. }))
    }

    /// Whether the cache is in step, now and later.
    pub fn status(&self) -> watch::Receiver<Status> {
        self.shared.status.subscribe()
    }

    /// The cache, consistent for as long as it is held. The connection waits meanwhile: hold it briefly, not over an
    /// `await`, and do not call this or [`Client::changes`] while holding it, or the thread may wait for itself.
    pub fn read(&self) -> RwLockReadGuard<'_, Cache> {
        self.shared.read()
    }

    /// The changes of the cache, beginning with what there is.
    pub fn changes(&self) -> Changes {
        let cache = self.shared.read();
        // While the cache is held nothing is published, so nothing is missed or seen twice.
        self.shared.publisher.subscribe(cache.snapshot())
    }

    /// Waits until `look` finds what it wants in the cache. It is called with the cache as it is, and after every change.
    pub async fn wait_for<T>(&self, mut look: impl FnMut(&Cache) -> Option<T>) -> T {
        let mut revision = self.shared.revision.subscribe();
        loop {
            revision.borrow_and_update();
            if let Some(found) = look(&self.read()) {
                return found;
            }
            revision.changed().await.expect("invariant: this client keeps the sender alive");
        }
    }

    /// Waits until the cache has come to `revision`, which a [`Reply`] tells.
    pub async fn reached(&self, revision: u64) {
        let reached = |now: &u64| *now >= revision;
        self.shared
            .revision
            .subscribe()
            .wait_for(reached)
            .await
            .expect("invariant: this client keeps the sender alive");
    }

    /// Runs a transaction. Any number of them may be under way at once; the server takes them in the order in which
    /// they were given.
    ///
    /// When this returns, the cache has the transaction's changes. Dropping the future before does not take the
    /// transaction back. A transaction is sent on the connection on which it was asked for or not at all; whoever computes it
    /// from the cache should do so when the client is [ready](Client::ready).
    pub async fn transact(&self, transaction: &Transaction) -> Result<Reply, TransactError> {
        let database = &self.shared.database;
        let not_connected = || TransactError::NotConnected(database.clone());
        let connection = self.shared.connection.load(Ordering::SeqCst);
        if !matches!(*self.shared.status.borrow(), Status::Ready { .. }) {
            return Err(not_connected());
        }
        let schema = self.schema().ok_or_else(not_connected)?;
        reply::check(transaction.operations(), &schema)?;
        let params = transact_params(database, transaction.operations());
        let (sender, receiver) = oneshot::channel();
        self.requests
            .send(Request { params, reply: sender, connection })
            .await
            .map_err(|_| not_connected())?;
        let answer =
            receiver.await.unwrap_or_else(|_| Err(TransactError::OutcomeUnknown(database.clone())))?;
        reply::parse(&answer.result, transaction, &schema, answer.revision)
    }

    /// Changes which rows of a monitored table are kept. Returns once the cache is in step with that. While there is no
    /// connection, that is once there is one.
    pub async fn set_condition(
        &self,
        table: impl Into<SmolStr>,
        condition: Condition,
    ) -> Result<(), ConditionError> {
        let table = table.into();
        let schema = self.schema();
        let missing =
            schema.as_ref().and_then(|s| s.tables.get(&table)).and_then(|t| condition.missing_column(t));
        if let Some(column) = missing {
            return Err(ConditionError::NoColumn { table, column: column.clone() });
        }
        let (done, waiting) = oneshot::channel();
        let control = Control::Condition { table, condition, done };
        self.controls.send(control).map_err(|_| ConditionError::Closed)?;
        waiting.await.unwrap_or(Err(ConditionError::Closed))
    }

    /// Queues for the lock `name`, now and after every reconnect, until the [`Lock`] is dropped.
    pub fn lock(&self, name: impl Into<SmolStr>) -> Lock {
        self.want_lock(name.into(), LockMode::Queue)
    }

    /// Takes the lock `name` away from whoever has it.
    pub fn steal(&self, name: impl Into<SmolStr>) -> Lock {
        self.want_lock(name.into(), LockMode::Steal)
    }

    fn want_lock(&self, name: SmolStr, mode: LockMode) -> Lock {
        let (sender, state) = watch::channel(LockState::Waiting);
        let token = self.shared.next_token.fetch_add(1, Ordering::Relaxed);
        let wanted = WantedLock { token, mode, state: sender };
        // If the session has ended, the handle says so.
        drop(self.controls.send(Control::Lock { name: name.clone(), wanted }));
        Lock { name, token, state, controls: self.controls.clone() }
    }

    /// The schema of the server that was connected last.
    pub fn schema(&self) -> Option<Arc<DatabaseSchema>> {
        self.shared.schema.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Bytes moved so far.
    pub fn traffic(&self) -> TrafficCount {
        let count =
            |counter: &std::sync::atomic::AtomicU64| counter.load(std::sync::atomic::Ordering::Relaxed);
        TrafficCount { read: count(&self.shared.traffic.read), written: count(&self.shared.traffic.written) }
    }
}

impl Builder {
    /// Keeps a copy of a table.
    pub fn monitor(mut self, monitor: Monitor) -> Self {
        self.monitors.push(monitor);
        self
    }

    /// The certificates for `ssl:` endpoints.
    pub fn tls(mut self, files: TlsFiles) -> Self {
        self.tls = Some(files);
        self
    }

    /// Which members of a cluster will do.
    pub fn members(mut self, members: Members) -> Self {
        self.config.members = members;
        self
    }

    /// After how much silence the server is asked whether it is alive; it has as long again to answer. `None` never asks.
    pub fn probe_interval(mut self, interval: Option<Duration>) -> Self {
        self.config.probe_interval = interval;
        self
    }

    /// How long a connection attempt may take.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.config.connect_timeout = timeout;
        self
    }

    /// The first and the longest pause between rounds of attempts.
    pub fn backoff(mut self, first: Duration, longest: Duration) -> Self {
        self.config.backoff = (first, longest);
        self
    }

    /// The size in bytes of the largest message that is accepted; the first dump of a database is one message.
    pub fn max_message(mut self, bytes: usize) -> Self {
        self.config.max_message = bytes;
        self
    }

    /// Opens streams in another way.
    pub fn connector(mut self, connector: impl Connector) -> Self {
        self.connector = Some(Arc::new(connector));
        self
    }

    /// Starts connecting in the background, on the current tokio runtime.
    ///
    /// # Panics
    /// Outside of a runtime, where there will never be an endpoint, and when a table is monitored twice.
    pub fn connect(self) -> Client {
        let Builder { database, monitors, tls, connector, mut config } = self;
        assert!(!config.endpoints.is_none(), "a client of {database} needs an endpoint");
        for (at, monitor) in monitors.iter().enumerate() {
            let twice = monitors[..at].iter().any(|other| other.table == monitor.table);
            assert!(!twice, "table {} is monitored twice; ask for all columns at once", monitor.table);
        }
        config.connector = connector.unwrap_or_else(|| Arc::new(Sockets { tls }));
        let (requests, request_receiver) = mpsc::channel(64);
        let (controls, control_receiver) = mpsc::unbounded_channel();
        let empty = monitors.iter().map(|m| (Layout::absent(&m.table), m.indexes.clone()));
        let shared = Arc::new(Shared {
            database,
            cache: RwLock::new(Cache::new(empty)),
            publisher: Publisher::default(),
            schema: RwLock::default(),
            traffic: Arc::default(),
            status: watch::Sender::new(Status::Connecting { endpoint: None, error: None }),
            connection: AtomicU64::new(0),
            next_token: AtomicU64::new(0),
            revision: watch::Sender::new(0),
        });
        let session = Session {
            shared: shared.clone(),
            config,
            monitors,
            requests: request_receiver,
            controls: control_receiver,
            locks: Default::default(),
            waiting_for_sync: Vec::new(),
            ready_since: None,
            last_transaction: Uuid::nil(),
            progress: Progress::default(),
        };
        tokio::spawn(session.run());
        Client { shared, requests, controls }
    }
}

impl Shared {
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Cache> {
        // A reader that panicked did no harm. A writer that did (in an index function) has ended the session with it.
        self.cache.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, Cache> {
        self.cache.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn close(&self) {
        self.status.send_replace(Status::Closed);
        self.publisher.close();
    }
}
