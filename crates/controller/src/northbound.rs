//! The northbound database: its copy, the lock on being its writer, and transactions one after another.
//!
//! ovn-northd computes everything again on every transaction, so changes are collected: while a transaction is on its way,
//! for [`SPACING`] after it, and for [`LINGER`] where nobody waits for the change.

use std::collections::VecDeque;
use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ovsdb::{
    Changes, Client, ConnectionError, Endpoints, ErrorKind, Lock, LockState, Members, Monitor, Outcome,
    Status, TlsFiles, TransactError, Transaction,
};
use portolan_plan::northbound::DATABASE;
use portolan_plan::{Batch, Urgency};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::completeness;
use crate::election::Predecessor;
use crate::engine::{Engine, NorthboundRole};
use crate::metrics::{Metrics, Transacted};
use crate::timer::until;

/// The OVSDB lock that the writer holds.
const LOCK: &str = "portolan";

/// How long a leader waits for the lock before it takes it away from whoever has it. That one does not lead, and may hang; it cannot
/// be one that leads still, as a Lease ends earlier.
const LONG_WAIT: Duration = Duration::from_secs(5);

/// About how many rows one transaction changes.
const BATCH_ROWS: usize = 1000;

/// The least time between two transactions. A change after a quiet time is written at once.
const SPACING: Duration = Duration::from_millis(10);

/// The least time between two attempts to say that everything is there.
const SAY_AGAIN: Duration = Duration::from_secs(1);

/// How long a removal waits for others to go with it.
const LINGER: Duration = Duration::from_millis(200);

/// The connection with the northbound database.
pub(crate) struct Northbound {
    client: Client,
    changes: Changes,
    status: watch::Receiver<Status>,
    /// The lock, unless another controller is to write.
    lock: Option<Lock>,
    /// Since when an elected leader has been without the lock.
    waiting_since: Option<Instant>,
    /// Counts the changes of the lock: what was planned before one is not sent after it.
    term: Arc<AtomicU64>,
    /// Whether everything was compared with the copy since this controller has been the writer.
    compared: bool,
    /// When it was said last that everything is there.
    said: Option<Instant>,
    metrics: Metrics,
    writing: Option<Pin<Box<dyn Future<Output = Vec<Written>> + Send>>>,
    pace: Pace,
}

/// When the next transaction is due.
#[derive(Debug, Default)]
struct Pace {
    /// When the last transaction ended.
    last: Option<Instant>,
    /// Since when there is something that may wait.
    deferred: Option<Instant>,
    /// When what is there now is to be written.
    due: Option<Instant>,
}

/// A batch and what became of it.
struct Written {
    batch: Batch,
    result: WriteResult,
}

enum WriteResult {
    Committed,
    /// The copy was behind, or nobody knows whether it was committed.
    Outdated,
    /// It was not sent, because an earlier one was outdated.
    Unsent,
    /// The database refuses it as it is. It is one unit's.
    Refused(TransactError),
}

impl Northbound {
    pub(crate) fn connect(endpoints: Endpoints, tls: Option<TlsFiles>, metrics: Metrics) -> Self {
        let mut builder = Client::builder("OVN_Northbound", endpoints).members(Members::Leader);
        if let Some(tls) = tls {
            builder = builder.tls(tls);
        }
        for (table, indexes) in DATABASE.indexes() {
            let monitor = Monitor::table(table).known_columns(DATABASE.columns(table));
            builder = builder.monitor(indexes.into_iter().fold(monitor, Monitor::index));
        }
        let client = builder.monitor(completeness::monitor()).connect();
        let (changes, status) = (client.changes(), client.status());
        let pace = Pace::default();
        let term = Arc::default();
        let (lock, waiting_since, writing) = (None, None, None);
        Northbound {
            client,
            changes,
            status,
            lock,
            waiting_since,
            term,
            compared: false,
            said: None,
            metrics,
            writing,
            pace,
        }
    }

    /// Asks for the lock on being the writer. Once it is held, everything is compared with the copy.
    ///
    /// A leader that was stopped, or whose machine lost its network, still has the lock and does not give it up: it is taken away from
    /// it. It cannot write any more, as every transaction asserts the lock.
    pub(crate) fn lead(&mut self, predecessor: Predecessor) {
        self.compared = false;
        self.lock = Some(match predecessor {
            Predecessor::Gone => self.client.lock(LOCK),
            Predecessor::Silent => self.client.steal(LOCK),
        });
    }

