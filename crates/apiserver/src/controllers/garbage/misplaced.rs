//! Owner references to objects of another namespace. They are not valid; an Event on the dependent says so.

use apimachinery::{Reason, Status};
use apistore::Range;
use serde_json::json;

use crate::api::Api;
use crate::context::Context;
use crate::controllers::ownership::{Metadata, OwnerReference};
use crate::endpoint::Endpoint;
use crate::options::WriteOptions;
use crate::registry::Resource;
use crate::storage::Key;

/// Where the Events are of objects that are in no namespace.
const WITHOUT_NAMESPACE: &str = "default";
const COMPONENT: &str = "garbage-collector-controller";

/// Makes an Event about a dependent, if the owner that it names is there, but in another namespace.
pub(super) async fn report(
    api: &Api,
    dependent: &Endpoint,
    dependent_uid: &str,
    owner: &OwnerReference,
) -> Result<(), Status> {
    let (group, _) = owner.api_version.rsplit_once('/').unwrap_or_default();
    let registry = api.registry().snapshot();
    let Some(resource) = registry.kind(group, &owner.kind).filter(|resource| resource.is_namespaced()) else {
        return Ok(());
    };
    if !is_elsewhere(api, resource.clone(), owner).await? {
        return Ok(());
    }
    let Some(events) = registry.resource("", "events") else { return Ok(()) };
    let Endpoint { namespace, name, .. } = dependent;
    let place = if namespace.is_empty() { WITHOUT_NAMESPACE } else { namespace };
    let context = Context::internal("garbage-collector");
    let now = context.now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let named = format!(
        "[{}/{}, namespace: {namespace}, name: {}, uid: {}]",
        owner.api_version, owner.kind, owner.name, owner.uid
    );
    let event = json!({
        "metadata": {"name": format!("{name}.{:x}", context.now.as_nanosecond()), "namespace": place},
        "involvedObject": {
            "apiVersion": dependent.api_version(), "kind": dependent.resource.kind,
            "namespace": namespace, "name": name, "uid": dependent_uid,
        },
        "type": "Warning",
        "reason": "OwnerRefInvalidNamespace",
        "message": format!("ownerRef {named} does not exist in namespace {namespace:?}"),
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "firstTimestamp": now, "lastTimestamp": now, "count": 1,
    });
    let endpoint = Endpoint::collection(events.clone(), place);
    if let Err(status) = api.create(&endpoint, &context, event, &WriteOptions::default()).await {
        // The reference is not valid, with or without the Event.
        tracing::warn!(
            name,
            error = status.message,
            "cannot create an Event about an invalid owner reference"
        );
    }
    Ok(())
}

/// Whether any namespace has this owner.
async fn is_elsewhere(
    api: &Api,
    resource: std::sync::Arc<Resource>,
    owner: &OwnerReference,
) -> Result<bool, Status> {
    let Some(namespaces) = api.registry().snapshot().resource("", "namespaces").cloned() else {
        return Ok(false);
    };
    let range = Range { prefix: namespaces.key.prefix(""), ..Range::default() };
    let page = api.storage().list(range).await.map_err(|error| namespaces.store_failed(&error))?;
    for entry in &page.entries {
        let Some(Key { name, .. }) = Key::parse(&entry.key) else { continue };
        match api.read(&Endpoint::object(resource.clone(), name, &owner.name)).await {
            Ok(stored) if Metadata::read(&stored).uid == owner.uid => return Ok(true),
            Err(status) if status.reason != Reason::NotFound => return Err(status),
            _ => {}
        }
    }
    Ok(false)
}
