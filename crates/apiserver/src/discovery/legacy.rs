//! Discovery with a document for each group and version.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::{Group, GroupVersion};
use crate::registry::{Resource, Subresource, SubresourceKind};

pub(super) fn documents(groups: &[Group<'_>]) -> BTreeMap<String, Value> {
    let mut documents = BTreeMap::new();
    let (core, named): (Vec<_>, Vec<_>) = groups.iter().partition(|group| group.name.is_empty());

    let versions: Vec<&str> =
        core.iter().flat_map(|group| &group.versions).map(|version| version.version).collect();
    documents.insert(
        "/api".into(),
        json!({
            "kind": "APIVersions",
            "versions": versions,
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": ""}],
        }),
    );

    let mut list = Vec::new();
    for group in named {
        let mut document = api_group(group);
        list.push(Value::Object(document.clone()));
        document.insert("kind".into(), "APIGroup".into());
        document.insert("apiVersion".into(), "v1".into());
        documents.insert(format!("/apis/{}", group.name), Value::Object(document));
    }
    documents.insert("/apis".into(), json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": list}));

    for version in groups.iter().flat_map(|group| &group.versions) {
        documents.insert(version.path(), api_resource_list(version));
    }
    documents
}

fn api_group(group: &Group<'_>) -> Map<String, Value> {
    let versions: Vec<Value> = group
        .versions
        .iter()
        .map(|version| json!({"groupVersion": version.api_version(), "version": version.version}))
        .collect();
    let mut document = Map::new();
    document.insert("name".into(), group.name.into());
    document.insert("preferredVersion".into(), versions.first().cloned().unwrap_or_default());
    document.insert("versions".into(), versions.into());
    document
}

fn api_resource_list(version: &GroupVersion<'_>) -> Value {
    let mut resources = Vec::new();
    for (resource, index) in &version.resources {
        resources.push(api_resource(resource));
        for subresource in &resource.versions[*index].subresources {
            resources.push(api_subresource(version, resource, subresource));
        }
    }
    json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": version.api_version(),
        "resources": resources,
    })
}

fn api_resource(resource: &Resource) -> Value {
    let mut document = json!({
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.is_namespaced(),
        "kind": resource.kind,
        "verbs": resource.verb_names(),
    });
    // What is not stored is stored in no version.
    if resource.handler.is_none() {
        document["storageVersionHash"] = storage_version_hash(resource).into();
    }
    if !resource.short_names.is_empty() {
        document["shortNames"] = json!(resource.short_names);
    }
    if !resource.categories.is_empty() {
        document["categories"] = json!(resource.categories);
    }
    document
}

fn api_subresource(version: &GroupVersion<'_>, resource: &Resource, subresource: &Subresource) -> Value {
    let (group, kind_version, kind) = response_kind(version, resource, subresource);
    let mut document = json!({
        "name": format!("{}/{}", resource.plural, subresource.name),
        "singularName": "",
        "namespaced": resource.is_namespaced(),
        "kind": kind,
        "verbs": subresource.verb_names(),
    });
    if (group, kind_version) != (version.group, version.version) {
        document["group"] = group.into();
        document["version"] = kind_version.into();
    }
    document
}

/// The group, version and kind of what a subresource answers with.
pub(crate) fn response_kind<'a>(
    version: &'a GroupVersion<'_>,
    resource: &'a Resource,
    subresource: &'a Subresource,
) -> (&'a str, &'a str, &'a str) {
    match &subresource.kind {
        SubresourceKind::Status => (version.group, version.version, &resource.kind),
        SubresourceKind::Scale(_) => ("autoscaling", "v1", "Scale"),
        SubresourceKind::Custom { group, version, kind, .. } => (group, version, kind),
    }
}

/// Tells clients when objects come to be stored in another version.
fn storage_version_hash(resource: &Resource) -> String {
    let stored = &resource.versions[resource.storage_version].name;
    let digest = Sha256::digest(format!("{}/{stored}/{}", resource.group, resource.kind));
    STANDARD.encode(&digest[..8])
}
