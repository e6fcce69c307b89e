//! The Lease itself: one request per function, and what its answer means.

use futures::StreamExt as _;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use portolan_watch::Plain;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::{AFTER_FAILURE, Attempt, DURATION, LeaderElection, Predecessor, Record};

/// The name of the Lease.
pub(super) const NAME: &str = "portolan-controller";

/// What a watch of the Lease shows.
#[derive(Clone, Debug)]
pub(super) enum News {
    /// The watch was opened just now: something may have been missed.
    Unknown,
    /// It says this.
    Seen(Record),
    /// It was deleted.
    Gone,
}

pub(super) struct Leases {
    api: Api<Lease>,
    config: LeaderElection,
    /// The version that was read or written last: whoever writes next must have seen it.
    version: Option<String>,
    transitions: i32,
    /// A write was begun, and its answer has not come.
    in_doubt: bool,
}

impl From<&Lease> for Record {
    fn from(lease: &Lease) -> Self {
        let spec = lease.spec.as_ref();
        let holder = spec.and_then(|spec| spec.holder_identity.clone());
        let renewed = spec.and_then(|spec| spec.renew_time.as_ref());
        Record {
            holder: holder.filter(|holder| !holder.is_empty()),
            renewed: renewed.map(|time| time.0.to_string()).unwrap_or_default(),
        }
    }
}

impl Leases {
    pub(super) fn new(api: Api<Lease>, config: LeaderElection) -> Self {
        Leases { api, config, version: None, transitions: 0, in_doubt: false }
    }

    /// What the Lease says; none if there is none.
    pub(super) async fn get(&mut self) -> Result<Option<Record>, Attempt> {
        match self.api.get_opt(NAME).await {
            Ok(None) => Ok(None),
            Ok(Some(lease)) => {
                self.note(&lease);
                Ok(Some(Record::from(&lease)))
            }
            Err(error) => Err(self.failure(&error)),
        }
    }

    /// Makes the Lease, as one's own.
    pub(super) async fn create(&mut self) -> Attempt {
        let now = MicroTime(Timestamp::now());
        let lease = Lease {
            metadata: ObjectMeta { name: Some(NAME.into()), ..ObjectMeta::default() },
            spec: Some(LeaseSpec {
                holder_identity: Some(self.config.identity.clone()),
                lease_duration_seconds: Some(whole_seconds()),
                acquire_time: Some(now.clone()),
                renew_time: Some(now),
                lease_transitions: Some(0),
                ..LeaseSpec::default()
            }),
        };
        self.in_doubt = true;
        let created = self.api.create(&PostParams::default(), &lease).await;
        self.written(created)
    }

    /// Takes the Lease that was read last.
    pub(super) async fn take(&mut self, from: Option<&str>) -> Attempt {
        let again = from == Some(self.config.identity.as_str());
        let now = MicroTime(Timestamp::now());
        let mut spec = json!({
            "holderIdentity": self.config.identity, "leaseDurationSeconds": whole_seconds(), "renewTime": now,
        });
        if !again {
            spec["acquireTime"] = json!(now);
            spec["leaseTransitions"] = self.transitions.saturating_add(1).into();
        }
        self.patch(spec).await
    }

    /// Renews the Lease that was written last.
    pub(super) async fn renew(&mut self) -> Attempt {
        self.patch(json!({"renewTime": MicroTime(Timestamp::now())})).await
    }

    /// Gives the Lease that was written last back.
    pub(super) async fn release(&mut self) -> Result<(), String> {
        // Where a write was cut off nobody knows whether it was done.
        if (self.version.is_none() || self.in_doubt)
            && let Ok(Some(record)) = self.get().await
            && record.holder.as_ref() != Some(&self.config.identity)
        {
            return Ok(());
        }
        match self.patch(json!({"holderIdentity": null, "renewTime": MicroTime(Timestamp::now())})).await {
            Attempt::Refused(why) | Attempt::Failed(why) => Err(why),
            // Another has it already.
            Attempt::Leads(_) | Attempt::Unfit | Attempt::Waits(_) | Attempt::Raced => Ok(()),
        }
    }

