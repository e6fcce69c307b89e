//! Makes `crates/apischema/src/core/kinds.json`: what Kubernetes' own OpenAPI documents say about the types of core kinds;
//! and beside it `enumerations.json`: the values that their fields may have; and `go_types.json`: the Go types behind them; and
//! `crates/apimachinery/src/protobuf/messages.json`: how they are written as protobuf.
//!
//! Only facts are taken (names, types, formats, defaults, who owns what in server-side apply), no sentences. The documents are in
//! the source of Kubernetes, which Go's module cache has where Kubernetes was built from source. Where it is not, nothing is
//! generated or checked.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use serde_json::{Map, Value, json};

use super::Generated;

mod enumerations;
mod go_types;
mod protobuf;

const VERSION: &str = "v1.34.4";
/// Says where the source of Kubernetes is, if it is not in Go's module cache.
const SOURCE: &str = "KUBERNETES_SOURCE";
const FILE: &str = "crates/apischema/src/core/kinds.json";
const ENUMERATIONS_FILE: &str = "crates/apischema/src/core/enumerations.json";
const GO_TYPES_FILE: &str = "crates/apischema/src/core/go_types.json";
const MESSAGES_FILE: &str = "crates/apimachinery/src/protobuf/messages.json";

/// The kinds by the document that has them. Those of subresources are in the document of what they belong to.
const KINDS: &[(&str, &[&str])] = &[
    (
        "api__v1",
        &[
            "Binding",
            "ConfigMap",
            "Endpoints",
            "Event",
            "Eviction",
            "LimitRange",
            "Namespace",
            "Node",
            "PersistentVolume",
            "PersistentVolumeClaim",
            "Pod",
            "PodTemplate",
            "ReplicationController",
            "ResourceQuota",
            "Scale",
            "Secret",
            "Service",
            "ServiceAccount",
            "DeleteOptions",
            "Status",
            "TokenRequest",
            "WatchEvent",
            "APIResourceList",
        ],
    ),
    ("api", &["APIVersions"]),
    ("apis", &["APIGroup", "APIGroupList"]),
    (
        "apis__admissionregistration.k8s.io__v1",
        &[
            "MutatingWebhookConfiguration",
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionPolicyBinding",
            "ValidatingWebhookConfiguration",
        ],
    ),
    ("apis__apiextensions.k8s.io__v1", &["CustomResourceDefinition"]),
    ("apis__apiregistration.k8s.io__v1", &["APIService"]),
    ("apis__apps__v1", &["ControllerRevision", "DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"]),
    ("apis__authentication.k8s.io__v1", &["SelfSubjectReview", "TokenReview"]),
    (
        "apis__authorization.k8s.io__v1",
        &[
            "LocalSubjectAccessReview",
            "SelfSubjectAccessReview",
            "SelfSubjectRulesReview",
            "SubjectAccessReview",
        ],
    ),
    ("apis__autoscaling__v1", &["HorizontalPodAutoscaler"]),
    ("apis__batch__v1", &["CronJob", "Job"]),
    ("apis__certificates.k8s.io__v1", &["CertificateSigningRequest"]),
    ("apis__coordination.k8s.io__v1", &["Lease"]),
    ("apis__discovery.k8s.io__v1", &["EndpointSlice"]),
    ("apis__events.k8s.io__v1", &["Event"]),
    ("apis__networking.k8s.io__v1", &["Ingress", "IngressClass", "NetworkPolicy"]),
    ("apis__node.k8s.io__v1", &["RuntimeClass"]),
    ("apis__policy__v1", &["PodDisruptionBudget"]),
    ("apis__rbac.authorization.k8s.io__v1", &["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"]),
    ("apis__scheduling.k8s.io__v1", &["PriorityClass"]),
    ("apis__storage.k8s.io__v1", &["CSIDriver", "CSINode", "StorageClass", "VolumeAttachment"]),
];

/// Types that have kinds in every group, and so name them all. Which group means nothing for them.
const OF_EVERY_GROUP: &[&str] = &["DeleteOptions", "WatchEvent"];

pub(super) fn generate(_: &Path) -> anyhow::Result<Vec<Generated>> {
    let Some(source) = source() else {
        eprintln!("skipped {FILE}: no source of Kubernetes {VERSION}; set {SOURCE} to where it is");
        return Ok(vec![]);
    };
    let mut types = BTreeMap::new();
    let mut wanted = BTreeSet::new();
    for (document, kinds) in KINDS {
        let path = source.join(format!("api/openapi-spec/v3/{document}_openapi.json"));
        let read = || anyhow::Ok(serde_json::from_slice::<Value>(&fs::read(&path)?)?);
        let mut json = read().with_context(|| path.display().to_string())?;
        let Value::Object(schemas) = json["components"]["schemas"].take() else {
            anyhow::bail!("{} has no component schemas", path.display());
        };
        for kind in *kinds {
            let names = types_of_kind(&schemas, kind);
            ensure!(!names.is_empty(), "{} has no {kind}", path.display());
            wanted.extend(names);
        }
        types.extend(schemas.into_iter().map(|(name, schema)| (name, facts(schema))));
    }
    let types = reachable(&types, wanted)?;
    let mut enumerations = enumerations::read(&source)?;
    enumerations.retain(|name, _| types.contains_key(name.as_str()));
    let go_types = go_types::of_components(&source, &types)?;
    let messages = protobuf::messages(&source, &types)?;
    Ok(vec![
        Generated { path: FILE.into(), content: write(types.iter()) },
        Generated {
            path: ENUMERATIONS_FILE.into(),
            content: write(enumerations.iter().map(|(name, fields)| (name, json!(fields)))),
        },
        Generated {
            path: GO_TYPES_FILE.into(),
            content: write(go_types.iter().map(|(name, t)| (name, json!(t)))),
        },
        Generated {
            path: MESSAGES_FILE.into(),
            content: write(messages.iter().map(|(name, fields)| (name, json!(fields)))),
        },
    ])
}

