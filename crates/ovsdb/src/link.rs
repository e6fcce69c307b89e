//! What a session does with one connection.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use ovsdb_core::decode::{
    SinceReply, UpdateFormat, Updates, since_reply, table_updates, update_notification,
};
use ovsdb_core::frame::Frame;
use ovsdb_core::message::{Message, MessageError};
use ovsdb_core::{Cache, DatabaseSchema, Layout, SmolStr, Uuid};
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::client::Status;
use crate::connection::Connection;
use crate::endpoint::Endpoint;
use crate::error::{ConditionError, ConnectionError, TransactError};
use crate::lock::{LockMode, LockState};
use crate::monitor::Conditional;
use crate::server::{SERVER, ServerDatabases};
use crate::session::{Answer, Control, End, NewCondition, Request, Session, Told};
use crate::transport::Stream;

/// The name of our monitor of the database.
const DATA: &str = "data";
/// How many transactions may wait for their answers, and how many bytes for being written, before more are taken.
const MAX_IN_FLIGHT: usize = 1024;
const MAX_BACKLOG: usize = 1024 * 1024;
/// A server that prepares a large dump answers no probes meanwhile.
const SYNC_PATIENCE: Duration = Duration::from_secs(60);

/// The ways to monitor a database, best first. Old servers know the later ones only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    Since,
    Conditional,
    Plain,
}

/// How far the connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Greeting,
    Syncing(Method),
    Ready(Method),
}

/// What a request of ours was about.
enum Pending {
    Server,
    Schema,
    Monitor(Method),
    Conditions(Vec<NewCondition>),
    Lock {
        name: SmolStr,
        token: u64,
    },
    /// Nothing depends on the answer.
    Courtesy,
    Transact {
        reply: oneshot::Sender<Result<Answer, TransactError>>,
        /// Where the request begins in the stream of what we send.
        begins: u64,
    },
}

/// What a message means for the connection.
enum Progress {
    None,
    /// `_Server` as it is, if the server has one.
    Greeted(Option<Updates>),
    /// `_Server` changed.
    Server(Updates),
    Schema(Arc<DatabaseSchema>),
    /// The server knows only this way to monitor, or one that is older still.
    Older(Method),
    /// The cache is in step up to this transaction.
    Synced(Method, Uuid),
    Updated(Uuid),
    Confirmed,
    Transacted,
}

pub(crate) struct Link {
    connection: Connection,
    pending: HashMap<u64, Pending>,
    in_flight: usize,
    phase: Phase,
    databases: ServerDatabases,
    greeted: bool,
    schema: Option<Arc<DatabaseSchema>>,
    /// The layouts by which updates are decoded; those of tables that the server lacks are empty.
    layouts: Vec<Arc<Layout>>,
    absent: Vec<bool>,
    /// The last transaction that the server told of.
    last_transaction: Uuid,
    /// Conditions that changed after the tables were asked for, and how many requests to change them are under way.
    late_conditions: Vec<NewCondition>,
    unconfirmed: usize,
}

impl Link {
    pub(crate) fn new(stream: Box<dyn Stream>, session: &Session) -> Self {
        let config = &session.config;
        let traffic = session.shared.traffic.clone();
        Link {
            connection: Connection::new(stream, config.max_message, config.probe_interval, traffic),
            pending: HashMap::new(),
            in_flight: 0,
            phase: Phase::Greeting,
            databases: ServerDatabases::new(),
            greeted: false,
            schema: None,
            layouts: Vec::new(),
            absent: Vec::new(),
            last_transaction: Uuid::nil(),
            late_conditions: Vec::new(),
            unconfirmed: 0,
        }
    }

