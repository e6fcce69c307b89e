//! Guests' ports that another chassis has bound than the one that they are for.
//!
//! OVN lets any chassis write any port binding: whoever holds the certificate of one node can draw the traffic of a guest on another to
//! itself. ovn-controller never does so, as it respects `requested-chassis`. So what it would not write is told: by an Event of the guest's
//! object, the log and a metric. It is not undone here; the southbound database is ovn-northd's.
//!
//! Ports of guests are by far the most rows of the database. So they are followed only while this controller acts, by two columns; what a
//! port is called is read when there is something to tell of it.

use std::collections::BTreeMap;
use std::time::Duration;

use ovn_schema::sb::{Chassis, PortBinding};
use ovsdb::change::{Batch, Change};
use ovsdb::{
    Clause, Client, Condition, Endpoints, Members, Monitor, Operation, OperationResult, Row, TlsFiles,
    Transaction, Uuid,
};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::control::Message;
use crate::metrics::Metrics;
use crate::timer::until;

/// How long such a binding lasts before it is told.
const GRACE: Duration = Duration::from_secs(3);
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Follows the bindings of guests' ports.
pub(crate) struct BindingWatch {
    pub(crate) endpoints: Endpoints,
    pub(crate) tls: Option<TlsFiles>,
    pub(crate) engine: mpsc::Sender<Message>,
    /// The term of this controller, while it acts and knows all objects. What was told in another is forgotten.
    pub(crate) term: watch::Receiver<Option<u64>>,
    pub(crate) metrics: Metrics,
}

impl BindingWatch {
    /// Works until nobody tells of terms any more, or the session has ended.
    pub(crate) async fn run(mut self) {
        loop {
            let term = *self.term.borrow_and_update();
            let next = match term {
                Some(term) => self.follow(term).await,
                None => self.term.changed().await.ok(),
            };
            if next.is_none() {
                return;
            }
            self.metrics.bound_elsewhere(0);
        }
    }

    /// Follows the bindings until a term is over; none if nothing can be followed any more.
    async fn follow(&mut self, term: u64) -> Option<()> {
        let southbound = self.connect();
        let mut changes = southbound.changes();
        let mut bindings = Bindings::default();
        loop {
            for (uuid, found) in bindings.due(Instant::now()) {
                let port = port(&southbound, uuid).await;
                if let Some(port) = bindings.tell(uuid, port, Instant::now()) {
                    self.send(term, port, Some(describe(&southbound, found, port))).await;
                }
            }
            self.metrics.bound_elsewhere(bindings.told());
            tokio::select! {
                batch = changes.next() => {
                    for port in bindings.take(&*batch?, Instant::now()) {
                        self.send(term, &port, None).await;
                    }
                }
                changed = self.term.changed() => {
                    changed.ok()?;
                    if *self.term.borrow() != Some(term) {
                        return Some(());
                    }
                }
                () = until(bindings.next_due()) => {}
            }
        }
    }

    fn connect(&self) -> Client {
        let builder =
            Client::builder("OVN_Southbound", self.endpoints.clone()).backoff(FIRST_PAUSE, LONGEST_PAUSE);
        let mut builder = builder.members(Members::Any);
        if let Some(tls) = &self.tls {
            builder = builder.tls(tls.clone());
        }
        let ports = Monitor::of::<PortBinding>()
            .columns([PortBinding::CHASSIS.name(), PortBinding::REQUESTED_CHASSIS.name()])
            .condition(Condition::any_of([PortBinding::TYPE.equals(&String::new())]));
        let chassis = Monitor::of::<Chassis>().columns([Chassis::NAME.name()]);
        builder.monitor(ports).monitor(chassis).connect()
    }

    async fn send(&self, term: u64, port: &str, problem: Option<String>) {
        let port = port.to_owned();
        let message = Message::new(move |engine| engine.port_bound_elsewhere(term, &port, problem));
        // Nobody listens any more only when the controller ends.
        let _ = self.engine.send(message).await;
    }
}

