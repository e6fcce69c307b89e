//! What is stored of a kind, for whoever has to look before a write.

use apimachinery::Status;
use apistore::{Change, Expect, Outcome, Range, Revision};
use serde_json::Value;

use apiserver::api::Api;
use apiserver::endpoint::Endpoint;
use apiserver::registry::Resource;
use apiserver::storage::StoredObject;

/// All objects of a resource.
pub(super) async fn all(api: &Api, resource: &Resource) -> Result<Vec<Value>, Status> {
    let range = Range { prefix: resource.key.prefix(""), ..Range::default() };
    let page = api.storage().list(range).await.map_err(|error| resource.store_failed(&error))?;
    let read = |entry| StoredObject::from_entry(entry).and_then(|stored| stored.to_value());
    page.entries.iter().map(|entry| read(entry).map_err(Status::internal_error)).collect()
}

/// An object, if there is one of that name.
pub(super) async fn find(api: &Api, endpoint: &Endpoint) -> Result<Option<Value>, Status> {
    match api.read(endpoint).await {
        Ok(stored) => stored.to_value().map(Some).map_err(Status::internal_error),
        Err(status) if status.code == 404 => Ok(None),
        Err(status) => Err(status),
    }
}

/// Changes an object, besides what clients may: reads it, changes it, and writes it if nobody else did, else again. Returns
/// what it has become, and of which resource version that is.
pub(super) async fn change(
    api: &Api,
    endpoint: &Endpoint,
    dry_run: bool,
    mut change: impl FnMut(&mut Value) -> Result<(), Status>,
) -> Result<(Value, Revision), Status> {
    let (resource, key) = (&endpoint.resource, endpoint.key(&endpoint.name));
    loop {
        let got = api.storage().get(&key).await.map_err(|error| resource.store_failed(&error))?;
        let entry = got.entry.ok_or_else(|| resource.not_found(&endpoint.name))?;
        let stored = StoredObject::from_entry(&entry).map_err(Status::internal_error)?;
        let mut object = endpoint.read(&stored)?;
        change(&mut object)?;
        if dry_run {
            return Ok((object, entry.modified));
        }
        let value = Some(endpoint.write(&object)?);
        let change = Change { key: key.clone(), expect: Expect::Modified(entry.modified), value };
        match api.storage().commit(change).await.map_err(|error| resource.store_failed(&error))? {
            Outcome::Done(revision) => return Ok((object, revision)),
            Outcome::Mismatch(_) => {}
        }
    }
}
