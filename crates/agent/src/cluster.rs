//! What the agent knows of the cluster: the World, as far as its followers report.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError, RwLock};

use k8s_openapi::api::core::v1::{Node, Pod, Service};
use kube::{Client, ResourceExt};
use portolan_api::nad::NetworkAttachmentDefinition;
use portolan_api::portolan::{HolderKind, IPLock, NetworkAttachment};
use portolan_api::{kubeovn, portolan};
use portolan_model::holder::Read;
use portolan_model::{Attachment, Dirty, Settings, Source, Unit, World};
use portolan_plan::host::LinkName;
use portolan_watch::{Change, Followers, Listed, Object, Selection, Status, Unreadable};
use tokio::sync::watch;

use crate::chassis::NodeFacts;
use crate::engine::Engine;
use crate::holders::Holders;
use crate::pending::Pending;
use crate::pods::{self, PodKey, Pods};
use crate::services::ChangedServices;

/// What the agent knows of the cluster.
pub(crate) struct Cluster {
    known: RwLock<Known>,
    revision: watch::Sender<u64>,
    of_node: watch::Sender<u64>,
    services: ChangedServices,
    missing: Pending<Read>,
    status: Status,
    engine: Arc<Engine>,
    network_status: Arc<Pending<PodKey>>,
}

/// All that was reported.
#[derive(Debug, Default)]
pub(crate) struct Known {
    pub(crate) world: World,
    pub(crate) pods: Pods,
    pub(crate) holders: Holders,
    pub(crate) node: NodeFacts,
    /// How many lists there were of kinds of which what a list lacks stays until it is read.
    pub(crate) lists: u64,
}