/// What a port is called; none if there is no such port, or nobody can say.
async fn port(southbound: &Client, uuid: Uuid) -> Option<String> {
    let mut transaction = Transaction::new();
    transaction.push(Operation::Select {
        table: "Port_Binding".into(),
        condition: vec![Clause::uuid(uuid)],
        columns: Some(vec![PortBinding::LOGICAL_PORT.name().into()]),
    });
    let reply = southbound.transact(&transaction).await;
    let result = reply.ok()?.results.pop()?;
    let OperationResult::Rows(rows) = result else { return None };
    Some(rows.first()?.datum("logical_port")?.keys().next()?.as_str()?.to_owned())
}

fn describe(southbound: &Client, found: Placement, port: &str) -> String {
    let cache = southbound.read();
    let chassis = |uuid: Uuid| {
        let row = cache.get::<Chassis>(uuid).ok().flatten();
        row.map_or_else(|| uuid.to_string(), |row| row.name)
    };
    let (bound, requested) = (chassis(found.bound), chassis(found.requested));
    tracing::warn!(
        port,
        chassis = bound,
        requested_chassis = requested,
        "a port is bound by another chassis than the one that it is for"
    );
    // What a controller finds when it begins it has not seen come about: the guest may have moved away from a machine that is lost.
    format!(
        "OVN port {port} is bound by chassis {bound} and is for {requested}: traffic for it goes to the wrong node. ovn-controller binds no port \
         that is for another chassis: unless the machine of chassis {bound} was lost and the guest is about to start anew, find out who holds the \
         certificate of that chassis"
    )
}

/// Where a port is, and should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Placement {
    bound: Uuid,
    requested: Uuid,
}

/// The bindings that should not be.
#[derive(Debug, Default)]
struct Bindings(BTreeMap<Uuid, Found>);

/// A binding that should not be.
#[derive(Debug)]
struct Found {
    placement: Placement,
    since: Instant,
    /// This was told.
    is_told: bool,
    /// The port, if this or an earlier such binding of it was told: that it is over is to be told, too.
    port: Option<String>,
}

impl Bindings {
    /// Takes changes in. Answers the ports that were told of and are bound as they should be now, or are gone.
    fn take(&mut self, batch: &Batch, now: Instant) -> Vec<String> {
        batch.changes.iter().filter_map(|change| self.take_one(change, now)).collect()
    }

    fn take_one(&mut self, change: &Change, now: Instant) -> Option<String> {
        let uuid = change.uuid();
        match judge(change.old.as_deref(), change.new.as_deref()) {
            Judged::Same => None,
            Judged::Fine => self.0.remove(&uuid)?.port,
            Judged::Elsewhere(placement) => {
                let known = self.0.remove(&uuid);
                let found = match known {
                    Some(known) if known.placement == placement => known,
                    known => {
                        let port = known.and_then(|known| known.port);
                        Found { placement, since: now, is_told: false, port }
                    }
                };
                self.0.insert(uuid, found);
                None
            }
        }
    }

    /// When something is to be told.
    fn next_due(&self) -> Option<Instant> {
        self.0.values().filter(|found| !found.is_told).map(|found| found.since + GRACE).min()
    }

    /// What is to be told now.
    fn due(&self, now: Instant) -> Vec<(Uuid, Placement)> {
        let due = self.0.iter().filter(|(_, found)| !found.is_told && found.since + GRACE <= now);
        due.map(|(uuid, found)| (*uuid, found.placement)).collect()
    }

    /// A binding is told under this name of its port, which it answers. Without one it is looked at again after a while.
    fn tell(&mut self, uuid: Uuid, port: Option<String>, now: Instant) -> Option<&str> {
        let found = self.0.get_mut(&uuid)?;
        match port {
            Some(_) => (found.is_told, found.port) = (true, port),
            None => {
                found.since = now;
                return None;
            }
        }
        found.port.as_deref()
    }

    /// How many were told.
    fn told(&self) -> usize {
        self.0.values().filter(|found| found.port.is_some()).count()
    }
}

/// What a change of a row says of its binding.
#[derive(Debug, PartialEq, Eq)]
enum Judged {
    /// Nothing that concerns it has changed, or it is no port.
    Same,
    Fine,
    Elsewhere(Placement),
}

