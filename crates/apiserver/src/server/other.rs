//! Answers at paths that are not resources': discovery, OpenAPI, the server's health and version.

use std::sync::Arc;

use apimachinery::Status;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH, USER_AGENT, VARY};
use http::{HeaderValue, Method, Request, StatusCode};
use hyper::body::Incoming;

use super::Shared;
use super::answer::{self, Response};
use super::route::{Lost, check_accept, header, nowhere};
use crate::content::{Accepted, FORMATS, Format, write_value};
use crate::discovery::Discovered;
use crate::health::Probe;
use crate::registry::Snapshot;
use crate::request::Query;

pub(super) async fn answer(
    shared: &Shared,
    request: &Request<Incoming>,
    query: &Query,
) -> Result<Response, Lost> {
    let path = request.uri().path();
    let mut parts = path.trim_matches('/').splitn(2, '/');
    match (parts.next().unwrap_or_default(), parts.next()) {
        ("version", below) => version(shared, request, query, below),
        ("metrics", None) => only_read(request, || {
            answer::whole(
                StatusCode::OK,
                "application/openmetrics-text; version=1.0.0; charset=utf-8",
                shared.metrics.encode(),
            )
        }),
        ("healthz", check) => only_read(request, || probe(shared, Probe::Healthz, check, query)),
        ("livez", check) => only_read(request, || probe(shared, Probe::Livez, check, query)),
        ("readyz", check) => only_read(request, || probe(shared, Probe::Readyz, check, query)),
        ("openapi", Some(_)) => openapi(shared.api.registry().snapshot(), request, query).await,
        _ => document(&shared.api.registry().snapshot(), request, query),
    }
}

fn only_read(request: &Request<Incoming>, read: impl FnOnce() -> Response) -> Result<Response, Lost> {
    match *request.method() {
        Method::GET | Method::HEAD => Ok(read()),
        _ => Err(Status::method_not_allowed().into()),
    }
}

fn version(
    shared: &Shared,
    request: &Request<Incoming>,
    query: &Query,
    below: Option<&str>,
) -> Result<Response, Lost> {
    if below.is_some() {
        return Err(Status::no_such_resource().into());
    }
    if request.method() != Method::GET {
        return Err(Status::method_not_allowed().into());
    }
    check_accept(request.headers(), &["application/json"])?;
    let plain = Accepted::plain("", query, header(request.headers(), USER_AGENT));
    Ok(json(plain.ok_or(Lost::NoSuchPage)?, &shared.version))
}

/// What discovery says.
fn document(registry: &Snapshot, request: &Request<Incoming>, query: &Query) -> Result<Response, Lost> {
    let (path, accept) = (request.uri().path(), header(request.headers(), ACCEPT));
    let Some(found) = registry.document(path, accept) else { return no_document(registry, path) };
    // Elsewhere the method does not matter.
    if is_routed(registry, path) {
        if request.method() != Method::GET {
            return Err(Status::method_not_allowed().into());
        }
        check_accept(request.headers(), &FORMATS)?;
    }
    let accepted = Accepted::plain(accept, query, header(request.headers(), USER_AGENT));
    match found {
        Discovered::Document(document) => {
            let accepted = accepted.ok_or_else(|| Status::not_acceptable(&FORMATS))?;
            Ok(json(accepted, document))
        }
        Discovered::Aggregated(document, media_type) => {
            let accepted =
                accepted.or_else(|| Accepted::plain("", query, header(request.headers(), USER_AGENT)));
            let accepted = accepted.ok_or_else(|| Status::not_acceptable(&FORMATS))?;
            let mut response = json(Accepted { format: Format::Json, ..accepted }, document);
            let headers = response.headers_mut();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
            headers.insert(VARY, HeaderValue::from_static("Accept"));
            Ok(response)
        }
    }
}

/// An OpenAPI document. Clients that have it already are told so.
async fn openapi(
    registry: Arc<Snapshot>,
    request: &Request<Incoming>,
    query: &Query,
) -> Result<Response, Lost> {
    let (path, accept) = (request.uri().path().to_owned(), header(request.headers(), ACCEPT).to_owned());
    let gzip = answer::takes_gzip(request.headers());
    let found = {
        let registry = registry.clone();
        // The first request of a document makes it, which takes long.
        let found = tokio::task::spawn_blocking(move || {
            let found = registry.openapi(&path, &accept)?;
            let compressed = gzip.then(|| found.compressed(answer::compress).cloned()).flatten();
            Some((found, compressed))
        });
        found.await.map_err(Status::internal_error)?
    };
    let Some((found, compressed)) = found else { return no_document(&registry, request.uri().path()) };
    let known = header(request.headers(), IF_NONE_MATCH).split(',').map(str::trim);
    let is_known = known.map(|tag| tag.trim_start_matches("W/")).any(|tag| tag == found.etag || tag == "*");
    let mut response = match compressed {
        _ if is_known => answer::empty(StatusCode::NOT_MODIFIED),
        None => answer::whole(StatusCode::OK, found.media_type, found.bytes.clone()),
        Some(compressed) => {
            let mut response = answer::whole(StatusCode::OK, found.media_type, compressed);
            answer::mark_gzip(&mut response);
            response
        }
    };
    let headers = response.headers_mut();
    if let Ok(etag) = HeaderValue::from_str(&found.etag) {
        headers.insert(ETAG, etag);
    }
    headers.append(VARY, HeaderValue::from_static("Accept"));
    // An address with a hash is that of one document for ever.
    if query.get("hash").is_some() {
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("public, immutable"));
    }
    Ok(response)
}

/// Whether requests at a discovery path are routed as those for the server's own kinds are.
fn is_routed(registry: &Snapshot, path: &str) -> bool {
    let mut parts = path.trim_matches('/').split('/');
    match (parts.next(), parts.next(), parts.next()) {
        (Some("api"), ..) => true,
        (Some("apis"), Some(group), Some(_)) => registry.has_built_in(group),
        _ => false,
    }
}

fn no_document(registry: &Snapshot, path: &str) -> Result<Response, Lost> {
    let mut parts = path.trim_matches('/').split('/');
    match (parts.next(), parts.next(), parts.next()) {
        (Some("openapi"), Some("v3"), Some(_)) => Ok(answer::empty(StatusCode::NOT_FOUND)),
        (Some("api"), ..) => Err(Status::no_such_resource().into()),
        (Some("apis"), Some(group), Some(_)) => Err(nowhere(registry, group)),
        _ => Err(Lost::NoSuchPage),
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