    /// Works with the server until something ends it.
    pub(crate) async fn run(mut self, session: &mut Session, endpoint: &Endpoint) -> Result<Infallible, End> {
        let end = self.work(session, endpoint).await;
        let written = self.connection.written();
        for pending in self.pending.into_values() {
            match pending {
                Pending::Transact { reply, begins } => {
                    let database = session.shared.database.clone();
                    let error = if begins >= written {
                        TransactError::NotConnected(database)
                    } else {
                        TransactError::OutcomeUnknown(database)
                    };
                    drop(reply.send(Err(error)));
                }
                // The next connection uses the new conditions from the start.
                Pending::Conditions(new) => self.late_conditions.extend(new),
                _ => {}
            }
        }
        session.waiting_for_sync.extend(self.late_conditions.into_iter().map(|new| new.done));
        if let Err(End::Lost(
            ConnectionError::Frame(_)
            | ConnectionError::Message(_)
            | ConnectionError::Decode { .. }
            | ConnectionError::Inconsistent(_)
            | ConnectionError::MonitorCancelled,
        )) = &end
        {
            // Continuing from here would meet the same trouble again.
            session.last_transaction = Uuid::nil();
        }
        end
    }

    async fn work(&mut self, session: &mut Session, endpoint: &Endpoint) -> Result<Infallible, End> {
        self.send(Pending::Courtesy, "set_db_change_aware", &[true]);
        self.send(Pending::Server, "monitor_cond", &ServerDatabases::monitor_params());
        self.send(Pending::Schema, "get_schema", &[&session.shared.database]);
        loop {
            let ready = matches!(self.phase, Phase::Ready(_));
            let room = self.in_flight < MAX_IN_FLIGHT && self.connection.backlog() < MAX_BACKLOG;
            tokio::select! {
                frame = self.connection.next() => self.handle(&frame?, session, endpoint)?,
                request = session.requests.recv(), if room || !ready => match request {
                    None => return Err(End::Dropped),
                    Some(request) if ready && session.is_current(&request) => self.transact(request),
                    Some(request) => session.refuse(request),
                },
                Some(control) = session.controls.recv() => self.control(control, session),
            }
        }
    }

    fn send(&mut self, pending: Pending, method: &str, params: &impl serde::Serialize) {
        let id = self.connection.request(method, params);
        self.pending.insert(id, pending);
    }

    fn transact(&mut self, request: Request) {
        let begins = self.connection.queued();
        let id = self.connection.raw_request("transact", &request.params);
        self.pending.insert(id, Pending::Transact { reply: request.reply, begins });
        self.in_flight += 1;
    }

    /// Deals with one message of the server.
    fn handle(
        &mut self,
        frame: &Frame,
        session: &mut Session,
        endpoint: &Endpoint,
    ) -> Result<(), ConnectionError> {
        match self.connection.message(frame)? {
            Message::Notification { method, params } => {
                let progress = self.notification(&method, params, session)?;
                self.make(progress, session)?;
            }
            Message::Reply { id, outcome } => {
                let pending = self.pending.remove(&id).ok_or_else(|| {
                    let value = id.to_string();
                    MessageError::WrongType { member: "id", value, expected: "the id of a request under way" }
                })?;
                let progress = self.reply(pending, outcome, session)?;
                self.make(progress, session)?;
            }
            // The connection itself answers requests.
            Message::Request { .. } => {}
        }
        self.connection.consume(frame);
        self.advance(session, endpoint)?;
        // "The changes since" are those under the present conditions, so unconfirmed ones forbid to continue.
        if matches!(self.phase, Phase::Ready(_)) && self.unconfirmed == 0 {
            session.last_transaction = self.last_transaction;
        }
        Ok(())
    }

    /// Takes what the server tells by itself, and returns what that means for this connection.
    fn notification(
        &self,
        method: &str,
        params: &[u8],
        session: &mut Session,
    ) -> Result<Progress, ConnectionError> {
        match method {
            "update" | "update2" | "update3" => {
                let server = self.databases.layouts();
                let notification = update_notification(params, method, |monitor| match monitor {
                    SERVER => Some(&server),
                    DATA => Some(&self.layouts),
                    _ => None,
                })
                .map_err(|source| ConnectionError::Decode { what: "an update", source })?;
                let Some(updates) = notification.updates else { return Ok(Progress::None) };
                if notification.monitor == SERVER {
                    return Ok(Progress::Server(updates));
                }
                session.change(|cache| Ok(cache.apply(updates)?))?;
                return Ok(notification.last_transaction.map_or(Progress::None, Progress::Updated));
            }
            "locked" | "stolen" => {
                let [name]: [SmolStr; 1] = serde_json::from_slice(params)
                    .map_err(|source| ConnectionError::Decode { what: "a lock's notification", source })?;
                if let Some(lock) = session.locks.get(&name) {
                    lock.state.send_replace(if method == "locked" {
                        LockState::Held
                    } else {
                        LockState::Stolen
                    });
                }
            }
            "monitor_canceled" => return Err(ConnectionError::MonitorCancelled),
            _ => tracing::debug!(%method, "a notification that this client does not know"),
        }
        Ok(Progress::None)
    }