    /// Whether the Lease says that this controller leads: then whoever else has the lock for long does not.
    pub(crate) fn set_elected(&mut self, elected: bool) {
        let waits = elected && self.is_ready() && self.lock.is_some() && !self.is_writer();
        match waits {
            true => drop(self.waiting_since.get_or_insert_with(Instant::now)),
            false => self.waiting_since = None,
        }
    }

    /// Gives the lock up.
    pub(crate) fn stand_by(&mut self) {
        self.waiting_since = None;
        self.compared = false;
        self.lock = None;
        self.end_term();
    }

    /// What was planned so far and is not sent yet is not sent any more: others may write, or may have written.
    fn end_term(&self) {
        self.term.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether this client has the lock.
    pub(crate) fn is_writer(&self) -> bool {
        self.lock.as_ref().is_some_and(|lock| lock.state() == LockState::Held)
    }

    /// What this controller is to the database.
    pub(crate) fn role(&self) -> NorthboundRole {
        if self.is_writer() {
            return NorthboundRole::Writer;
        }
        // Otherwise it was not tried yet, or another one is the writer.
        unreachable(&self.client.status().borrow())
            .map_or(NorthboundRole::Reader, |why| NorthboundRole::Unreachable { why })
    }

    /// The client, for others who read the copy.
    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    /// Whether the copy is in step.
    pub(crate) fn status(&self) -> watch::Receiver<Status> {
        self.status.clone()
    }

    /// Whether the copy is in step.
    pub(crate) fn is_ready(&self) -> bool {
        matches!(*self.status.borrow(), Status::Ready { .. })
    }

    /// Starts writing what is to be written, if that is due, we are the writer and nothing is under way.
    pub(crate) fn write(&mut self, engine: &mut Engine) {
        if self.writing.is_some() || !self.is_ready() || !self.is_writer() {
            self.pace.due = None;
            return;
        }
        if !self.compared {
            engine.compare_all(&self.client.read());
            self.compared = true;
        }
        let (urgency, now) = (engine.northbound_urgency(), Instant::now());
        if !self.pace.is_due(urgency, now) {
            if urgency.is_none() {
                self.say_complete(now);
            }
            return;
        }
        let batches = engine.plan(&self.client.read(), BATCH_ROWS);
        if !batches.is_empty() {
            self.writing = Some(Box::pin(write(
                Sender {
                    client: self.client.clone(),
                    metrics: self.metrics.clone(),
                    term: self.term.load(Ordering::Relaxed),
                    current: Arc::clone(&self.term),
                },
                batches,
            )));
        }
    }

    /// Nothing differs: says so to whoever serves the database, if it wants to know.
    fn say_complete(&mut self, now: Instant) {
        let Some(life) = completeness::unsaid(&self.client.read()) else { return };
        if let Some(again) = self.said.map(|said| said + SAY_AGAIN).filter(|again| *again > now) {
            self.pace.due = Some(again);
            return;
        }
        self.said = Some(now);
        let client = self.client.clone();
        self.writing = Some(Box::pin(async move {
            match client.transact(&completeness::transaction(life, LOCK)).await {
                Ok(_) => tracing::info!("the northbound database has everything that is asked for"),
                Err(error) => {
                    tracing::info!(%error, "it cannot be said yet that the northbound database has everything");
                }
            }
            Vec::new()
        }));
    }

    /// Waits until something has changed that the engine should look at, and reports it. Cancel-safe.
    ///
    /// # Errors
    /// When the session has ended for good, which it does only if its task has failed.
    pub(crate) async fn changed(&mut self, engine: &mut Engine) -> anyhow::Result<()> {
        let due = self.pace.due.filter(|_| self.writing.is_none());
        let writing = async {
            match &mut self.writing {
                Some(writing) => writing.await,
                None => pending().await,
            }
        };
        let long_wait = self.waiting_since.map(|since| since + LONG_WAIT);
        let lock = async {
            match &mut self.lock {
                Some(lock) => lock.changed().await,
                None => pending().await,
            }
        };
        tokio::select! {
            written = writing => {
                self.writing = None;
                self.pace.last = Some(Instant::now());
                report(written, engine, &self.metrics);
                // Before everything was compared it is not known what is still to be written.
                if self.compared {
                    engine.settled(&self.client.read());
                }
            }
            batch = self.changes.next() => match batch {
                Some(batch) if self.compared => engine.rows_changed(&batch.changes, &self.client.read()),
                // Everything is compared with the copy before anything is written.
                Some(_) => {}
                None => anyhow::bail!("the session with the northbound database has ended"),
            },
            state = lock => match state {
                Some(state) => {
                    tracing::info!(?state, "the lock on writing the northbound database");
                    self.end_term();
                    // Others may have written meanwhile.
                    self.compared = false;
                }
                None => anyhow::bail!("the northbound database refuses the lock {LOCK}"),
            },
            // Whether this controller is fit to lead depends on it.
            Ok(()) = self.status.changed() => {}
            () = until(due) => {}
            () = until(long_wait) => {
                tracing::warn!("another controller keeps the lock on writing the northbound database although this one leads: taking it");
                self.waiting_since = None;
                self.lead(Predecessor::Silent);
            }
        }
        Ok(())
    }
}

impl Pace {
    /// Whether something of this urgency is to be written now. If not, `due` says when.
    fn is_due(&mut self, urgency: Option<Urgency>, now: Instant) -> bool {
        let Some(urgency) = urgency else {
            (self.deferred, self.due) = (None, None);
            return false;
        };
        let spaced = self.last.map_or(now, |last| last + SPACING);
        let due = match urgency {
            Urgency::Immediate => spaced,
            Urgency::Deferrable => spaced.max(*self.deferred.get_or_insert(now) + LINGER),
        };
        if due > now {
            self.due = Some(due);
            return false;
        }
        (self.deferred, self.due) = (None, None);
        true
    }
}

fn report(written: Vec<Written>, engine: &mut Engine, metrics: &Metrics) {
    for Written { batch, result } in written {
        match result {
            WriteResult::Committed => {
                let units = batch.units().filter_map(|unit| unit.parse().ok());
                for took in units.filter_map(|unit| metrics.stopwatch().committed(&unit)) {
                    metrics.time_to_northbound(took);
                }
                engine.committed(&batch);
            }
            WriteResult::Outdated => engine.outdated(&batch),
            WriteResult::Unsent => engine.unsent(&batch),
            WriteResult::Refused(error) => {
                let unit = batch.units().next().map(ToString::to_string).unwrap_or_default();
                tracing::warn!(unit, %error, "the northbound database refuses the rows of a unit; others go on");
                engine.refused(&batch, &error.to_string());
            }
        }
    }
}

/// What batches are sent to.
trait Commit {
    fn commit(&self, batch: &Batch) -> impl Future<Output = Result<(), TransactError>> + Send;

