//! From a request to its answer.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use apimachinery::{Access, Accessed, Status};
use futures::FutureExt as _;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, USER_AGENT, VARY};
use http::{HeaderValue, Method, Request, StatusCode};
use hyper::body::Incoming;

use super::answer::{self, Response};
use super::{Shared, resource};
use crate::audit::Audited;
use crate::authn::{Credentials, UserInfo, authenticate};
use crate::authz::{Attributes, Decision, ResourceAttributes};
use crate::content::{Accepted, Format, Purpose, Shape, write_value};
use crate::context::Context;
use crate::discovery::Discovered;
use crate::health::Probe;
use crate::metrics::RequestLabels;
use crate::request::{Query, ResourcePath, Target, Verb};
use crate::reviews::impersonate;

/// What is answered to those whose wishes are not known.
const PLAIN: Accepted = Accepted { format: Format::Json, shape: Shape::Object, pretty: false };

/// Answers a request, whatever happens.
pub(super) async fn handle(
    shared: Arc<Shared>,
    certificate: Option<&UserInfo>,
    request: Request<Incoming>,
) -> Response {
    let began = Instant::now();
    let in_flight = shared.metrics.begin();
    let gzip = answer::takes_gzip(request.headers());
    let head = request.method() == Method::HEAD;
    let answered = AssertUnwindSafe(answer(&shared, certificate, request)).catch_unwind().await;
    let (labels, mut response) = answered.unwrap_or_else(|_| {
        let status = Status::internal_error("the request could not be answered");
        (RequestLabels::default(), answer::status(PLAIN, &status))
    });
    if gzip && !head {
        answer::gzip(&mut response);
    }
    shared.metrics.end(in_flight, labels, response.status(), began.elapsed());
    response
}

async fn answer(
    shared: &Arc<Shared>,
    certificate: Option<&UserInfo>,
    request: Request<Incoming>,
) -> (RequestLabels, Response) {
    let mut labels = RequestLabels::default();
    let refuse = |labels: RequestLabels, status: Status| (labels, answer::status(PLAIN, &status));

    let (target, query) = match parse(&request) {
        Ok(parsed) => parsed,
        Err(status) => return refuse(labels, *status),
    };
    let Ok(user) =
        authenticate(&shared.authenticators, &Credentials { certificate, headers: request.headers() })
    else {
        return refuse(labels, Status::unauthorized());
    };
    let user = match impersonate(user, request.headers(), &*shared.authorizer).await {
        Ok(user) => user,
        Err(status) => return refuse(labels, status),
    };

    let verb = match &target {
        Target::Resource(path) => path.verb(request.method(), &query),
        Target::Other => None,
    };
    if let Target::Resource(path) = &target {
        labels.group.clone_from(&path.group);
        labels.resource.clone_from(&path.resource);
        labels.subresource.clone_from(&path.subresource);
    }
    labels.verb =
        verb.map_or_else(|| request.method().as_str().to_ascii_lowercase(), |verb| verb.as_str().into());

    let agent = request.headers().get(USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
    let agent = agent.to_owned();
    let audited = shared
        .audit
        .as_ref()
        .map(|log| (log, Audited::begin(&user, &labels.verb, &target, request.uri(), &agent)));
    let context = Context::new(user, &agent);
    let response = answer_to(shared, &context, &labels.verb, verb, target, &query, request).await;
    if let Some((log, audited)) = audited {
        log.write(audited, response.status());
    }
    (labels, response)
}

/// Answers somebody who is known.
async fn answer_to(
    shared: &Arc<Shared>,
    context: &Context,
    verb_name: &str,
    verb: Option<Verb>,
    target: Target,
    query: &Query,
    request: Request<Incoming>,
) -> Response {
    let path = request.uri().path();
    if let Err(status) = authorize(shared, &context.user, &target, verb_name, query, path).await {
        return answer::status(PLAIN, &status);
    }
    let place = match verb {
        Some(Verb::Watch) | None => None,
        Some(verb) => match shared.limits.enter(verb.is_mutating()) {
            Some(place) => Some(place),
            None => {
                let status = Status::too_many_requests("Too many requests, please try again later.", 1);
                return answer::status(PLAIN, &status);
            }
        },
    };

    let handled = async {
        match (target, verb) {
            (Target::Resource(path), Some(verb)) => {
                resource::handle(shared, context, verb, path, query, request).await
            }
            (Target::Resource(_), None) => Err(Status::method_not_allowed().into()),
            (Target::Other, _) => Ok(other(shared, &request, query)),
        }
    };
    let limit = shared.limits.limits().request;
    let answered = match verb {
        Some(Verb::Watch) => handled.await,
        _ => match tokio::time::timeout(limit, handled).await {
            Ok(answered) => answered,
            Err(_) => Err(Status::timeout("request did not complete within the allotted timeout", 0).into()),
        },
    };
    drop(place);
    let mut response = answered.unwrap_or_else(|refused| answer::status(refused.accepted, &refused.status));
    answer::add_warnings(&mut response, &context.warnings());
    response
}

/// Why a request is not done, and how the client wants to be told.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) accepted: Accepted,
    pub(super) status: Box<Status>,
}

