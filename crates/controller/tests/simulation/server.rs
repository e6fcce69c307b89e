//! An API server in memory: objects with versions and UIDs, and for each kind the history that watches deliver.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::{Resource, ResourceExt};
use portolan_api::finalizer::IN_USE;
use portolan_api::kubeovn;
use portolan_api::nad::NetworkAttachmentDefinition;
use portolan_api::portolan::{IPLock, Subnet, Vpc};
use portolan_controller::engine::{Change, FinalizerChange, FinalizerUpdate};
use portolan_model::{Validation, doors};

/// The objects of one kind.
#[derive(Debug)]
pub(crate) struct Shelf<K> {
    pub(crate) objects: BTreeMap<String, K>,
    /// Every change since the beginning.
    pub(crate) history: Vec<Change<K>>,
}

impl<K> Default for Shelf<K> {
    fn default() -> Self {
        Shelf { objects: BTreeMap::new(), history: Vec::new() }
    }
}

/// The API server.
#[derive(Debug, Default)]
pub(crate) struct Server {
    version: u64,
    pub(crate) vpcs: Shelf<Vpc>,
    pub(crate) subnets: Shelf<Subnet>,
    pub(crate) kubeovn_subnets: Shelf<kubeovn::Subnet>,
    pub(crate) nads: Shelf<NetworkAttachmentDefinition>,
    pub(crate) pods: Shelf<Pod>,
    pub(crate) sets: Shelf<StatefulSet>,
    pub(crate) nodes: Shelf<Node>,
    pub(crate) locks: Shelf<IPLock>,
    /// Objects that vanished because a controller let them go.
    pub(crate) let_go: Vec<LetGo>,
    /// The versions that were stored when objects were deleted that have finalizers, by UID.
    deletions: BTreeMap<String, u64>,
}

/// An object that vanished because a controller let it go.
#[derive(Debug)]
pub(crate) struct LetGo {
    pub(crate) kind: String,
    pub(crate) name: String,
    /// The version that was stored when it was deleted.
    pub(crate) deleted: u64,
    /// Of a VPC: a subnet that was valid in it at that moment.
    pub(crate) subnet: Option<String>,
}

/// A kind that the server has.
pub(crate) trait Served: Resource<DynamicType = ()> + Clone {
    fn shelf(server: &Server) -> &Shelf<Self>;
    fn shelf_mut(server: &mut Server) -> &mut Shelf<Self>;
}

macro_rules! served {
    ($($kind:ty: $field:ident),*) => {
        $(impl Served for $kind {
            fn shelf(server: &Server) -> &Shelf<Self> { &server.$field }
            fn shelf_mut(server: &mut Server) -> &mut Shelf<Self> { &mut server.$field }
        })*
    };
}
served!(Vpc: vpcs, Subnet: subnets, kubeovn::Subnet: kubeovn_subnets, NetworkAttachmentDefinition: nads, Pod: pods, StatefulSet: sets, Node: nodes, IPLock: locks);

impl Server {
    pub(crate) fn get<K: Served>(&self, name: &str) -> Option<&K> {
        K::shelf(self).objects.get(name)
    }

    /// Creates an object; false if there is one of its name.
    pub(crate) fn create<K: Served>(&mut self, mut object: K) -> bool {
        let name = object.name_any();
        if K::shelf(self).objects.contains_key(&name) {
            return false;
        }
        let uid = format!("{}-{}", K::kind(&()).to_lowercase(), self.version + 1);
        object.meta_mut().uid = Some(uid);
        object.meta_mut().generation = Some(1);
        object.meta_mut().finalizers = None;
        self.store(name, object);
        true
    }

    /// Changes an object; false if there is none.
    pub(crate) fn change<K: Served>(&mut self, name: &str, change: impl FnOnce(&mut K)) -> bool {
        let Some(mut object) = self.get::<K>(name).cloned() else { return false };
        change(&mut object);
        self.store(name.to_owned(), object);
        true
    }

