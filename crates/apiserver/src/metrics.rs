//! Metrics of the server.
//!
//! Every label has a bounded set of values: verbs, status codes, and the groups and resources that the registry knows. Nothing that
//! a client writes into a request becomes a label before the request was authorized and routed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::{Method, StatusCode};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::audit::AuditMetrics;
use crate::endpoint::Endpoint;
use crate::registry::Resource;
use crate::request::Verb;
use crate::storage::Storage;
use crate::watch::Hub;

/// The verb and the resource of a request. The resource is empty unless the request was authorized and led to one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct RequestLabels {
    verb: &'static str,
    group: String,
    resource: String,
    subresource: String,
}

impl RequestLabels {
    /// Of a request that led to no resource, or not yet.
    pub(crate) fn of_method(method: &Method) -> RequestLabels {
        let verb = match *method {
            Method::GET => "get",
            Method::HEAD => "head",
            Method::POST => "post",
            Method::PUT => "put",
            Method::PATCH => "patch",
            Method::DELETE => "delete",
            Method::OPTIONS => "options",
            // Clients may invent methods.
            _ => "other",
        };
        RequestLabels { verb, ..RequestLabels::default() }
    }

    /// Of a request that led to an endpoint.
    pub(crate) fn of_endpoint(verb: Verb, endpoint: &Endpoint) -> RequestLabels {
        RequestLabels {
            verb: verb.as_str(),
            group: endpoint.resource.group.clone(),
            resource: endpoint.resource.plural.clone(),
            subresource: endpoint.subresource.clone(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    verb: &'static str,
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

/// Why the server closed a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Closed {
    /// There were as many as are allowed.
    Refused,
    /// The TLS handshake failed or took too long.
    Handshake,
    /// No request came in time.
    NoRequest,
    /// No further request came for long.
    Idle,
    /// The client did not read a response.
    Unread,
}

impl Closed {
    fn reason(self) -> &'static str {
        match self {
            Closed::Refused => "too many connections",
            Closed::Handshake => "no TLS handshake",
            Closed::NoRequest => "no request",
            Closed::Idle => "idle",
            Closed::Unread => "response not read",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabels {
    reason: &'static str,
}

/// The metrics of a server.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<OutcomeLabels, Counter>,
    durations: Family<RequestLabels, Histogram>,
    in_flight: Gauge,
    watches: Family<ResourceLabels, Gauge>,
    connections: Gauge,
    connections_closed: Family<ReasonLabels, Counter>,
}

/// Adds one to a gauge for as long as it exists.
#[derive(Debug)]
pub(crate) struct Counted(Gauge);

impl Counted {
    fn new(gauge: Gauge) -> Counted {
        gauge.inc();
        Counted(gauge)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Metrics {
    pub(crate) fn new(hub: Hub, storage: Storage, audit: Option<&AuditMetrics>) -> Metrics {
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
        let connections = Gauge::default();
        registry.register("connections", "Open connections", connections.clone());
        let connections_closed = Family::<ReasonLabels, Counter>::default();
        let help = "Connections that the server closed or refused";
        registry.register("connections_closed", help, connections_closed.clone());
        if let Some(audit) = audit {
            registry.register("audit_event", "Lines written to the audit log", audit.events.clone());
            let help = "Requests without a line in the audit log, as it could not be written";
            registry.register("audit_error", help, audit.errors.clone());
        }
        registry.register_collector(Box::new(HubCollector { hub, storage }));
        Metrics { registry, requests, durations, in_flight, watches, connections, connections_closed }
    }

    pub(crate) fn begin(&self) -> Counted {
        Counted::new(self.in_flight.clone())
    }

    pub(crate) fn connection(&self) -> Counted {
        Counted::new(self.connections.clone())
    }

    pub(crate) fn connection_closed(&self, why: Closed) {
        self.connections_closed.get_or_create(&ReasonLabels { reason: why.reason() }).inc();
    }

    pub(crate) fn end(&self, gauge: Counted, labels: &RequestLabels, code: StatusCode, took: Duration) {
        drop(gauge);
        let RequestLabels { verb, group, resource, subresource } = labels.clone();
        self.requests
            .get_or_create(&OutcomeLabels { verb, group, resource, subresource, code: code.as_u16() })
            .inc();
        self.durations.get_or_create(labels).observe(took.as_secs_f64());
    }

    pub(crate) fn watch(&self, resource: &Arc<Resource>) -> Counted {
        let labels = ResourceLabels { group: resource.group.clone(), resource: resource.plural.clone() };
        Counted::new(self.watches.get_or_create_owned(&labels))
    }

    /// All of it, in the text format.
    pub(crate) fn encode(&self) -> String {
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("writing to memory does not fail");
        text
    }
}

/// Metrics that the hub and the store keep themselves.
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
            ("watch_considered", "Watchers that an event was compared with", &stats.considered),
            ("watch_delivered", "Events queued for watchers", &stats.delivered),
            ("watch_dropped", "Watchers dropped because their queue was full", &stats.dropped),
        ];
        for (name, help, value) in counters {
            let counter = ConstCounter::new(value.load(Ordering::Relaxed));
            let metric = encoder.encode_descriptor(name, help, None, counter.metric_type())?;
            counter.encode(metric)?;
        }
        let gauges = [
            ("watchers", "Watchers that follow events now", stats.watchers.load(Ordering::Relaxed)),
            ("store_revision", "The store's last revision", self.storage.revision().0),
            ("watch_revision", "The last revision that was dispatched to watchers", self.hub.position().0),
        ];
        for (name, help, value) in gauges {
            let gauge = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
            let metric = encoder.encode_descriptor(name, help, None, gauge.metric_type())?;
            gauge.encode(metric)?;
        }
        Ok(())
    }
}
