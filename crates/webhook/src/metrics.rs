//! What the webhook counts. `docs/webhooks.md` lists it.

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The object is as it should be.
    Allowed,
    /// The object is refused.
    Refused,
    /// There was nothing to judge: `spec` is what it was, or the object goes.
    Unchanged,
    /// Allowed, because it could not be known in time how the object fits the others.
    Unconfirmed,
    /// Allowed, because the kind is none that is judged.
    Unknown,
    /// The request was no question, or took too long.
    Failed,
}

impl Verdict {
    fn as_str(self) -> &'static str {
        match self {
            Verdict::Allowed => "allowed",
            Verdict::Refused => "refused",
            Verdict::Unchanged => "unchanged",
            Verdict::Unconfirmed => "unconfirmed",
            Verdict::Unknown => "unknown",
            Verdict::Failed => "failed",
        }
    }
}

/// Labels have a bounded set of values: nothing that a request says becomes one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    kind: &'static str,
    verdict: &'static str,
}

/// The metrics of a webhook server. Clones count together.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    registry: Arc<Registry>,
    requests: Family<Labels, Counter>,
    duration: Histogram,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut all = Registry::default();
        let registry = all.sub_registry_with_prefix("portolan_webhook");
        let requests = Family::default();
        registry.register(
            "requests",
            "AdmissionReviews, by the kind and what became of it",
            requests.clone(),
        );
        // From half a millisecond to more than what the API server waits for.
        let duration = Histogram::new(exponential_buckets(0.0005, 2.0, 14));
        let help = "How long an AdmissionReview took";
        registry.register_with_unit("request_duration", help, Unit::Seconds, duration.clone());
        Metrics { registry: Arc::new(all), requests, duration }
    }

    pub(crate) fn registry(&self) -> Arc<Registry> {
        Arc::clone(&self.registry)
    }

    pub(crate) fn answered(&self, kind: &'static str, verdict: Verdict, took: Duration) {
        self.requests.get_or_create(&Labels { kind, verdict: verdict.as_str() }).inc();
        self.duration.observe(took.as_secs_f64());
    }
}
