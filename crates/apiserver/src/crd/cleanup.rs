//! Deleting the objects of a definition that is being deleted, and then the definition.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use apimachinery::Status;
use apimachinery::status::Reason;
use apistore::{Range, StoreError};
use bytes::Bytes;
use serde_json::Value;
use tokio::time::Instant;

use super::Definitions;
use super::condition::{Condition, ESTABLISHED, TERMINATING, set_condition};
use super::controller::{change_status, endpoint};
use super::definition::{CLEANUP_FINALIZER, Definition};
use crate::api::Api;
use crate::context::Context;
use crate::endpoint::Endpoint;
use crate::options::DeleteOptions;
use crate::registry::Resource;
use crate::storage::Key;

/// How long the deletion of all objects may take before a condition says that it takes long.
const PATIENCE: Duration = Duration::from_secs(60);

/// Deletes all objects of a definition, waits until they are deleted, and removes the definition's finalizer.
pub(super) async fn clean(definitions: &Definitions, api: &Api, name: &str) -> Result<(), Status> {
    let of = endpoint(api, name)?;
    let definition = read(api, &of).await?;
    if !definition.awaits_cleanup() {
        return Ok(());
    }
    // From here on nothing is made of its kind.
    definitions.serve(api, &definition);
    write_condition(
        api,
        &of,
        &terminating(true, "InstanceDeletionInProgress", "CustomResource deletion is in progress"),
    )
    .await?;
    let registry = api.registry().snapshot();
    let resource = registry.resource(&definition.spec.group, &definition.spec.names.plural).cloned();
    let end = match resource.filter(|_| definition.is(ESTABLISHED)) {
        Some(resource) if definitions.lock().served.contains_key(name) => {
            empty(api, &of, &resource).await?;
            terminating(false, "InstanceDeletionCompleted", "removed all instances")
        }
        Some(_) => terminating(
            false,
            "OverlappingBuiltInResource",
            "instances overlap with built-in resources in storage",
        ),
        None => terminating(false, "NeverEstablished", "resource was never established"),
    };
    definitions.finish(api, name);
    let mut end_it = |object: &mut Value, now: &str| {
        set_condition(object, end.clone(), now);
        remove_finalizer(object);
    };
    let ended = change_status(api, &of, &mut end_it).await;
    // Once it is deleted, that is over with the store's event.
    ended.inspect_err(|_| definitions.finished(name))
}

async fn read(api: &Api, of: &Endpoint) -> Result<Definition, Status> {
    let object = of.read(&api.read(of).await?)?;
    Definition::read(&object).map_err(Status::internal_error)
}

fn terminating(is: bool, reason: &str, message: &str) -> Condition {
    Condition::new(TERMINATING, is, reason, message)
}

async fn write_condition(api: &Api, of: &Endpoint, condition: &Condition) -> Result<(), Status> {
    change_status(api, of, &mut |object, now| set_condition(object, condition.clone(), now)).await
}

fn remove_finalizer(object: &mut Value) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    let Some(Value::Array(finalizers)) = metadata.get_mut("finalizers") else { return };
    finalizers.retain(|finalizer| finalizer != CLEANUP_FINALIZER);
    if finalizers.is_empty() {
        metadata.remove("finalizers");
    }
}

/// Deletes all objects of a resource, and waits until they are deleted.
async fn empty(api: &Api, of: &Endpoint, resource: &Arc<Resource>) -> Result<(), Status> {
    let prefix = resource.key.prefix("");
    let failed = |error: &StoreError| resource.store_failed(error);
    let page = api.storage().list(Range { prefix: prefix.clone(), ..Range::default() }).await;
    let page = page.map_err(|error| failed(&error))?;
    let mut events = api.storage().watch(prefix, page.revision).await.map_err(|error| failed(&error))?;
    let mut left: HashSet<Bytes> = page.entries.into_iter().map(|entry| entry.key).collect();
    let mut failures = Vec::new();
    for key in &left {
        if let Err(status) = delete(api, resource, key).await {
            failures.push(status.message);
        }
    }
    if !failures.is_empty() {
        let all = if failures.len() == 1 { failures.remove(0) } else { format!("[{}]", failures.join(", ")) };
        let message = format!("could not issue all deletes: {all}");
        write_condition(api, of, &terminating(true, "InstanceDeletionFailed", &message)).await?;
        return Err(Status::internal_error(message));
    }
    let mut patience = Some(Instant::now() + PATIENCE);
    while !left.is_empty() {
        let next = events.next();
        let events = match patience {
            Some(until) => tokio::time::timeout_at(until, next).await,
            None => Ok(next.await),
        };
        let Ok(events) = events else {
            patience = None;
            let message = "could not confirm zero CustomResources remaining: context deadline exceeded";
            write_condition(api, of, &terminating(true, "InstanceDeletionCheck", message)).await?;
            continue;
        };
        for event in events.map_err(|error| failed(&error))? {
            match event.value {
                None => {
                    left.remove(&event.key);
                }
                // Something was made before it was known that nothing may be.
                Some(_) if left.insert(event.key.clone()) => delete(api, resource, &event.key).await?,
                Some(_) => {}
            }
        }
    }
    Ok(())
}

async fn delete(api: &Api, resource: &Arc<Resource>, key: &Bytes) -> Result<(), Status> {
    let Some(key) = Key::parse(key) else { return Ok(()) };
    let endpoint = Endpoint::object(resource.clone(), key.namespace, key.name);
    match api.delete(&endpoint, &Context::internal("crd-controller"), &DeleteOptions::default()).await {
        Err(status) if status.reason != Reason::NotFound => Err(status),
        _ => Ok(()),
    }
}