impl From<Status> for Refused {
    fn from(status: Status) -> Refused {
        Refused { accepted: PLAIN, status: Box::new(status) }
    }
}

fn parse(request: &Request<Incoming>) -> Result<(Target, Query), Box<Status>> {
    let bad_request = |error: &dyn std::fmt::Display| Box::new(Status::bad_request(error.to_string()));
    let target = Target::parse(request.uri().path()).map_err(|error| bad_request(&error))?;
    let query =
        Query::parse(request.uri().query().unwrap_or_default()).map_err(|error| bad_request(&error))?;
    Ok((target, query))
}

async fn authorize(
    shared: &Shared,
    user: &UserInfo,
    target: &Target,
    verb: &str,
    query: &Query,
    path: &str,
) -> Result<(), Status> {
    // A list or watch of one name is allowed to those who may see that one.
    let selected = match target {
        Target::Resource(ResourcePath { name, .. }) if name.is_empty() => {
            query.get("fieldSelector").and_then(|fields| {
                fields.strip_prefix("metadata.name=").map(|name| name.trim_start_matches('='))
            })
        }
        _ => None,
    };
    let resource = match target {
        Target::Resource(path) => Some(ResourceAttributes {
            group: &path.group,
            version: &path.version,
            resource: &path.resource,
            subresource: &path.subresource,
            namespace: &path.namespace,
            name: if path.name.is_empty() { selected.unwrap_or_default() } else { &path.name },
        }),
        Target::Other => None,
    };
    let attributes = Attributes { user, verb, resource, path };
    match shared.authorizer.authorize(attributes).await {
        Decision::Allow => Ok(()),
        Decision::Deny(reason) => {
            let of = match resource {
                None => Accessed::Path(path),
                Some(ResourceAttributes { group, resource, subresource, namespace, name, .. }) => {
                    Accessed::Resource { group, resource, subresource, namespace, name }
                }
            };
            Err(Status::access_denied(&Access { user: &user.name, verb, of }, &reason))
        }
    }
}

/// Answers for paths that are not resources.
fn other(shared: &Shared, request: &Request<Incoming>, query: &Query) -> Response {
    let path = request.uri().path();
    let not_found = || answer::text(StatusCode::NOT_FOUND, "404 page not found\n");
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return answer::status(PLAIN, &Status::method_not_allowed());
    }
    let header = |name| request.headers().get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let accept = header(ACCEPT).unwrap_or_default();
    let agent = header(USER_AGENT).unwrap_or_default();
    let accepted = Accepted::negotiate(accept, query, agent, Purpose::One).unwrap_or(PLAIN);

    let mut parts = path.trim_matches('/').splitn(2, '/');
    match (parts.next().unwrap_or_default(), parts.next()) {
        ("version", None) => json(accepted, &shared.version),
        ("metrics", None) => answer::whole(
            StatusCode::OK,
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
            shared.metrics.encode(),
        ),
        ("healthz", check) => probe(shared, Probe::Healthz, check, query),
        ("livez", check) => probe(shared, Probe::Livez, check, query),
        ("readyz", check) => probe(shared, Probe::Readyz, check, query),
        _ => {
            let registry = shared.api.registry().snapshot();
            match registry.document(path, accept) {
                Some(Discovered::Document(document)) => json(accepted, document),
                Some(Discovered::Aggregated(document, media_type)) => {
                    let mut response = json(accepted, document);
                    let headers = response.headers_mut();
                    if accepted.format == Format::Json {
                        headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
                    }
                    headers.insert(VARY, HeaderValue::from_static("Accept"));
                    response
                }
                Some(Discovered::OpenApi(document, media_type)) => {
                    let mut response = answer::whole(StatusCode::OK, media_type, document);
                    // An address with a hash is that of one document for ever.
                    if query.get("hash").is_some() {
                        let forever = HeaderValue::from_static("public, immutable");
                        response.headers_mut().insert(CACHE_CONTROL, forever);
                    }
                    response
                }
                None => not_found(),
            }
        }
    }
}

fn json<T: serde::Serialize>(accepted: Accepted, value: &T) -> Response {
    let media_type = match accepted.format {
        Format::Json => "application/json",
        Format::Yaml => "application/yaml",
    };
    answer::whole(StatusCode::OK, media_type, write_value(accepted, value))
}

fn probe(shared: &Shared, probe: Probe, check: Option<&str>, query: &Query) -> Response {
    let excluded: Vec<&str> = query.all("exclude").collect();
    let verbose = query.get("verbose").is_some() || check.is_some();
    match shared.health.check(probe, check.filter(|check| !check.is_empty()), &excluded, verbose) {
        None => answer::text(StatusCode::NOT_FOUND, "404 page not found\n"),
        Some(checked) if check.is_some() && checked.ok => answer::text(StatusCode::OK, "ok"),
        Some(checked) => {
            let code = if checked.ok { StatusCode::OK } else { StatusCode::INTERNAL_SERVER_ERROR };
            answer::text(code, checked.text)
        }
    }
}
