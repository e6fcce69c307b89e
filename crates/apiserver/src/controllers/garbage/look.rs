//! One look at one object: the next step that its owners and dependents ask for.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use apimachinery::{Reason, Status};
use bytes::Bytes;
use serde_json::Value;

use super::{Garbage, misplaced};
use crate::api::Api;
use crate::context::Context;
use crate::controllers::ownership::{Metadata, OwnerReference};
use crate::controllers::{Looked, change_object};
use crate::endpoint::Endpoint;
use crate::options::{DeleteOptions, Preconditions, Propagation};
use crate::registry::GarbageCollection;
use crate::storage::Key;
use crate::verbs::{FOREGROUND, ORPHAN};

/// What is known of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    /// It is there.
    Solid,
    /// It is there, and its deletion waits for its dependents.
    Waiting,
    /// It is gone, or another one has its name.
    Gone,
    /// No one can say: its kind is not served, or a dependent without a namespace names an owner in one.
    Unknown,
}

/// Looks at the object at a key, and does the next step.
pub(crate) async fn look(api: &Api, garbage: &Arc<Mutex<Garbage>>, key: &Bytes) -> Looked {
    match step(api, garbage, key).await {
        Ok(()) => Looked::Done,
        // Somebody else deleted it: an event tells whom that concerns.
        Err(status) if status.reason == Reason::NotFound => Looked::Done,
        // Somebody else changed it, which for a precondition of ours may have made no event since.
        Err(status) if status.reason == Reason::Conflict => Looked::Failed,
        Err(status) => {
            tracing::warn!(key = %String::from_utf8_lossy(key), error = status.message, "garbage is not collected");
            Looked::Failed
        }
    }
}

async fn step(api: &Api, garbage: &Arc<Mutex<Garbage>>, key: &Bytes) -> Result<(), Status> {
    let Some(endpoint) = endpoint_of(api, key) else { return Ok(()) };
    if endpoint.resource.strategy.garbage_collection() == GarbageCollection::Unsupported {
        return Ok(());
    }
    let metadata = Metadata::read(&api.read(&endpoint).await?);
    let dependents = || garbage.lock().unwrap_or_else(PoisonError::into_inner).dependents_of(&metadata.uid);
    if metadata.is_deleting() {
        if metadata.has_finalizer(ORPHAN) {
            return orphan(api, &endpoint, &metadata, dependents()).await;
        }
        if metadata.has_finalizer(FOREGROUND) && !dependents().values().any(|blocks| *blocks) {
            return remove_finalizer(api, &endpoint, FOREGROUND).await;
        }
        return Ok(());
    }
    let mut found = Vec::new();
    for reference in &metadata.owner_references {
        found.push((reference, find(api, &endpoint, reference).await?));
    }
    let unchecked = garbage.lock().unwrap_or_else(PoisonError::into_inner).take_unchecked(key);
    for (reference, _) in found
        .iter()
        .filter(|(one, found)| matches!(found, Found::Gone | Found::Unknown) && unchecked.contains(&one.uid))
    {
        misplaced::report(api, &endpoint, &metadata.uid, reference).await?;
    }
    let is = |state: Found| found.iter().any(|(_, found)| *found == state);
    if found.is_empty() || is(Found::Unknown) {
        return Ok(());
    }
    if is(Found::Solid) {
        let rest: Vec<&str> = found
            .iter()
            .filter(|(_, found)| *found != Found::Solid)
            .map(|(one, _)| one.uid.as_str())
            .collect();
        if !rest.is_empty() {
            forget_owners(api, &endpoint, &rest).await?;
        }
        return Ok(());
    }
    // All are gone or going. An owner that waits for this one waits for those that this one owns too.
    let propagation = if metadata.has_finalizer(ORPHAN) {
        Propagation::Orphan
    } else if metadata.has_finalizer(FOREGROUND) || (is(Found::Waiting) && !dependents().is_empty()) {
        Propagation::Foreground
    } else {
        Propagation::Background
    };
    delete(api, &endpoint, &metadata, propagation).await
}

/// The object's resource and place, as its key says; absent if its kind is not served any more.
fn endpoint_of(api: &Api, key: &Bytes) -> Option<Endpoint> {
    let key = Key::parse(key)?;
    let (group, plural) = key.resource.rsplit_once('/')?;
    let group = if group == "core" { "" } else { group };
    let resource = api.registry().snapshot().resource(group, plural)?.clone();
    Some(Endpoint::object(resource, key.namespace, key.name))
}

async fn find(api: &Api, dependent: &Endpoint, reference: &OwnerReference) -> Result<Found, Status> {
    let (group, _) = reference.api_version.rsplit_once('/').unwrap_or_default();
    let Some(resource) = api.registry().snapshot().kind(group, &reference.kind).cloned() else {
        return Ok(Found::Unknown);
    };
    let namespace = match (resource.is_namespaced(), dependent.namespace.as_str()) {
        (false, _) => "",
        (true, "") => return Ok(Found::Unknown),
        (true, namespace) => namespace,
    };
    let owner = Endpoint::object(resource, namespace, &reference.name);
    match api.read(&owner).await {
        Ok(stored) => {
            let metadata = Metadata::read(&stored);
            Ok(if metadata.uid != reference.uid {
                Found::Gone
            } else if metadata.waits_for_dependents() {
                Found::Waiting
            } else {
                Found::Solid
            })
        }
        Err(status) if status.reason == Reason::NotFound => Ok(Found::Gone),
        Err(status) => Err(status),
    }
}

/// Lets every dependent forget its owner, and then the owner go.
async fn orphan(
    api: &Api,
    owner: &Endpoint,
    metadata: &Metadata,
    dependents: BTreeMap<Bytes, bool>,
) -> Result<(), Status> {
    for dependent in dependents.into_keys() {
        let Some(endpoint) = endpoint_of(api, &dependent) else { continue };
        match forget_owners(api, &endpoint, &[&metadata.uid]).await {
            Err(status) if status.reason == Reason::NotFound => {}
            other => other?,
        }
    }
    remove_finalizer(api, owner, ORPHAN).await
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
        // Its owners were judged by what this very version says.
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
        "its owners are gone"
    );
    api.delete(endpoint, &Context::internal("garbage-collector"), &options).await.map(drop)
}
