//! From a request to its answer.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use apimachinery::{FieldSelector, Status};
use futures::FutureExt as _;
use http::header::{ACCEPT, USER_AGENT};
use http::{Method, Request, StatusCode};
use hyper::body::Incoming;

use super::answer::{self, Response};
use super::route::{Lost, header, route};
use super::{Shared, other, resource};
use crate::audit::Audited;
use crate::authn::{Credentials, UserInfo, authenticate};
use crate::authz::{self, Attributes, ResourceAttributes};
use crate::content::{Accepted, Format, Shape};
use crate::context::Context;
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
    let (target, query) = match parse(&request) {
        Ok(parsed) => parsed,
        Err(status) => return (labels, answer::status(PLAIN, &status)),
    };
    let agent = header(request.headers(), USER_AGENT).to_owned();
    // How the client is told that something went wrong: as it wants, or else in JSON.
    let told = Accepted::plain(header(request.headers(), ACCEPT), &query, &agent).unwrap_or(PLAIN);
    let refuse = |labels: RequestLabels, status: Status| (labels, answer::status(told, &status));

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

    let audited = shared
        .audit
        .as_ref()
        .map(|log| (log, Audited::begin(&user, &labels.verb, &target, request.uri(), &agent)));
    let context = Context::new(user, &agent).asking(shared.authorizer.clone());
    let done = answer_to(shared, &context, &labels.verb, verb, target, &query, request).await;
    let mut response = done.unwrap_or_else(|lost| match lost {
        Lost::NoSuchPage => answer::text(StatusCode::NOT_FOUND, "404 page not found\n"),
        Lost::Refused(status) => answer::status(told, &status),
    });
    answer::add_warnings(&mut response, &context.warnings());
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
) -> Result<Response, Lost> {
    authorize(shared, &context.user, &target, verb_name, query, request.uri().path()).await?;
    let place = match verb {
        Some(Verb::Watch) | None => None,
        Some(verb) => match shared.limits.enter(verb.is_mutating()) {
            Some(place) => Some(place),
            None => {
                let status = Status::too_many_requests("Too many requests, please try again later.", 1);
                return Err(status.into());
            }
        },
    };

    let handled = async {
        match target {
            Target::Resource(path) => {
                let registry = shared.api.registry().snapshot();
                let (verb, routed) = route(&registry, path, request.method(), verb, request.headers())?;
                drop(registry);
                Ok(resource::handle(shared, context, verb, routed, query, request).await?)
            }
            Target::Other => Ok(other::answer(shared, &request, query)?),
        }
    };
    let limit = shared.limits.limits().request;
    let answered: Result<Response, Lost> = match verb {
        Some(Verb::Watch) => handled.await,
        _ => match tokio::time::timeout(limit, handled).await {
            Ok(answered) => answered,
            Err(_) => Err(Status::timeout("request did not complete within the allotted timeout", 0).into()),
        },
    };
    drop(place);
    answered
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
    fn a_list_is_of_the_one_object_that_is_selected_by_name() {
        let selected =
            |selector: &str| selected_name(&Query::parse(&format!("fieldSelector={selector}")).unwrap());
        assert_eq!(selected("metadata.name%3Da").as_deref(), Some("a"));
        assert_eq!(selected("spec.x%3D1,metadata.name%3D%3Da").as_deref(), Some("a"));
        for other in ["metadata.name!%3Da", "metadata.name", "spec.x%3D1", "metadata.name%3Da/b", ""] {
            assert_eq!(selected(other), None, "{other}");
        }
    }
}
