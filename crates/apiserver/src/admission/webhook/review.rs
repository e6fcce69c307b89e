//! The question that is put to a webhook, and its answer.

use apimachinery::Status;
use apimachinery::status::Reason;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::hook::ReviewVersion;
use crate::admission::{Attributes, Operation};
use crate::authn::UserInfo;
use crate::options::{FieldValidation, WriteOptions};
use crate::registry::{Resource, SubresourceKind};

/// What an AdmissionReview asks about.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question<'a> {
    pub(super) attributes: Attributes<'a>,
    /// The place of the version that the webhook wants among the resource's.
    pub(super) version: usize,
    pub(super) namespace: &'a str,
    pub(super) object: Option<&'a Value>,
    pub(super) old: Option<&'a Value>,
}

impl Question<'_> {
    /// The AdmissionReview.
    pub(super) fn to_review(self, version: ReviewVersion, uid: &str) -> Value {
        let Question { attributes, namespace, object, old, .. } = self;
        let (endpoint, operation) = (attributes.endpoint, attributes.operation);
        let resource = &endpoint.resource;
        let mut request = json!({
            "uid": uid,
            "kind": kind(resource, self.version, &endpoint.subresource),
            "resource": group_version_resource(resource, self.version),
            "requestKind": kind(resource, endpoint.version, &endpoint.subresource),
            "requestResource": group_version_resource(resource, endpoint.version),
            "operation": operation.as_str(),
            "userInfo": user_info(&attributes.context.user),
            "object": object,
            "oldObject": old,
            "dryRun": attributes.options.dry_run,
            "options": options(operation, attributes.options),
        });
        for (field, text) in [
            ("subResource", endpoint.subresource.as_str()),
            ("requestSubResource", endpoint.subresource.as_str()),
            ("name", attributes.name),
            ("namespace", namespace),
        ] {
            if !text.is_empty() {
                request[field] = text.into();
            }
        }
        json!({"kind": "AdmissionReview", "apiVersion": version.api_version(), "request": request})
    }
}

fn kind(resource: &Resource, version: usize, subresource: &str) -> Value {
    let version = &resource.versions[version];
    match version.find_subresource(subresource).map(|subresource| &subresource.kind) {
        Some(SubresourceKind::Custom { group, version, kind, .. }) => {
            json!({"group": group, "version": version, "kind": kind})
        }
        _ => json!({"group": resource.group, "version": version.name, "kind": resource.kind}),
    }
}

fn group_version_resource(resource: &Resource, version: usize) -> Value {
    json!({"group": resource.group, "version": resource.versions[version].name, "resource": resource.plural})
}

pub(super) fn user_info(user: &UserInfo) -> Value {
    let mut info = Map::new();
    info.insert("username".into(), user.name.as_str().into());
    if !user.uid.is_empty() {
        info.insert("uid".into(), user.uid.as_str().into());
    }
    if !user.groups.is_empty() {
        info.insert("groups".into(), user.groups.clone().into());
    }
    if !user.extra.is_empty() {
        info.insert("extra".into(), json!(user.extra));
    }
    Value::Object(info)
}

fn options(operation: Operation, options: &WriteOptions) -> Value {
    let kind = match operation {
        Operation::Create => "CreateOptions",
        Operation::Update => "UpdateOptions",
        Operation::Delete => "DeleteOptions",
        Operation::Connect => return Value::Null,
    };
    let mut written = json!({"kind": kind, "apiVersion": "meta.k8s.io/v1"});
    if options.dry_run {
        written["dryRun"] = json!(["All"]);
    }
    if !options.field_manager.is_empty() {
        written["fieldManager"] = options.field_manager.as_str().into();
    }
    match options.field_validation {
        FieldValidation::Strict => written["fieldValidation"] = "Strict".into(),
        FieldValidation::Ignore => written["fieldValidation"] = "Ignore".into(),
        FieldValidation::Warn => {}
    }
    written
}

/// Whether a webhook may change objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Mutating,
    Validating,
}

/// What a webhook answered.
#[derive(Debug)]
pub(super) struct Verdict {
    pub(super) allowed: bool,
    pub(super) patch: Vec<u8>,
    pub(super) status: Option<Status>,
    pub(super) warnings: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    api_version: String,
    response: Option<Response>,
}

#[derive(Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[derive(Default)]
struct Response {
    uid: String,
    allowed: bool,
    status: Option<Value>,
    patch: Option<String>,
    patch_type: Option<String>,
    warnings: Option<Vec<String>>,
}

/// Why an answer is none.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unanswered {
    /// It cannot be read.
    Undecodable(String),
    /// It is not an answer to what was asked.
    Invalid(String),
    /// It asks for something that cannot be done.
    Unsupported(String),
}

