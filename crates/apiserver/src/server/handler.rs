//! From a request to its response.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use apimachinery::{FieldSelector, Status};
use futures::FutureExt as _;
use http::header::{ACCEPT, USER_AGENT};
use http::{HeaderMap, Method, Request, StatusCode};
use hyper::body::Incoming;

use super::answer::{self, Response};
use super::connection::Peer;
use super::route::{Lost, header, route};
use super::{Shared, other, resource};
use crate::audit::{AuditEvent, Recording};
use crate::authn::{Credentials, UserInfo, authenticate};
use crate::authz::{self, Attributes, ResourceAttributes};
use crate::content::{Accepted, Format, Shape};
use crate::context::Context;
use crate::metrics::RequestLabels;
use crate::request::{Query, ResourcePath, Target, Verb};
use crate::reviews::impersonate;

/// The format of errors for clients whose `Accept` header is not known or not supported.
const PLAIN: Accepted = Accepted { format: Format::Json, shape: Shape::Object, pretty: false };

/// Answers a request, whatever happens.
pub(super) async fn handle(shared: Arc<Shared>, peer: &Peer, request: Request<Incoming>) -> Response {
    let began = Instant::now();
    let in_flight = shared.metrics.begin();
    let gzip = answer::takes_gzip(request.headers());
    let head = request.method() == Method::HEAD;
    let mut labels = RequestLabels::of_method(request.method());
    let mut recording = match &shared.audit {
        Some(queue) => Some(queue.begin(&request, peer.address).await),
        None => None,
    };
    let event = recording.as_mut().and_then(Recording::event);
    let answered = AssertUnwindSafe(answer(&shared, peer, request, &mut labels, event)).catch_unwind().await;
    let is_panic = answered.is_err();
    let mut response = answered.unwrap_or_else(|_| {
        let status = Status::internal_error("the request could not be answered");
        answer::status(PLAIN, &status)
    });
    match recording {
        Some(recording) if is_panic => recording.panicked(response.status()).await,
        Some(recording) => recording.answered(response.status()).await,
        None => {}
    }
    if gzip && !head {
        answer::gzip(&mut response);
    }
    shared.metrics.end(in_flight, &labels, response.status(), began.elapsed());
    response
}

async fn answer(
    shared: &Arc<Shared>,
    peer: &Peer,
    request: Request<Incoming>,
    labels: &mut RequestLabels,
    mut event: Option<&mut AuditEvent>,
) -> Response {
    let (target, query) = match parse(&request) {
        Ok(parsed) => parsed,
        Err(status) => return answer::status(PLAIN, &status),
    };
    let agent = header(request.headers(), USER_AGENT).to_owned();
    // Errors are written in the format that the client accepts, or else in JSON.
    let accepted = Accepted::plain(header(request.headers(), ACCEPT), &query, &agent).unwrap_or(PLAIN);
    let verb = match &target {
        Target::Resource(path) => path.verb(request.method(), &query),
        Target::Other => None,
    };
    let verb_name = match verb {
        Some(verb) => verb.as_str().to_owned(),
        None => request.method().as_str().to_ascii_lowercase(),
    };

    if let Some(event) = &mut event {
        event.asks(&verb_name, &target);
    }
    match authenticate_user(shared, peer, request.headers(), event).await {
        Err(status) => answer::status(accepted, &status),
        Ok(user) => {
            let context = Context::new(user, &agent).asking(shared.authorizer.clone());
            let asked = Asked { verb_name: &verb_name, verb, target, query: &query };
            let answered = answer_user(shared, &context, asked, request, labels).await;
            let mut response = answered.unwrap_or_else(|lost| match lost {
                Lost::NoSuchPage => answer::text(StatusCode::NOT_FOUND, "404 page not found\n"),
                Lost::Refused(status) => answer::status(accepted, &status),
            });
            answer::add_warnings(&mut response, &context.warnings());
            response
        }
    }
}

/// The user on whose behalf a request is made: whoever its credentials name, or whoever they impersonate.
async fn authenticate_user(
    shared: &Shared,
    peer: &Peer,
    headers: &HeaderMap,
    mut event: Option<&mut AuditEvent>,
) -> Result<UserInfo, Status> {
    let credentials = Credentials { certificate: peer.certificate.as_ref(), headers };
    let Ok(user) = authenticate(&shared.authenticators, &credentials) else {
        if let Some(event) = event {
            event.unauthenticated(headers);
        }
        return Err(Status::unauthorized());
    };
    if let Some(event) = &mut event {
        event.user(&user);
    }
    let authenticated = user.clone();
    let user = impersonate(user, headers, &*shared.authorizer).await?;
    if let Some(event) = event
        && user != authenticated
    {
        event.impersonated(&user);
    }
    Ok(user)
}

/// What a request asks for.
struct Asked<'a> {
    /// As authorization and audit call it.
    verb_name: &'a str,
    /// Absent if the request is not about a resource.
    verb: Option<Verb>,
    target: Target,
    query: &'a Query,
}

/// Answers an authenticated user. The labels become those of the resource once the request is authorized and routed.
async fn answer_user(
    shared: &Arc<Shared>,
    context: &Context,
    asked: Asked<'_>,
    request: Request<Incoming>,
    labels: &mut RequestLabels,
) -> Result<Response, Lost> {
    let Asked { verb_name, verb, target, query } = asked;
    authorize(shared, &context.user, &target, verb_name, query, request.uri().path()).await?;
    let place = match verb {
        None => None,
        Some(verb) => Some(shared.limits.enter(verb.is_mutating()).ok_or_else(too_many_requests)?),
    };

    let handled = async {
        match target {
            Target::Resource(path) => {
                let registry = shared.api.registry().snapshot();
                let (verb, routed) = route(&registry, path, request.method(), verb, request.headers())?;
                drop(registry);
                *labels = RequestLabels::of_endpoint(verb, &routed.endpoint);
                Ok(resource::handle(shared, context, verb, routed, query, request).await?)
            }
            Target::Other => other::answer(shared, &request, query).await,
        }
    };
    let answered = tokio::time::timeout(shared.limits.limits().request, handled).await;
    drop(place);
    answered.unwrap_or_else(|_| {
        Err(Status::timeout("request did not complete within the allotted timeout", 0).into())
    })
}

pub(super) fn too_many_requests() -> Status {
    Status::too_many_requests("Too many requests, please try again later.", 1)
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
        Target::Resource(ResourcePath { name, .. })
            if name.is_empty() && matches!(verb, "list" | "watch") =>
        {
            selected_name(query)
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
            name: selected.as_deref().unwrap_or(&path.name),
        }),
        Target::Other => None,
    };
    authz::check(&*shared.authorizer, Attributes { user, verb, resource, path }).await
}

/// The one name that a query selects, if it is one that an object can have.
fn selected_name(query: &Query) -> Option<String> {
    let fields = FieldSelector::parse(query.text("fieldSelector")?).ok()?;
    let name = fields.equals("metadata.name")?;
    let is_segment = !matches!(name, "." | "..") && !name.contains(['/', '%']);
    is_segment.then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_with_a_name_selector_is_authorized_for_that_name() {
        let selected =
            |selector: &str| selected_name(&Query::parse(&format!("fieldSelector={selector}")).unwrap());
        assert_eq!(selected("metadata.name%3Da").as_deref(), Some("a"));
        assert_eq!(selected("spec.x%3D1,metadata.name%3D%3Da").as_deref(), Some("a"));
        for other in ["metadata.name!%3Da", "metadata.name", "spec.x%3D1", "metadata.name%3Da/b", ""] {
            assert_eq!(selected(other), None, "{other}");
        }
    }
}
