//! Live reads: whether an object exists now, as the API server's store has it.

use std::fmt::Debug;

use kube::api::ListParams;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;

use crate::existence::{Kind, is_absent};
use crate::objects::{Listed, list_page};

/// Reads an object. `None` only if the API server's answer names this very object, or if its kind certainly does not exist.
///
/// # Errors
/// When it cannot be found out: any other answer, a 404 that names no object included; and when it cannot be decoded.
pub async fn get<K>(client: &Client, api: &Api<K>, name: &str) -> kube::Result<Option<K>>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let kind = Kind::of::<K>();
    match api.get(name).await {
        Ok(object) => Ok(Some(object)),
        Err(error) if kind.is_named_by(&error, name) => Ok(None),
        Err(error) => if_absent(client, &kind, error, None).await,
    }
}

/// Whether an error says that the object of this name does not exist. No other error does.
pub fn is_not_found<K: Resource<DynamicType = ()>>(error: &kube::Error, name: &str) -> bool {
    Kind::of::<K>().is_named_by(error, name)
}

/// Lists all objects of a kind, consistently: without a resourceVersion the API server answers from its store. Empty if the
/// kind certainly does not exist. Objects that cannot be decoded are listed as such.
///
/// # Errors
/// When it cannot be found out.
pub async fn list<K>(client: &Client) -> kube::Result<Listed<K>>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    list_selected(client, &ListParams::default()).await
}

/// Like [`list`], of those objects that the parameters select.
///
/// # Errors
/// When it cannot be found out.
pub async fn list_selected<K>(client: &Client, parameters: &ListParams) -> kube::Result<Listed<K>>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    match list_page(&Api::<K>::all(client.clone()), parameters).await {
        Ok((listed, _)) => Ok(listed),
        Err(error) => if_absent(client, &Kind::of::<K>(), error, Listed::default()).await,
    }
}

/// `nothing` if the kind is absent, else the error.
async fn if_absent<T>(client: &Client, kind: &Kind, error: kube::Error, nothing: T) -> kube::Result<T> {
    let is_404 = matches!(&error, kube::Error::Api(status) if status.code == 404);
    // Whatever fails in asking, the first error is the one to report.
    if is_404 && is_absent(client, kind).await.unwrap_or(false) { Ok(nothing) } else { Err(error) }
}
