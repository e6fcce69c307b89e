//! What the agent knows of the cluster: the World, as far as its watches tell.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::hash::Hash;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use futures::StreamExt;
use futures::future::{BoxFuture, FutureExt, join_all};
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, Resource};
use portolan_api::nad::NetworkAttachmentDefinition;
use portolan_api::portolan::IPLock;
use portolan_api::{kubeovn, portolan};
use portolan_model::{Settings, Source, World};
use serde::de::DeserializeOwned;
use tokio::sync::watch;

/// What the agent knows of the cluster.
#[derive(Debug)]
pub(crate) struct Cluster {
    world: RwLock<World>,
    revision: watch::Sender<u64>,
    /// The kinds whose watches are not in step with the API server.
    behind: Mutex<BTreeSet<String>>,
}

impl Cluster {
    /// Follows what a node needs. The future is the watches; it never ends by itself.
    pub(crate) fn follow(
        client: &Client,
        node: &str,
        settings: Settings,
    ) -> (Arc<Self>, impl Future<Output = ()> + Send + 'static) {
        let cluster = Arc::new(Self {
            world: RwLock::new(World::new(settings)),
            revision: watch::Sender::new(0),
            behind: Mutex::default(),
        });
        let all = watcher::Config::default;
        let watches = [
            cluster.watch::<Pod>(client, all().fields(&format!("spec.nodeName={node}"))),
            cluster.watch::<IPLock>(client, all().fields(&format!("spec.node={node}"))),
            cluster.watch::<portolan::Subnet>(client, all()),
            cluster.watch::<kubeovn::Subnet>(client, all()),
            cluster.watch::<portolan::Vpc>(client, all()),
            cluster.watch::<kubeovn::Vpc>(client, all()),
            cluster.watch::<NetworkAttachmentDefinition>(client, all()),
        ];
        (cluster, join_all(watches).map(drop))
    }

    /// Looks at the World as it is now.
    pub(crate) fn read<T>(&self, look: impl FnOnce(&World) -> T) -> T {
        look(&self.world.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits until `look` finds what it wants. It is called with the World as it is, and after every change.
    pub(crate) async fn wait_for<T>(&self, mut look: impl FnMut(&World) -> Option<T>) -> T {
        let mut revision = self.revision.subscribe();
        loop {
            revision.borrow_and_update();
            if let Some(found) = self.read(&mut look) {
                return found;
            }
            revision.changed().await.expect("invariant: the cluster keeps the sender alive");
        }
    }

    /// The kinds of which something may be missing.
    pub(crate) fn behind(&self) -> Vec<String> {
        self.behind.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// Waits until every watch is in step with the API server.
    pub(crate) async fn in_step(&self) {
        self.wait_for(|_| self.behind().is_empty().then_some(())).await;
    }

    fn change(&self, change: impl FnOnce(&mut World)) {
        change(&mut self.world.write().unwrap_or_else(PoisonError::into_inner));
        self.revision.send_modify(|revision| *revision += 1);
    }

    fn watch<K>(self: &Arc<Self>, client: &Client, config: watcher::Config) -> BoxFuture<'static, ()>
    where
        K: Source + Resource + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
        K::DynamicType: Default + Eq + Hash + Clone,
    {
        let kind = K::plural(&K::DynamicType::default()).into_owned();
        let group = K::group(&K::DynamicType::default()).into_owned();
        let name = if group.is_empty() { kind } else { format!("{kind}.{group}") };
        self.set_behind(&name, true);
        let (cluster, api) = (Arc::clone(self), Api::<K>::all(client.clone()));
        async move {
            let mut events = pin!(watcher(api, config).default_backoff());
            let mut listed = Vec::new();
            while let Some(event) = events.next().await {
                match event {
                    Ok(Event::Init) => listed.clear(),
                    Ok(Event::InitApply(object)) => listed.push(object),
                    Ok(Event::InitDone) => {
                        cluster.change(|world| drop(world.reset(&std::mem::take(&mut listed))));
                        cluster.set_behind(&name, false);
                    }
                    Ok(Event::Apply(object)) => {
                        cluster.change(|world| drop(world.apply(&object)));
                        cluster.set_behind(&name, false);
                    }
                    Ok(Event::Delete(object)) => cluster.change(|world| drop(world.delete(&object))),
                    Err(watcher::Error::InitialListFailed(kube::Error::Api(status)))
                        if status.code == 404 =>
                    {
                        tracing::debug!(kind = name, "the API server does not serve this kind");
                        cluster.set_behind(&name, false);
                    }
                    Err(error) => {
                        tracing::warn!(
                            kind = name,
                            error = &error as &dyn std::error::Error,
                            "the watch broke"
                        );
                        cluster.set_behind(&name, true);
                    }
                }
            }
        }
        .boxed()
    }

    fn set_behind(&self, kind: &str, is: bool) {
        let changed = {
            let mut behind = self.behind.lock().unwrap_or_else(PoisonError::into_inner);
            if is { behind.insert(kind.to_owned()) } else { behind.remove(kind) }
        };
        if changed {
            self.revision.send_modify(|revision| *revision += 1);
        }
    }
}
