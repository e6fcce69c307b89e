//! Requests: discovery for kube-apiserver and kubectl, and the creation of a Trace.

use std::sync::Arc;

use http::{Method, Request, StatusCode};
use hyper::body::Incoming;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use portolan_serving::{BodyError, Peer, Service, read_body};
use portolan_trace::api::{API_VERSION, DEADLINE, GROUP, KIND, RESOURCE, Trace, VERSION};
use portolan_trace::{Error, Question, Tracer, Worlds};
use portolan_watch::Observed;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, watch};

use crate::access::{Denied, authorize};
use crate::front_proxy::Trust;
use crate::identity::{Unauthenticated, User, authenticate};
use crate::response::{Answer, failure, last, object, retry};
use crate::reviews::Reviews;

/// The largest body of a request. A question has a few hundred bytes.
const LARGEST_BODY: usize = 64 * 1024;
/// How many traces run at once: each reads all of OVN's southbound database.
const TRACES: usize = 2;
/// How many more may wait for their turn.
const WAITING: usize = 16;

/// Answers requests.
pub(crate) struct Handler<W> {
    client: Client,
    authentication: watch::Receiver<Observed<ConfigMap>>,
    reviews: Reviews,
    tracer: Tracer,
    worlds: W,
    running: Semaphore,
    admitted: Arc<Semaphore>,
}

impl<W: Worlds + Send + 'static> Service for Handler<W> {
    /// Whom to take for the front proxy: a connection keeps what it was begun with, as its handshake was made with that.
    type Session = Trust;

    fn begin(&self) -> Trust {
        Trust::of(&self.authentication.borrow())
    }

    fn client_authorities<'a>(&self, trust: &'a Trust) -> &'a str {
        trust.proxy().map_or("", |proxy| &proxy.authorities)
    }

    async fn answer(&self, trust: &Trust, peer: &Peer, request: Request<Incoming>) -> Answer {
        match tokio::time::timeout(DEADLINE, self.handle(trust, peer, request)).await {
            Ok(answer) => answer,
            Err(_) => {
                let message = format!("the trace was not done within {} s", DEADLINE.as_secs());
                retry(StatusCode::GATEWAY_TIMEOUT, "Timeout", &message)
            }
        }
    }
}

impl<W: Worlds> Handler<W> {
    pub(crate) fn new(
        client: Client,
        authentication: watch::Receiver<Observed<ConfigMap>>,
        tracer: Tracer,
        worlds: W,
    ) -> Self {
        let admitted = Arc::new(Semaphore::new(TRACES + WAITING));
        let reviews = Reviews::new(client.clone());
        Self { client, authentication, reviews, tracer, worlds, running: Semaphore::new(TRACES), admitted }
    }

    async fn handle(&self, trust: &Trust, peer: &Peer, request: Request<Incoming>) -> Answer {
        let user = match authenticate(&self.reviews, request.headers(), trust, peer).await {
            Ok(user) => user,
            Err(error) => return last(not_authenticated(&error)),
        };
        let path = request.uri().path().trim_matches('/').to_owned();
        let path: Vec<_> = path.split('/').collect();
        match (request.method(), path.as_slice()) {
            (&Method::GET, ["apis"]) => object(StatusCode::OK, &group_list()),
            (&Method::GET, ["apis", GROUP]) => object(StatusCode::OK, &group()),
            (&Method::GET, ["apis", GROUP, VERSION]) => object(StatusCode::OK, &resources()),
            (&Method::POST, ["apis", GROUP, VERSION, "namespaces", namespace, RESOURCE]) => {
                self.create(&user, namespace, request).await
            }
            (_, ["apis", GROUP, VERSION, "namespaces", _, RESOURCE]) => failure(
                StatusCode::METHOD_NOT_ALLOWED,
                "MethodNotAllowed",
                "a Trace is created, and its answer returned; it is not stored",
            ),
            _ => {
                failure(StatusCode::NOT_FOUND, "NotFound", "the server could not find the requested resource")
            }
        }
    }