impl Cluster {
    /// Follows what a node needs, for as long as the followers live. Changes are passed on to the engine.
    pub(crate) fn follow(
        client: &Client,
        node: &str,
        settings: Settings,
        engine: &Arc<Engine>,
        network_status: &Arc<Pending<PodKey>>,
    ) -> (Arc<Self>, Followers) {
        let mut followers = Followers::new(client.clone());
        let cluster = Arc::new(Self {
            known: RwLock::new(Known { world: World::new(settings), ..Known::default() }),
            revision: watch::Sender::new(0),
            of_node: watch::Sender::new(0),
            services: ChangedServices::default(),
            missing: Pending::default(),
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
        followers.follow(Selection::fields(format!("spec.node={node}")), move |change| {
            this.network_attachment_changed(&change);
            std::future::ready(())
        });
        let (this, name) = (Arc::clone(&cluster), node.to_owned());
        followers.follow(Selection::fields(format!("metadata.name={node}")), move |change| {
            this.node_changed(&name, &change);
            std::future::ready(())
        });
        cluster.feed_lasting::<portolan::Subnet>(&mut followers);
        cluster.feed_lasting::<kubeovn::Subnet>(&mut followers);
        cluster.feed::<portolan::Vpc>(&mut followers, Selection::all());
        cluster.feed::<kubeovn::Vpc>(&mut followers, Selection::all());
        cluster.feed::<NetworkAttachmentDefinition>(&mut followers, Selection::all());
        (cluster, followers)
    }

    /// Follows all Services too. What serves them is none of the node's business.
    pub(crate) fn follow_services(self: &Arc<Self>, followers: &mut Followers) {
        self.feed_lasting::<Service>(followers);
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

    /// Changes with what the node itself goes by: its Node, the addresses of its port, and Subnets. Not with its pods, which change much more often.
    pub(crate) fn revisions_of_node(&self) -> watch::Receiver<u64> {
        self.of_node.subscribe()
    }

    /// Which Services have changed.
    pub(crate) fn changed_services(&self) -> &ChangedServices {
        &self.services
    }

    /// Objects that a list lacked, to be read.
    pub(crate) fn missing(&self) -> &Pending<Read> {
        &self.missing
    }

    /// How many lists there were, if one lacked an object that was not seen since and is still here.
    pub(crate) fn lists_without(&self, read: &Read) -> Option<u64> {
        self.read(|known| known.world.is_missing(read).then_some(known.lists))
    }

    /// A live read, begun after so many lists, found an object or not. False if there was another list meanwhile: then it is to be read again.
    pub(crate) fn settle_missing(&self, read: &Read, lists: u64, found: &World) -> bool {
        let mut settled = false;
        self.change(|known| {
            settled = known.lists == lists;
            if settled { known.world.settle_missing(read, found) } else { Dirty::default() }
        });
        settled
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

    /// Feeds a kind that routes of the node, or what it translates, go by: what a list lacks of it stays until a live read confirms that it is gone.
    fn feed_lasting<K: Source + Object>(self: &Arc<Self>, followers: &mut Followers) {
        let cluster = Arc::clone(self);
        followers.follow::<K, _>(Selection::all(), move |change| {
            let mut missing = Vec::new();
            cluster.change(|known| match &change {
                Change::Listed(Listed { objects, unreadable }) => {
                    known.lists += 1;
                    let dirty = known.world.relist(objects, unreadable.iter().map(in_model));
                    missing.extend(known.world.missing().cloned());
                    dirty
                }
                _ => apply(&mut known.world, &change),
            });
            missing.into_iter().for_each(|read| cluster.missing.check(read));
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

    fn network_attachment_changed(&self, change: &Change<NetworkAttachment>) {
        let mut concerned = BTreeSet::new();
        self.change(|known| {
            concerned = match change {
                Change::Applied(object) => known.holders.apply(&object.metadata, Some(object.into())),
                // It exists, and its metadata says whose it is.
                Change::Unreadable(object) => known.holders.apply(&object.object.metadata, None),
                Change::Deleted(object) => known.holders.delete(&object.metadata),
                Change::Listed(Listed { objects, unreadable }) => {
                    let unreadable = unreadable.iter().map(|object| (&object.object.metadata, None));
                    let readable = objects.iter().map(|object| (&object.metadata, Some(object.into())));
                    known.holders.replace(readable.chain(unreadable))
                }
            };
            apply(&mut known.world, change)
        });
        if let Change::Deleted(object) = change {
            let uid = object.uid().unwrap_or_default();
            let link = LinkName::of_attachment(&uid);
            self.engine.holder_deleted(&link, &uid);
            concerned.remove(&link);
        }
        match change {
            // What was found on the node is compared too: who asked for it may be gone.
            Change::Listed(_) => self.engine.holders_listed(concerned),
            _ => self.engine.holders_changed(concerned),
        }
    }

    /// The API server answered a write of the agent's own, to this version of an object, with this.
    pub(crate) fn wrote(&self, written_to: &str, object: &NetworkAttachment) {
        self.known.write().unwrap_or_else(PoisonError::into_inner).holders.says(written_to, object);
    }

    fn node_changed(&self, name: &str, change: &Change<Node>) {
        let (mut before, mut after, mut holders) = (None, None, Vec::new());
        self.change(|known| {
            before = known.world.node(name).and_then(|node| node.told_mtu);
            known.node.update(change);
            let dirty = apply(&mut known.world, change);
            after = known.world.node(name).and_then(|node| node.told_mtu);
            if before != after {
                holders = known.holders.links().cloned().collect();
            }
            dirty
        });
        self.engine.holders_changed(holders);
        // Also what is no part of the World: its annotations.
        self.of_node.send_modify(|revision| *revision += 1);
    }

    fn change(&self, change: impl FnOnce(&mut Known) -> Dirty) {
        let (attachments, holders, services, is_of_node) = {
            let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
            let dirty = change(&mut known);
            let is_of_node = dirty.units.iter().any(is_of_node_itself);
            let (mut attachments, mut holders, mut services) = (Vec::new(), BTreeSet::new(), Vec::new());
            for unit in dirty.units {
                match unit {
                    Unit::Attachment(id) if id.kind() == HolderKind::NetworkAttachment => {
                        holders.insert(LinkName::of_attachment(&id.uid().to_string()));
                    }
                    Unit::Attachment(id) => {
                        let pod = known.world.attachment(&id).and_then(Attachment::pod_uid);
                        attachments.extend(pod.map(|uid| (uid.to_string(), id.interface().to_owned())));
                    }
                    Unit::Subnet(name) => {
                        let of_subnet = known.world.attachments_of_subnet(&name).map(|one| &one.id);
                        let of_holders = of_subnet.filter(|id| id.kind() == HolderKind::NetworkAttachment);
                        holders.extend(of_holders.map(|id| LinkName::of_attachment(&id.uid().to_string())));
                    }
                    Unit::Service { namespace, name } => services.push((namespace, name)),
                    Unit::Vpc(_) | Unit::Peering(_) | Unit::Node(_) | Unit::Chassis(_) => {}
                }
            }
            (attachments, holders, services, is_of_node)
        };
        self.services.add(services);
        self.engine.attachments_changed(&attachments);
        self.engine.holders_changed(holders);
        self.revision.send_modify(|revision| *revision += 1);
        if is_of_node {
            self.of_node.send_modify(|revision| *revision += 1);
        }
    }
}

/// Whether what the node itself goes by depends on a unit.
fn is_of_node_itself(unit: &Unit) -> bool {
    match unit {
        Unit::Node(_) | Unit::Subnet(_) => true,
        Unit::Attachment(id) => id.kind() == HolderKind::Node,
        Unit::Vpc(_) | Unit::Peering(_) | Unit::Chassis(_) | Unit::Service { .. } => false,
    }
}

fn apply<K: Source>(world: &mut World, change: &Change<K>) -> Dirty {
    match change {
        Change::Applied(object) => world.apply(object),
        Change::Unreadable(object) => world.apply_unreadable::<K>(&in_model(object)),
        Change::Deleted(object) => world.delete_named::<K>(&object.metadata),
        // What a list lacks is not waited for: nothing of the node goes by these alone. Whatever removes something reads the pod live.
        Change::Listed(Listed { objects, unreadable }) => {
            world.reset_with(objects, unreadable.iter().map(in_model))
        }
    }
}

/// An object that cannot be decoded, as the model has it.
pub(crate) fn in_model<K>(object: &Unreadable<K>) -> portolan_model::Unreadable<'_> {
    let Unreadable { object, content, field, problem } = object;
    portolan_model::Unreadable { metadata: &object.metadata, content, field, problem }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

    use portolan_model::FirstInterface;
    use portolan_model::fixtures::mk_subnet;
    use portolan_model::subnet::DEFAULT_VPC;
    use portolan_watch::fake::FakeApi;
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn pods_concern_nothing_that_the_node_itself_goes_by_and_subnets_do_also_if_they_are_held() {
        let api = FakeApi::default();
        api.define::<portolan::Subnet>();
        let settings = Settings { first_interface: FirstInterface::Portolan };
        let (cluster, _followers) =
            Cluster::follow(&api.client(), "node1", settings, &Arc::new(Engine::new()), &Arc::default());
        cluster.status().in_step().await;
        let mut of_node = cluster.revisions_of_node();
        api.put_raw::<Pod>(&json!({
            "metadata": { "name": "argo", "namespace": "default", "uid": "1" },
            "spec": { "nodeName": "node1", "containers": [] },
        }));
        cluster.wait_for(|known| known.pods.get("default", "argo").map(drop)).await;
        assert!(!of_node.has_changed().unwrap());
        let mut subnet = mk_subnet("apps", "10.50.0.0/24", DEFAULT_VPC);
        // Then it is held, and edited: what there is of its networks on the node goes by that too.
        let edits: [fn(&mut portolan::Subnet); 3] =
            [|_| {}, |subnet| subnet.status = None, |subnet| subnet.spec.cidr_block = "10.51.0.0/24".into()];
        for (number, edit) in edits.into_iter().enumerate() {
            edit(&mut subnet);
            api.put(&subnet);
            let is_there = |known: &Known| match number {
                0 => known.world.subnet("apps").is_some(),
                1 => known.world.subnet("apps").is_none(),
                _ => {
                    let subnet = known.world.known_subnet("apps");
                    subnet.is_some_and(|subnet| {
                        subnet.config.cidr.nets().any(|net| net.to_string() == "10.51.0.0/24")
                    })
                }
            };
            cluster.wait_for(|known| is_there(known).then_some(())).await;
            assert!(of_node.has_changed().unwrap(), "edit {number}");
            of_node.borrow_and_update();
        }
    }
}
