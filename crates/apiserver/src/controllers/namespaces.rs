//! The namespace controller: a namespace that is being deleted is emptied, and then finalized.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use apimachinery::{Reason, Status, meta};
use apistore::{Range, Revision};
use bytes::Bytes;
use memchr::memmem;
use serde_json::{Value, json};

use super::unserved::Kind;
use super::{Outcome, Work, change_object};
use crate::api::Api;
use crate::context::Context;
use crate::endpoint::Endpoint;
use crate::options::DeleteOptions;
use crate::storage::{Key, ResourceKey, StoredObject};

/// What is in `spec.finalizers` while the namespace may hold objects.
const FINALIZER: &str = "kubernetes";

/// The namespaces that are being deleted, and the resources of which anything is stored in namespaces.
#[derive(Debug, Default)]
pub(super) struct Namespaces {
    terminating: BTreeSet<String>,
    /// How many objects in namespaces are stored, by resource as in [`ResourceKey`](crate::storage::ResourceKey).
    stored: BTreeMap<String, usize>,
}

impl Namespaces {
    /// What is at a key has changed.
    pub(super) fn changed(
        &mut self,
        key: &Bytes,
        value: Option<&Bytes>,
        previous: Option<&Bytes>,
        affected: &mut Vec<Work>,
    ) {
        let Some(key) = Key::parse(key) else { return };
        if !key.namespace.is_empty() {
            self.count(key.resource, value.is_some(), previous.is_some());
        }
        if key.resource == "core/namespaces" {
            let is_terminating = |value: &Bytes| memmem::find(value, b"\"deletionTimestamp\"").is_some();
            if value.is_some_and(is_terminating) {
                self.terminating.insert(key.name.to_owned());
                affected.push(Work::Namespace(key.name.to_owned()));
            } else {
                self.terminating.remove(key.name);
            }
        } else if value.is_none() && self.terminating.contains(key.namespace) {
            // One less: perhaps it was the last.
            affected.push(Work::Namespace(key.namespace.to_owned()));
        }
    }

    /// The resources of which anything is stored in any namespace.
    pub(super) fn stored_resources(&self) -> Vec<String> {
        self.stored.keys().cloned().collect()
    }

    fn count(&mut self, resource: &str, is_stored: bool, was_stored: bool) {
        match (is_stored, was_stored) {
            (true, false) => match self.stored.get_mut(resource) {
                Some(count) => *count += 1,
                None => {
                    self.stored.insert(resource.to_owned(), 1);
                }
            },
            (false, true) => {
                if let Some(count) = self.stored.get_mut(resource) {
                    *count -= 1;
                    if *count == 0 {
                        self.stored.remove(resource);
                    }
                }
            }
            _ => {}
        }
    }
}

/// What remains in a namespace.
#[derive(Debug, Default)]
struct Remaining {
    /// By resource, with its group, how many objects.
    objects: Vec<(String, usize)>,
    /// By finalizer, how many objects.
    finalizers: BTreeMap<String, usize>,
    /// Resources that are not served and of which there are objects. Nobody knows how to delete these, or what keeps them.
    unserved: Vec<(String, Kind)>,
    failures: Vec<String>,
}

impl Remaining {
    fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.unserved.is_empty() && self.failures.is_empty()
    }
}

/// Reconciles a namespace that is being deleted. `stored` has the resources of which anything is stored in namespaces.
pub(super) async fn reconcile(api: &Api, name: &str, stored: &[String]) -> Outcome {
    match step(api, name, stored).await {
        Ok(outcome) => outcome,
        Err(status) if status.reason == Reason::NotFound => Outcome::Done,
        Err(status) => {
            tracing::warn!(
                namespace = name,
                error = status.message,
                "cannot empty the namespace; trying again later"
            );
            Outcome::Failed
        }
    }
}

