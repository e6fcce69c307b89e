//! The northbound database: its copy, the lock on being its writer, and transactions one after another.

use std::future::pending;
use std::pin::Pin;

use ovsdb::{
    Changes, Client, Endpoint, ErrorKind, Lock, LockState, Members, Monitor, TlsFiles, TransactError,
    Transaction,
};
use portolan_plan::Batch;

use crate::engine::Engine;

/// The OVSDB lock that the writer holds.
const LOCK: &str = "portolan";

/// About how many rows one transaction changes.
const BATCH_ROWS: usize = 1000;

/// The connection with the northbound database.
pub(crate) struct Northbound {
    client: Client,
    changes: Changes,
    lock: Lock,
    writing: Option<Pin<Box<dyn Future<Output = Written> + Send>>>,
    /// After a refusal units are written one by one, so that one bad unit does not stop the others.
    one_by_one: bool,
}

/// What became of a series of transactions.
struct Written {
    /// What was not sent, or of which no one knows what became.
    not_written: Vec<Batch>,
    error: Option<TransactError>,
}

impl Northbound {
    pub(crate) fn connect(endpoints: Vec<Endpoint>, tls: Option<TlsFiles>) -> Self {
        let mut builder = Client::builder("OVN_Northbound", endpoints).members(Members::Leader);
        if let Some(tls) = tls {
            builder = builder.tls(tls);
        }
        for (table, indexes) in portolan_plan::indexes() {
            let monitor = indexes.into_iter().fold(Monitor::table(table), Monitor::index);
            builder = builder.monitor(monitor);
        }
        let client = builder.connect();
        let (changes, lock) = (client.changes(), client.lock(LOCK));
        Northbound { client, changes, lock, writing: None, one_by_one: false }
    }

    /// Whether the copy is in step.
    pub(crate) fn status(&self) -> tokio::sync::watch::Receiver<ovsdb::Status> {
        self.client.status()
    }

    /// Everything is compared with the copy.
    pub(crate) fn compare_all(&self, engine: &mut Engine) {
        engine.compare_all(&self.client.read());
    }

    /// Starts writing what is to be written, if we are the writer and nothing is under way.
    pub(crate) fn write(&mut self, engine: &mut Engine) {
        let ready = matches!(*self.client.status().borrow(), ovsdb::Status::Ready { .. });
        if self.writing.is_some() || !ready || self.lock.state() != LockState::Held {
            return;
        }
        let limit = if std::mem::take(&mut self.one_by_one) { 1 } else { BATCH_ROWS };
        let batches = engine.plan(&self.client.read(), limit);
        if !batches.is_empty() {
            self.writing = Some(Box::pin(send(self.client.clone(), batches)));
        }
    }

    /// Waits until something has changed that the engine should look at, and tells it. Cancel-safe.
    ///
    /// # Errors
    /// When the session has ended for good, which it does only if its task has failed.
    pub(crate) async fn changed(&mut self, engine: &mut Engine) -> anyhow::Result<()> {
        let writing = async {
            match &mut self.writing {
                Some(writing) => writing.await,
                None => pending().await,
            }
        };
        tokio::select! {
            written = writing => {
                self.writing = None;
                self.settle(written, engine);
            }
            batch = self.changes.next() => match batch {
                Some(batch) => engine.rows_changed(&batch.changes),
                None => anyhow::bail!("the session with the northbound database has ended"),
            },
            state = self.lock.changed() => match state {
                Some(state) => {
                    tracing::info!(?state, "the lock on writing the northbound database");
                    engine.compare_all(&self.client.read());
                }
                None => anyhow::bail!("the northbound database refuses the lock {LOCK}"),
            },
        }
        Ok(())
    }

    fn settle(&mut self, written: Written, engine: &mut Engine) {
        let Written { mut not_written, error } = written;
        let Some(error) = error else { return };
        let behind = matches!(
            error.kind(),
            Some(ErrorKind::DuplicateUuid | ErrorKind::TimedOut | ErrorKind::NotOwner)
        );
        let unknown = !matches!(error.outcome(), ovsdb::Outcome::NotApplied);
        let unsent = matches!(error, TransactError::NotConnected(_));
        if behind || unknown || unsent {
            tracing::info!(%error, "the copy was behind: comparing again");
        } else {
            tracing::warn!(%error, "a transaction was refused");
            let refused = not_written.remove(0);
            if refused.units.len() == 1 {
                engine.refused(refused.units);
            } else {
                self.one_by_one = true;
                engine.not_written(refused.units);
            }
        }
        engine.not_written(not_written.into_iter().flat_map(|batch| batch.units));
    }
}

/// Sends transactions one after another, up to the first that fails.
async fn send(client: Client, batches: Vec<Batch>) -> Written {
    let mut batches = batches.into_iter();
    while let Some(batch) = batches.next() {
        let mut transaction = Transaction::new();
        transaction.assert_lock(LOCK);
        transaction.append(batch.transaction.clone());
        // For whoever reads the database's log.
        transaction.comment(comment(&batch));
        match client.transact(&transaction).await {
            Ok(_) => tracing::info!(units = batch.units.len(), "committed"),
            Err(error) => {
                // Only a copy that is in step says what is there.
                client.ready().await;
                let not_written = std::iter::once(batch).chain(batches).collect();
                return Written { not_written, error: Some(error) };
            }
        }
    }
    Written { not_written: Vec::new(), error: None }
}

fn comment(batch: &Batch) -> String {
    match batch.units.as_slice() {
        [] => "portolan-controller".to_owned(),
        [unit] => format!("portolan-controller: {unit}"),
        [first, rest @ ..] => format!("portolan-controller: {first} and {} more", rest.len()),
    }
}
