//! What a request is about, read from its method, path and query.
//!
//! ```text
//! /api/v1/<resource>                                     /apis/<group>/<version>/<resource>
//! /api/v1/<resource>/<name>[/<subresource>]              …
//! /api/v1/namespaces/<namespace>/<resource>              …
//! /api/v1/namespaces/<namespace>/<resource>/<name>[/<subresource>]
//! /api/v1/watch/…                                        the same with a verb in the path
//! ```

mod query;

use http::Method;

pub use query::{Query, QueryError};

/// What a client wants done. The names are those that RBAC rules use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Read one object.
    Get,
    /// Read many.
    List,
    /// Be told of changes.
    Watch,
    /// Make one.
    Create,
    /// Replace one.
    Update,
    /// Change one.
    Patch,
    /// Delete one.
    Delete,
    /// Delete many.
    DeleteCollection,
}

impl Verb {
    /// As it is written in RBAC rules and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Verb::Get => "get",
            Verb::List => "list",
            Verb::Watch => "watch",
            Verb::Create => "create",
            Verb::Update => "update",
            Verb::Patch => "patch",
            Verb::Delete => "delete",
            Verb::DeleteCollection => "deletecollection",
        }
    }

    /// Whether it changes anything.
    pub fn is_mutating(self) -> bool {
        !matches!(self, Verb::Get | Verb::List | Verb::Watch)
    }
}

/// Which resource, and what of it, a path names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourcePath {
    /// Empty for the core group.
    pub group: String,
    /// `v1`
    pub version: String,
    /// Empty if the path names none.
    pub namespace: String,
    /// The plural.
    pub resource: String,
    /// Empty if the path names none.
    pub name: String,
    /// Empty if the path names none.
    pub subresource: String,
    /// What the path has after the subresource.
    pub rest: Vec<String>,
    /// Whether the verb is in the path, as in `/api/v1/watch/pods`.
    pub watch: bool,
}

/// What a path names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Objects.
    Resource(ResourcePath),
    /// Anything else: `/healthz`, `/apis`, `/api/v1`.
    Other,
}

/// Why a path names nothing at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// A `%` without two hexadecimal digits, or bytes that are no text.
    #[error("the path is not correctly percent-encoded")]
    Encoding,
    /// `/api/v1/watch`
    #[error("unable to determine kind and namespace from url")]
    Incomplete,
}

// What follows a namespace's name and is not a resource in the namespace.
const NAMESPACE_SUBRESOURCES: [&str; 2] = ["status", "finalize"];

impl Target {
    /// Reads a path, as it is in the request line: percent-encoded, without the query.
    pub fn parse(path: &str) -> Result<Target, PathError> {
        // It is decoded before it is taken apart, as Kubernetes does: an encoded slash is one like any other.
        let decoded = query::percent_decode(path, query::Plus::IsPlus).ok_or(PathError::Encoding)?;
        let trimmed = decoded.trim_matches('/');
        let parts = trimmed.split('/').filter(|_| !trimmed.is_empty()).map(String::from);

        let mut parts = parts.peekable();
        let group = match parts.next().as_deref() {
            Some("api") => String::new(),
            Some("apis") => match parts.next() {
                Some(group) => group,
                None => return Ok(Target::Other),
            },
            _ => return Ok(Target::Other),
        };
        let (Some(version), Some(mut resource)) = (parts.next(), parts.next()) else {
            return Ok(Target::Other);
        };

        let watch = resource == "watch";
        if watch {
            resource = parts.next().ok_or(PathError::Incomplete)?;
        }
        let mut namespace = String::new();
        let mut name = parts.next().unwrap_or_default();
        if resource == "namespaces" && !name.is_empty() {
            namespace.clone_from(&name);
            if parts.peek().is_some_and(|part| !NAMESPACE_SUBRESOURCES.contains(&part.as_str())) {
                resource = parts.next().unwrap_or_default();
                name = parts.next().unwrap_or_default();
            }
        }
        let subresource = parts.next().unwrap_or_default();
        let rest = parts.collect();
        Ok(Target::Resource(ResourcePath {
            group,
            version,
            namespace,
            resource,
            name,
            subresource,
            rest,
            watch,
        }))
    }
}