async fn step(api: &Api, name: &str, stored: &[String]) -> Result<Outcome, Status> {
    let Some(resource) = api.registry().snapshot().resource("", "namespaces").cloned() else {
        return Ok(Outcome::Unserved(vec![Kind::Resource(String::new(), "namespaces".into())]));
    };
    let endpoint = Endpoint::object(resource, "", name);
    let namespace = endpoint.read(&api.read(&endpoint).await?)?;
    if namespace["metadata"]["deletionTimestamp"].is_null() {
        return Ok(Outcome::Done);
    }
    let mut remaining = Remaining::default();
    delete_all(api, name, &mut remaining).await;
    find_unserved(api, name, stored, &mut remaining).await;
    let context = Context::internal("namespace-controller");
    if remaining.is_empty() {
        let finalize = Endpoint { subresource: "finalize".into(), ..endpoint };
        change_object(api, &finalize, &context, |object| {
            if let Some(Value::Array(finalizers)) = object.pointer_mut("/spec/finalizers") {
                finalizers.retain(|finalizer| finalizer != FINALIZER);
            }
        })
        .await?;
        return Ok(Outcome::Done);
    }
    let status = Endpoint { subresource: "status".into(), ..endpoint };
    let now = context.now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    change_object(api, &status, &context, |object| set_conditions(object, &remaining, &now)).await?;
    if !remaining.failures.is_empty() {
        return Ok(Outcome::Failed);
    }
    if !remaining.unserved.is_empty() {
        return Ok(Outcome::Unserved(remaining.unserved.into_iter().map(|(_, kind)| kind).collect()));
    }
    Ok(Outcome::Done)
}

/// Deletes everything in a namespace whose kind is served, and notes what remains.
async fn delete_all(api: &Api, name: &str, remaining: &mut Remaining) {
    let context = Context::internal("namespace-controller");
    let snapshot = api.registry().snapshot();
    for resource in snapshot.resources().filter(|resource| resource.is_namespaced()) {
        let collection = Endpoint::collection(resource.clone(), name);
        let range = Range { prefix: collection.prefix(), ..Range::default() };
        let entries = match api.storage().list(range.clone()).await {
            Ok(page) => page.entries,
            Err(error) => {
                remaining.failures.push(format!("{}: {error}", resource.qualified()));
                continue;
            }
        };
        for entry in &entries {
            let Some(key) = Key::parse(&entry.key) else { continue };
            let endpoint = Endpoint::object(resource.clone(), key.namespace, key.name);
            match api.delete(&endpoint, &context, &DeleteOptions::default()).await {
                Err(status) if status.reason != Reason::NotFound => {
                    let failure = format!("{} {}: {}", resource.qualified(), key.name, status.message);
                    remaining.failures.push(failure);
                }
                _ => {}
            }
        }
        if entries.is_empty() {
            continue;
        }
        // Those that finalizers or a grace period keep.
        match api.storage().list(range).await {
            Ok(page) if page.entries.is_empty() => {}
            Ok(page) => {
                let name = format!("{}.{}", resource.plural, resource.group);
                remaining.objects.push((name, page.entries.len()));
                for finalizer in page.entries.iter().flat_map(|entry| finalizers(&entry.value)) {
                    *remaining.finalizers.entry(finalizer).or_default() += 1;
                }
            }
            Err(error) => remaining.failures.push(format!("{}: {error}", resource.qualified())),
        }
    }
}

/// Notes which resources that are not served have objects in a namespace.
async fn find_unserved(api: &Api, name: &str, stored: &[String], remaining: &mut Remaining) {
    let snapshot = api.registry().snapshot();
    let served: HashSet<&str> = snapshot.resources().map(|resource| resource.key.as_str()).collect();
    for resource in stored.iter().filter(|resource| !served.contains(resource.as_str())) {
        let Some((group, plural)) = resource.rsplit_once('/') else { continue };
        let group = if group == "core" { "" } else { group };
        let prefix = ResourceKey::new(group, plural).prefix(name);
        match api.storage().list(Range { prefix, limit: 1, ..Range::default() }).await {
            Ok(page) if page.entries.is_empty() => {}
            Ok(_) => {
                let kind = Kind::Resource(group.to_owned(), plural.to_owned());
                remaining.unserved.push((format!("{plural}.{group}"), kind));
            }
            Err(error) => remaining.failures.push(format!("{plural}.{group}: {error}")),
        }
    }
}

