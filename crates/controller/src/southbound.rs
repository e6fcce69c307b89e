//! The southbound database, of which this process reads what ovn-northd made of VPCs and subnets. It writes nothing there.
//!
//! Monitored are datapaths and the ports that connect them. The ports of pods, by far the most rows, are followed by whoever acts alone, in
//! `bindings.rs`.

use std::sync::Arc;
use std::time::Duration;

use ovn_schema::sb::{DatapathBinding, PortBinding};
use ovsdb::change::Batch;
use ovsdb::{Changes, Client, Condition, Endpoints, Members, Monitor, Status, TlsFiles};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::engine::{Engine, SouthboundStatus};
use crate::northbound::unreachable;
use crate::timer::until;

/// How long the database may be out of reach before that is said on every VPC and subnet: more than a change of its leader, or a
/// start of everything at once, takes.
const GRACE: Duration = Duration::from_secs(5);

/// The connection with the southbound database.
pub(crate) struct Southbound {
    connection: Option<Connection>,
    /// Until when it may be out of reach without a word.
    patience: Option<Instant>,
    /// That it is out of reach was told.
    lost: bool,
}

struct Connection {
    changes: Changes,
    status: watch::Receiver<Status>,
    /// The session lives as long as this.
    _client: Client,
}

/// Something for the engine to take in.
pub(crate) enum News {
    Rows(Arc<Batch>),
    Status(Vec<Arc<Batch>>, SouthboundStatus),
    /// It is out of reach since a moment.
    Nothing,
}

impl News {
    pub(crate) fn tell(self, engine: &mut Engine) {
        match self {
            News::Rows(batch) => engine.southbound_changed(&batch.changes),
            News::Status(batches, status) => {
                for batch in batches {
                    engine.southbound_changed(&batch.changes);
                }
                engine.southbound_status(status);
            }
            News::Nothing => {}
        }
    }
}

impl Southbound {
    /// Follows the database. Without an endpoint it counts as out of reach.
    pub(crate) fn connect(endpoints: Endpoints, tls: Option<TlsFiles>) -> Self {
        if endpoints.is_none() {
            return Southbound { connection: None, patience: Some(Instant::now()), lost: false };
        }
        // Any member of a cluster shows what ovn-northd committed; the leader has enough to do.
        let mut builder = Client::builder("OVN_Southbound", endpoints).members(Members::Any);
        if let Some(tls) = tls {
            builder = builder.tls(tls);
        }
        let datapaths = Monitor::of::<DatapathBinding>().columns([DatapathBinding::EXTERNAL_IDS.name()]);
        let ports = Monitor::of::<PortBinding>()
            .columns([PortBinding::LOGICAL_PORT.name(), PortBinding::TYPE.name()])
            .condition(Condition::any_of([PortBinding::TYPE.equals(&"patch".to_owned())]));
        Self::following(builder.monitor(datapaths).monitor(ports).connect())
    }

    fn following(client: Client) -> Self {
        let mut status = client.status();
        // It may be in step already: what it is now is news, too.
        status.mark_changed();
        let connection = Connection { changes: client.changes(), status, _client: client };
        Southbound { connection: Some(connection), patience: Some(Instant::now() + GRACE), lost: false }
    }

    /// Whether the copy is in step.
    pub(crate) fn is_ready(&self) -> bool {
        self.connection.as_ref().is_some_and(|one| matches!(*one.status.borrow(), Status::Ready { .. }))
    }

    /// Waits for something that the engine should know. Cancel-safe.
    ///
    /// # Errors
    /// When the session has ended for good, which it does only if its task has failed.
    pub(crate) async fn changed(&mut self) -> anyhow::Result<News> {
        let patience_ends = until(self.patience);
        let Some(connection) = &mut self.connection else {
            patience_ends.await;
            self.patience = None;
            let why = "cannot be reached: no endpoint of it was given".to_owned();
            return Ok(News::Status(Vec::new(), SouthboundStatus::Lost { why }));
        };
        tokio::select! {
            batch = connection.changes.next() => match batch {
                Some(batch) => Ok(News::Rows(batch)),
                None => anyhow::bail!("the session with the southbound database has ended"),
            },
            changed = connection.status.changed() => {
                anyhow::ensure!(changed.is_ok(), "the session with the southbound database has ended");
                let status = connection.status.borrow_and_update().clone();
                Ok(match status {
                    Status::Ready { endpoint } => {
                        (self.patience, self.lost) = (None, false);
                        tracing::info!(%endpoint, "following the southbound database");
                        let rows = std::iter::from_fn(|| connection.changes.try_next()).collect();
                        News::Status(rows, SouthboundStatus::Followed)
                    }
                    Status::Connecting { .. } | Status::Closed => {
                        // Told once: each further attempt may fail for another reason, and every object would say so.
                        if !self.lost {
                            self.patience.get_or_insert_with(|| Instant::now() + GRACE);
                        }
                        News::Nothing
                    }
                })
            }
            () = patience_ends => {
                self.patience = None;
                let why = match &*connection.status.borrow() {
                    Status::Ready { .. } => return Ok(News::Nothing),
                    status => unreachable(status).unwrap_or_else(|| "does not answer".to_owned()),
                };
                tracing::warn!("OVN's southbound database {why}; the state of ovn-northd is unknown");
                self.lost = true;
                Ok(News::Status(Vec::new(), SouthboundStatus::Lost { why }))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

    use ovsdb::Endpoint;
    use portolan_testbed::{OVN_SB_SCHEMA, OvsdbServer};

    use super::*;

    #[test]
    fn a_database_that_is_in_step_before_anybody_looks_is_told_too() {
        portolan_testbed::test(async |lab| {
            let server = OvsdbServer::builder("sb").schema_file(OVN_SB_SCHEMA).start(&lab).unwrap();
            let endpoints = Endpoint::parse_list(&server.endpoint()).unwrap();
            let client = Client::builder("OVN_Southbound", endpoints)
                .monitor(Monitor::of::<DatapathBinding>().columns([DatapathBinding::EXTERNAL_IDS.name()]))
                .connect();
            assert!(client.ready().await);
            let mut southbound = Southbound::following(client);
            let told = southbound.changed().await.unwrap();
            assert!(matches!(told, News::Status(_, SouthboundStatus::Followed)));
        });
    }
}
