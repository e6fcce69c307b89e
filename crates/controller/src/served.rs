//! Which kinds the API server serves. Only discovery can say that there are none of a kind: a read that fails says nothing.

use std::pin::pin;

use futures::StreamExt as _;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::sync::watch;

/// Whether the API server serves a kind; none if it does not say.
pub(crate) async fn is_served<K: Resource<DynamicType = ()>>(client: &Client) -> Option<bool> {
    let groups = client.list_api_groups().await.ok()?;
    if !K::group(&()).is_empty() && !groups.groups.iter().any(|group| group.name == K::group(&())) {
        return Some(false);
    }
    match client.list_api_group_resources(&K::api_version(&())).await {
        Ok(resources) => Some(resources.resources.iter().any(|resource| resource.name == K::plural(&()))),
        Err(kube::Error::Api(status)) if status.code == 404 => Some(false),
        Err(_) => None,
    }
}

/// Reads an object live. Absent only if the API server says so of this very object, or does not serve its kind.
pub(crate) async fn get<K>(client: &Client, api: &Api<K>, name: &str) -> kube::Result<Option<K>>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    match api.get(name).await {
        Ok(object) => Ok(Some(object)),
        Err(error) => absent::<K, _>(client, error, Some(name)).await,
    }
}

/// Lists live and consistently: without a resourceVersion the API server asks its store.
pub(crate) async fn list<K>(client: &Client) -> kube::Result<Vec<K>>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    match Api::<K>::all(client.clone()).list(&kube::api::ListParams::default()).await {
        Ok(list) => Ok(list.items),
        Err(error) => Ok(absent::<K, Vec<K>>(client, error, None).await?.unwrap_or_default()),
    }
}

/// Nothing, if that is what an error proves; else the error.
async fn absent<K: Resource<DynamicType = ()>, T>(
    client: &Client,
    error: kube::Error,
    name: Option<&str>,
) -> kube::Result<Option<T>> {
    let kube::Error::Api(status) = &error else { return Err(error) };
    if status.code != 404 {
        return Err(error);
    }
    // A proxy, or a server that is only starting, also answers 404, but does not name the object.
    let named = status.details.as_ref().map(|details| details.name.as_str()).filter(|name| !name.is_empty());
    if status.reason == "NotFound" && named.is_some() && named == name {
        return Ok(None);
    }
    if is_served::<K>(client).await == Some(false) { Ok(None) } else { Err(error) }
}

/// Changes whenever the kinds that are served may have.
#[derive(Clone, Debug)]
pub(crate) struct Definitions(watch::Receiver<u64>);

impl Definitions {
    /// The other half, [`Definitions::follow`], must run for anything to change.
    pub(crate) fn new() -> (watch::Sender<u64>, Self) {
        let (sender, receiver) = watch::channel(0);
        (sender, Self(receiver))
    }

    /// Watches the definitions of custom resources for as long as someone wants to know.
    pub(crate) async fn follow(client: Client, changed: watch::Sender<u64>) {
        let definitions = Api::<CustomResourceDefinition>::all(client);
        let events = watcher::watcher(definitions, watcher::Config::default()).default_backoff();
        let mut events = pin!(events);
        while let Some(event) = events.next().await {
            match event {
                Ok(watcher::Event::Apply(definition) | watcher::Event::InitApply(definition)) => {
                    tracing::debug!(definition = definition.name_any(), "defined");
                }
                Ok(_) => {}
                Err(error) => tracing::warn!(%error, "the watch of CustomResourceDefinitions failed"),
            }
            changed.send_modify(|count| *count += 1);
        }
    }

    /// Everything that changed so far has been looked at.
    pub(crate) fn seen(&mut self) {
        self.0.mark_unchanged();
    }

    /// Waits for a change after those that were seen. A failed watch counts: who cannot be told must look.
    pub(crate) async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
