//! Metrics of the agent, in the text format of OpenMetrics. `docs/agent.md` lists them.
//!
//! Every label has a bounded set of values: verbs, steps, codes and changes are words of the program.

use std::sync::Arc;
use std::time::Duration;

use portolan_cni::{CniError, Code, Verb};
use portolan_health::ProcessCollector;
use portolan_plan::host::Change;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use crate::steps::Step;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfVerb {
    verb: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfStep {
    step: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Failed {
    verb: &'static str,
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfMonitor {
    what: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfChange {
    change: &'static str,
    outcome: &'static str,
}

/// The metrics of an agent. Clones count together.
#[derive(Clone, Debug)]
pub(crate) struct Metrics(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    registry: Registry,
    calls: Family<OfVerb, Histogram>,
    steps: Family<OfStep, Histogram>,
    failures: Family<Failed, Counter>,
    in_progress: Family<OfVerb, Gauge>,
    changes: Family<OfChange, Counter>,
    guards_missed: Counter,
    watching: Family<OfMonitor, Gauge>,
    planned: Counter,
    gauges: Gauges,
}

/// What is read when metrics are asked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gauges {
    pub(crate) units: Gauge,
    pub(crate) units_failing: Gauge,
    pub(crate) followers_behind: Gauge,
    pub(crate) vswitch_connected: Gauge,
    pub(crate) node_problem: Gauge,
    pub(crate) api_servers: Gauge,
    pub(crate) api_servers_followed: Gauge,
    pub(crate) api_server_changes: Counter,
}

/// A call in progress, until it is dropped.
pub(crate) struct InProgress(Gauge);

impl Drop for InProgress {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Metrics {
    pub(crate) fn new() -> Self {
        // From half a millisecond to a quarter of a minute, and more.
        let histogram = || Histogram::new(exponential_buckets(0.0005, 2.0, 16));
        let mut all = Registry::default();
        let registry = all.sub_registry_with_prefix("portolan_agent");
        let inner = Inner {
            registry: Registry::default(),
            calls: Family::new_with_constructor(histogram),
            steps: Family::new_with_constructor(histogram),
            failures: Family::default(),
            in_progress: Family::default(),
            changes: Family::default(),
            guards_missed: Counter::default(),
            watching: Family::default(),
            planned: Counter::default(),
            gauges: Gauges::default(),
        };
        let help = "How long calls of the CNI plugin took, by verb";
        registry.register_with_unit("cni", help, Unit::Seconds, inner.calls.clone());
        let help =
            "How long the steps of ADD and DEL took; a step of several interfaces counts once for each";
        registry.register_with_unit("cni_step", help, Unit::Seconds, inner.steps.clone());
        let help = "Calls of the CNI plugin that failed, by verb and kind of error";
        registry.register("cni_failures", help, inner.failures.clone());
        registry.register(
            "cni_in_progress",
            "Calls of the CNI plugin in progress",
            inner.in_progress.clone(),
        );
        let help = "Changes of ports, links, guards and offloads";
        registry.register("changes", help, inner.changes.clone());
        let help = "Guards of links that somebody else removed or changed";
        registry.register("guards_missed", help, inner.guards_missed.clone());
        let help =
            "1 while the kernel reports changes of this to the agent, 0 while that cannot be asked for";
        registry.register("watching", help, inner.watching.clone());
        let help = "How often a unit was planned: an interface of a pod, or a port of the node";
        registry.register("units_planned", help, inner.planned.clone());
        let Gauges {
            units,
            units_failing,
            followers_behind,
            vswitch_connected,
            node_problem,
            api_servers,
            api_servers_followed,
            api_server_changes,
        } = &inner.gauges;
        registry.register(
            "units",
            "Interfaces of pods and of the node of which something is there",
            units.clone(),
        );
        let help = "Of these, those whose last change failed";
        registry.register("units_failing", help, units_failing.clone());
        let help = "Kinds that are not followed in step with the API server";
        registry.register("followers_behind", help, followers_behind.clone());
        let help = "1 while the copy of Open vSwitch's database is in step";
        registry.register("vswitch_connected", help, vswitch_connected.clone());
        let help = "1 while the Node has the annotation portolan.dev/problem";
        registry.register("node_problem", help, node_problem.clone());
        let help = "API servers that the cluster listed last, be it before this process began; 0 where they are not followed";
        registry.register("api_servers", help, api_servers.clone());
        let help = "1 while API servers are followed: a list was read by this process, and a watch is open";
        registry.register("api_servers_followed", help, api_servers_followed.clone());
        let help = "How often a connection went to another API server than the one before";
        registry.register("api_server_changes", help, api_server_changes.clone());
        all.register_collector(Box::new(ProcessCollector));
        Self(Arc::new(Inner { registry: all, ..inner }))
    }

    /// A call begins.
    pub(crate) fn call_begins(&self, verb: Verb) -> InProgress {
        let gauge = self.0.in_progress.get_or_create_owned(&OfVerb { verb: verb_name(verb) });
        gauge.inc();
        InProgress(gauge)
    }

    /// A call ended.
    pub(crate) fn call_ended(&self, verb: Verb, took: Duration, error: Option<&CniError>) {
        let verb = verb_name(verb);
        self.0.calls.get_or_create(&OfVerb { verb }).observe(took.as_secs_f64());
        if let Some(error) = error {
            self.0.failures.get_or_create(&Failed { verb, reason: reason(error) }).inc();
        }
    }

    pub(crate) fn step(&self, step: Step, took: Duration) {
        self.0.steps.get_or_create(&OfStep { step: step.name() }).observe(took.as_secs_f64());
    }

    pub(crate) fn changed(&self, change: &Change) {
        self.0.changes.get_or_create(&OfChange { change: change_name(change), outcome: "done" }).inc();
    }

    pub(crate) fn change_failed(&self, change: &Change) {
        self.0.changes.get_or_create(&OfChange { change: change_name(change), outcome: "failed" }).inc();
    }

    /// Checksum offload of the link that tunnels use was turned off.
    pub(crate) fn offload_changed(&self, outcome: &'static str) {
        self.0.changes.get_or_create(&OfChange { change: "offload", outcome }).inc();
    }

    pub(crate) fn guard_missed(&self) {
        self.0.guards_missed.inc();
    }

    /// Whether changes of something are reported.
    pub(crate) fn watches(&self, what: &'static str, is_watched: bool) {
        self.0.watching.get_or_create(&OfMonitor { what }).set(is_watched.into());
    }

    /// So many units were planned.
    pub(crate) fn planned(&self, units: u64) {
        self.0.planned.inc_by(units);
    }

    /// All of it.
    pub(crate) fn encode(&self, set: impl FnOnce(&Gauges)) -> String {
        set(&self.0.gauges);
        let mut text = String::new();
        encode(&mut text, &self.0.registry).expect("invariant: writing to memory does not fail");
        text
    }
}

fn verb_name(verb: Verb) -> &'static str {
    match verb {
        Verb::Add => "ADD",
        Verb::Del => "DEL",
        Verb::Check => "CHECK",
        Verb::Gc => "GC",
        Verb::Status => "STATUS",
    }
}

fn reason(error: &CniError) -> &'static str {
    let codes = [
        (Code::IncompatibleVersion, "IncompatibleVersion"),
        (Code::UnsupportedField, "UnsupportedField"),
        (Code::UnknownContainer, "UnknownContainer"),
        (Code::InvalidEnvironment, "InvalidEnvironment"),
        (Code::Io, "Io"),
        (Code::Decoding, "Decoding"),
        (Code::InvalidConfig, "InvalidConfig"),
        (Code::TryAgainLater, "TryAgainLater"),
        (Code::NotAvailable, "NotAvailable"),
        (Code::LimitedConnectivity, "LimitedConnectivity"),
        (Code::Setup, "Setup"),
        (Code::CheckFailed, "CheckFailed"),
    ];
    codes.into_iter().find(|(code, _)| *code as u32 == error.code).map_or("Other", |(_, name)| name)
}

/// A change as metrics name it.
pub(crate) fn change_name(change: &Change) -> &'static str {
    match change {
        Change::Plug(..) => "plug",
        Change::Correct(..) => "correct",
        Change::Unplug(_) => "unplug",
        Change::RaiseNextCfg(_) => "raise_next_cfg",
        Change::MakeTap(..) => "make_tap",
        Change::RemoveLink(_) => "remove_link",
        Change::Release(..) => "release",
        Change::Guard(..) => "guard",
        Change::Prepare(..) => "prepare",
        Change::SetUp(_) => "set_up",
        Change::SetDown(_) => "set_down",
        Change::RemoveGuard(_) => "remove_guard",
    }
}

#[cfg(test)]
mod tests {
    use portolan_plan::host::{Admits, LinkName};

    use super::*;

    #[test]
    fn calls_steps_and_changes_are_counted_by_words_of_the_program() {
        let metrics = Metrics::new();
        let _add = metrics.call_begins(Verb::Add);
        drop(metrics.call_begins(Verb::Del));
        metrics.call_ended(Verb::Add, Duration::from_millis(3), None);
        let error = CniError::new(Code::TryAgainLater, "the name of a pod", "");
        metrics.call_ended(Verb::Del, Duration::from_millis(3), Some(&error));
        metrics.step(Step::Installed, Duration::from_millis(3));
        metrics.changed(&Change::Guard(LinkName::new("c1", "eth0"), Admits::Nothing));
        metrics.change_failed(&Change::Unplug(LinkName::new("c1", "eth0")));
        metrics.guard_missed();
        let text = metrics.encode(|gauges| {
            gauges.units.set(3);
        });
        for line in [
            "portolan_agent_cni_seconds_count{verb=\"ADD\"} 1",
            "portolan_agent_cni_step_seconds_count{step=\"installed\"} 1",
            "portolan_agent_cni_failures_total{verb=\"DEL\",reason=\"TryAgainLater\"} 1",
            "portolan_agent_cni_in_progress{verb=\"ADD\"} 1",
            "portolan_agent_cni_in_progress{verb=\"DEL\"} 0",
            "portolan_agent_changes_total{change=\"guard\",outcome=\"done\"} 1",
            "portolan_agent_changes_total{change=\"unplug\",outcome=\"failed\"} 1",
            "portolan_agent_guards_missed_total 1",
            "portolan_agent_units 3",
        ] {
            assert!(text.lines().any(|one| one == line), "{line} is not in:\n{text}");
        }
        assert!(text.contains("process_resident_memory_bytes ") && !text.contains("pod\""), "{text}");
    }
}
