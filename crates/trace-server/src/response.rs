//! Responses as Kubernetes clients expect them.

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::Full;
use serde_json::{Value, json};

/// A response with a whole body.
pub(crate) type Answer = Response<Full<Bytes>>;

/// A response with an object.
pub(crate) fn object(code: StatusCode, value: &impl serde::Serialize) -> Answer {
    let body = serde_json::to_vec(value).unwrap_or_default();
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// A failure: a Status of Kubernetes.
pub(crate) fn failure(code: StatusCode, reason: &str, message: &str) -> Answer {
    let status: Value = json!({
        "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
        "reason": reason, "message": message, "code": code.as_u16(),
    });
    object(code, &status)
}

/// A failure that may pass.
pub(crate) fn retry(code: StatusCode, reason: &str, message: &str) -> Answer {
    let mut response = failure(code, reason, message);
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

/// The last answer on its connection: whoever holds it has not shown who they are, or began before that could be known.
pub(crate) fn last(mut response: Answer) -> Answer {
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}
