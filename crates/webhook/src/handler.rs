//! Requests over HTTP, with bounds on all that a peer can make us hold: the API server shows no certificate, so a peer can be anybody.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body::Body;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use kube::Client;
use portolan_model::Settings;
use portolan_serving::{Peer, Service};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::Worlds;
use crate::judge::Judge;
use crate::metrics::{Metrics, Verdict};
use crate::review;

/// Where reviews are answered; the ValidatingWebhookConfiguration has it.
pub(crate) const PATH: &str = "/validate";
/// The largest body: the API server stores objects of up to 1.5 MB, and sends the old one and the new one.
const LARGEST_BODY: usize = 4 * 1024 * 1024;
/// How many bodies are held at once; others wait.
const AT_ONCE: usize = 8;
/// How long a request may take. `timeoutSeconds` of the configuration is shorter by default.
const DEADLINE: Duration = Duration::from_secs(5);

type Answer = Response<Full<Bytes>>;

/// Answers requests.
pub(crate) struct Handler<W> {
    judge: Judge<W>,
    metrics: Metrics,
    places: Semaphore,
}

impl<W: Worlds> Service for Handler<W> {
    type Session = ();

    fn begin(&self) {}

    fn client_authorities<'a>(&self, (): &'a ()) -> &'a str {
        ""
    }

    async fn answer(&self, (): &(), _: &Peer, request: Request<Incoming>) -> Answer {
        self.handle(request).await
    }
}

impl<W: Worlds> Handler<W> {
    pub(crate) fn new(client: Client, settings: Settings, worlds: W, metrics: Metrics) -> Self {
        Handler { judge: Judge::new(client, settings, worlds), metrics, places: Semaphore::new(AT_ONCE) }
    }

    pub(crate) async fn handle<B>(&self, request: Request<B>) -> Answer
    where
        B: Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let since = Instant::now();
        let answered = tokio::time::timeout(DEADLINE, self.answer_in_time(request)).await;
        let (kind, verdict, answer) = answered.unwrap_or_else(|_| {
            let message = format!("the review was not done within {} s", DEADLINE.as_secs());
            refusal(StatusCode::GATEWAY_TIMEOUT, "Timeout", &message)
        });
        self.metrics.answered(kind, verdict, since.elapsed());
        answer
    }

    async fn answer_in_time<B>(&self, request: Request<B>) -> (&'static str, Verdict, Answer)
    where
        B: Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        if request.uri().path() != PATH {
            return refusal(StatusCode::NOT_FOUND, "NotFound", &format!("there is {PATH} and nothing else"));
        }
        if request.method() != Method::POST {
            let message = "an AdmissionReview is sent by POST";
            let (kind, verdict, mut answer) =
                refusal(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message);
            answer.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
            return (kind, verdict, answer);
        }
        let media_type = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        if !media_type.is_some_and(is_json) {
            let message = "an AdmissionReview is sent as application/json";
            return refusal(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message);
        }
        let Ok(_place) = self.places.acquire().await else {
            return refusal(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", "the server stops");
        };
        let body = match Limited::new(request.into_body(), LARGEST_BODY).collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) if error.is::<http_body_util::LengthLimitError>() => {
                let message = format!("the request is larger than {LARGEST_BODY} bytes");
                return refusal(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", &message);
            }
            Err(error) => {
                let message = format!("the request cannot be read: {error}");
                return refusal(StatusCode::BAD_REQUEST, "BadRequest", &message);
            }
        };
        let review = match review::Request::parse(&body) {
            Ok(review) => review,
            Err(error) => return refusal(StatusCode::BAD_REQUEST, "BadRequest", &error.to_string()),
        };
        drop(body);
        let (kind, verdict, said) = self.judge.judge(&review).await;
        (kind, verdict, answer(StatusCode::OK, &said.answer(&review)))
    }
}

fn is_json(media_type: &str) -> bool {
    media_type
        .split(';')
        .next()
        .is_some_and(|essence| essence.trim().eq_ignore_ascii_case("application/json"))
}

fn answer(code: StatusCode, value: &Value) -> Answer {
    let mut response = Response::new(Full::new(value.to_string().into()));
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// A request that gets no review: a Status of Kubernetes.
fn refusal(code: StatusCode, reason: &str, message: &str) -> (&'static str, Verdict, Answer) {
    let status = json!({
        "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
        "reason": reason, "message": message, "code": code.as_u16(),
    });
    ("none", Verdict::Failed, answer(code, &status))
}

#[cfg(test)]
mod tests;
