//! Asking one webhook.

use apimachinery::Status;
use apimachinery::patch::JsonPatch;
use bytes::Bytes;
use serde_json::Value;
use uuid::Uuid;

use super::client::{Client, Destination, Post};
use super::failure;
use super::hook::{FailurePolicy, Hook, PORT, ReviewVersion, SideEffects, Target};
use super::matching::Subject;
use super::review::{Purpose, Question, Unanswered, Verdict, denied};
use super::service::{ServicePort, ServiceResolver};
use crate::api::Api;
use crate::endpoint::Endpoint;

/// What asking takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caller<'a> {
    pub(super) api: &'a Api,
    pub(super) client: &'a Client,
    pub(super) resolver: &'a dyn ServiceResolver,
    pub(super) purpose: Purpose,
}

/// Why a request does not go on.
#[derive(Debug)]
enum Refusal {
    /// It was denied, or cannot be allowed.
    Denied(Box<Status>),
    /// The webhook could not be asked; whether that matters is up to its configuration.
    Uncallable(String),
}

/// A change that a webhook wants.
#[derive(Debug)]
pub(super) struct WantedPatch {
    patch: JsonPatch,
}

impl Caller<'_> {
    /// Asks a webhook, which wants to see that version of the object. Returns what it wants changed, and what the client
    /// should be told.
    pub(super) async fn ask(
        &self,
        hook: &Hook,
        version: usize,
        subject: Subject<'_>,
    ) -> (Result<Option<WantedPatch>, Status>, Vec<String>) {
        let mut warnings = Vec::new();
        let answer = match self.try_ask(hook, version, subject, &mut warnings).await {
            Ok(patch) => Ok(patch),
            Err(Refusal::Denied(status)) => Err(*status),
            Err(Refusal::Uncallable(why)) if hook.on_failure == FailurePolicy::Ignore => {
                tracing::warn!(webhook = &*hook.name, why, "a webhook that cannot be asked is ignored");
                Ok(None)
            }
            Err(Refusal::Uncallable(why)) => Err(Status::internal_error(why)),
        };
        (answer, warnings)
    }

    async fn try_ask(
        &self,
        hook: &Hook,
        version: usize,
        subject: Subject<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<Option<WantedPatch>, Refusal> {
        let uncallable =
            |why: String| Refusal::Uncallable(format!("failed calling webhook {:?}: {why}", hook.name));
        if subject.attributes.options.dry_run
            && !matches!(hook.side_effects, SideEffects::None | SideEffects::NoneOnDryRun)
        {
            let why = format!("admission webhook {:?} does not support dry run", hook.name);
            return Err(Refusal::Denied(Box::new(Status::bad_request(why))));
        }
        let Some(review_version) = hook.review_version else {
            let why = "webhook does not accept known AdmissionReview versions (v1, v1beta1)";
            return Err(uncallable(format!("could not create admission objects: {why}")));
        };
        let uid = Uuid::new_v4().to_string();
        let body = question_body(review_version, version, subject, &uid);
        let body = body.map_err(|status| Refusal::Denied(Box::new(status)))?;
        let answer = tokio::time::timeout(hook.timeout, self.post(hook, body)).await;
        let url = |target: &Target| target.url(hook.timeout);
        let answer = match answer {
            Ok(Ok(answer)) => answer,
            Ok(Err(why)) => return Err(uncallable(why)),
            Err(_) => {
                let url = hook.target.as_ref().map(url).unwrap_or_default();
                return Err(uncallable(format!(
                    "failed to call webhook: Post {url:?}: context deadline exceeded"
                )));
            }
        };
        let verdict =
            Verdict::read(&answer, review_version, &uid, self.purpose).map_err(
                |unanswered| match unanswered {
                    Unanswered::Undecodable(why) => uncallable(format!("failed to call webhook: {why}")),
                    Unanswered::Invalid(why) => {
                        uncallable(format!("received invalid webhook response: {why}"))
                    }
                    Unanswered::Unsupported(why) => uncallable(why),
                },
            )?;
        warnings.extend(verdict.warnings);
        if !verdict.allowed {
            return Err(Refusal::Denied(Box::new(denied(&hook.name, verdict.status))));
        }
        if verdict.patch.is_empty() {
            return Ok(None);
        }
        let patch = JsonPatch::parse(&verdict.patch).map_err(|error| {
            uncallable(format!("received undecodable patch in webhook response: {error}"))
        })?;
        Ok(Some(WantedPatch { patch }))
    }

    async fn post(&self, hook: &Hook, body: Bytes) -> Result<Bytes, String> {
        let no_client = |why: &String| format!("could not get REST client: {why}");
        let target = hook.target.as_ref().map_err(no_client)?;
        let trust = hook.trust.as_ref().map_err(no_client)?;
        let posted =
            |why: String| format!("failed to call webhook: Post {:?}: {why}", target.url(hook.timeout));
        let address = self.address(target).await.map_err(posted)?;
        let destination = Destination { address, server_name: target.server_name(), trust };
        let post =
            Post { authority: target.authority(), path_and_query: target.path_and_query(hook.timeout), body };
        let answer = self.client.post(&destination, &post).await.map_err(posted)?;
        match failure::of_answer(&answer) {
            None => Ok(answer.body),
            Some(why) => Err(format!("failed to call webhook: {why}")),
        }
    }

    async fn address(&self, target: &Target) -> Result<(String, u16), String> {
        match target {
            Target::Url { host, port, .. } => Ok((host.clone(), port.unwrap_or(PORT))),
            Target::Service { namespace, name, port, .. } => {
                let service = ServicePort { namespace, name, port: *port };
                self.resolver.resolve(self.api, service).await
            }
        }
    }
}