    /// Whether nobody knows if the last write was done, which would have made the Lease this controller's.
    pub(super) fn is_in_doubt(&self) -> bool {
        self.in_doubt
    }

    async fn patch(&mut self, spec: Value) -> Attempt {
        // Without the version it could be another's by now.
        let Some(version) = self.version.take() else { return Attempt::Raced };
        let patch = json!({"metadata": {"resourceVersion": version}, "spec": spec});
        self.in_doubt = true;
        let written = self.api.patch(NAME, &PatchParams::default(), &Patch::Merge(patch)).await;
        if written.as_ref().is_err_and(|error| !matches!(error, kube::Error::Api(_))) {
            // It may or may not have been written. If it was, the next attempt conflicts, and reads it.
            self.version = Some(version);
        }
        self.written(written)
    }

    fn written(&mut self, written: kube::Result<Lease>) -> Attempt {
        self.in_doubt = written.as_ref().is_err_and(|error| !matches!(error, kube::Error::Api(_)));
        match written {
            Ok(lease) => {
                self.note(&lease);
                Attempt::Leads(Predecessor::Gone)
            }
            Err(kube::Error::Api(status)) if status.code == 409 => Attempt::Raced,
            // It was deleted, unless its namespace is what is missing.
            Err(kube::Error::Api(status)) if status.code == 404 && names(&status, "leases", NAME) => {
                Attempt::Raced
            }
            Err(error) => self.failure(&error),
        }
    }

    /// Whether an answer says that this user is not to have the Lease, or only that it cannot be had now.
    fn failure(&self, error: &kube::Error) -> Attempt {
        let text = Plain(error).to_string();
        let kube::Error::Api(status) = error else { return Attempt::Failed(text) };
        match status.code {
            401 | 408 | 409 | 410 | 429 => Attempt::Failed(text),
            // Any other is that of an API server that is starting.
            404 if !names(status, "namespaces", &self.config.namespace) => Attempt::Failed(text),
            400..500 => Attempt::Refused(text),
            _ => Attempt::Failed(text),
        }
    }

    fn note(&mut self, lease: &Lease) {
        self.version.clone_from(&lease.metadata.resource_version);
        self.transitions = lease.spec.as_ref().and_then(|spec| spec.lease_transitions).unwrap_or_default();
    }

    /// Follows the Lease for as long as the second part is kept. Where that fails, elections go on without news, only slower.
    pub(super) fn follow(&self) -> (watch::Receiver<News>, JoinSet<()>) {
        let (sender, news) = watch::channel(News::Unknown);
        let api = self.api.clone();
        let mut task = JoinSet::new();
        task.spawn(async move {
            loop {
                follow_once(&api, &sender).await;
                tokio::time::sleep(AFTER_FAILURE).await;
            }
        });
        (news, task)
    }
}

async fn follow_once(api: &Api<Lease>, news: &watch::Sender<News>) {
    let parameters = WatchParams::default().fields(&format!("metadata.name={NAME}"));
    let mut events = match api.watch(&parameters, "").await {
        Ok(events) => events.boxed(),
        Err(error) => return tracing::debug!(error = %Plain(&error), "cannot follow the Lease"),
    };
    news.send_replace(News::Unknown);
    while let Some(Ok(event)) = events.next().await {
        match event {
            WatchEvent::Added(lease) | WatchEvent::Modified(lease) => {
                news.send_replace(News::Seen(Record::from(&lease)));
            }
            WatchEvent::Deleted(_) => {
                news.send_replace(News::Gone);
            }
            WatchEvent::Bookmark(_) => {}
            WatchEvent::Error(_) => return,
        }
    }
}

/// What the field can say: whole seconds, rounded up.
fn whole_seconds() -> i32 {
    i32::try_from(DURATION.as_millis().div_ceil(1000)).unwrap_or(i32::MAX)
}

/// Whether an answer is about this object.
fn names(status: &kube::core::Status, plural: &str, name: &str) -> bool {
    status
        .details
        .as_ref()
        .is_some_and(|details| (details.kind.as_str(), details.name.as_str()) == (plural, name))
}