    /// Whether what was planned may still be sent.
    fn is_current(&self) -> bool {
        true
    }
}

/// The database itself.
struct Sender {
    client: Client,
    metrics: Metrics,
    /// The term in which the batches were planned, and the present one.
    term: u64,
    current: Arc<AtomicU64>,
}

impl Commit for Sender {
    async fn commit(&self, batch: &Batch) -> Result<(), TransactError> {
        let transaction = transaction(batch);
        let committed = self.client.transact(&transaction).await.map(drop);
        let transacted = match &committed {
            Ok(()) => Transacted::Committed,
            Err(error) if is_outdated(error) => Transacted::Outdated,
            Err(_) => Transacted::Refused,
        };
        self.metrics.transaction(transacted, transaction.operations().len());
        committed
    }

    fn is_current(&self) -> bool {
        self.current.load(Ordering::Relaxed) == self.term
    }
}

/// Sends transactions to the database, and waits until its copy is in step.
async fn write(database: Sender, batches: Vec<Batch>) -> Vec<Written> {
    let written = send(&database, batches).await;
    if written.iter().any(|written| matches!(written.result, WriteResult::Outdated)) {
        // Only a copy that is in step says what is there.
        database.client.ready().await;
    }
    written
}

/// Sends transactions one after another. One that is refused is halved until the unit is found that is to blame; one that
/// was outdated ends the series.
async fn send(database: &impl Commit, batches: Vec<Batch>) -> Vec<Written> {
    let mut queue = VecDeque::from(batches);
    let mut written = Vec::new();
    while let Some(batch) = queue.pop_front() {
        if !database.is_current() {
            queue.push_front(batch);
            written.extend(queue.into_iter().map(|batch| Written { batch, result: WriteResult::Unsent }));
            break;
        }
        let Err(error) = database.commit(&batch).await else {
            tracing::info!(units = batch.len(), "committed");
            written.push(Written { batch, result: WriteResult::Committed });
            continue;
        };
        if is_outdated(&error) {
            tracing::info!(%error, "the copy of the northbound database was behind: comparing again");
            written.push(Written { batch, result: WriteResult::Outdated });
            written.extend(queue.into_iter().map(|batch| Written { batch, result: WriteResult::Unsent }));
            break;
        }
        match batch.split() {
            Ok([first, second]) => {
                queue.push_front(second);
                queue.push_front(first);
            }
            Err(batch) => written.push(Written { batch, result: WriteResult::Refused(error) }),
        }
    }
    written
}

/// Whether a transaction failed because the database is not what the copy says, and not because of what it asks for.
fn is_outdated(error: &TransactError) -> bool {
    let behind =
        matches!(error.kind(), Some(ErrorKind::DuplicateUuid | ErrorKind::TimedOut | ErrorKind::NotOwner));
    let unsent = matches!(error, TransactError::NotConnected(_));
    behind || unsent || error.outcome() != Outcome::NotApplied
}

fn transaction(batch: &Batch) -> Transaction {
    let mut transaction = Transaction::new();
    transaction.assert_lock(LOCK);
    transaction.append(batch.transaction());
    // For whoever reads the database's log.
    let first = batch.units().next().map(ToString::to_string).unwrap_or_default();
    transaction.comment(match batch.len() {
        1 => format!("portolan-controller: {first}"),
        len => format!("portolan-controller: {first} and {} more", len - 1),
    });
    transaction
}

/// Where a database was tried last and why it could not be reached, for people; none if it was not tried yet, or is reached.
pub(crate) fn unreachable(status: &Status) -> Option<String> {
    let Status::Connecting { endpoint, error: Some(error) } = status else { return None };
    let error: &dyn std::error::Error = match &**error {
        // That it cannot be reached is said already.
        ConnectionError::Connect(error) => error,
        error => error,
    };
    let (mut text, mut source) = (error.to_string(), error.source());
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    let at = endpoint.as_ref().map(|endpoint| format!(" at {endpoint}")).unwrap_or_default();
    Some(format!("cannot be reached{at}: {text}"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use portolan_plan::memdb::MemDb;
    use portolan_plan::northbound::DATABASE;
    use portolan_plan::{Rows, batches};

    use super::*;

    const NB_SCHEMA: &str = include_str!("../../ovn-schema/schemas/ovn-nb.ovsschema");

    #[test]
    fn a_database_that_cannot_be_reached_is_named_with_its_endpoint_and_the_error_of_the_system() {
        let refused = || ConnectionError::Connect(std::io::ErrorKind::ConnectionRefused.into());
        let status = |error| Status::Connecting {
            endpoint: Some("unix:/run/ovn/ovnnb_db.sock".parse().unwrap()),
            error: Some(Arc::new(error)),
        };
        let why = "cannot be reached at unix:/run/ovn/ovnnb_db.sock: connection refused";
        assert_eq!(unreachable(&status(refused())).unwrap(), why);
        let why = "cannot be reached at unix:/run/ovn/ovnnb_db.sock: the connection broke: broken pipe";
        let broke = ConnectionError::Io(std::io::ErrorKind::BrokenPipe.into());
        assert_eq!(unreachable(&status(broke)).unwrap(), why);
        assert_eq!(unreachable(&Status::Connecting { endpoint: None, error: None }), None);
    }

    /// A database that fails every transaction with one unit in it.
    struct Fails {
        unit: &'static str,
        error: fn() -> TransactError,
        transactions: AtomicUsize,
    }

    impl Fails {
        fn on(unit: &'static str, error: fn() -> TransactError) -> Self {
            Fails { unit, error, transactions: AtomicUsize::new(0) }
        }
    }

    impl Commit for Fails {
        async fn commit(&self, batch: &Batch) -> Result<(), TransactError> {
            self.transactions.fetch_add(1, Ordering::Relaxed);
            if batch.units().any(|unit| unit == self.unit) { Err((self.error)()) } else { Ok(()) }
        }
    }

    /// Batches of `limit` units each, of units `unit-0` and so on, one row each.
    fn of_units(count: usize, limit: usize) -> Vec<Batch> {
        let rows = |number: usize| {
            let mut rows = Rows::new(&format!("unit-{number}"), "owner");
            rows.root("", ovn_schema::nb::LogicalSwitch::default());
            rows
        };
        let rows: Vec<Rows> = (0..count).map(rows).collect();
        let cache = MemDb::new(NB_SCHEMA).unwrap().cache(DATABASE.indexes());
        batches(DATABASE.diff(&rows, &[], &cache).atoms, limit)
    }

    fn units(written: &[Written], result: impl Fn(&WriteResult) -> bool) -> Vec<String> {
        let batches = written.iter().filter(|written| result(&written.result));
        batches
            .flat_map(|written| written.batch.units().map(ToString::to_string).collect::<Vec<_>>())
            .collect()
    }

    #[tokio::test]
    async fn a_unit_that_is_refused_is_found_by_halving_and_stops_no_other() {
        let database = Fails::on("unit-37", || TransactError::Refused("no".into()));
        let written = send(&database, of_units(128, 64)).await;
        assert_eq!(units(&written, |result| matches!(result, WriteResult::Refused(_))), ["unit-37"]);
        assert_eq!(units(&written, |result| matches!(result, WriteResult::Committed)).len(), 127);
        // Both batches, and two for each time that 64 is halved.
        assert_eq!(database.transactions.into_inner(), 2 + 2 * 6);
    }

    #[tokio::test]
    async fn after_a_copy_that_was_behind_nothing_more_is_sent() {
        let database = Fails::on("unit-3", || TransactError::OutcomeUnknown("OVN_Northbound".into()));
        let written = send(&database, of_units(6, 2)).await;
        assert_eq!(units(&written, |result| matches!(result, WriteResult::Committed)), ["unit-0", "unit-1"]);
        assert_eq!(units(&written, |result| matches!(result, WriteResult::Outdated)), ["unit-2", "unit-3"]);
        assert_eq!(units(&written, |result| matches!(result, WriteResult::Unsent)), ["unit-4", "unit-5"]);
    }

    /// A database whose lock is another's after so many transactions.
    struct Lost(AtomicUsize);

    impl Commit for Lost {
        async fn commit(&self, _: &Batch) -> Result<(), TransactError> {
            self.0.fetch_sub(1, Ordering::Relaxed);
            Ok(())
        }

        fn is_current(&self) -> bool {
            self.0.load(Ordering::Relaxed) > 0
        }
    }

    #[tokio::test]
    async fn what_was_planned_before_the_lock_was_lost_is_not_sent_after_it() {
        let written = send(&Lost(AtomicUsize::new(1)), of_units(6, 2)).await;
        assert_eq!(units(&written, |result| matches!(result, WriteResult::Committed)), ["unit-0", "unit-1"]);
        assert_eq!(units(&written, |result| matches!(result, WriteResult::Unsent)).len(), 4);
    }

    const MILLISECOND: Duration = Duration::from_millis(1);

    #[test]
    fn a_change_that_somebody_waits_for_is_written_at_once_after_a_quiet_time() {
        let (mut pace, now) = (Pace::default(), Instant::now());
        assert!(pace.is_due(Some(Urgency::Immediate), now));
        pace.last = Some(now);
        assert!(!pace.is_due(Some(Urgency::Immediate), now + MILLISECOND), "others may come with it");
        assert_eq!(pace.due, Some(now + SPACING));
        assert!(pace.is_due(Some(Urgency::Immediate), now + SPACING));
    }

    #[test]
    fn removals_wait_for_each_other_but_not_for_ever() {
        let (mut pace, start) = (Pace::default(), Instant::now());
        // One removal every millisecond: all of them go with the first.
        let due: Vec<u32> =
            (0..1000).filter(|n| pace.is_due(Some(Urgency::Deferrable), start + MILLISECOND * *n)).collect();
        assert_eq!(due, [200, 401, 602, 803]);
        // What somebody waits for takes them along.
        assert!(pace.is_due(Some(Urgency::Immediate), start + MILLISECOND * 1000));
        assert_eq!((pace.deferred, pace.due), (None, None));
    }
}