    /// Takes the server's answer to a request of ours, and returns what that means for this connection.
    fn reply(
        &self,
        pending: Pending,
        outcome: Result<&[u8], &[u8]>,
        session: &mut Session,
    ) -> Result<Progress, ConnectionError> {
        match pending {
            Pending::Transact { reply, .. } => {
                let revision = session.shared.read().revision();
                drop(reply.send(match outcome {
                    Ok(result) => Ok(Answer { result: result.to_vec(), revision }),
                    // The server has lost track of the transaction, which may still complete.
                    Err(br#""canceled""#) => {
                        Err(TransactError::OutcomeUnknown(session.shared.database.clone()))
                    }
                    Err(error) => Err(TransactError::Refused(text(error))),
                }));
                Ok(Progress::Transacted)
            }
            Pending::Server => {
                // A server without `_Server` is older than clusters.
                let Ok(result) = outcome else { return Ok(Progress::Greeted(None)) };
                let updates = table_updates(result, UpdateFormat::Diff, &self.databases.layouts())
                    .map_err(|source| ConnectionError::Decode { what: "_Server", source })?;
                Ok(Progress::Greeted(Some(updates)))
            }
            Pending::Schema => {
                let result = outcome.map_err(|error| refused("get_schema", error))?;
                let schema = DatabaseSchema::parse(result)
                    .map_err(|source| ConnectionError::Decode { what: "the schema", source })?;
                Ok(Progress::Schema(Arc::new(schema)))
            }
            Pending::Monitor(method) => match outcome {
                Ok(result) => Ok(Progress::Synced(method, self.synced(method, result, session)?)),
                Err(error) => Ok(Progress::Older(older(method, error)?)),
            },
            Pending::Conditions(new) => {
                for NewCondition { table, before, done } in new {
                    let result = outcome.map(|_| ()).map_err(|error| ConditionError::Refused(text(error)));
                    let monitor = session.monitors.iter_mut().find(|m| m.table == table);
                    if let (Err(_), Some(monitor)) = (&result, monitor) {
                        monitor.condition = before;
                    }
                    // Who gave up waiting does not need to know.
                    let _ = done.send(result);
                }
                Ok(Progress::Confirmed)
            }
            Pending::Lock { name, token } => {
                lock_answered(&name, token, outcome, session)?;
                Ok(Progress::None)
            }
            Pending::Courtesy => Ok(Progress::None),
        }
    }

    fn make(&mut self, progress: Progress, session: &mut Session) -> Result<(), ConnectionError> {
        match progress {
            Progress::None => {}
            Progress::Transacted => self.in_flight -= 1,
            Progress::Greeted(server) => {
                self.greeted = true;
                if let Some(updates) = server {
                    self.databases.replace(updates);
                    self.check(session)?;
                }
            }
            Progress::Server(updates) => {
                self.databases.apply(updates)?;
                self.check(session)?;
            }
            Progress::Schema(schema) => self.schema = Some(schema),
            Progress::Older(method) => self.phase = Phase::Syncing(method),
            Progress::Synced(method, last_transaction) => {
                self.phase = Phase::Ready(method);
                self.last_transaction = last_transaction;
            }
            Progress::Updated(last_transaction) => self.last_transaction = last_transaction,
            Progress::Confirmed => self.unconfirmed -= 1,
        }
        Ok(())
    }

