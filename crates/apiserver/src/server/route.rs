//! Where a path and a method lead.
//!
//! Kubernetes routes requests for its own kinds by path, method, `Content-Type` and `Accept`, in this order, and those for
//! custom resources by what the path and method mean. A client is told differently by each that it asked in vain.

use apimachinery::Status;
use apimachinery::format::path_segment;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, Method};

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
    let wrong = path_segment(&path.name);
    if !path.name.is_empty() && !wrong.is_empty() {
        let why = format!("Name parameter invalid: {:?}: {}", path.name, wrong.join(";"));
        return Err(Status::bad_request(why).into());
    }
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
    if verb == Verb::Patch && !names_one_of(header(headers, CONTENT_TYPE), resource.patch_types()) {
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
    // A namespace is named by the same part of the path that elsewhere names where an object is.
    let is_namespace =
        resource.group.is_empty() && resource.plural == "namespaces" && path.namespace == path.name;
    let named = !path.name.is_empty();
    let is_across = resource.is_namespaced() && path.namespace.is_empty();
    if (is_across && named) || (!resource.is_namespaced() && !path.namespace.is_empty() && !is_namespace) {
        return Vec::new();
    }
    let verbs: &[Verb] = match path.subresource.as_str() {
        "" if path.watch => &[Verb::Watch],
        "" if named => &[Verb::Get, Verb::Update, Verb::Patch, Verb::Delete],
        "" if is_across => &[Verb::List, Verb::Watch],
        "" => &[Verb::List, Verb::Watch, Verb::Create, Verb::DeleteCollection],
        _ if path.watch => &[],
        name => {
            let subresource = resource.versions[version].find_subresource(name);
            return subresource.map(|subresource| subresource.verbs.clone()).unwrap_or_default();
        }
    };
    verbs.iter().copied().filter(|verb| resource.verbs.contains(verb)).collect()
}

