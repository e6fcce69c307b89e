//! Discovery in one document.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::legacy::response_kind;
use super::{Group, GroupVersion};
use crate::registry::Resource;

pub(super) fn documents(groups: &[Group<'_>]) -> BTreeMap<&'static str, Value> {
    let (core, named): (Vec<_>, Vec<_>) = groups.iter().partition(|group| group.name.is_empty());
    let list = |groups: &[&Group<'_>]| {
        json!({
            "kind": "APIGroupDiscoveryList",
            "apiVersion": "apidiscovery.k8s.io/v2",
            "metadata": {},
            "items": groups.iter().map(|group| group_discovery(group)).collect::<Vec<_>>(),
        })
    };
    BTreeMap::from([("/api", list(&core)), ("/apis", list(&named))])
}

fn group_discovery(group: &Group<'_>) -> Value {
    let metadata = if group.name.is_empty() { json!({}) } else { json!({"name": group.name}) };
    json!({
        "metadata": metadata,
        "versions": group.versions.iter().map(version_discovery).collect::<Vec<_>>(),
    })
}

fn version_discovery(version: &GroupVersion<'_>) -> Value {
    let resources: Vec<Value> = version
        .resources
        .iter()
        .map(|(resource, index)| resource_discovery(version, resource, *index))
        .collect();
    json!({"version": version.version, "resources": resources, "freshness": "Current"})
}

fn resource_discovery(version: &GroupVersion<'_>, resource: &Resource, index: usize) -> Value {
    let subresources: Vec<Value> = resource.versions[index]
        .subresources
        .iter()
        .map(|subresource| {
            let (group, of_version, kind) = response_kind(version, resource, subresource);
            json!({
                "subresource": subresource.name,
                "responseKind": shown_kind(version, resource, group, of_version, kind),
                "verbs": subresource.verb_names(),
            })
        })
        .collect();
    let mut document = json!({
        "resource": resource.plural,
        "responseKind": shown_kind(version, resource, version.group, version.version, &resource.kind),
        "scope": if resource.is_namespaced() { "Namespaced" } else { "Cluster" },
        "singularResource": resource.singular,
        "verbs": resource.verb_names(),
    });
    if !resource.short_names.is_empty() {
        document["shortNames"] = json!(resource.short_names);
    }
    if !resource.categories.is_empty() {
        document["categories"] = json!(resource.categories);
    }
    if !subresources.is_empty() {
        document["subresources"] = subresources.into();
    }
    document
}

/// What is answered with. Of the server's own kinds, group and version are said only where they are not those of the path.
fn shown_kind(at: &GroupVersion<'_>, resource: &Resource, group: &str, version: &str, kind: &str) -> Value {
    if !resource.is_custom() && (group, version) == (at.group, at.version) {
        return json!({"group": "", "version": "", "kind": kind});
    }
    json!({"group": group, "version": version, "kind": kind})
}