    /// Takes the next step once the answers for it are there.
    fn advance(&mut self, session: &mut Session, endpoint: &Endpoint) -> Result<(), ConnectionError> {
        match self.phase {
            Phase::Greeting => {
                if let (true, Some(schema)) = (self.greeted, self.schema.clone()) {
                    self.lay_out(&schema, session)?;
                    self.phase = Phase::Syncing(Method::Since);
                    self.monitor(Method::Since, session);
                }
            }
            Phase::Syncing(method) => {
                let asked = self.pending.values().any(|pending| matches!(pending, Pending::Monitor(_)));
                if !asked {
                    self.monitor(method, session);
                }
            }
            Phase::Ready(_) if session.ready_since.is_none() => {
                self.connection.set_probe_interval(session.config.probe_interval);
                for (name, lock) in &session.locks {
                    self.send_lock(name.clone(), lock.token, lock.mode);
                }
                for done in session.waiting_for_sync.drain(..) {
                    let _ = done.send(Ok(()));
                }
                let late = std::mem::take(&mut self.late_conditions);
                self.change_conditions(late, session);
                session.ready_since = Some(Instant::now());
                tracing::info!(database = %session.shared.database, %endpoint, "in step with the database");
                session.shared.status.send_replace(Status::Ready { endpoint: endpoint.clone() });
            }
            Phase::Ready(_) => {}
        }
        Ok(())
    }

    /// Whether the server's copy of the database still will do.
    fn check(&self, session: &mut Session) -> Result<(), ConnectionError> {
        self.databases.check(&session.shared.database, session.config.members, &mut session.progress)
    }

    /// Decides which columns there are, with this server's schema.
    fn lay_out(
        &mut self,
        schema: &Arc<DatabaseSchema>,
        session: &mut Session,
    ) -> Result<(), ConnectionError> {
        let layouts: Vec<_> = session.monitors.iter().map(|m| m.layout(schema)).collect::<Result<_, _>>()?;
        self.absent = layouts.iter().map(Option::is_none).collect();
        let named = session.monitors.iter().zip(layouts);
        let layouts: Vec<_> =
            named.map(|(m, layout)| layout.unwrap_or_else(|| Layout::absent(&m.table))).collect();
        let mut cache = session.shared.write();
        if cache.layouts() != layouts {
            cache.set_layouts(layouts);
            session.last_transaction = Uuid::nil();
        }
        self.layouts = cache.layouts();
        *session.shared.schema.write().unwrap_or_else(PoisonError::into_inner) = Some(schema.clone());
        Ok(())
    }

    fn monitor(&mut self, method: Method, session: &Session) {
        let conditional = if method == Method::Plain { Conditional::No } else { Conditional::Yes };
        let present =
            session.monitors.iter().zip(&self.layouts).zip(&self.absent).filter(|(_, absent)| !**absent);
        let requests: Map<String, Value> = present
            .map(|((monitor, layout), _)| (monitor.table.to_string(), monitor.request(layout, conditional)))
            .collect();
        let database = &session.shared.database;
        let (name, params) = match method {
            Method::Since => {
                ("monitor_cond_since", json!([database, DATA, requests, session.last_transaction]))
            }
            Method::Conditional => ("monitor_cond", json!([database, DATA, requests])),
            Method::Plain => ("monitor", json!([database, DATA, requests])),
        };
        self.connection
            .set_probe_interval(session.config.probe_interval.map(|probe| probe.max(SYNC_PATIENCE)));
        self.send(Pending::Monitor(method), name, &params);
    }

    /// Brings the cache in step with the answer to a monitor request.
    fn synced(&self, method: Method, result: &[u8], session: &mut Session) -> Result<Uuid, ConnectionError> {
        let decode = |source| ConnectionError::Decode { what: "the monitor's answer", source };
        let layouts = &self.layouts;
        let reply = match method {
            Method::Since => since_reply(result, layouts).map_err(decode)?,
            Method::Conditional | Method::Plain => {
                let format = if method == Method::Plain { UpdateFormat::Old } else { UpdateFormat::Diff };
                let updates = table_updates(result, format, layouts).map_err(decode)?;
                SinceReply { found: false, last_transaction: Uuid::nil(), updates }
            }
        };
        session.change(|cache| {
            if reply.found { Ok(cache.apply(reply.updates)?) } else { Ok(cache.replace(reply.updates)) }
        })?;
        Ok(reply.last_transaction)
    }