/// Whether a client takes one of these media types. Only whole names count, whatever comes after.
pub(super) fn check_accept(headers: &HeaderMap, produced: &[&str]) -> Result<(), Lost> {
    let accept = Some(header(headers, ACCEPT)).filter(|accept| !accept.is_empty()).unwrap_or("*/*");
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

/// A header's text; empty if there is none, or if it is no text.
pub(super) fn header(headers: &HeaderMap, name: HeaderName) -> &str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::{Origin, Registry, Scope, Subresource};
    use crate::request::{Query, Target};

    /// Some resources like those of Kubernetes.
    fn built_in() -> [Resource; 4] {
        let status =
            |resource: Resource| resource.version(|version| version.subresource(Subresource::status()));
        let finalize =
            Subresource { name: "finalize".into(), verbs: vec![Verb::Update], ..Subresource::status() };
        let mut namespaces = Resource::new("", "v1", "namespaces", "Namespace", Scope::Cluster)
            .version(|version| version.subresource(finalize));
        namespaces.verbs.retain(|verb| *verb != Verb::DeleteCollection);
        [
            namespaces,
            status(Resource::new("", "v1", "nodes", "Node", Scope::Cluster)),
            status(Resource::new("", "v1", "pods", "Pod", Scope::Namespaced)),
            status(Resource::new("apps", "v1", "deployments", "Deployment", Scope::Namespaced)),
        ]
    }

    /// Where a request leads: a verb and an endpoint, or how it is lost.
    fn led(line: &str, header: (&'static str, &'static str)) -> String {
        let mut custom = Resource::new("ex.io", "v1", "ships", "Ship", Scope::Namespaced);
        custom.origin = Origin::Custom;
        let registry = Registry::new(built_in().into_iter().chain([custom]));
        let (method, path) = line.split_once(' ').unwrap();
        let method: Method = method.parse().unwrap();
        let Ok(Target::Resource(path)) = Target::parse(path) else { panic!("{path} is a resource's") };
        let verb = path.verb(&method, &Query::default());
        let headers = HeaderMap::from_iter([(header.0.parse().unwrap(), header.1.parse().unwrap())]);
        match route(&registry.snapshot(), path, &method, verb, &headers) {
            Ok((verb, Routed { endpoint, .. })) => format!("{} {}", verb.as_str(), endpoint.resource.plural),
            Err(Lost::NoSuchPage) => "no such page".into(),
            Err(Lost::Refused(status)) => format!("{} {}", status.code, status.message),
        }
    }

    fn plain(line: &str) -> String {
        led(line, ("accept", "application/json"))
    }

    #[test]
    fn a_path_has_its_methods() {
        assert_eq!(plain("POST /api/v1/namespaces/a/pods"), "create pods");
        assert_eq!(plain("GET /api/v1/namespaces/a"), "get namespaces");
        assert_eq!(plain("PUT /api/v1/namespaces/a/finalize"), "update namespaces");
        assert_eq!(plain("GET /api/v1/watch/namespaces/a/pods/b"), "watch pods");
        let not_allowed = "405 the server does not allow this method on the requested resource";
        for line in [
            "PUT /api/v1/namespaces/a/pods",
            "POST /api/v1/namespaces/a/pods/b",
            "POST /api/v1/pods",
            "HEAD /api/v1/nodes/a",
            "DELETE /api/v1/namespaces",
            "OPTIONS /api/v1/nodes",
            "POST /api/v1/watch/pods",
        ] {
            assert_eq!(plain(line), not_allowed, "{line}");
        }
    }

    #[test]
    fn other_paths_are_not_found() {
        let not_found = "404 the server could not find the requested resource";
        for line in [
            "GET /api/v1/pods/a",
            "GET /api/v1/namespaces/a/nodes",
            "GET /api/v1/namespaces/a/namespaces",
            "GET /api/v1/namespaces/a/pods/b/nothing",
            "GET /api/v1/namespaces/a/pods/b/status/more",
            "GET /api/v2/pods",
            "GET /apis/apps/v1/ships",
        ] {
            assert_eq!(plain(line), not_found, "{line}");
        }
        assert_eq!(plain("GET /apis/nobody.io/v1/ships"), "no such page");
    }

    #[test]
    fn a_name_is_one_part_of_a_path() {
        assert_eq!(
            plain("GET /api/v1/nodes/a%25b"),
            "400 Name parameter invalid: \"a%b\": may not contain '%'"
        );
        assert_eq!(plain("GET /api/v1/nodes/.."), "400 Name parameter invalid: \"..\": may not be '..'");
    }

    #[test]
    fn custom_resources_are_routed_by_the_verb_of_the_request() {
        assert_eq!(plain("HEAD /apis/ex.io/v1/namespaces/a/ships/b"), "get ships");
        assert_eq!(plain("GET /apis/ex.io/v1/ships"), "list ships");
        assert_eq!(plain("GET /apis/ex.io/v1/ships/a"), "no such page");
        assert_eq!(plain("PUT /apis/ex.io/v1/namespaces/a/ships"), "400 name must be provided");
        assert_eq!(
            plain("GET /apis/ex.io/v1/namespaces/a/ships/b/status"),
            "404 ships.ex.io \"b\" not found",
            "it has no status of its own"
        );
    }

    #[test]
    fn media_types_are_asked_for_by_their_whole_names() {
        let nodes = |accept| led("GET /api/v1/nodes/a", ("accept", accept));
        assert_eq!(nodes("text/html, application/yaml;q=0.5"), "get nodes");
        assert!(nodes("application/*").starts_with("406 406: Not Acceptable"));
        let patch = |content_type| led("PATCH /api/v1/nodes/a", ("content-type", content_type));
        assert_eq!(patch("application/merge-patch+json; charset=utf-8"), "patch nodes");
        assert_eq!(patch("application/json"), "415 415: Unsupported Media Type");
    }
}