/// The question as it is sent, in the version that the webhook wants.
fn question_body(
    review_version: ReviewVersion,
    version: usize,
    subject: Subject<'_>,
    uid: &str,
) -> Result<Bytes, Status> {
    let attributes = subject.attributes;
    let endpoint = attributes.endpoint;
    let (mut object, mut old) = (None, None);
    if version != endpoint.version {
        let in_version =
            |object: Option<&Value>| object.map(|object| converted(endpoint, version, object)).transpose();
        object = in_version(subject.object)?;
        old = in_version(attributes.old)?;
    }
    let question = Question {
        attributes,
        version,
        namespace: subject.namespace(),
        object: object.as_ref().or(subject.object),
        old: old.as_ref().or(attributes.old),
    };
    let review = question.to_review(review_version, uid);
    Ok(serde_json::to_vec(&review).expect("a JSON value is always serialised to memory").into())
}

fn converted(endpoint: &Endpoint, version: usize, object: &Value) -> Result<Value, Status> {
    let mut object = object.clone();
    let resource = &endpoint.resource;
    resource.strategy.convert(&mut object, &resource.api_version(&resource.versions[version].name))?;
    Ok(object)
}

impl WantedPatch {
    /// Changes an object as the webhook wants, which has seen it in that version. Returns whether anything changed.
    pub(super) fn apply(
        self,
        endpoint: &Endpoint,
        version: usize,
        object: &mut Value,
    ) -> Result<bool, Status> {
        let seen =
            if version == endpoint.version { object.clone() } else { converted(endpoint, version, object)? };
        let mut patched = self.patch.apply(seen).map_err(Status::internal_error)?;
        if !patched.is_object() {
            return Err(Status::internal_error("what a webhook made of the object is no object"));
        }
        if version != endpoint.version {
            patched = converted(endpoint, endpoint.version, &patched)?;
        }
        // Webhooks may leave out what has a default, and write what the kind does not have.
        if let Some(schema) = &endpoint.version().schema {
            apischema::prune(&mut patched, schema);
        }
        endpoint.resource.strategy.set_defaults(&mut patched);
        let changed = *object != patched;
        *object = patched;
        Ok(changed)
    }
}
