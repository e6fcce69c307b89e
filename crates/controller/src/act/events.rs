//! Events. One that says something new is a new one: the recorder of kube would count it as another of its reason, and keep the
//! old text.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Mutex, PoisonError};

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::{Event, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::core::Status;
use kube::{Api, Client};
use portolan_watch::Plain;
use serde_json::json;

use super::writer::Write;
use crate::engine::{Severity, Subject};

/// Who reports.
const CONTROLLER: &str = "portolan-controller";
/// The API server refuses longer notes.
const LONGEST_NOTE: usize = 1024;
/// The cause that the API server gives while it deletes a namespace.
const NAMESPACE_TERMINATING: &str = "NamespaceTerminating";

/// What an Event is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EventKey {
    pub(crate) subject: Subject,
    pub(crate) uid: String,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

/// Writes Events.
pub(crate) struct EventWriter {
    client: Client,
    /// Namespaces of which was said that no Events can be written there.
    forbidden: Mutex<BTreeSet<String>>,
}

impl EventWriter {
    pub(crate) fn new(client: Client) -> Self {
        EventWriter { client, forbidden: Mutex::default() }
    }

    /// Whether somebody has to give a right: the API server forbids to write to a namespace that is not going, and that was not said
    /// of this namespace yet.
    fn is_news(&self, namespace: &str, status: &Status) -> bool {
        let causes = status.details.iter().flat_map(|details| &details.causes);
        let is_going = causes.clone().any(|cause| cause.reason == NAMESPACE_TERMINATING);
        let mut forbidden = self.forbidden.lock().unwrap_or_else(PoisonError::into_inner);
        status.code == 403 && !is_going && forbidden.insert(namespace.to_owned())
    }
}

impl Write for EventWriter {
    type Key = EventKey;
    type Value = Severity;
    /// Events are for people: an API server that is away for long is no reason to keep them.
    const ATTEMPTS: Option<u32> = Some(8);

    fn merge(_: Severity, newer: Severity) -> Severity {
        newer
    }

    async fn write(&self, key: EventKey, severity: Severity) -> Result<(), String> {
        let namespace = key.subject.namespace.as_deref().unwrap_or("default");
        let events = Api::<Event>::namespaced(self.client.clone(), namespace);
        let event = event(&key, severity, namespace);
        let name = event.metadata.name.clone().unwrap_or_default();
        tracing::info!(
            kind = key.subject.kind,
            namespace,
            name = key.subject.name,
            reason = key.reason,
            "{}",
            key.message
        );
        match events.create(&PostParams::default(), &event).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.is_already_exists() => again(&events, &name).await,
            // It would be no better the next time: the right is missing, or the namespace is going.
            Err(kube::Error::Api(status)) if status.code == 403 || status.code == 404 => {
                if self.is_news(namespace, &status) {
                    tracing::warn!(
                        namespace,
                        error = status.message,
                        "the controller may not write Events of events.k8s.io here, so nobody sees them; give it the right to create, get and patch them"
                    );
                }
                tracing::debug!(name, error = status.message, "no Event can be written");
                Ok(())
            }
            Err(error) => Err(Plain(&error).to_string()),
        }
    }
}

/// The same was reported before: now is the last time.
async fn again(events: &Api<Event>, name: &str) -> Result<(), String> {
    let plain = |error: kube::Error| Plain(&error).to_string();
    let Some(event) = events.get_opt(name).await.map_err(plain)? else {
        return Err("the Event expired".into());
    };
    let count = event.series.map_or(2, |series| series.count + 1);
    let series = EventSeries { count, last_observed_time: MicroTime(Timestamp::now()) };
    let patch = Patch::Merge(json!({"series": series}));
    events.patch(name, &PatchParams::default(), &patch).await.map(drop).map_err(plain)
}

fn event(key: &EventKey, severity: Severity, namespace: &str) -> Event {
    let EventKey { subject, uid, reason, message } = key;
    let mut hasher = DefaultHasher::new();
    (uid, reason, message).hash(&mut hasher);
    let mut note = message.clone();
    if note.len() > LONGEST_NOTE {
        note.truncate(note.floor_char_boundary(LONGEST_NOTE - 3));
        note.push_str("...");
    }
    let severity = match severity {
        Severity::Warning => "Warning",
        Severity::Normal => "Normal",
    };
    Event {
        metadata: ObjectMeta {
            name: Some(format!("{}.{:016x}", subject.name, hasher.finish())),
            namespace: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        },
        action: Some("Attach".to_owned()),
        reason: Some((*reason).to_owned()),
        note: Some(note),
        type_: Some(severity.to_owned()),
        event_time: Some(MicroTime(Timestamp::now())),
        reporting_controller: Some(CONTROLLER.to_owned()),
        reporting_instance: Some(std::env::var("POD_NAME").unwrap_or_else(|_| CONTROLLER.to_owned())),
        regarding: Some(ObjectReference {
            api_version: Some(subject.api_version.clone()),
            kind: Some(subject.kind.clone()),
            namespace: subject.namespace.clone(),
            name: Some(subject.name.clone()),
            uid: Some(uid.clone()),
            ..ObjectReference::default()
        }),
        ..Event::default()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]
mod tests {
    use portolan_watch::fake::FakeApi;

    use super::*;

    fn forbidden(details: &serde_json::Value) -> Status {
        serde_json::from_value(json!({"status": "Failure", "code": 403, "reason": "Forbidden",
            "message": "events.events.k8s.io is forbidden", "details": details}))
        .unwrap()
    }

    #[tokio::test]
    async fn a_missing_right_is_said_once_for_each_namespace_that_is_not_going() {
        let writer = EventWriter::new(FakeApi::default().client());
        let going =
            forbidden(&json!({"causes": [{"reason": "NamespaceTerminating", "message": "", "field": ""}]}));
        assert!(!writer.is_news("default", &going));
        let missing = forbidden(&json!({"kind": "events"}));
        assert!(writer.is_news("default", &missing), "also if it was going before");
        assert!(!writer.is_news("default", &missing));
        assert!(writer.is_news("other", &missing));
        let absent = Status { code: 404, ..missing };
        assert!(!writer.is_news("third", &absent));
    }
}