impl ResourcePath {
    /// What a method asks of what the path names; absent for methods that Kubernetes does not use.
    pub fn verb(&self, method: &Method, query: &Query) -> Option<Verb> {
        if self.watch {
            return (*method == Method::GET).then_some(Verb::Watch);
        }
        let named = !self.name.is_empty();
        Some(match *method {
            Method::GET | Method::HEAD if named => Verb::Get,
            Method::GET | Method::HEAD if query.is_watch() => Verb::Watch,
            Method::GET | Method::HEAD => Verb::List,
            Method::POST => Verb::Create,
            Method::PUT => Verb::Update,
            Method::PATCH => Verb::Patch,
            Method::DELETE if named => Verb::Delete,
            Method::DELETE => Verb::DeleteCollection,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(path: &str) -> ResourcePath {
        match Target::parse(path) {
            Ok(Target::Resource(resource)) => resource,
            other => panic!("{path}: {other:?}"),
        }
    }

    /// `group/version ns=… resource name subresource`, with dashes for what is empty.
    fn read(path: &str) -> String {
        let ResourcePath { group, version, namespace, resource, name, subresource, rest, watch } =
            resource(path);
        let dash = |text: String| if text.is_empty() { "-".into() } else { text };
        format!(
            "{}{} {version} {} {} {} {}{}",
            if watch { "watch " } else { "" },
            dash(group),
            dash(namespace),
            resource,
            dash(name),
            dash(subresource),
            rest.into_iter().map(|part| format!(" {part}")).collect::<String>()
        )
    }

    #[test]
    fn every_shape_of_path_is_read() {
        assert_eq!(read("/api/v1/pods"), "- v1 - pods - -");
        assert_eq!(read("/api/v1/nodes/n1"), "- v1 - nodes n1 -");
        assert_eq!(read("/api/v1/nodes/n1/status"), "- v1 - nodes n1 status");
        assert_eq!(read("/api/v1/namespaces"), "- v1 - namespaces - -");
        assert_eq!(read("/api/v1/namespaces/a"), "- v1 a namespaces a -");
        assert_eq!(read("/api/v1/namespaces/a/status"), "- v1 a namespaces a status");
        assert_eq!(read("/api/v1/namespaces/a/finalize"), "- v1 a namespaces a finalize");
        assert_eq!(read("/api/v1/namespaces/a/pods"), "- v1 a pods - -");
        assert_eq!(read("/api/v1/namespaces/a/pods/"), "- v1 a pods - -");
        assert_eq!(read("/api/v1/namespaces/a/pods/b"), "- v1 a pods b -");
        assert_eq!(read("/api/v1/namespaces/a/pods/b/status"), "- v1 a pods b status");
        assert_eq!(read("/api/v1/namespaces/a/pods/b/proxy/x/y"), "- v1 a pods b proxy x y");
        assert_eq!(read("/apis/apps/v1/deployments"), "apps v1 - deployments - -");
        assert_eq!(read("/apis/apps/v1/namespaces/a/deployments/b/scale"), "apps v1 a deployments b scale");
        assert_eq!(read("/api/v1/watch/pods"), "watch - v1 - pods - -");
        assert_eq!(read("/api/v1/watch/namespaces/a/pods/b"), "watch - v1 a pods b -");
        assert_eq!(read("/apis/apps/v1/watch/namespaces/a/deployments"), "watch apps v1 a deployments - -");
    }

    #[test]
    fn other_paths_are_not_resources() {
        for path in [
            "",
            "/",
            "/api",
            "/api/v1",
            "/api/v1/",
            "/apis",
            "/apis/apps",
            "/apis/apps/v1",
            "/healthz",
            "/openapi/v3/apis/apps/v1",
        ] {
            assert_eq!(Target::parse(path), Ok(Target::Other), "{path}");
        }
    }

    #[test]
    fn a_path_is_percent_decoded() {
        assert_eq!(read("/api/v1/nodes/a%2Fb"), "- v1 - nodes a b");
        assert_eq!(resource("/api/v1/nodes/a%25b").name, "a%b");
        assert_eq!(resource("/api/v1/nodes/a+b").name, "a+b");
        for path in ["/api/v1/nodes/%", "/api/v1/nodes/%g0", "/api/v1/nodes/%ff"] {
            assert_eq!(Target::parse(path), Err(PathError::Encoding), "{path}");
        }
        assert_eq!(Target::parse("/api/v1/watch"), Err(PathError::Incomplete));
    }

    #[test]
    fn the_verb_follows_from_method_and_name() {
        let verb = |method: Method, path: &str, query: &str| {
            resource(path).verb(&method, &Query::parse(query).unwrap())
        };
        assert_eq!(verb(Method::GET, "/api/v1/pods", ""), Some(Verb::List));
        assert_eq!(verb(Method::GET, "/api/v1/pods", "watch=true"), Some(Verb::Watch));
        assert_eq!(verb(Method::GET, "/api/v1/pods", "watch=1"), Some(Verb::Watch));
        assert_eq!(verb(Method::GET, "/api/v1/pods", "watch=0"), Some(Verb::List));
        assert_eq!(verb(Method::GET, "/api/v1/watch/pods", ""), Some(Verb::Watch));
        assert_eq!(verb(Method::GET, "/api/v1/namespaces/a/pods/b", "watch=true"), Some(Verb::Get));
        assert_eq!(verb(Method::DELETE, "/api/v1/pods", ""), Some(Verb::DeleteCollection));
        assert_eq!(verb(Method::DELETE, "/api/v1/nodes/a", ""), Some(Verb::Delete));
        assert_eq!(verb(Method::OPTIONS, "/api/v1/nodes/a", ""), None);
    }
}
