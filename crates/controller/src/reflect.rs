//! Watches: one per kind, each tells the engine what it sees.

use std::fmt::Debug;

use futures::StreamExt as _;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, Resource};
use portolan_api::nad::NetworkAttachmentDefinition;
use portolan_api::portolan::{IPLock, NetworkAttachment};
use portolan_api::{kubeovn, portolan};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc::Sender;
use tokio::task::JoinSet;

use crate::control::Message;
use crate::engine::{Change, Fed};
use crate::served::{Definitions, is_served};

/// Starts a watch of every kind.
pub(crate) fn spawn_all(tasks: &mut JoinSet<()>, client: &Client, engine: &Sender<Message>) {
    let (changed, definitions) = Definitions::new();
    tasks.spawn(Definitions::follow(client.clone(), changed));
    macro_rules! spawn {
        ($($kind:ty),* $(,)?) => {
            $(tasks.spawn(reflect::<$kind>(client.clone(), engine.clone(), definitions.clone()));)*
        };
    }
    spawn!(
        portolan::Vpc,
        kubeovn::Vpc,
        portolan::Subnet,
        kubeovn::Subnet,
        NetworkAttachment,
        IPLock,
        NetworkAttachmentDefinition,
        Pod,
        Node,
        StatefulSet,
    );
}

/// Watches a kind for as long as the engine listens.
async fn reflect<K>(client: Client, engine: Sender<Message>, mut definitions: Definitions)
where
    K: Fed + Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let kind = K::kind(&());
    loop {
        let mut events =
            watcher(Api::<K>::all(client.clone()), watcher::Config::default()).default_backoff().boxed();
        let mut listing = Vec::new();
        while let Some(event) = events.next().await {
            let change = match event {
                Ok(Event::Init) => {
                    listing = Vec::new();
                    continue;
                }
                Ok(Event::InitApply(object)) => {
                    listing.push(object);
                    continue;
                }
                Ok(Event::InitDone) => Change::Listed(std::mem::take(&mut listing)),
                Ok(Event::Apply(object)) => Change::Applied(object),
                Ok(Event::Delete(object)) => Change::Deleted(object),
                Err(error) => {
                    tracing::warn!(%kind, %error, "a watch failed");
                    definitions.seen();
                    if is_served::<K>(&client).await != Some(false) {
                        continue;
                    }
                    // Only discovery can say that there is no such kind: a list that fails says nothing.
                    tracing::info!(%kind, "is not served: there is none");
                    if tell::<K>(&engine, Change::Listed(Vec::new())).await.is_err() {
                        return;
                    }
                    definitions.changed().await;
                    break;
                }
            };
            if tell(&engine, change).await.is_err() {
                return;
            }
        }
    }
}

async fn tell<K: Fed + Send + 'static>(engine: &Sender<Message>, change: Change<K>) -> Result<(), ()> {
    let message: Message = Box::new(move |engine| engine.feed(&change));
    engine.send(message).await.map_err(drop)
}
