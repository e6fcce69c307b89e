//! Objects, and what they are once a manifest was applied, as `kubectl apply` does it.

use std::collections::BTreeSet;
use std::fmt;

use kube::{Resource, ResourceExt as _};
use portolan_api::finalizer::IN_USE;
use portolan_model::Life;
use portolan_model::validate::validate;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::fields::{culprit, required, unknown_field};
use super::manifest::{Document, Place};
use super::schema;
use crate::cluster::{Lists, Snapshot};
use crate::exit::Failure;

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The objects that there are.
pub(super) struct Objects {
    pub(super) lists: Lists,
}

/// An object as people name it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Name {
    pub(super) group: String,
    pub(super) kind: String,
    pub(super) namespace: Option<String>,
    pub(super) name: String,
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} {namespace}/{}", self.kind, self.name),
            None => write!(f, "{} {}", self.kind, self.name),
        }
    }
}

/// What became of a document.
pub(super) enum Applied {
    /// It is among the objects now.
    Object(Name),
    /// Nothing in OVN comes from its kind.
    Ignored(Name),
}

impl Objects {
    pub(super) fn of_cluster(lists: Lists) -> Self {
        Objects { lists }
    }

    /// The objects of files, where nobody has judged Subnets yet.
    pub(super) fn of_files(documents: Vec<Document>) -> anyhow::Result<Self> {
        let mut objects = Objects { lists: Lists::default() };
        let mut subnets = BTreeSet::new();
        for document in documents {
            if let Applied::Object(name) = objects.apply(document, "default")?
                && name.kind == "Subnet"
            {
                subnets.insert(name.name);
            }
        }
        objects.validate(&subnets);
        Ok(objects)
    }

    /// Applies a document.
    pub(super) fn apply(&mut self, document: Document, namespace: &str) -> anyhow::Result<Applied> {
        let Document { place, object } = document;
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let missing = |field: &str| Failure::usage(format!("{place}: {field}: required"));
        let version = text("/apiVersion").ok_or_else(|| missing("apiVersion"))?;
        let kind = text("/kind").ok_or_else(|| missing("kind"))?;
        let name = text("/metadata/name").ok_or_else(|| missing("metadata.name"))?;
        let namespace = text("/metadata/namespace").unwrap_or_else(|| namespace.to_owned());
        let group = version.split_once('/').map_or("", |(group, _)| group);
        let name = Name { group: group.to_owned(), kind: kind.clone(), namespace: None, name };
        let namespaced = Name { namespace: Some(namespace), ..name.clone() };
        let lists = &mut self.lists;
        let applied = match (group, kind.as_str()) {
            ("portolan.dev", "Vpc") => put(&mut lists.vpcs, object, &place, &name),
            ("kubeovn.io", "Vpc") => put(&mut lists.kubeovn_vpcs, object, &place, &name),
            ("portolan.dev", "Subnet") => put(&mut lists.subnets, object, &place, &name),
            ("kubeovn.io", "Subnet") => put(&mut lists.kubeovn_subnets, object, &place, &name),
            ("kubeovn.io", "IPPool") => put(&mut lists.ip_pools, object, &place, &name),
            ("kubeovn.io", "Vip") => put(&mut lists.vips, object, &place, &name),
            ("portolan.dev", "IPLock") => put(&mut lists.locks, object, &place, &name),
            ("", "Node") => put(&mut lists.nodes, object, &place, &name),
            ("portolan.dev", "NetworkAttachment") => {
                put(&mut lists.network_attachments, object, &place, &namespaced)
            }
            ("k8s.cni.cncf.io", "NetworkAttachmentDefinition") => {
                put(&mut lists.nads, object, &place, &namespaced)
            }
            ("", "Pod") => put(&mut lists.pods, object, &place, &namespaced),
            ("apps", "StatefulSet") => put(&mut lists.stateful_sets, object, &place, &namespaced),
            _ => return Ok(Applied::Ignored(if object_namespace(&kind) { namespaced } else { name })),
        };
        applied.map(Applied::Object)
    }

    /// Marks these Subnets as validated that fit the others, as the controller would; the others wait.
    pub(super) fn validate(&mut self, names: &BTreeSet<String>) {
        self.protect();
        let world = Snapshot::of(self.lists.clone()).world;
        macro_rules! judge {
            ($($list:ident),*) => {
                $(for subnet in self.lists.$list.iter_mut().filter(|subnet| names.contains(&subnet.name_any())) {
                    let valid = validate(&*subnet, &world).errors.is_empty();
                    if let Some(judged) = judged(subnet, valid) {
                        *subnet = judged;
                    }
                })*
            };
        }
        judge!(subnets, kubeovn_subnets);
    }

    /// Gives VPCs and Subnets their finalizers, as the controller would.
    fn protect(&mut self) {
        let Lists { vpcs, kubeovn_vpcs, subnets, kubeovn_subnets, .. } = &mut self.lists;
        let vpcs = vpcs
            .iter_mut()
            .map(|vpc| &mut vpc.metadata)
            .chain(kubeovn_vpcs.iter_mut().map(|vpc| &mut vpc.metadata));
        let subnets = subnets.iter_mut().map(|subnet| &mut subnet.metadata);
        let subnets = subnets.chain(kubeovn_subnets.iter_mut().map(|subnet| &mut subnet.metadata));
        for metadata in vpcs.chain(subnets).filter(|metadata| Life::of(metadata) == Life::Unprotected) {
            metadata.finalizers.get_or_insert_default().push(IN_USE.to_owned());
        }
    }
}