fn judge(old: Option<&Row>, new: Option<&Row>) -> Judged {
    let Some(row) = new.or(old) else { return Judged::Same };
    if row.table() != "Port_Binding" {
        return Judged::Same;
    }
    let Some(row) = new else { return Judged::Fine };
    let chassis = |row: &Row| (reference(row, "chassis"), reference(row, "requested_chassis"));
    let (Some(bound), Some(requested)) = chassis(row) else { return Judged::Fine };
    if bound == requested {
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
    Judged::Elsewhere(Placement { bound, requested })
}

fn reference(row: &Row, column: &str) -> Option<Uuid> {
    row.datum(column)?.keys().next()?.as_uuid()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]
mod tests {
    use std::sync::Arc;

    use ovn_schema::sb;
    use ovsdb::{Atom, Datum, Layout, Set};

    use super::*;

    fn row(bound: Option<u128>, requested: Option<u128>) -> Arc<Row> {
        let schema = &sb::schema().tables["Port_Binding"];
        let (layout, _) = Layout::new("Port_Binding", schema, ["chassis", "requested_chassis"]);
        let value = |chassis: Option<u128>| {
            Datum::Set(chassis.map(|number| Atom::Uuid(Uuid::from_u128(number))).into_iter().collect::<Set>())
        };
        Arc::new(Row::new(layout, Uuid::from_u128(7), [value(bound), value(requested)].into()))
    }

    /// A port, as a watch sees it.
    struct Port {
        bindings: Bindings,
        row: Option<Arc<Row>>,
        now: Instant,
    }

    impl Port {
        /// It is bound by that chassis and is for this one.
        fn is(&mut self, bound: u128, requested: u128) -> Vec<String> {
            let new = Some(row(Some(bound), Some(requested)));
            let change = Change { old: std::mem::replace(&mut self.row, new.clone()), new };
            self.bindings.take(&Batch { revision: 0, changes: vec![change] }, self.now)
        }

        /// Whether something is told once the time for it has come.
        fn is_told(&mut self) -> bool {
            self.now += GRACE;
            let due = self.bindings.due(self.now);
            due.iter().any(|(uuid, _)| self.bindings.tell(*uuid, Some("port".into()), self.now).is_some())
        }
    }

    fn port() -> Port {
        Port { bindings: Bindings::default(), row: None, now: Instant::now() }
    }

    #[test]
    fn what_was_told_of_a_port_is_over_once_it_is_bound_where_it_should_be() {
        let mut port = port();
        assert_eq!(port.is(1, 1), [""; 0]);
        assert_eq!(port.is(2, 1), [""; 0]);
        assert!(port.is_told() && !port.is_told());
        // Another one takes it, and gives it back before that is told.
        assert_eq!(port.is(3, 1), [""; 0]);
        assert_eq!(port.bindings.told(), 1);
        assert_eq!(port.is(1, 1), ["port"]);
        assert_eq!(port.bindings.told(), 0);
        // Of what was not told nothing is over.
        assert_eq!(port.is(3, 1), [""; 0]);
        assert_eq!(port.is(1, 1), [""; 0]);
    }

    #[test]
    fn a_guest_that_moves_is_bound_where_it_was_for_a_while() {
        let mut port = port();
        assert_eq!(port.is(1, 1), [""; 0]);
        assert_eq!(port.is(1, 2), [""; 0]);
        assert!(!port.is_told());
        assert_eq!(port.is(2, 2), [""; 0]);
    }

    #[test]
    fn a_port_whose_name_cannot_be_read_is_looked_at_again_after_a_while() {
        let mut port = port();
        port.is(2, 1);
        port.now += GRACE;
        let (uuid, _) = port.bindings.due(port.now)[0];
        assert_eq!(port.bindings.tell(uuid, None, port.now), None);
        assert_eq!(port.bindings.due(port.now), []);
        assert_eq!(port.bindings.next_due(), Some(port.now + GRACE));
        assert!(port.is_told());
    }
}
