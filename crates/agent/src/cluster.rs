//! What the agent knows of the cluster: the World, as far as its followers report.

use std::sync::{Arc, PoisonError, RwLock};

use k8s_openapi::api::core::v1::Pod;
use kube::{Client, ResourceExt};
use portolan_api::nad::NetworkAttachmentDefinition;
use portolan_api::portolan::IPLock;
use portolan_api::{kubeovn, portolan};
use portolan_model::{Dirty, Settings, Source, Unit, World};
use portolan_watch::{Change, Followers, Listed, Object, Selection, Status, Unreadable};
use tokio::sync::watch;

use crate::chassis::NodeFacts;
use crate::engine::Engine;
use crate::network_status::Pending;
use crate::pods::{self, Pods};

/// What the agent knows of the cluster.
pub(crate) struct Cluster {
    known: RwLock<Known>,
    revision: watch::Sender<u64>,
    status: Status,
    engine: Arc<Engine>,
    network_status: Arc<Pending>,
}

/// All that was reported.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) world: World,
    pub(crate) pods: Pods,
    pub(crate) node: NodeFacts,
}

impl Cluster {
    /// Follows what a node needs, for as long as the followers live. Changes are passed on to the engine.
    pub(crate) fn follow(
        client: &Client,
        node: &str,
        settings: Settings,
        engine: &Arc<Engine>,
        network_status: &Arc<Pending>,
    ) -> (Arc<Self>, Followers) {
        let mut followers = Followers::new(client.clone());
        let cluster = Arc::new(Self {
            known: RwLock::new(Known {
                world: World::new(settings),
                pods: Pods::default(),
                node: NodeFacts::default(),
            }),
            revision: watch::Sender::new(0),
            status: followers.status(),
            engine: Arc::clone(engine),
            network_status: Arc::clone(network_status),
        });
        let this = Arc::clone(&cluster);
        followers.follow(Selection::fields(format!("spec.nodeName={node}")), move |change| {
            this.pod_changed(change);
            std::future::ready(())
        });
        cluster.feed::<IPLock>(&mut followers, Selection::fields(format!("spec.node={node}")));
        let this = Arc::clone(&cluster);
        followers.follow(Selection::fields(format!("metadata.name={node}")), move |change| {
            this.change(|known| {
                known.node.update(&change);
                apply(&mut known.world, &change)
            });
            std::future::ready(())
        });
        cluster.feed::<portolan::Subnet>(&mut followers, Selection::all());
        cluster.feed::<kubeovn::Subnet>(&mut followers, Selection::all());
        cluster.feed::<portolan::Vpc>(&mut followers, Selection::all());
        cluster.feed::<kubeovn::Vpc>(&mut followers, Selection::all());
        cluster.feed::<NetworkAttachmentDefinition>(&mut followers, Selection::all());
        (cluster, followers)
    }

    /// Reads what is known now.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&Known) -> T) -> T {
        read(&self.known.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits until `find` finds something. It is called with what is known now, and after every change.
    pub(crate) async fn wait_for<T>(&self, mut find: impl FnMut(&Known) -> Option<T>) -> T {
        let mut revision = self.revision.subscribe();
        loop {
            revision.borrow_and_update();
            if let Some(found) = self.read(&mut find) {
                return found;
            }
            revision.changed().await.expect("invariant: the cluster keeps the sender alive");
        }
    }

    /// Changes with everything that is reported.
    pub(crate) fn revisions(&self) -> watch::Receiver<u64> {
        self.revision.subscribe()
    }

    /// Which followers are in step with the API server.
    pub(crate) fn status(&self) -> &Status {
        &self.status
    }

    fn feed<K: Source + Object>(self: &Arc<Self>, followers: &mut Followers, selection: Selection) {
        let cluster = Arc::clone(self);
        followers.follow::<K, _>(selection, move |change| {
            cluster.change(|known| apply(&mut known.world, &change));
            std::future::ready(())
        });
    }

    fn pod_changed(&self, change: Change<Pod>) {
        let mut missing = Vec::new();
        self.change(|known| {
            match &change {
                Change::Applied(pod) => known.pods.apply(pod),
                // It exists, and its metadata says whose it is.
                Change::Unreadable(pod) => known.pods.apply(&pods::of_metadata(&pod.object.metadata)),
                Change::Deleted(pod) => known.pods.delete(&pod.metadata),
                Change::Listed(Listed { objects, unreadable }) => {
                    let unreadable = unreadable.iter().map(|pod| pods::of_metadata(&pod.object.metadata));
                    let unreadable: Vec<_> = unreadable.collect();
                    missing = known.pods.replace(objects.iter().chain(&unreadable));
                }
            }
            apply(&mut known.world, &change)
        });
        match change {
            Change::Applied(pod) => {
                self.engine.pods_changed([pod.uid().unwrap_or_default()]);
                self.network_status.check(pods::key(&pod));
            }
            Change::Unreadable(pod) => self.engine.pods_changed(pod.object.uid()),
            Change::Deleted(pod) => self.engine.pod_deleted(&pod.uid().unwrap_or_default()),
            Change::Listed(Listed { objects, unreadable }) => {
                let unreadable = unreadable.iter().filter_map(|pod| pod.object.uid());
                let uids = objects.iter().filter_map(ResourceExt::uid).chain(unreadable);
                self.engine.pods_changed(uids.chain(missing));
                for pod in &objects {
                    self.network_status.check(pods::key(pod));
                }
            }
        }
    }

    fn change(&self, change: impl FnOnce(&mut Known) -> Dirty) {
        let attachments = {
            let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
            let dirty = change(&mut known);
            let ids = dirty.units.into_iter().filter_map(|unit| match unit {
                Unit::Attachment(id) => Some(id),
                _ => None,
            });
            let found = ids.filter_map(|id| {
                let attachment = known.world.attachment(&id)?;
                Some((attachment.pod_uid()?.to_owned(), id.interface().to_owned()))
            });
            found.collect::<Vec<_>>()
        };
        self.engine.attachments_changed(&attachments);
        self.revision.send_modify(|revision| *revision += 1);
    }
}

fn apply<K: Source>(world: &mut World, change: &Change<K>) -> Dirty {
    match change {
        Change::Applied(object) => world.apply(object),
        Change::Unreadable(object) => world.apply_unreadable::<K>(&in_model(object)),
        Change::Deleted(object) => world.delete_named::<K>(&object.metadata),
        // What a list lacks is not waited for here: nothing of a node is removed for it. Whatever removes something reads the pod live.
        Change::Listed(Listed { objects, unreadable }) => {
            world.reset_with(objects, unreadable.iter().map(in_model))
        }
    }
}

/// An object that cannot be decoded, as the model has it.
fn in_model<K>(object: &Unreadable<K>) -> portolan_model::Unreadable<'_> {
    let Unreadable { object, content, field, problem } = object;
    portolan_model::Unreadable { metadata: &object.metadata, content, field, problem }
}
