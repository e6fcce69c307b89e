//! What the server counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::StatusCode;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::registry::Resource;
use crate::storage::Storage;
use crate::watch::Hub;

/// What a request was about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct RequestLabels {
    pub(crate) verb: String,
    pub(crate) group: String,
    pub(crate) resource: String,
    pub(crate) subresource: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    verb: String,
    group: String,
    resource: String,
    subresource: String,
    code: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResourceLabels {
    group: String,
    resource: String,
}

/// What the server counts.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<OutcomeLabels, Counter>,
    durations: Family<RequestLabels, Histogram>,
    in_flight: Gauge,
    watches: Family<ResourceLabels, Gauge>,
}

/// Counts a request while it is under way.
#[derive(Debug)]
pub(crate) struct InFlightGauge(Gauge);

impl Drop for InFlightGauge {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Counts a watch while it lasts.
#[derive(Debug)]
pub(crate) struct WatchGauge(Gauge);

impl Drop for WatchGauge {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Metrics {
    pub(crate) fn new(hub: Hub, storage: Storage) -> Metrics {
        let mut registry = Registry::with_prefix("apiserver");
        let requests = Family::<OutcomeLabels, Counter>::default();
        registry.register("request", "Requests answered", requests.clone());
        let durations = Family::<RequestLabels, Histogram>::new_with_constructor(|| {
            Histogram::new(exponential_buckets(0.0005, 2.0, 16))
        });
        registry.register("request_duration_seconds", "How long requests took", durations.clone());
        let in_flight = Gauge::default();
        registry.register("current_inflight_requests", "Requests under way", in_flight.clone());
        let watches = Family::<ResourceLabels, Gauge>::default();
        registry.register("longrunning_requests", "Watches under way", watches.clone());
        registry.register_collector(Box::new(HubCollector { hub, storage }));
        Metrics { registry, requests, durations, in_flight, watches }
    }

    pub(crate) fn begin(&self) -> InFlightGauge {
        self.in_flight.inc();
        InFlightGauge(self.in_flight.clone())
    }

    pub(crate) fn end(&self, gauge: InFlightGauge, labels: RequestLabels, code: StatusCode, took: Duration) {
        drop(gauge);
        // Paths that lead nowhere would make as many counters as there are wrong paths.
        let labels = if code == StatusCode::NOT_FOUND && labels.verb != "get" {
            RequestLabels { verb: labels.verb, ..RequestLabels::default() }
        } else {
            labels
        };
        let RequestLabels { verb, group, resource, subresource } = labels.clone();
        self.requests
            .get_or_create(&OutcomeLabels { verb, group, resource, subresource, code: code.as_u16() })
            .inc();
        self.durations.get_or_create(&labels).observe(took.as_secs_f64());
    }

    pub(crate) fn watch(&self, resource: &Arc<Resource>) -> WatchGauge {
        let labels = ResourceLabels { group: resource.group.clone(), resource: resource.plural.clone() };
        let gauge = self.watches.get_or_create_owned(&labels);
        gauge.inc();
        WatchGauge(gauge)
    }

    /// All of it, in the text format.
    pub(crate) fn encode(&self) -> String {
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("writing to memory does not fail");
        text
    }
}

/// What the hub and the store count by themselves.
#[derive(Debug)]
struct HubCollector {
    hub: Hub,
    storage: Storage,
}

impl Collector for HubCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let stats = self.hub.stats();
        let counters: [(&str, &str, &AtomicU64); 4] = [
            ("watch_events", "Events of objects read from the store", &stats.events),
            ("watch_considered", "Watchers looked at for events", &stats.considered),
            ("watch_delivered", "Events given to watchers", &stats.delivered),
            ("watch_dropped", "Watchers dropped for being slow", &stats.dropped),
        ];
        for (name, help, value) in counters {
            let counter = ConstCounter::new(value.load(Ordering::Relaxed));
            let metric = encoder.encode_descriptor(name, help, None, counter.metric_type())?;
            counter.encode(metric)?;
        }
        let gauges = [
            ("watchers", "Watchers now", stats.watchers.load(Ordering::Relaxed)),
            ("store_revision", "The store's last revision", self.storage.revision().0),
            ("watch_revision", "The last revision given to watchers", self.hub.position().0),
        ];
        for (name, help, value) in gauges {
            let gauge = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
            let metric = encoder.encode_descriptor(name, help, None, gauge.metric_type())?;
            gauge.encode(metric)?;
        }
        Ok(())
    }
}