/// A Subnet with the condition that the controller would write. None if it says something already.
fn judged<K: Resource + Serialize + DeserializeOwned>(subnet: &K, valid: bool) -> Option<K> {
    let mut value = serde_json::to_value(subnet).ok()?;
    let generation = value["metadata"]["generation"].clone();
    let conditions =
        value.pointer("/status/conditions").and_then(Value::as_array).cloned().unwrap_or_default();
    let says =
        |condition: &Value| condition["type"] == "Validated" && condition["observedGeneration"] == generation;
    if conditions.iter().any(says) {
        return None;
    }
    let (status, reason) = if valid { ("True", "Valid") } else { ("False", "Invalid") };
    let mut conditions: Vec<Value> =
        conditions.into_iter().filter(|condition| condition["type"] != "Validated").collect();
    conditions.push(json!({"type": "Validated", "status": status, "reason": reason, "message": "",
        "observedGeneration": generation, "lastTransitionTime": "1970-01-01T00:00:00Z"}));
    if !value["status"].is_object() {
        value["status"] = json!({});
    }
    value["status"]["conditions"] = conditions.into();
    serde_json::from_value(value).ok()
}

/// Most kinds are namespaced; these may come beside ours.
fn object_namespace(kind: &str) -> bool {
    !["Namespace", "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition"].contains(&kind)
}

/// Puts an object into a list, in place of the one that it is a new version of.
fn put<K>(list: &mut Vec<K>, mut object: Value, place: &Place, name: &Name) -> anyhow::Result<Name>
where
    K: Resource<DynamicType = ()> + Serialize + DeserializeOwned,
{
    let fail = |field: &str, why: &str| {
        let field = if field.is_empty() { String::new() } else { format!("{field}: ") };
        Failure::usage(format!("{place}: {name}: {field}{why}"))
    };
    if object["apiVersion"] != *K::api_version(&()) {
        let message = format!("Portolan knows {} of {}", name.kind, K::api_version(&()));
        return Err(fail("apiVersion", &message));
    }
    object["metadata"]["namespace"] = json!(name.namespace);
    let found = list
        .iter()
        .position(|one| one.name_any() == name.name && one.namespace().as_ref() == name.namespace.as_ref());
    let stored = found.and_then(|at| serde_json::to_value(&list[at]).ok());
    let applied = match stored.clone() {
        Some(stored) => applied_to(stored, &object),
        None => {
            let metadata = &mut object["metadata"];
            if metadata["uid"].is_null() {
                // Of the form and size that the API server gives, and no other object's: rows are named by it.
                let uid = portolan_plan::row_uuid("", &K::group(&()), "planned", &name.to_string());
                metadata["uid"] = json!(uid.to_string());
            }
            if metadata["generation"].is_null() {
                metadata["generation"] = json!(1);
            }
            object
        }
    };
    let decoded = match serde_json::from_value(applied.clone()) {
        Ok(decoded) => decoded,
        Err(error) => {
            let error = error.to_string();
            let absent = error.strip_prefix("missing field `").and_then(|rest| rest.split('`').next());
            return Err(match absent.and_then(|field| required::<K>(&applied, field)) {
                Some(field) => fail(&field, "required"),
                None => fail(&culprit::<K>(&applied).unwrap_or_default(), &error),
            });
        }
    };
    if let Some(field) = unknown_field(&applied, &decoded) {
        return Err(fail(&field, "there is no such field"));
    }
    let refused = schema::errors(&name.group, &name.kind, &applied, stored.as_ref());
    if !refused.is_empty() {
        return Err(fail("", &refused.join("; ")));
    }
    match found {
        Some(at) => list[at] = decoded,
        None => list.push(decoded),
    }
    Ok(name.clone())
}

/// What a stored object becomes: fields of the manifest are set, and those are removed that were applied last time and that the
/// manifest no longer has. A changed spec is a new generation.
pub(super) fn applied_to(mut stored: Value, manifest: &Value) -> Value {
    let last: Value = stored["metadata"]["annotations"][LAST_APPLIED]
        .as_str()
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default();
    let before = stored["spec"].clone();
    for part in ["spec", "data"] {
        merge(&mut stored[part], &manifest[part], &last[part]);
    }
    for part in ["annotations", "labels"] {
        merge(&mut stored["metadata"][part], &manifest["metadata"][part], &last["metadata"][part]);
    }
    if stored["spec"] != before {
        let generation = stored["metadata"]["generation"].as_i64().unwrap_or_default();
        stored["metadata"]["generation"] = json!(generation + 1);
    }
    stored
}

fn merge(stored: &mut Value, manifest: &Value, last: &Value) {
    match (manifest, last) {
        (Value::Object(manifest), last) => {
            if !stored.is_object() {
                *stored = Value::Object(Map::new());
            }
            for (key, value) in manifest {
                // As `kubectl apply` has it: null removes what is there.
                if value.is_null() {
                    stored.as_object_mut().map(|stored| stored.remove(key));
                    continue;
                }
                merge(&mut stored[key.as_str()], value, &last[key.as_str()]);
            }
            let gone =
                last.as_object().into_iter().flat_map(Map::keys).filter(|key| !manifest.contains_key(*key));
            for key in gone {
                stored.as_object_mut().map(|stored| stored.remove(key));
            }
        }
        (Value::Null, Value::Null) => {}
        (manifest, _) => *stored = manifest.clone(),
    }
}