    fn control(&mut self, control: Control, session: &mut Session) {
        let ready = matches!(self.phase, Phase::Ready(_));
        match session.remember(control) {
            Some(Told::Lock { name, token, mode, again }) if ready => {
                if again {
                    self.send(Pending::Courtesy, "unlock", &[&name]);
                }
                self.send_lock(name, token, mode);
            }
            Some(Told::Unlock(name)) if ready => self.send(Pending::Courtesy, "unlock", &[name]),
            Some(Told::Condition(new)) if ready => self.change_conditions(vec![new], session),
            Some(Told::Condition(new)) if self.phase != Phase::Greeting => self.late_conditions.push(new),
            Some(Told::Condition(new)) => session.waiting_for_sync.push(new.done),
            // What is not told now is part of what the connection begins with.
            _ => {}
        }
    }

    fn send_lock(&mut self, name: SmolStr, token: u64, mode: LockMode) {
        let method = match mode {
            LockMode::Queue => "lock",
            LockMode::Steal => "steal",
        };
        let id = self.connection.request(method, &[&name]);
        self.pending.insert(id, Pending::Lock { name, token });
    }

    /// Tells the server of new conditions, of those that make a difference to it.
    fn change_conditions(&mut self, new: Vec<NewCondition>, session: &Session) {
        let plain = self.phase == Phase::Ready(Method::Plain);
        let tables = session.monitors.iter().zip(&self.absent);
        let changes: Map<String, Value> = tables
            .filter(|(monitor, absent)| !**absent && !plain && new.iter().any(|n| n.table == monitor.table))
            .map(|(monitor, _)| (monitor.table.to_string(), json!([{"where": monitor.condition}])))
            .collect();
        // A table that the server lacks has no rows, and a server too old for conditions sends all of them.
        let (new, settled): (Vec<_>, Vec<_>) =
            new.into_iter().partition(|n| changes.contains_key(n.table.as_str()));
        for settled in settled {
            let _ = settled.done.send(Ok(()));
        }
        if !changes.is_empty() {
            self.unconfirmed += 1;
            self.send(Pending::Conditions(new), "monitor_cond_change", &json!([DATA, DATA, changes]));
        }
    }
}

impl Session {
    /// Whether the cache was in step on the present connection when the request was made.
    fn is_current(&self, request: &Request) -> bool {
        request.connection == self.shared.connection.load(Ordering::SeqCst)
    }

    /// Changes the cache and tells its consumers, as one step.
    fn change(
        &mut self,
        change: impl FnOnce(&mut Cache) -> Result<ovsdb_core::Batch, ConnectionError>,
    ) -> Result<(), ConnectionError> {
        let mut cache = self.shared.write();
        let batch = change(&mut cache)?;
        let revision = batch.revision;
        self.shared.publisher.publish(batch);
        drop(cache);
        self.shared.revision.send_replace(revision);
        Ok(())
    }
}

/// What to try after the server refused a method that it does not know.
fn older(method: Method, error: &[u8]) -> Result<Method, ConnectionError> {
    let unknown = text(error).contains("unknown method");
    match method {
        Method::Since if unknown => Ok(Method::Conditional),
        Method::Conditional if unknown => Ok(Method::Plain),
        _ => Err(refused("monitor", error)),
    }
}

/// Takes the answer to a request for a lock, if it is still wanted under that token.
fn lock_answered(
    name: &SmolStr,
    token: u64,
    outcome: Result<&[u8], &[u8]>,
    session: &mut Session,
) -> Result<(), ConnectionError> {
    #[derive(serde::Deserialize)]
    struct Locked {
        locked: bool,
    }
    let Some(lock) = session.locks.get_mut(name).filter(|lock| lock.token == token) else { return Ok(()) };
    match outcome {
        Ok(result) => {
            let Locked { locked } = serde_json::from_slice(result)
                .map_err(|source| ConnectionError::Decode { what: "a lock's answer", source })?;
            // After a reconnect the lock may rightfully be another's.
            lock.mode = LockMode::Queue;
            lock.state.send_replace(if locked { LockState::Held } else { LockState::Waiting });
        }
        Err(error) => {
            tracing::warn!(%name, "the server refused a lock: {}", text(error));
            // The handle learns it by the end of its channel.
            session.locks.remove(name);
        }
    }
    Ok(())
}

fn text(error: &[u8]) -> String {
    String::from_utf8_lossy(error).into_owned()
}

fn refused(method: &'static str, error: &[u8]) -> ConnectionError {
    ConnectionError::Refused { method, error: text(error) }
}
