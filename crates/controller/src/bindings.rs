//! Guests' ports that another chassis has bound than the one that they are for.
//!
//! OVN lets any chassis write any port binding: whoever holds the certificate of one node can draw the traffic of a guest on another to
//! itself. ovn-controller never does so, as it respects `requested-chassis`. So what it would not write is told: by an Event of the guest's
//! object, the log and a metric. It is not undone here; the southbound database is ovn-northd's.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ovn_schema::sb::{Chassis, PortBinding};
use ovsdb::change::Change;
use ovsdb::{Client, Condition, Endpoints, Members, Monitor, Row, TlsFiles, Uuid};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::control::Message;
use crate::engine::NodesByChassis;
use crate::metrics::Metrics;
use crate::timer::until;

/// How long such a binding lasts before it is told.
const GRACE: Duration = Duration::from_secs(3);
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Follows the bindings of guests' ports.
pub(crate) struct BindingWatch {
    southbound: Client,
    engine: mpsc::Sender<Message>,
    /// There is something while this controller acts and knows all objects.
    acts: watch::Receiver<Option<Arc<NodesByChassis>>>,
    metrics: Metrics,
    found: BTreeMap<Uuid, Found>,
}

/// A binding that should not be.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Found {
    port: String,
    bound: Uuid,
    requested: Uuid,
    since: Instant,
    told: bool,
}

impl BindingWatch {
    pub(crate) fn connect(
        endpoints: Endpoints,
        tls: Option<TlsFiles>,
        engine: mpsc::Sender<Message>,
        acts: watch::Receiver<Option<Arc<NodesByChassis>>>,
        metrics: Metrics,
    ) -> Self {
        let builder = Client::builder("OVN_Southbound", endpoints).backoff(FIRST_PAUSE, LONGEST_PAUSE);
        let mut builder = builder.members(Members::Any);
        if let Some(tls) = tls {
            builder = builder.tls(tls);
        }
        let columns = [
            PortBinding::LOGICAL_PORT.name(),
            PortBinding::CHASSIS.name(),
            PortBinding::REQUESTED_CHASSIS.name(),
            PortBinding::TYPE.name(),
        ];
        let ports = Monitor::of::<PortBinding>()
            .columns(columns)
            .condition(Condition::any_of([PortBinding::TYPE.equals(&String::new())]));
        let chassis = Monitor::of::<Chassis>().columns([Chassis::NAME.name()]);
        let southbound = builder.monitor(ports).monitor(chassis).connect();
        Self { southbound, engine, acts, metrics, found: BTreeMap::new() }
    }

    /// Works until nobody listens any more, or the session has ended.
    pub(crate) async fn run(mut self) {
        let mut changes = self.southbound.changes();
        loop {
            let acts = self.acts.borrow_and_update().is_some();
            if acts {
                self.tell_what_is_due().await;
            }
            self.metrics.bound_elsewhere(self.found.values().filter(|found| found.told).count());
            let next = self.found.values().filter(|found| !found.told).map(|found| found.since + GRACE).min();
            tokio::select! {
                batch = changes.next() => {
                    let Some(batch) = batch else { return };
                    for change in &batch.changes {
                        self.take(change).await;
                    }
                }
                changed = self.acts.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    if self.acts.borrow().is_none() {
                        // Whoever leads next tells it anew.
                        self.found.values_mut().for_each(|found| found.told = false);
                    }
                }
                () = until(next.filter(|_| acts)) => {}
            }
        }
    }

    async fn take(&mut self, change: &Change) {
        let Some(uuid) = change.new.as_ref().or(change.old.as_ref()).map(|row| row.uuid()) else { return };
        match judge(change.old.as_deref(), change.new.as_deref()) {
            Judged::Same => {}
            Judged::Fine => {
                if let Some(over) = self.found.remove(&uuid).filter(|found| found.told) {
                    self.send(over.port, None).await;
                }
            }
            Judged::Elsewhere { port, bound, requested } => {
                let known = self.found.get(&uuid);
                if known.is_some_and(|known| (known.bound, known.requested) == (bound, requested)) {
                    return;
                }
                let found = Found { port, bound, requested, since: Instant::now(), told: false };
                self.found.insert(uuid, found);
            }
        }
    }

    async fn tell_what_is_due(&mut self) {
        let now = Instant::now();
        let due: Vec<Found> = self
            .found
            .values_mut()
            .filter(|found| !found.told && found.since + GRACE <= now)
            .map(|found| {
                found.told = true;
                found.clone()
            })
            .collect();
        for found in due {
            let [bound, requested] = [found.bound, found.requested].map(|chassis| self.chassis(chassis));
            tracing::warn!(
                port = found.port,
                chassis = bound,
                requested_chassis = requested,
                "a port is bound by another chassis than the one that it is for"
            );
            let message = format!(
                "OVN port {} is bound by chassis {bound} and is for {requested}: traffic for it goes to the wrong node. ovn-controller does \
                 not do that by itself: find out who holds the certificate of chassis {bound}",
                found.port
            );
            self.send(found.port, Some(message)).await;
        }
    }

    async fn send(&self, port: String, problem: Option<String>) {
        let message = Message::new(move |engine| engine.port_bound_elsewhere(&port, problem));
        // Nobody listens any more only when the controller ends.
        let _ = self.engine.send(message).await;
    }

    fn chassis(&self, uuid: Uuid) -> String {
        let row = self.southbound.read().get::<Chassis>(uuid).ok().flatten();
        row.map_or_else(|| uuid.to_string(), |row| row.name)
    }
}

/// What a change of a row says of its binding.
#[derive(Debug, PartialEq, Eq)]
enum Judged {
    /// Nothing that concerns it has changed, or it is no port.
    Same,
    Fine,
    Elsewhere {
        port: String,
        bound: Uuid,
        requested: Uuid,
    },
}

fn judge(old: Option<&Row>, new: Option<&Row>) -> Judged {
    let Some(row) = new.or(old) else { return Judged::Same };
    if row.table() != "Port_Binding" {
        return Judged::Same;
    }
    let Some(row) = new else { return Judged::Fine };
    let chassis = |row: &Row| (reference(row, "chassis"), reference(row, "requested_chassis"));
    let (Some(bound), Some(requested)) = chassis(row) else { return Judged::Fine };
    let text = |column| row.datum(column).and_then(|datum| datum.keys().next()?.as_str().map(str::to_owned));
    // A server too old for conditions sends other ports too.
    if bound == requested || text("type").is_some_and(|kind| !kind.is_empty()) {
        return Judged::Fine;
    }
    if let Some(old) = old {
        let before = chassis(old);
        if before == (Some(bound), Some(requested)) {
            return Judged::Same;
        }
        // The guest is to move, and where it was keeps the port until it is bound where it is to be. That machine may be lost.
        if before == (Some(bound), Some(bound)) {
            return Judged::Fine;
        }
    }
    Judged::Elsewhere { port: text("logical_port").unwrap_or_default(), bound, requested }
}

fn reference(row: &Row, column: &str) -> Option<Uuid> {
    row.datum(column)?.keys().next()?.as_uuid()
}
