//! Metrics of the controller, in the text format of OpenMetrics. `docs/controller.md` lists them.
//!
//! Every label has a bounded set of values: queues, outcomes, and reasons that are words of the program. Nothing that a user writes
//! becomes a label.

mod stopwatch;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use portolan_health::ProcessCollector;
use portolan_watch::Known;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

pub(crate) use self::stopwatch::Stopwatch;
use crate::engine::{Counts, Queues};

/// What a metric of several outcomes is labelled with.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Queue {
    queue: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reason {
    reason: &'static str,
}

/// What became of a write to a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockWrite {
    /// It was done.
    Done,
    /// Somebody else was first.
    Conflict,
    /// It failed, and is tried again.
    Failed,
}

impl LockWrite {
    fn outcome(self) -> Outcome {
        Outcome {
            outcome: match self {
                LockWrite::Done => "done",
                LockWrite::Conflict => "conflict",
                LockWrite::Failed => "failed",
            },
        }
    }
}

/// What became of a northbound transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transacted {
    /// It was committed.
    Committed,
    /// The copy of the database was behind, or there was no answer.
    Outdated,
    /// The database refused it.
    Refused,
}

/// The metrics of a controller. Clones count together.
#[derive(Clone, Debug)]
pub(crate) struct Metrics(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    registry: Registry,
    /// Of other parts of the process.
    others: Vec<Arc<Registry>>,
    queues: Family<Queue, Gauge>,
    decisions: Counter,
    refusals: Family<Reason, Counter>,
    locks_created: Family<Outcome, Counter>,
    locks_moved: Family<Outcome, Counter>,
    locks_deleted: Family<Outcome, Counter>,
    finalizers_refused: Counter,
    transactions: Family<Outcome, Counter>,
    operations: Counter,
    time_to_lock: Histogram,
    time_to_northbound: Histogram,
    followers_behind: Gauge,
    leader: Gauge,
    leader_transitions: Counter,
    chassis_removed: Counter,
    bound_elsewhere: Gauge,
    writer: Gauge,
    northbound_connected: Gauge,
    southbound_connected: Gauge,
    synced: Gauge,
    api_servers: Gauge,
    api_servers_followed: Gauge,
    api_server_changes: Counter,
    stopwatch: Stopwatch,
}

impl Metrics {
    #[cfg(test)]
    pub(crate) fn new() -> Self {
        Self::with(Vec::new())
    }

