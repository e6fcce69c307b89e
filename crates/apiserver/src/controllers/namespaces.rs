//! A namespace that ends is emptied, and then let go.

use std::collections::BTreeSet;

use apimachinery::{Reason, Status, meta};
use apistore::{Range, Revision};
use bytes::Bytes;
use memchr::memmem;
use serde_json::{Value, json};

use super::{Looked, Work, change_object};
use crate::api::Api;
use crate::context::Context;
use crate::endpoint::Endpoint;
use crate::options::DeleteOptions;
use crate::storage::{Key, StoredObject};

/// What is in `spec.finalizers` while the namespace may hold objects.
const FINALIZER: &str = "kubernetes";

/// The namespaces that are ending.
#[derive(Debug, Default)]
pub(super) struct Namespaces {
    ending: BTreeSet<String>,
}

impl Namespaces {
    /// Something happened to the object at a key.
    pub(super) fn told(&mut self, key: &Bytes, value: Option<&Bytes>, wanted: &mut Vec<Work>) {
        let Some(key) = Key::parse(key) else { return };
        if key.resource == "core/namespaces" {
            let is_ending = |value: &Bytes| memmem::find(value, b"\"deletionTimestamp\"").is_some();
            if value.is_some_and(is_ending) {
                self.ending.insert(key.name.to_owned());
                wanted.push(Work::Namespace(key.name.to_owned()));
            } else {
                self.ending.remove(key.name);
            }
        } else if value.is_none() && self.ending.contains(key.namespace) {
            // One less: perhaps it was the last.
            wanted.push(Work::Namespace(key.namespace.to_owned()));
        }
    }
}

/// What is left in a namespace.
#[derive(Debug, Default)]
struct Left {
    /// By resource, with its group, how many objects.
    objects: Vec<(String, usize)>,
    /// By finalizer, how many objects.
    finalizers: std::collections::BTreeMap<String, usize>,
    failures: Vec<String>,
}

/// Looks at a namespace that is ending, and does the next step.
pub(super) async fn look(api: &Api, name: &str) -> Looked {
    match step(api, name).await {
        Ok(looked) => looked,
        Err(status) if status.reason == Reason::NotFound => Looked::Done,
        Err(status) => {
            tracing::warn!(namespace = name, error = status.message, "the namespace is not emptied");
            Looked::Failed
        }
    }
}

async fn step(api: &Api, name: &str) -> Result<Looked, Status> {
    let Some(resource) = api.registry().snapshot().resource("", "namespaces").cloned() else {
        return Ok(Looked::Done);
    };
    let endpoint = Endpoint::object(resource, "", name);
    let namespace = endpoint.read(&api.read(&endpoint).await?)?;
    if namespace["metadata"]["deletionTimestamp"].is_null() {
        return Ok(Looked::Done);
    }
    let left = empty(api, name).await;
    let context = Context::internal("namespace-controller");
    if left.objects.is_empty() && left.failures.is_empty() {
        let finalize = Endpoint { subresource: "finalize".into(), ..endpoint };
        change_object(api, &finalize, &context, |object| {
            if let Some(Value::Array(finalizers)) = object.pointer_mut("/spec/finalizers") {
                finalizers.retain(|finalizer| finalizer != FINALIZER);
            }
        })
        .await?;
        return Ok(Looked::Done);
    }
    let status = Endpoint { subresource: "status".into(), ..endpoint };
    let now = context.now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    change_object(api, &status, &context, |object| set_conditions(object, &left, &now)).await?;
    Ok(if left.failures.is_empty() { Looked::Done } else { Looked::Failed })
}

/// Deletes everything in a namespace, and says what is left.
async fn empty(api: &Api, name: &str) -> Left {
    let mut left = Left::default();
    let context = Context::internal("namespace-controller");
    let snapshot = api.registry().snapshot();
    for resource in snapshot.resources().filter(|resource| resource.is_namespaced()) {
        let collection = Endpoint::collection(resource.clone(), name);
        let range = Range { prefix: collection.prefix(), ..Range::default() };
        let entries = match api.storage().list(range.clone()).await {
            Ok(page) => page.entries,
            Err(error) => {
                left.failures.push(error.to_string());
                continue;
            }
        };
        for entry in &entries {
            let Some(key) = Key::parse(&entry.key) else { continue };
            let endpoint = Endpoint::object(resource.clone(), key.namespace, key.name);
            match api.delete(&endpoint, &context, &DeleteOptions::default()).await {
                Err(status) if status.reason != Reason::NotFound => {
                    left.failures.push(format!("{} {}: {}", resource.qualified(), key.name, status.message));
                }
                _ => {}
            }
        }
        if entries.is_empty() {
            continue;
        }
        // Those that finalizers or a grace period keep.
        if let Ok(page) = api.storage().list(range).await
            && !page.entries.is_empty()
        {
            let name = format!("{}.{}", resource.plural, resource.group);
            left.objects.push((name, page.entries.len()));
            for finalizer in page.entries.iter().flat_map(|entry| finalizers(&entry.value)) {
                *left.finalizers.entry(finalizer).or_default() += 1;
            }
        }
    }
    left
}

fn finalizers(raw: &Bytes) -> Vec<String> {
    let object = StoredObject::decode(raw.clone(), Revision(0)).and_then(|stored| stored.to_value());
    let Ok(object) = object else { return Vec::new() };
    meta::finalizers(&object).map(String::from).collect()
}

fn set_conditions(namespace: &mut Value, left: &Left, now: &str) {
    let objects: Vec<String> = left
        .objects
        .iter()
        .map(|(resource, count)| format!("{resource} has {count} resource instances"))
        .collect();
    let finalizers: Vec<String> =
        left.finalizers.iter().map(|(name, count)| format!("{name} in {count} resource instances")).collect();
    let failures = left.failures.join(", ");
    // This server knows its own kinds.
    set_condition(
        namespace,
        now,
        "NamespaceDeletionDiscoveryFailure",
        None,
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
                format!("Failed to delete all resource types, {} remaining: {failures}", left.failures.len()),
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
