//! AdmissionReview of `admission.k8s.io/v1`: the question and the answer.

use std::fmt::Write as _;

use portolan_api::FieldError;
use serde::Deserialize;
use serde_json::{Value, json};

const API_VERSION: &str = "admission.k8s.io/v1";
const KIND: &str = "AdmissionReview";
/// How many warnings are sent. The API server cuts off what is too long for the headers of its own answer.
const WARNINGS: usize = 16;

/// What the API server sends.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    request: Option<Request>,
}

/// What the API server asks about.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Request {
    /// By which the API server knows the answer again.
    #[serde(default)]
    pub(crate) uid: String,
    /// The kind of the objects below.
    #[serde(default)]
    pub(crate) kind: GroupVersionKind,
    #[serde(default)]
    pub(crate) sub_resource: Option<String>,
    #[serde(default)]
    pub(crate) operation: String,
    /// The object as it would be stored.
    #[serde(default)]
    pub(crate) object: Option<Value>,
    /// The object as it is stored.
    #[serde(default)]
    pub(crate) old_object: Option<Value>,
}

/// Which kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct GroupVersionKind {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
}

/// Why a body is no question.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Malformed {
    #[error("the request is not JSON of an {KIND}: {0}")]
    NotJson(String),
    #[error("the request must be an {KIND} of {API_VERSION}, and is {0:?} of {1:?}")]
    NotAReview(String, String),
    #[error("the {KIND} has no request")]
    NoRequest,
    #[error("request.uid is missing")]
    NoUid,
    #[error("request.object is missing, which {0} has")]
    NoObject(String),
    #[error("request.object is not an object")]
    NotAnObject,
}

impl Request {
    pub(crate) fn parse(body: &[u8]) -> Result<Self, Malformed> {
        let review: Review =
            serde_json::from_slice(body).map_err(|error| Malformed::NotJson(error.to_string()))?;
        if review.api_version != API_VERSION || review.kind != KIND {
            return Err(Malformed::NotAReview(short(&review.kind), short(&review.api_version)));
        }
        let request = review.request.ok_or(Malformed::NoRequest)?;
        if request.uid.is_empty() {
            return Err(Malformed::NoUid);
        }
        if request.is_write() {
            match &request.object {
                None => return Err(Malformed::NoObject(request.operation)),
                Some(object) if !object.is_object() => return Err(Malformed::NotAnObject),
                Some(_) => {}
            }
        }
        Ok(request)
    }

    /// Whether an object is to be stored by this: a deletion stores none, and a subresource is not what users write.
    pub(crate) fn is_write(&self) -> bool {
        matches!(self.operation.as_str(), "CREATE" | "UPDATE")
            && self.sub_resource.as_deref().is_none_or(str::is_empty)
    }

    /// Whether there is anything to judge: the object stays, and its spec is another one.
    pub(crate) fn changes_spec(&self) -> bool {
        let Some(object) = &self.object else { return false };
        if !object["metadata"]["deletionTimestamp"].is_null() {
            return false;
        }
        self.old_object.as_ref().filter(|old| !old.is_null()).is_none_or(|old| old["spec"] != object["spec"])
    }
}

/// A text of the request in a message.
fn short(text: &str) -> String {
    text.chars().take(64).collect()
}

/// What is said about an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Said {
    /// Why it is refused; allowed if there is nothing.
    pub(crate) errors: Vec<FieldError>,
    /// What its author may not have meant.
    pub(crate) warnings: Vec<FieldError>,
}

impl Said {
    /// The answer to a request.
    pub(crate) fn answer(&self, request: &Request) -> Value {
        let mut response = json!({"uid": request.uid, "allowed": self.errors.is_empty()});
        if !self.errors.is_empty() {
            response["status"] = self.status(request);
        }
        if !self.warnings.is_empty() {
            response["warnings"] = self.warnings.iter().take(WARNINGS).map(ToString::to_string).collect();
        }
        json!({"apiVersion": API_VERSION, "kind": KIND, "response": response})
    }

    /// As the API server itself refuses an object.
    fn status(&self, request: &Request) -> Value {
        let GroupVersionKind { group, kind, .. } = &request.kind;
        let name = request.object.as_ref().and_then(|object| object["metadata"]["name"].as_str());
        let name = name.unwrap_or_default();
        let mut message = format!("{kind}.{group} {name:?} is invalid: ");
        for (number, error) in self.errors.iter().enumerate() {
            let separator = if number == 0 { "" } else { "; " };
            // Writing to memory does not fail.
            let _ = write!(message, "{separator}{error}");
        }
        let cause = |error: &FieldError| {
            let message = match &error.value {
                Some(value) => format!("{value:?} {}", error.message),
                None => error.message.clone(),
            };
            json!({"reason": error.reason.cause_type(), "field": error.path, "message": message})
        };
        let causes: Vec<Value> = self.errors.iter().map(cause).collect();
        json!({"status": "Failure", "code": 422, "reason": "Invalid", "message": message,
            "details": {"name": name, "group": group, "kind": kind, "causes": causes}})
    }
}