impl Verdict {
    /// Reads the answer to the question of that uid.
    pub(super) fn read(
        body: &[u8],
        version: ReviewVersion,
        uid: &str,
        purpose: Purpose,
    ) -> Result<Verdict, Unanswered> {
        let review: Review = serde_json::from_slice(body).map_err(|error| {
            Unanswered::Undecodable(format!("couldn't get version/kind; json parse error: {error}"))
        })?;
        let invalid = |why: String| Err(Unanswered::Invalid(why));
        let Some(response) = review.response else { return invalid("webhook response was absent".into()) };
        let patch = response.patch.filter(|patch| !patch.is_empty());
        let patch = patch.map(|patch| STANDARD.decode(patch)).transpose();
        let patch = patch.map_err(|error| Unanswered::Undecodable(error.to_string()))?.unwrap_or_default();

        if version == ReviewVersion::V1 {
            if response.uid != uid {
                return invalid(format!("expected response.uid={uid:?}, got {:?}", response.uid));
            }
            if (review.api_version.as_str(), review.kind.as_str())
                != (version.api_version(), "AdmissionReview")
            {
                let got = if review.api_version.contains('/') { "" } else { "/" };
                return invalid(format!(
                    "expected webhook response of {}, Kind=AdmissionReview, got {got}{}, Kind={}",
                    version.api_version(),
                    review.api_version,
                    review.kind
                ));
            }
            match (purpose, patch.is_empty(), response.patch_type.as_deref()) {
                (Purpose::Validating, false, _) => {
                    return invalid("validating webhook may not return response.patch".into());
                }
                (Purpose::Validating, true, Some(_)) => {
                    return invalid("validating webhook may not return response.patchType".into());
                }
                (Purpose::Mutating, false, None) => {
                    return invalid("webhook returned response.patch but not response.patchType".into());
                }
                (Purpose::Mutating, true, Some(_)) => {
                    return invalid("webhook returned response.patchType but not response.patch".into());
                }
                (Purpose::Mutating, false, Some("")) => {
                    return invalid("webhook returned invalid response.patchType of \"\"".into());
                }
                (Purpose::Mutating, false, Some(other)) if other != "JSONPatch" => {
                    return Err(Unanswered::Unsupported(format!("unsupported patch type {other:?}")));
                }
                _ => {}
            }
        }
        Ok(Verdict {
            allowed: response.allowed,
            patch: if purpose == Purpose::Mutating { patch } else { Vec::new() },
            status: response.status.and_then(read_status),
            warnings: response.warnings.unwrap_or_default(),
        })
    }
}

/// Webhooks often leave out most of a Status, and it is always a failure.
fn read_status(mut status: Value) -> Option<Status> {
    status.as_object_mut()?.insert("status".into(), "Failure".into());
    Status::deserialize(status).ok()
}

/// What a client is told whose request a webhook denied.
pub(super) fn denied(webhook: &str, status: Option<Status>) -> Status {
    let denied_by = format!("admission webhook {webhook:?} denied the request");
    let mut status = status.unwrap_or_else(|| {
        let mut nothing = Status::bad_request("");
        nothing.reason = Reason::Unknown;
        nothing
    });
    if status.code < 400 {
        status.code = 400;
    }
    status.message = match (status.message.as_str(), status.reason.as_str()) {
        ("", "") => format!("{denied_by} without explanation"),
        ("", reason) => format!("{denied_by}: {reason}"),
        (message, _) => format!("{denied_by}: {message}"),
    };
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[allow(clippy::needless_pass_by_value, reason = "what json! makes is passed on as it is")]
    fn read(response: Value, purpose: Purpose) -> Result<Verdict, Unanswered> {
        let review =
            json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response});
        Verdict::read(review.to_string().as_bytes(), ReviewVersion::V1, "u", purpose)
    }

    fn invalid(response: Value, purpose: Purpose) -> String {
        match read(response, purpose) {
            Err(Unanswered::Invalid(why)) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_answer_must_have_the_uid_of_the_review() {
        use Purpose::{Mutating, Validating};
        assert!(read(json!({"uid": "u", "allowed": true}), Validating).unwrap().allowed);
        assert_eq!(invalid(json!({"uid": "v"}), Validating), r#"expected response.uid="u", got "v""#);
        assert_eq!(invalid(json!(null), Validating), "webhook response was absent");
        let patch = json!({"uid": "u", "allowed": true, "patch": "W10=", "patchType": "JSONPatch"});
        assert_eq!(invalid(patch.clone(), Validating), "validating webhook may not return response.patch");
        assert_eq!(read(patch, Mutating).unwrap().patch, b"[]");
        assert_eq!(
            invalid(json!({"uid": "u", "patch": "W10="}), Mutating),
            "webhook returned response.patch but not response.patchType"
        );
        let other = read(json!({"uid": "u", "patch": "W10=", "patchType": "Merge"}), Mutating).unwrap_err();
        assert_eq!(other, Unanswered::Unsupported(r#"unsupported patch type "Merge""#.into()));
    }

    #[test]
    fn what_is_no_review_is_not_an_answer() {
        let read = |body: &str| {
            Verdict::read(body.as_bytes(), ReviewVersion::V1, "u", Purpose::Validating).unwrap_err()
        };
        assert_eq!(read("{}"), Unanswered::Invalid("webhook response was absent".into()));
        assert!(
            matches!(read("no"), Unanswered::Undecodable(why) if why.starts_with("couldn't get version/kind"))
        );
        let other = r#"{"kind":"Review","apiVersion":"v1","response":{"uid":"u"}}"#;
        assert!(matches!(read(other), Unanswered::Invalid(why) if why.ends_with("got /v1, Kind=Review")));
    }

    #[test]
    fn a_denial_has_the_status_of_the_webhook() {
        let status = |json: Value| denied("a.io", read_status(json));
        let full =
            status(json!({"code": 418, "message": "no pots", "reason": "Teapot", "status": "Success"}));
        assert_eq!(
            (full.code, full.reason.as_str(), full.outcome),
            (418, "Teapot", apimachinery::status::Outcome::Failure)
        );
        assert_eq!(full.message, r#"admission webhook "a.io" denied the request: no pots"#);
        let reason = status(json!({"reason": "Forbidden", "code": 200}));
        assert_eq!(
            (reason.code, reason.message.as_str()),
            (400, r#"admission webhook "a.io" denied the request: Forbidden"#)
        );
        let nothing = denied("a.io", None);
        assert_eq!(nothing.message, r#"admission webhook "a.io" denied the request without explanation"#);
        assert_eq!(serde_json::to_value(nothing).unwrap().get("reason"), None);
    }
}
