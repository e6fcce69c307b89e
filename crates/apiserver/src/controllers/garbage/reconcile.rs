//! Reconciling one object: the next step that its owners and dependents ask for.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use apimachinery::{Reason, Status};
use bytes::Bytes;
use serde_json::Value;

use super::{Garbage, misplaced};
use crate::api::Api;
use crate::context::Context;
use crate::controllers::ownership::{Metadata, OwnerReference};
use crate::controllers::unserved::Kind;
use crate::controllers::{Outcome, change_object};
use crate::endpoint::Endpoint;
use crate::options::{DeleteOptions, Preconditions, Propagation};
use crate::registry::GarbageCollection;
use crate::storage::Key;
use crate::verbs::{FOREGROUND, ORPHAN};

/// The state of an owner.
#[derive(Clone, Debug, PartialEq, Eq)]
enum OwnerState {
    /// It exists.
    Exists,
    /// It exists, and its deletion waits for its dependents.
    WaitsForDependents,
    /// It was deleted, or another object has its name.
    Absent,
    /// Unknown, because its kind is not served.
    Unserved(Kind),
    /// Unknown for good: a dependent without a namespace names an owner in one.
    Unresolvable,
}

/// Reconciles the object at a key.
pub(crate) async fn reconcile(api: &Api, garbage: &Arc<Mutex<Garbage>>, key: &Bytes) -> Outcome {
    match step(api, garbage, key).await {
        Ok(outcome) => outcome,
        // Somebody else deleted it: the event queues whatever that concerns.
        Err(status) if status.reason == Reason::NotFound => Outcome::Done,
        // Somebody else changed it, which for a precondition of ours may have made no event since.
        Err(status) if status.reason == Reason::Conflict => Outcome::Failed,
        Err(status) => {
            tracing::warn!(key = %String::from_utf8_lossy(key), error = status.message, "cannot collect garbage; trying again later");
            Outcome::Failed
        }
    }
}

async fn step(api: &Api, garbage: &Arc<Mutex<Garbage>>, key: &Bytes) -> Result<Outcome, Status> {
    let endpoint = match resolve(api, key) {
        Ok(endpoint) => endpoint,
        Err(kind) => return Ok(kind.map_or(Outcome::Done, |kind| Outcome::Unserved(vec![kind]))),
    };
    if endpoint.resource.strategy.garbage_collection() == GarbageCollection::Unsupported {
        return Ok(Outcome::Done);
    }
    let metadata = Metadata::read(&api.read(&endpoint).await?);
    let dependents = || garbage.lock().unwrap_or_else(PoisonError::into_inner).dependents_of(&metadata.uid);
    if metadata.is_deleting() {
        if metadata.has_finalizer(ORPHAN) {
            return orphan(api, &endpoint, &metadata, dependents()).await;
        }
        if metadata.has_finalizer(FOREGROUND) && !dependents().values().any(|blocks| *blocks) {
            remove_finalizer(api, &endpoint, FOREGROUND).await?;
        }
        return Ok(Outcome::Done);
    }
    let mut owners = Vec::new();
    for reference in &metadata.owner_references {
        owners.push((reference, state_of(api, &endpoint, reference).await?));
    }
    let unserved: Vec<Kind> = owners
        .iter()
        .filter_map(|(_, state)| match state {
            OwnerState::Unserved(kind) => Some(kind.clone()),
            _ => None,
        })
        .collect();
    if !unserved.is_empty() {
        return Ok(Outcome::Unserved(unserved));
    }
    let unchecked = garbage.lock().unwrap_or_else(PoisonError::into_inner).take_unchecked(key);
    for (reference, _) in owners.iter().filter(|(one, state)| {
        matches!(state, OwnerState::Absent | OwnerState::Unresolvable) && unchecked.contains(&one.uid)
    }) {
        misplaced::report(api, &endpoint, &metadata.uid, reference).await?;
    }
    let any = |wanted: OwnerState| owners.iter().any(|(_, state)| *state == wanted);
    if owners.is_empty() || any(OwnerState::Unresolvable) {
        return Ok(Outcome::Done);
    }
    if any(OwnerState::Exists) {
        let others: Vec<&str> = owners
            .iter()
            .filter(|(_, state)| *state != OwnerState::Exists)
            .map(|(one, _)| one.uid.as_str())
            .collect();
        if !others.is_empty() {
            forget_owners(api, &endpoint, &others).await?;
        }
        return Ok(Outcome::Done);
    }
    // All are deleted or being deleted. An owner that waits for this object waits for this object's dependents too.
    let propagation = if metadata.has_finalizer(ORPHAN) {
        Propagation::Orphan
    } else if metadata.has_finalizer(FOREGROUND)
        || (any(OwnerState::WaitsForDependents) && !dependents().is_empty())
    {
        Propagation::Foreground
    } else {
        Propagation::Background
    };
    delete(api, &endpoint, &metadata, propagation).await?;
    Ok(Outcome::Done)
}