fn source() -> Option<PathBuf> {
    let named = env::var_os(SOURCE).map(PathBuf::from);
    let cache = env::var_os("GOMODCACHE").map(PathBuf::from);
    let cache = cache.or_else(|| Some(Path::new(&env::var_os("GOPATH")?).join("pkg/mod")));
    let cache = cache.or_else(|| Some(Path::new(&env::var_os("HOME")?).join("go/pkg/mod")));
    let source = named.or_else(|| Some(cache?.join(format!("k8s.io/kubernetes@{VERSION}"))))?;
    source.is_dir().then_some(source)
}

/// The types that are of a kind, or of its list.
fn types_of_kind(schemas: &Map<String, Value>, kind: &str) -> Vec<String> {
    let list = format!("{kind}List");
    let of_kind = |schema: &Value| {
        let kinds = schema["x-kubernetes-group-version-kind"].as_array();
        kinds.into_iter().flatten().any(|gvk| gvk["kind"] == kind || gvk["kind"] == list.as_str())
    };
    schemas.iter().filter(|(_, schema)| of_kind(schema)).map(|(name, _)| name.clone()).collect()
}

/// A schema without its sentences.
fn facts(schema: Value) -> Value {
    let Value::Object(mut fields) = schema else { return schema };
    fields.remove("description");
    fields.remove("x-kubernetes-unions");
    if let Some(Value::Array(kinds)) = fields.get_mut("x-kubernetes-group-version-kind")
        && kinds.len() > 1
    {
        kinds.retain(|gvk| {
            !OF_EVERY_GROUP.iter().any(|kind| gvk["kind"] == *kind)
                || *gvk == json!({"group": "", "version": "v1", "kind": gvk["kind"]})
        });
    }
    for keyword in ["items", "additionalProperties", "not"] {
        if let Some(inner) = fields.get_mut(keyword) {
            *inner = facts(inner.take());
        }
    }
    if let Some(Value::Object(properties)) = fields.get_mut("properties") {
        properties.values_mut().for_each(|property| *property = facts(property.take()));
    }
    for keyword in ["allOf", "anyOf", "oneOf"] {
        if let Some(Value::Array(inner)) = fields.get_mut(keyword) {
            inner.iter_mut().for_each(|schema| *schema = facts(schema.take()));
        }
    }
    Value::Object(fields)
}

/// The wanted types and all that they refer to.
fn reachable(
    types: &BTreeMap<String, Value>,
    wanted: BTreeSet<String>,
) -> anyhow::Result<BTreeMap<&str, &Value>> {
    let mut found = BTreeMap::new();
    let mut left: Vec<String> = wanted.into_iter().collect();
    while let Some(name) = left.pop() {
        let (name, schema) = types.get_key_value(&name).with_context(|| format!("no type {name}"))?;
        if found.insert(name.as_str(), schema).is_none() {
            references(schema, &mut left);
        }
    }
    Ok(found)
}

fn references(json: &Value, found: &mut Vec<String>) {
    match json {
        Value::Object(fields) => {
            let target = fields.get("$ref").and_then(Value::as_str);
            found.extend(target.and_then(|target| target.rsplit('/').next()).map(str::to_owned));
            fields.values().for_each(|value| references(value, found));
        }
        Value::Array(values) => values.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}

/// A line for each type, so that a difference between versions can be read.
fn write(types: impl Iterator<Item = (impl AsRef<str>, impl Display)>) -> String {
    let lines: Vec<_> =
        types.map(|(name, described)| format!("{}:{described}", json!(name.as_ref()))).collect();
    format!("{{\n{}\n}}\n", lines.join(",\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_go_and_a_field_called_description_stays() {
        let schema = json!({
            "description": "words", "type": "object",
            "properties": {"description": {"type": "string", "description": "words"}},
            "additionalProperties": {"description": "words", "allOf": [{"description": "words"}]},
        });
        let expected = json!({
            "type": "object",
            "properties": {"description": {"type": "string"}},
            "additionalProperties": {"allOf": [{}]},
        });
        assert_eq!(facts(schema), expected);
    }

    #[test]
    fn what_is_referred_to_comes_along_and_nothing_else() {
        let types: BTreeMap<String, Value> = serde_json::from_value(json!({
            "a": {"properties": {"b": {"allOf": [{"$ref": "#/components/schemas/b"}]}}},
            "b": {"items": {"$ref": "#/components/schemas/a"}},
            "c": {},
        }))
        .unwrap();
        let found = reachable(&types, BTreeSet::from(["a".to_owned()])).unwrap();
        assert_eq!(found.keys().copied().collect::<Vec<_>>(), ["a", "b"]);
        assert!(reachable(&types, BTreeSet::from(["d".to_owned()])).is_err());
    }
}