    /// With those of other parts of the process.
    pub(crate) fn with(others: Vec<Arc<Registry>>) -> Self {
        let mut all = Registry::default();
        let registry = all.sub_registry_with_prefix("portolan_controller");
        // From half a millisecond to a quarter of a minute, and more.
        let histogram = || Histogram::new(exponential_buckets(0.0005, 2.0, 16));
        let inner = Inner {
            others,
            queues: Family::default(),
            decisions: Counter::default(),
            refusals: Family::default(),
            locks_created: Family::default(),
            locks_moved: Family::default(),
            locks_deleted: Family::default(),
            finalizers_refused: Counter::default(),
            transactions: Family::default(),
            operations: Counter::default(),
            time_to_lock: histogram(),
            time_to_northbound: histogram(),
            followers_behind: Gauge::default(),
            leader: Gauge::default(),
            leader_transitions: Counter::default(),
            chassis_removed: Counter::default(),
            bound_elsewhere: Gauge::default(),
            writer: Gauge::default(),
            northbound_connected: Gauge::default(),
            southbound_connected: Gauge::default(),
            synced: Gauge::default(),
            api_servers: Gauge::default(),
            api_servers_followed: Gauge::default(),
            api_server_changes: Counter::default(),
            stopwatch: Stopwatch::default(),
            registry: Registry::default(),
        };
        registry.register("queue_depth", "How much waits in a queue", inner.queues.clone());
        let help = "How often was decided what a requester gets: a pod, a node, a Subnet's gateway, a NetworkAttachment";
        registry.register("decisions", help, inner.decisions.clone());
        let help = "How often a decision left something out, by the reason that is also the Event's";
        registry.register("refusals", help, inner.refusals.clone());
        let help = "Creations of IPLocks; conflict: another has the address, or made the same lock";
        registry.register("lock_creations", help, inner.locks_created.clone());
        let help = "IPLocks that were to follow their holder's pod";
        registry.register("lock_moves", help, inner.locks_moved.clone());
        let help = "Deletions of IPLocks; conflict: it was gone or had changed";
        registry.register("lock_deletions", help, inner.locks_deleted.clone());
        let help = "Writes of finalizers that the API server refused: a right is missing, or others refuse the object";
        registry.register("finalizers_refused", help, inner.finalizers_refused.clone());
        let help = "Transactions sent to OVN's northbound database";
        registry.register("northbound_transactions", help, inner.transactions.clone());
        let help = "OVSDB operations in northbound transactions that were committed";
        registry.register("northbound_operations", help, inner.operations.clone());
        let help = "From observing the last thing that an interface needed to the answer that its first IPLock exists";
        registry.register_with_unit("lock", help, Unit::Seconds, inner.time_to_lock.clone());
        let help =
            "From observing the last thing that an interface needed to the commit of its northbound rows";
        registry.register_with_unit(
            "northbound_commit",
            help,
            Unit::Seconds,
            inner.time_to_northbound.clone(),
        );
        let help = "Kinds that are not followed in step with the API server";
        registry.register("followers_behind", help, inner.followers_behind.clone());
        let help = "1 if this controller acts: it has the Lease, or there is no election";
        registry.register("leader", help, inner.leader.clone());
        let help = "Chassis of nodes that are gone which were removed from OVN's southbound database";
        registry.register("chassis_removed", help, inner.chassis_removed.clone());
        let help = "Ports of guests that another chassis has bound than the one that they are for; 0 on a controller that does not act";
        registry.register("ports_bound_elsewhere", help, inner.bound_elsewhere.clone());
        let help = "How often this controller began or ceased to act";
        registry.register("leader_transitions", help, inner.leader_transitions.clone());
        let help = "1 if this controller has the OVSDB lock on writing the northbound database";
        registry.register("northbound_writer", help, inner.writer.clone());
        let help = "1 while the copy of OVN's northbound database is in step";
        registry.register("northbound_connected", help, inner.northbound_connected.clone());
        let help = "1 while the copy of OVN's southbound database is in step; 0 also without --ovn-sb";
        registry.register("southbound_connected", help, inner.southbound_connected.clone());
        registry.register("synced", "1 once every kind was listed", inner.synced.clone());
        let help = "API servers that the cluster listed last, be it before this process began; 0 where they are not followed";
        registry.register("api_servers", help, inner.api_servers.clone());
        let help = "1 while API servers are followed: a list was read by this process, and a watch is open";
        registry.register("api_servers_followed", help, inner.api_servers_followed.clone());
        let help = "How often a connection went to another API server than the one before";
        registry.register("api_server_changes", help, inner.api_server_changes.clone());
        all.register_collector(Box::new(ProcessCollector));
        Metrics(Arc::new(Inner { registry: all, ..inner }))
    }

    /// All of it.
    pub(crate) fn encode(&self) -> String {
        let mut text = String::new();
        let registries = std::iter::once(&self.0.registry).chain(self.0.others.iter().map(Arc::as_ref));
        for registry in registries {
            encode_registry(&mut text, registry).expect("invariant: writing to memory does not fail");
        }
        encode_eof(&mut text).expect("invariant: writing to memory does not fail");
        text
    }

    pub(crate) fn bound_elsewhere(&self, ports: usize) {
        self.0.bound_elsewhere.set(gauge(ports));
    }

    pub(crate) fn queue(&self, queue: &'static str, depth: usize) {
        self.0.queues.get_or_create(&Queue { queue }).set(gauge(depth));
    }

    pub(crate) fn queues(&self, queues: Queues) {
        self.queue("requesters", queues.requesters);
        self.queue("requesters_waiting", queues.requesters_waiting);
        self.queue("units", queues.units);
        self.queue("units_waiting", queues.units_waiting);
        self.queue("units_refused", queues.units_refused);
        self.queue("objects", queues.objects);
        self.queue("locks_creating", queues.locks_creating);
        self.queue("locks_releasing", queues.locks_releasing);
    }

    pub(crate) fn counts(&self, counts: &Counts) {
        self.0.decisions.inc_by(counts.decisions);
        for (reason, times) in &counts.refusals {
            self.0.refusals.get_or_create(&Reason { reason }).inc_by(*times);
        }
    }

    pub(crate) fn lock_created(&self, write: LockWrite) {
        self.0.locks_created.get_or_create(&write.outcome()).inc();
    }

    pub(crate) fn lock_moved(&self, write: LockWrite) {
        self.0.locks_moved.get_or_create(&write.outcome()).inc();
    }

    pub(crate) fn lock_deleted(&self, write: LockWrite) {
        self.0.locks_deleted.get_or_create(&write.outcome()).inc();
    }

    pub(crate) fn finalizer_refused(&self) {
        self.0.finalizers_refused.inc();
    }