fn finalizers(raw: &Bytes) -> Vec<String> {
    let object = StoredObject::decode(raw.clone(), Revision(0)).and_then(|stored| stored.to_value());
    let Ok(object) = object else { return Vec::new() };
    meta::finalizers(&object).map(String::from).collect()
}

fn set_conditions(namespace: &mut Value, remaining: &Remaining, now: &str) {
    let objects: Vec<String> = remaining
        .objects
        .iter()
        .map(|(resource, count)| format!("{resource} has {count} resource instances"))
        .collect();
    let finalizers: Vec<String> = remaining
        .finalizers
        .iter()
        .map(|(name, count)| format!("{name} in {count} resource instances"))
        .collect();
    let failures = remaining.failures.join(", ");
    let unserved: Vec<&str> = remaining.unserved.iter().map(|(resource, _)| resource.as_str()).collect();
    set_condition(
        namespace,
        now,
        "NamespaceDeletionDiscoveryFailure",
        (!unserved.is_empty()).then(|| {
            (
                "DiscoveryFailed",
                format!("There are objects of resources that are not served: {}", unserved.join(", ")),
            )
        }),
        ("ResourcesDiscovered", "All resources successfully discovered"),
    );
    set_condition(
        namespace,
        now,
        "NamespaceDeletionGroupVersionParsingFailure",
        None,
        ("ParsedGroupVersions", "All legacy kube types successfully parsed"),
    );
    set_condition(
        namespace,
        now,
        "NamespaceDeletionContentFailure",
        (!failures.is_empty()).then(|| {
            (
                "ContentDeletionFailed",
                format!(
                    "Failed to delete all resource types, {} remaining: {failures}",
                    remaining.failures.len()
                ),
            )
        }),
        ("ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
    );
    set_condition(
        namespace,
        now,
        "NamespaceContentRemaining",
        (!objects.is_empty()).then(|| {
            ("SomeResourcesRemain", format!("Some resources are remaining: {}", objects.join(", ")))
        }),
        ("ContentRemoved", "All content successfully removed"),
    );
    set_condition(
        namespace,
        now,
        "NamespaceFinalizersRemaining",
        (!finalizers.is_empty()).then(|| {
            (
                "SomeFinalizersRemain",
                format!("Some content in the namespace has finalizers remaining: {}", finalizers.join(", ")),
            )
        }),
        ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
    );
}

/// Sets a condition: true for this reason, or false for the other.
fn set_condition(
    namespace: &mut Value,
    now: &str,
    kind: &str,
    is: Option<(&str, String)>,
    (not_reason, not_message): (&str, &str),
) {
    let status = if is.is_some() { "True" } else { "False" };
    let (reason, message) = is.unwrap_or((not_reason, not_message.to_owned()));
    let Some(fields) = namespace.as_object_mut() else { return };
    let of = fields.entry("status").or_insert_with(|| json!({}));
    let Some(of) = of.as_object_mut() else { return };
    let conditions = of.entry("conditions").or_insert_with(|| json!([]));
    let Some(conditions) = conditions.as_array_mut() else { return };
    let since = conditions
        .iter()
        .find(|one| one["type"] == kind && one["status"] == status)
        .and_then(|one| one["lastTransitionTime"].as_str())
        .unwrap_or(now)
        .to_owned();
    conditions.retain(|one| one["type"] != kind);
    conditions.push(json!({"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": since}));
}