    async fn create(&self, user: &User, namespace: &str, request: Request<Incoming>) -> Answer {
        let mut trace = match read(namespace, request).await {
            Ok(trace) => trace,
            Err(answer) => return *answer,
        };
        let question = match Question::of(namespace, &trace.spec) {
            Ok(question) => question,
            Err(error) => return refusal(&error),
        };
        match authorize(&self.client, user, &question).await {
            Ok(()) => {}
            Err(error @ Denied::Forbidden(_)) => {
                let message = format!("{RESOURCE}.{GROUP} is forbidden: {error}");
                return failure(StatusCode::FORBIDDEN, "Forbidden", &message);
            }
            Err(error) => {
                return retry(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", &error.to_string());
            }
        }
        let busy = || {
            let message = "too many traces are under way; try again";
            retry(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message)
        };
        let Ok(_admitted) = Arc::clone(&self.admitted).try_acquire_owned() else { return busy() };
        let Ok(_turn) = self.running.acquire().await else { return busy() };
        let visible = question.namespaces().map(str::to_owned).collect();
        match self.tracer.answer(&self.worlds, &question, visible).await {
            Ok(Ok(status)) => {
                trace.metadata.namespace = namespace.to_owned();
                trace.status = Some(status);
                object(StatusCode::CREATED, &trace)
            }
            Ok(Err(error)) => refusal(&error),
            Err(error) => retry(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", &error.to_string()),
        }
    }
}

fn not_authenticated(error: &Unauthenticated) -> Answer {
    let message = error.to_string();
    match error {
        Unauthenticated::Review(_) | Unauthenticated::NotRead | Unauthenticated::Absent => {
            retry(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", &message)
        }
        Unauthenticated::TooMany => retry(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", &message),
        Unauthenticated::None
        | Unauthenticated::NoFrontProxy(_)
        | Unauthenticated::NameNotAllowed(_)
        | Unauthenticated::Token => failure(StatusCode::UNAUTHORIZED, "Unauthorized", &message),
    }
}

async fn read(namespace: &str, request: Request<Incoming>) -> Result<Trace, Box<Answer>> {
    let invalid = |message: &str| Box::new(failure(StatusCode::BAD_REQUEST, "BadRequest", message));
    let media_type = request.headers().get(http::header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    if !media_type.is_none_or(|media_type| media_type.starts_with("application/json")) {
        let message = "a Trace is sent as application/json";
        return Err(Box::new(failure(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message)));
    }
    let body = read_body(request.into_body(), LARGEST_BODY).await.map_err(|error| match error {
        BodyError::TooLarge { .. } => {
            Box::new(failure(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", &error.to_string()))
        }
        BodyError::Unreadable(_) => invalid(&error.to_string()),
    })?;
    let trace: Trace = serde_json::from_slice(&body)
        .map_err(|error| invalid(&format!("the request is no Trace: {error}")))?;
    if trace.api_version != API_VERSION || trace.kind != KIND {
        return Err(invalid(&format!("the request must be a {KIND} of {API_VERSION}")));
    }
    if !trace.metadata.namespace.is_empty() && trace.metadata.namespace != namespace {
        return Err(invalid("metadata.namespace is not the namespace of the URL"));
    }
    Ok(trace)
}

/// Why a question is not answered.
fn refusal(error: &Error) -> Answer {
    match error {
        Error::Invalid { .. } => failure(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", &error.to_string()),
        Error::NoPod(_) | Error::NoInterface { .. } => {
            failure(StatusCode::NOT_FOUND, "NotFound", &error.to_string())
        }
    }
}

fn group() -> Value {
    let version = json!({"groupVersion": API_VERSION, "version": VERSION});
    json!({"kind": "APIGroup", "apiVersion": "v1", "name": GROUP, "versions": [version], "preferredVersion": version})
}

fn group_list() -> Value {
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": [group()]})
}

fn resources() -> Value {
    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": API_VERSION, "resources": [
        {"name": RESOURCE, "singularName": "trace", "namespaced": true, "kind": KIND, "verbs": ["create"]}
    ]})
}
