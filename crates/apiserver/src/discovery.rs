//! What clients are told about the resources: groups, versions, kinds, verbs.
//!
//! There are two ways to tell. The older has a document for each group and version; in the newer, aggregated one, all of it is
//! in one document, under the same paths but asked for by another media type.

mod aggregated;
mod legacy;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

pub(crate) use legacy::response_kind;

use crate::openapi;
use crate::registry::{Resource, Snapshot};

/// Everything that is told about the resources at one instant.
#[derive(Debug)]
pub struct Documents {
    by_path: BTreeMap<String, Value>,
    aggregated: BTreeMap<&'static str, Value>,
    openapi: openapi::Cache,
}

/// A document that was found.
#[derive(Clone, Debug)]
pub enum Discovered<'a> {
    /// A document in any format.
    Document(&'a Value),
    /// A document with a media type of its own.
    Aggregated(&'a Value, &'static str),
}

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

impl Documents {
    /// The documents about these resources.
    pub fn new(registry: &Snapshot) -> Documents {
        let groups = Group::all(registry);
        let mut by_path = legacy::documents(&groups);
        let mut paths: Vec<Value> = by_path.keys().map(|path| Value::from(path.as_str())).collect();
        let others = ["/healthz", "/livez", "/metrics", "/openapi/v2", "/openapi/v3", "/readyz", "/version"];
        paths.extend(others.into_iter().map(Value::from));
        by_path.insert("/".into(), serde_json::json!({"paths": paths}));
        Documents { by_path, aggregated: aggregated::documents(&groups), openapi: openapi::Cache::default() }
    }

    /// The document at a path, in the form that the `Accept` header asks for.
    pub fn find(&self, path: &str, accept: &str) -> Option<Discovered<'_>> {
        let path = if path == "/" { path } else { path.trim_end_matches('/') };
        if wants_aggregated(accept)
            && let Some(document) = self.aggregated.get(path)
        {
            return Some(Discovered::Aggregated(document, AGGREGATED));
        }
        self.by_path.get(path).map(Discovered::Document)
    }
}

impl Documents {
    /// The OpenAPI document at a path, in the form that the `Accept` header asks for.
    pub(crate) fn openapi(
        &self,
        registry: &Snapshot,
        path: &str,
        accept: &str,
    ) -> Option<Arc<openapi::Written>> {
        self.openapi.find(&Group::all(registry), path.trim_end_matches('/'), accept)
    }
}

fn wants_aggregated(accept: &str) -> bool {
    accept.split(',').any(|clause| {
        let mut parts = clause.split(';').map(str::trim);
        let media_type = parts.next().unwrap_or_default();
        let (mut group, mut version, mut kind) = (false, false, false);
        for part in parts {
            group |= part == "g=apidiscovery.k8s.io";
            version |= part == "v=v2";
            kind |= part == "as=APIGroupDiscoveryList";
        }
        media_type == "application/json" && group && version && kind
    })
}

/// The resources of one group, by version.
#[derive(Debug)]
pub(crate) struct Group<'a> {
    pub(crate) name: &'a str,
    /// The preferred version first.
    pub(crate) versions: Vec<GroupVersion<'a>>,
}

/// The resources of one version of a group.
#[derive(Debug)]
pub(crate) struct GroupVersion<'a> {
    pub(crate) group: &'a str,
    pub(crate) version: &'a str,
    pub(crate) resources: Vec<(&'a Resource, usize)>,
}

impl<'a> Group<'a> {
    fn all(registry: &'a Snapshot) -> Vec<Group<'a>> {
        let mut groups: Vec<Group<'a>> = Vec::new();
        for resource in registry.resources() {
            let position =
                groups.iter().position(|group| group.name == resource.group).unwrap_or_else(|| {
                    groups.push(Group { name: &resource.group, versions: Vec::new() });
                    groups.len() - 1
                });
            let versions = &mut groups[position].versions;
            for (index, version) in resource.versions.iter().enumerate().filter(|(_, version)| version.served)
            {
                match versions.iter_mut().find(|known| known.version == version.name) {
                    Some(known) => known.resources.push((resource, index)),
                    None => versions.push(GroupVersion {
                        group: &resource.group,
                        version: &version.name,
                        resources: vec![(resource, index)],
                    }),
                }
            }
        }
        for group in &mut groups {
            group.versions.sort_by_key(|version| std::cmp::Reverse(version_priority(version.version)));
        }
        groups.retain(|group| !group.versions.is_empty());
        groups
    }
}

impl GroupVersion<'_> {
    /// `v1` or `apps/v1`
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.into() } else { format!("{}/{}", self.group, self.version) }
    }

    /// `/api/v1` or `/apis/apps/v1`
    pub(crate) fn path(&self) -> String {
        if self.group.is_empty() {
            format!("/api/{}", self.version)
        } else {
            format!("/apis/{}", self.api_version())
        }
    }
}

/// Kubernetes prefers stable versions to beta to alpha, and of these the greater number; what is not of this form comes last.
pub(crate) fn version_priority(version: &str) -> (u8, u32, u32, std::cmp::Reverse<&str>) {
    let parse = || {
        let rest = version.strip_prefix('v')?;
        let digits = rest.find(|character: char| !character.is_ascii_digit()).unwrap_or(rest.len());
        let major: u32 = rest[..digits].parse().ok()?;
        let rest = &rest[digits..];
        if rest.is_empty() {
            return Some((3, major, 0));
        }
        let (stage, minor) = match (rest.strip_prefix("beta"), rest.strip_prefix("alpha")) {
            (Some(minor), _) => (2, minor),
            (_, Some(minor)) => (1, minor),
            _ => return None,
        };
        Some((stage, major, minor.parse().ok()?))
    };
    let (stage, major, minor) = parse().unwrap_or((0, 0, 0));
    (stage, major, minor, std::cmp::Reverse(version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stable_versions_are_preferred() {
        let mut versions = ["v1alpha1", "foo", "v2", "v1beta2", "v10", "v1", "v1beta10", "bar"];
        versions.sort_by_key(|version| std::cmp::Reverse(version_priority(version)));
        assert_eq!(versions, ["v10", "v2", "v1", "v1beta10", "v1beta2", "v1alpha1", "bar", "foo"]);
    }

    #[test]
    fn aggregated_discovery_is_asked_for_by_media_type() {
        let kubectl = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
        assert!(wants_aggregated(kubectl));
        assert!(!wants_aggregated("application/json"));
        assert!(!wants_aggregated(
            "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
        ));
    }
}
