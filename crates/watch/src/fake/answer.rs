//! Answers.

use std::time::Duration;

use bytes::Bytes;
use futures::channel::mpsc::UnboundedReceiver;
use futures::{StreamExt as _, future};
use http::Response;
use http_body::Frame;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use serde_json::{Value, json};

/// The body of an answer.
pub(super) type Reply = BoxBody<Bytes, Refused>;

/// The connection was refused, or cut.
#[derive(Debug)]
pub(super) struct Refused;

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("connection refused")
    }
}

impl std::error::Error for Refused {}

/// What a request is answered with, instead of the truth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// No connection.
    Refused,
    /// No answer, ever.
    Silence,
    /// The beginning of an answer, and the rest never.
    Stalled,
    /// An answer with this code, without the name of an object.
    Code(u16),
    /// This object, with this code.
    Object(u16, Value),
    /// `429` with a wish to be left alone for so many seconds.
    TooManyRequests(u32),
    /// What a proxy or a starting API server answers: `404 page not found`, as plain text.
    NamelessNotFound,
    /// A watch that reports 410 as its first event.
    ExpiredEvent,
    /// A watch that is closed at once.
    ClosedWatch,
    /// A list without objects, whatever there is.
    EmptyList,
    /// The truth, but so long after it was brought about.
    Late(Duration),
}

impl Answer {
    pub(super) async fn give(
        self,
        truth: impl FnOnce() -> Response<Reply> + Send,
    ) -> Result<Response<Reply>, Refused> {
        Ok(match self {
            Answer::Late(time) => {
                let truth = truth();
                tokio::time::sleep(time).await;
                truth
            }
            Answer::Refused => return Err(Refused),
            Answer::Silence => future::pending().await,
            Answer::Stalled => {
                let beginning = futures::stream::iter([Ok(Frame::data(Bytes::from_static(b"{")))]);
                response(200, BodyExt::boxed(StreamBody::new(beginning.chain(futures::stream::pending()))))
            }
            Answer::Code(410) => status(410, "Expired", "too old resource version"),
            Answer::Code(code) => status(code, "", "scripted"),
            Answer::Object(code, object) => json(code, &object),
            Answer::TooManyRequests(seconds) => {
                let mut body = status_value(429, "TooManyRequests", "scripted");
                body["details"] = json!({"retryAfterSeconds": seconds});
                json(429, &body)
            }
            Answer::NamelessNotFound => nameless(),
            Answer::ExpiredEvent => {
                let event = json!({"type": "ERROR", "object": status_value(410, "Expired", "too old resource version")});
                text(200, format!("{event}\n"))
            }
            Answer::ClosedWatch => text(200, String::new()),
            Answer::EmptyList => json(
                200,
                &json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": []}),
            ),
        })
    }
}

pub(super) fn nameless() -> Response<Reply> {
    text(404, "404 page not found\n".into())
}

pub(super) fn status(code: u16, reason: &str, message: &str) -> Response<Reply> {
    json(code, &status_value(code, reason, message))
}

pub(super) fn status_value(code: u16, reason: &str, message: &str) -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "code": code, "reason": reason, "message": message,
    })
}

pub(super) fn json(code: u16, value: &Value) -> Response<Reply> {
    text(code, value.to_string())
}

fn text(code: u16, text: String) -> Response<Reply> {
    response(code, Full::new(Bytes::from(text)).map_err(|never| match never {}).boxed())
}

/// A watch: lines until the sender is dropped, which closes it, or sends an error, which cuts it.
pub(super) fn stream(lines: UnboundedReceiver<Result<Bytes, Refused>>) -> Response<Reply> {
    let frames = lines.map(|line| line.map(Frame::data));
    response(200, BodyExt::boxed(StreamBody::new(frames)))
}

fn response(code: u16, body: Reply) -> Response<Reply> {
    let mut response = Response::new(body);
    *response.status_mut() = http::StatusCode::from_u16(code).expect("invariant: tests script valid codes");
    response
}