    pub(crate) fn transaction(&self, transacted: Transacted, operations: usize) {
        let outcome = match transacted {
            Transacted::Committed => "committed",
            Transacted::Outdated => "outdated",
            Transacted::Refused => "refused",
        };
        self.0.transactions.get_or_create(&Outcome { outcome }).inc();
        if transacted == Transacted::Committed {
            self.0.operations.inc_by(operations as u64);
        }
    }

    pub(crate) fn time_to_lock(&self, took: Duration) {
        self.0.time_to_lock.observe(took.as_secs_f64());
    }

    pub(crate) fn time_to_northbound(&self, took: Duration) {
        self.0.time_to_northbound.observe(took.as_secs_f64());
    }

    pub(crate) fn followers_behind(&self, kinds: usize) {
        self.0.followers_behind.set(gauge(kinds));
    }

    pub(crate) fn leader(&self, acts: bool) {
        self.0.leader.set(acts.into());
    }

    pub(crate) fn chassis_removed(&self) {
        self.0.chassis_removed.inc();
    }

    pub(crate) fn leader_transition(&self) {
        self.0.leader_transitions.inc();
    }

    pub(crate) fn writer(&self, writes: bool) {
        self.0.writer.set(writes.into());
    }

    pub(crate) fn northbound_connected(&self, connected: bool) {
        self.0.northbound_connected.set(connected.into());
    }

    pub(crate) fn southbound_connected(&self, connected: bool) {
        self.0.southbound_connected.set(connected.into());
    }

    pub(crate) fn synced(&self, synced: bool) {
        self.0.synced.set(synced.into());
    }

    /// What is known of API servers.
    pub(crate) fn api_servers(&self, known: &Known) {
        self.0.api_servers.set(gauge(known.addresses.len()));
        self.0.api_servers_followed.set(known.behind.is_none().into());
        self.0.api_server_changes.inner().store(known.changes, Ordering::Relaxed);
    }

    /// Since when interfaces are on their way.
    pub(crate) fn stopwatch(&self) -> &Stopwatch {
        &self.0.stopwatch
    }
}

fn gauge(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]
mod tests {
    use super::*;

    #[test]
    fn other_parts_of_the_process_are_served_too() {
        let mut other = Registry::default();
        other.register("portolan_other_requests", "Requests", Counter::<u64>::default());
        let text = Metrics::with(vec![Arc::new(other)]).encode();
        assert!(text.contains("\nportolan_controller_synced 0\n"), "{text}");
        assert!(text.contains("\nportolan_other_requests_total 0\n"), "{text}");
        assert!(text.ends_with("# EOF\n") && text.matches("# EOF").count() == 1, "{text}");
    }

    #[test]
    fn every_metric_has_help_a_type_and_a_name_of_ours() {
        let metrics = Metrics::new();
        metrics.counts(&Counts { decisions: 3, refusals: [("SubnetFull", 2)].into() });
        metrics.lock_created(LockWrite::Conflict);
        metrics.transaction(Transacted::Committed, 7);
        metrics.transaction(Transacted::Refused, 7);
        metrics.queues(Queues { units: 5, ..Queues::default() });
        metrics.time_to_lock(Duration::from_millis(3));
        metrics.northbound_connected(true);
        let text = metrics.encode();
        for line in [
            "portolan_controller_decisions_total 3",
            "portolan_controller_refusals_total{reason=\"SubnetFull\"} 2",
            "portolan_controller_lock_creations_total{outcome=\"conflict\"} 1",
            "portolan_controller_northbound_transactions_total{outcome=\"refused\"} 1",
            "portolan_controller_northbound_operations_total 7",
            "portolan_controller_queue_depth{queue=\"units\"} 5",
            "portolan_controller_lock_seconds_bucket{le=\"0.004\"} 1",
            "portolan_controller_lock_seconds_count 1",
            "portolan_controller_northbound_connected 1",
            "portolan_controller_southbound_connected 0",
        ] {
            assert!(text.lines().any(|one| one == line), "{line} is not in:\n{text}");
        }
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let name = line.split(['{', ' ']).next().unwrap();
            assert!(name.starts_with("portolan_controller_") || name.starts_with("process_"), "{line}");
            let described = |what: &str| {
                text.lines().filter_map(|one| one.strip_prefix(what)).any(|rest| {
                    let of = rest.split(' ').next().unwrap_or_default();
                    name.strip_prefix(of)
                        .is_some_and(|suffix| ["", "_total", "_bucket", "_sum", "_count"].contains(&suffix))
                })
            };
            assert!(described("# HELP ") && described("# TYPE "), "{line} is not described:\n{text}");
        }
    }
}
