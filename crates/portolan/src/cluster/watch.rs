//! The objects that a command needs, kept up to date by watches.

use std::fmt::Debug;

use futures::stream::{BoxStream, SelectAll};
use futures::{FutureExt as _, StreamExt as _};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::runtime::reflector::Store;
use kube::runtime::{WatchStreamExt as _, reflector, watcher};
use kube::{Api, Resource};
use portolan_api::nad::NetworkAttachmentDefinition;
use portolan_api::portolan::{IPLock, NetworkAttachment};
use portolan_api::{kubeovn, portolan};
use portolan_watch::Received;
use serde::de::DeserializeOwned;

use super::Cluster;
use super::snapshot::{Kinds, Lists, Scope, Snapshot};
use super::unreadable::UnreadableObject;
use crate::exit::{Exit, Failure};

/// The objects of a cluster, as they change.
pub(crate) struct Watch {
    url: String,
    stores: Stores,
    changes: SelectAll<BoxStream<'static, Result<(), watcher::Error>>>,
    is_first: bool,
}

macro_rules! stores {
    ($($list:ident: $kind:ty),* $(,)?) => {
        /// A store per kind; none for kinds that are not needed or not served.
        #[derive(Default)]
        struct Stores {
            $($list: Option<Store<Received<$kind>>>,)*
        }

        impl Stores {
            fn lists(&self) -> Lists {
                let mut lists = Lists::default();
                $(for one in self.$list.iter().flat_map(|store| store.state()) {
                    match Received::clone(&one) {
                        Received::Readable(object) => lists.$list.push(object),
                        Received::Unreadable(one) => {
                            lists.unreadable.push(UnreadableObject::of(stringify!($list), *one));
                        }
                    }
                })*
                lists
            }

            async fn wait_until_listed(&self) {
                $(if let Some(store) = &self.$list {
                    // Fails only if its stream has ended, which shows in the changes.
                    let _ = store.wait_until_ready().await;
                })*
            }
        }
    };
}

stores! {
    vpcs: portolan::Vpc,
    kubeovn_vpcs: kubeovn::Vpc,
    subnets: portolan::Subnet,
    kubeovn_subnets: kubeovn::Subnet,
    ip_pools: kubeovn::IPPool,
    nads: NetworkAttachmentDefinition,
    network_attachments: NetworkAttachment,
    locks: IPLock,
    pods: Pod,
    nodes: Node,
    stateful_sets: StatefulSet,
    services: Service,
    endpoint_slices: EndpointSlice,
}

impl Cluster {
    /// Watches the objects that a command needs.
    pub(crate) async fn watch(&self, kinds: &Kinds) -> anyhow::Result<Watch> {
        // What is not served, not allowed or not there fails here, with a message, rather than in a watch that tries again.
        let listed = self.snapshot(kinds.clone()).await?;
        let mut changes = SelectAll::new();
        let mut stores = Stores::default();
        let serves = |list: &str| listed.lists.serves(list);
        macro_rules! follow {
            ($($list:ident),*: $api:expr) => {
                $(if serves(stringify!($list)) {
                    stores.$list = Some(follow($api, &mut changes));
                })*
            };
        }
        let patient = self.patient_client(super::WATCH_SILENCE)?;
        let client = || patient.clone();
        follow!(vpcs, kubeovn_vpcs, subnets, kubeovn_subnets, locks, ip_pools, nads, nodes, services: Api::all(client()));
        match &kinds.guests {
            Some(Scope::Namespace(namespace)) => {
                follow!(network_attachments, pods, stateful_sets: Api::namespaced(client(), namespace));
            }
            Some(Scope::Cluster) => {
                follow!(network_attachments, pods, stateful_sets: Api::all(client()));
            }
            None => {}
        }
        match &kinds.services {
            Some(Scope::Namespace(namespace)) => {
                follow!(endpoint_slices: Api::namespaced(client(), namespace));
            }
            Some(Scope::Cluster) => {
                follow!(endpoint_slices: Api::all(client()));
            }
            None => {}
        }
        Ok(Watch { url: self.url.clone(), stores, changes, is_first: true })
    }
}

/// Watches a kind: its store is filled as its changes are read.
fn follow<K>(api: Api<K>, changes: &mut SelectAll<BoxStream<'static, Result<(), watcher::Error>>>) -> Store<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let (store, writer) = reflector::store();
    let events = reflector(writer, watcher(api, watcher::Config::default()).default_backoff());
    changes.push(events.map(|event| event.map(drop)).boxed());
    store
}

impl Watch {
    /// The objects after the next change; the first time, as they are.
    ///
    /// # Errors
    /// When a watch fails in a way that waiting does not repair.
    pub(crate) async fn next(&mut self) -> anyhow::Result<Snapshot> {
        if self.is_first {
            self.is_first = false;
            // The stores are filled by whoever reads the changes.
            let mut listed = std::pin::pin!(self.stores.wait_until_listed());
            loop {
                tokio::select! {
                    () = &mut listed => break,
                    change = self.changes.next() => check(&self.url, change)?,
                }
            }
        } else {
            check(&self.url, self.changes.next().await)?;
        }
        // What has come already belongs to the same answer.
        while let Some(change) = self.changes.next().now_or_never() {
            check(&self.url, change)?;
        }
        Ok(Snapshot::of(self.stores.lists()))
    }
}

fn check(url: &str, change: Option<Result<(), watcher::Error>>) -> anyhow::Result<()> {
    match change {
        Some(Ok(())) => Ok(()),
        Some(Err(watcher::Error::InitialListFailed(kube::Error::Api(status))))
            if [401, 403].contains(&status.code) =>
        {
            Err(Failure::with(
                Exit::Forbidden,
                format!("the API server at {url} refused a watch: {}", status.message),
            ))
        }
        // The watch is tried again, with backoff.
        Some(Err(error)) => {
            eprintln!("a watch failed, and is tried again: {}", super::innermost(&error));
            Ok(())
        }
        None => Err(Failure::with(Exit::Failed, "all watches have ended")),
    }
}
