//! Where a path and a method lead.
//!
//! Kubernetes routes requests for its own kinds by path, method, `Content-Type` and `Accept`, in this order, and those for
//! custom resources by what the path and method mean. A client is told differently by each that it asked in vain.

use apimachinery::Status;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, Method};

use crate::content::{FORMATS, STREAMS};
use crate::endpoint::Endpoint;
use crate::registry::{Resource, Snapshot};
use crate::request::{ResourcePath, Verb};

/// Why a request leads nowhere.
#[derive(Debug)]
pub(super) enum Lost {
    /// Nobody knows the path.
    NoSuchPage,
    /// Whoever knows it does not take such a request.
    Refused(Box<Status>),
}

impl From<Status> for Lost {
    fn from(status: Status) -> Lost {
        Lost::Refused(Box::new(status))
    }
}

/// A request about objects that leads somewhere.
#[derive(Debug)]
pub(super) struct Routed {
    pub(super) endpoint: Endpoint,
    /// The one name that a watch by path is about.
    pub(super) watched_name: Option<String>,
}

/// Where a request about objects leads.
pub(super) fn route(
    registry: &Snapshot,
    path: ResourcePath,
    method: &Method,
    verb: Option<Verb>,
    headers: &HeaderMap,
) -> Result<(Verb, Routed), Lost> {
    let Some(resource) = registry.resource(&path.group, &path.resource) else {
        return Err(nowhere(registry, &path.group));
    };
    let Some(version) = resource.served_version(&path.version) else {
        return Err(nowhere(registry, &path.group));
    };
    let verb = if resource.is_custom() {
        custom(resource, version, &path, verb)?
    } else {
        built_in(resource, version, &path, method, verb, headers)?
    };
    let ResourcePath { mut namespace, name, subresource, watch, .. } = path;
    if !resource.is_namespaced() {
        namespace.clear();
    }
    let (name, watched_name) = if watch { (String::new(), Some(name)) } else { (name, None) };
    let endpoint = Endpoint { resource: resource.clone(), version, namespace, name, subresource };
    Ok((verb, Routed { endpoint, watched_name: watched_name.filter(|name| !name.is_empty()) }))
}

/// What is said of a path that is no resource's.
pub(super) fn nowhere(registry: &Snapshot, group: &str) -> Lost {
    if registry.has_built_in(group) { Status::no_such_resource().into() } else { Lost::NoSuchPage }
}

fn custom(
    resource: &Resource,
    version: usize,
    path: &ResourcePath,
    verb: Option<Verb>,
) -> Result<Verb, Lost> {
    let across = matches!(verb, Some(Verb::List | Verb::Watch));
    let in_scope = if resource.is_namespaced() {
        across || !path.namespace.is_empty()
    } else {
        path.namespace.is_empty()
    };
    if !in_scope {
        return Err(Lost::NoSuchPage);
    }
    let verbs = match resource.versions[version].find_subresource(&path.subresource) {
        Some(subresource) => &subresource.verbs,
        None if path.subresource.is_empty() => &resource.verbs,
        None => return Err(resource.not_found(&path.name).into()),
    };
    let Some(verb) = verb.filter(|verb| verbs.contains(verb)) else {
        let asked = verb.map(Verb::as_str).unwrap_or_default();
        return Err(Status::method_not_supported(&resource.group_resource(), asked).into());
    };
    let needs_name = matches!(verb, Verb::Get | Verb::Update | Verb::Patch | Verb::Delete);
    if needs_name && path.name.is_empty() {
        return Err(Status::bad_request("name must be provided").into());
    }
    Ok(verb)
}

fn built_in(
    resource: &Resource,
    version: usize,
    path: &ResourcePath,
    method: &Method,
    verb: Option<Verb>,
    headers: &HeaderMap,
) -> Result<Verb, Lost> {
    let served = served(resource, version, path);
    if served.is_empty() || !path.rest.is_empty() {
        return Err(Status::no_such_resource().into());
    }
    // Unlike the verb, the path's methods tell HEAD from GET.
    let Some(verb) = verb.filter(|verb| served.contains(verb) && *method != Method::HEAD) else {
        return Err(Status::method_not_allowed().into());
    };
    if verb == Verb::Patch && !names_one_of(header(headers, CONTENT_TYPE.as_str()), resource.patch_types()) {
        return Err(Status::unroutable_content_type().into());
    }
    let mut produced = FORMATS.to_vec();
    if matches!(verb, Verb::List | Verb::Watch) {
        produced.extend(STREAMS);
    }
    check_accept(headers, &produced)?;
    Ok(verb)
}

/// What can be done at a path of a resource that the server has.
fn served(resource: &Resource, version: usize, path: &ResourcePath) -> Vec<Verb> {
    let among = |verbs: &[Verb]| -> Vec<Verb> {
        verbs.iter().copied().filter(|verb| resource.verbs.contains(verb)).collect()
    };
    // A namespace is named by the same part of the path that elsewhere names where an object is.
    let is_namespace =
        resource.group.is_empty() && resource.plural == "namespaces" && path.namespace == path.name;
    let is_across = resource.is_namespaced() && path.namespace.is_empty();
    if !resource.is_namespaced() && !path.namespace.is_empty() && !is_namespace {
        return Vec::new();
    }
    match (path.name.is_empty(), path.subresource.is_empty()) {
        _ if path.watch && path.subresource.is_empty() && !(is_across && !path.name.is_empty()) => {
            among(&[Verb::Watch])
        }
        _ if path.watch => Vec::new(),
        (true, _) if is_across => among(&[Verb::List, Verb::Watch]),
        (true, _) => among(&[Verb::List, Verb::Watch, Verb::Create, Verb::DeleteCollection]),
        (false, _) if is_across => Vec::new(),
        (false, true) => among(&[Verb::Get, Verb::Update, Verb::Patch, Verb::Delete]),
        (false, false) => {
            let subresource = resource.versions[version].find_subresource(&path.subresource);
            subresource.map(|subresource| subresource.verbs.clone()).unwrap_or_default()
        }
    }
}

/// Whether a client takes one of these media types. Only whole names count, whatever comes after.
pub(super) fn check_accept(headers: &HeaderMap, produced: &[&str]) -> Result<(), Lost> {
    let accept = Some(header(headers, ACCEPT.as_str())).filter(|accept| !accept.is_empty()).unwrap_or("*/*");
    if names_one_of(accept, &[&["*/*"], produced].concat()) {
        Ok(())
    } else {
        Err(Status::unroutable_accept(produced).into())
    }
}

fn names_one_of(header: &str, media_types: &[&str]) -> bool {
    let names =
        header.split(',').map(|clause| clause.split(';').next().unwrap_or_default().trim_matches(' '));
    names.into_iter().any(|name| media_types.contains(&name))
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}