/// The object's resource and place, as its key says; or the resource that is not served, if the key is an object's at all.
fn resolve(api: &Api, key: &Bytes) -> Result<Endpoint, Option<Kind>> {
    let key = Key::parse(key).ok_or(None)?;
    let (group, plural) = key.resource.rsplit_once('/').ok_or(None)?;
    let group = if group == "core" { "" } else { group };
    match api.registry().snapshot().resource(group, plural) {
        Some(resource) => Ok(Endpoint::object(resource.clone(), key.namespace, key.name)),
        None => Err(Some(Kind::Resource(group.to_owned(), plural.to_owned()))),
    }
}

async fn state_of(api: &Api, dependent: &Endpoint, reference: &OwnerReference) -> Result<OwnerState, Status> {
    let (group, _) = reference.api_version.rsplit_once('/').unwrap_or_default();
    let Some(resource) = api.registry().snapshot().kind(group, &reference.kind).cloned() else {
        return Ok(OwnerState::Unserved(Kind::Kind(group.to_owned(), reference.kind.clone())));
    };
    let namespace = match (resource.is_namespaced(), dependent.namespace.as_str()) {
        (false, _) => "",
        (true, "") => return Ok(OwnerState::Unresolvable),
        (true, namespace) => namespace,
    };
    let owner = Endpoint::object(resource, namespace, &reference.name);
    match api.read(&owner).await {
        Ok(stored) => {
            let metadata = Metadata::read(&stored);
            Ok(if metadata.uid != reference.uid {
                OwnerState::Absent
            } else if metadata.waits_for_dependents() {
                OwnerState::WaitsForDependents
            } else {
                OwnerState::Exists
            })
        }
        Err(status) if status.reason == Reason::NotFound => Ok(OwnerState::Absent),
        Err(status) => Err(status),
    }
}

/// Removes the owner from every dependent, and then the owner's finalizer. A dependent whose kind is not served keeps the owner:
/// once served, it would be taken for garbage.
async fn orphan(
    api: &Api,
    owner: &Endpoint,
    metadata: &Metadata,
    dependents: BTreeMap<Bytes, bool>,
) -> Result<Outcome, Status> {
    let mut unserved = Vec::new();
    for dependent in dependents.into_keys() {
        let endpoint = match resolve(api, &dependent) {
            Ok(endpoint) => endpoint,
            Err(kind) => {
                unserved.extend(kind);
                continue;
            }
        };
        match forget_owners(api, &endpoint, &[&metadata.uid]).await {
            Err(status) if status.reason == Reason::NotFound => {}
            other => other?,
        }
    }
    if !unserved.is_empty() {
        return Ok(Outcome::Unserved(unserved));
    }
    remove_finalizer(api, owner, ORPHAN).await?;
    Ok(Outcome::Done)
}

async fn forget_owners(api: &Api, endpoint: &Endpoint, uids: &[&str]) -> Result<(), Status> {
    change(api, endpoint, |metadata| {
        let Some(Value::Array(references)) = metadata.get_mut("ownerReferences") else { return };
        references.retain(|one| !one["uid"].as_str().is_some_and(|uid| uids.contains(&uid)));
        if references.is_empty() {
            metadata.remove("ownerReferences");
        }
    })
    .await
}

async fn remove_finalizer(api: &Api, endpoint: &Endpoint, name: &str) -> Result<(), Status> {
    change(api, endpoint, |metadata| {
        let Some(Value::Array(finalizers)) = metadata.get_mut("finalizers") else { return };
        finalizers.retain(|finalizer| finalizer != name);
        if finalizers.is_empty() {
            metadata.remove("finalizers");
        }
    })
    .await
}

async fn change(
    api: &Api,
    endpoint: &Endpoint,
    mut change: impl FnMut(&mut serde_json::Map<String, Value>) + Send,
) -> Result<(), Status> {
    let context = Context::internal("garbage-collector");
    change_object(api, endpoint, &context, |object| {
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            change(metadata);
        }
    })
    .await
}

async fn delete(
    api: &Api,
    endpoint: &Endpoint,
    metadata: &Metadata,
    propagation: Propagation,
) -> Result<(), Status> {
    let options = DeleteOptions {
        propagation: Some(propagation),
        // Its owners were looked up by what this very version says.
        preconditions: Preconditions {
            uid: Some(metadata.uid.clone()),
            resource_version: Some(metadata.resource_version.clone()),
        },
        ..DeleteOptions::default()
    };
    tracing::debug!(
        kind = endpoint.resource.kind,
        namespace = endpoint.namespace,
        name = endpoint.name,
        "deleting the object because all its owners are deleted"
    );
    api.delete(endpoint, &Context::internal("garbage-collector"), &options).await.map(drop)
}
