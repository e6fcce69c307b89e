//! Reading objects of a kind from the API server, each decoded by itself.

use futures::Stream;
use kube::api::{ListParams, ObjectList, WatchEvent, WatchParams};
use kube::core::{ListMeta, Request};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

use crate::follower::Object;
use crate::unreadable::{Received, Unreadable};

/// All objects of a kind at one time.
#[derive(Clone, Debug)]
pub struct Listed<K> {
    /// Those that can be decoded.
    pub objects: Vec<K>,
    /// Those that exist all the same.
    pub unreadable: Vec<Unreadable<K>>,
}

impl<K> Default for Listed<K> {
    fn default() -> Self {
        Vec::new().into()
    }
}

impl<K> From<Vec<K>> for Listed<K> {
    fn from(objects: Vec<K>) -> Self {
        Listed { objects, unreadable: Vec::new() }
    }
}

impl<K> Listed<K> {
    pub(crate) fn extend(&mut self, more: Listed<K>) {
        self.objects.extend(more.objects);
        self.unreadable.extend(more.unreadable);
    }
}

/// One page of a list; all objects where the parameters set no limit. Unlike [`list`](crate::list), a 404 is an error.
///
/// # Errors
/// When the list cannot be had. An object that cannot be decoded is no error.
pub async fn list_page<K>(api: &Api<K>, parameters: &ListParams) -> kube::Result<(Listed<K>, ListMeta)>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned,
{
    let request = Request::new(api.resource_url()).list(parameters).map_err(kube::Error::BuildRequest)?;
    decode_page(&api.clone().into_client().request_text(request).await?)
}

fn decode_page<K: Clone + DeserializeOwned>(text: &str) -> kube::Result<(Listed<K>, ListMeta)> {
    // Nearly always all can be decoded, and at once is fastest.
    if let Ok(page) = serde_json::from_str::<ObjectList<K>>(text) {
        return Ok((page.items.into(), page.metadata));
    }
    let page: ObjectList<Received<K>> = serde_json::from_str(text).map_err(kube::Error::SerdeError)?;
    let mut listed = Listed::default();
    for received in page.items {
        match received {
            Received::Readable(object) => listed.objects.push(object),
            Received::Unreadable(unreadable) => listed.unreadable.push(*unreadable),
        }
    }
    Ok((listed, page.metadata))
}

/// Opens a watch.
pub(crate) async fn watch<K: Object>(
    api: &Api<K>,
    parameters: &WatchParams,
    version: &str,
) -> kube::Result<impl Stream<Item = kube::Result<WatchEvent<Received<K>>>> + use<K>> {
    let request =
        Request::new(api.resource_url()).watch(parameters, version).map_err(kube::Error::BuildRequest)?;
    api.clone().into_client().request_events(request).await
}