    /// Deletes an object, or says in it that someone did if it has finalizers.
    pub(crate) fn delete<K: Served>(&mut self, name: &str) -> Option<K> {
        let stored = self.get::<K>(name)?;
        if stored.finalizers().is_empty() {
            return self.remove(name);
        }
        if stored.meta().deletion_timestamp.is_none() {
            let uid = stored.uid().unwrap_or_default();
            self.change::<K>(name, |object| {
                let meta = object.meta_mut();
                meta.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
                meta.generation = meta.generation.map(|generation| generation + 1);
            });
            self.deletions.insert(uid, self.version);
        }
        self.get::<K>(name).cloned()
    }

    /// Someone removes the finalizers by hand.
    pub(crate) fn force<K: Served>(&mut self, name: &str) {
        let is_deleted = self.get::<K>(name).is_some_and(|object| object.meta().deletion_timestamp.is_some());
        self.change::<K>(name, |object| object.meta_mut().finalizers = None);
        if is_deleted {
            self.remove::<K>(name);
        }
    }

    /// A controller adds or removes the finalizer.
    pub(crate) fn set_finalizer<K: Served>(&mut self, update: &FinalizerUpdate) {
        let (name, uid) = (&update.object.name, &update.object.uid);
        let Some(stored) = self.get::<K>(name).filter(|stored| stored.uid().as_ref() == Some(uid)) else {
            return;
        };
        let is_deleted = stored.meta().deletion_timestamp.is_some();
        let has = !stored.finalizers().is_empty();
        match update.change {
            FinalizerChange::Add if !has && !is_deleted => {
                self.change::<K>(name, |object| object.finalizers_mut().push(IN_USE.to_owned()));
            }
            FinalizerChange::Remove if has && is_deleted => {
                let deleted = self.deletions.get(uid).copied().unwrap_or_default();
                let kind = K::kind(&()).into_owned();
                let subnet = (kind == "Vpc").then(|| self.valid_subnet_of(name)).flatten();
                self.let_go.push(LetGo { kind, name: name.clone(), deleted, subnet });
                self.remove::<K>(name);
            }
            FinalizerChange::Add | FinalizerChange::Remove => {}
        }
    }

    fn valid_subnet_of(&self, vpc: &str) -> Option<String> {
        let native = self.subnets.objects.values().find(|subnet| {
            subnet.spec.vpc.as_deref() == Some(vpc) && doors::portolan::validation(subnet) != Validation::Not
        });
        let foreign = || {
            self.kubeovn_subnets.objects.values().find(|subnet| {
                subnet.spec.vpc.as_deref() == Some(vpc)
                    && doors::kubeovn::validation(subnet) != Validation::Not
            })
        };
        native.map(ResourceExt::name_any).or_else(|| foreign().map(ResourceExt::name_any))
    }

    fn remove<K: Served>(&mut self, name: &str) -> Option<K> {
        self.version += 1;
        let shelf = K::shelf_mut(self);
        let object = shelf.objects.remove(name)?;
        trace!("server: deleted {} {name}", K::kind(&()));
        shelf.history.push(Change::deleted(&object));
        Some(object)
    }

    fn store<K: Served>(&mut self, name: String, mut object: K) {
        self.version += 1;
        object.meta_mut().resource_version = Some(self.version.to_string());
        trace!("server: stored {} {name} {:?} version {}", K::kind(&()), object.uid(), self.version);
        let shelf = K::shelf_mut(self);
        shelf.objects.insert(name, object.clone());
        shelf.history.push(Change::Applied(object));
    }

    /// What a list showed when the history had this length.
    pub(crate) fn list_at<K: Served>(&self, length: usize) -> Vec<K> {
        let mut objects = BTreeMap::new();
        for change in &K::shelf(self).history[..length] {
            match change {
                Change::Applied(object) => drop(objects.insert(object.name_any(), object.clone())),
                Change::Deleted(object) => drop(objects.remove(&object.name_any())),
                _ => {}
            }
        }
        objects.into_values().collect()
    }
}
