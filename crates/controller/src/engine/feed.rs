//! How observed objects come in.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use portolan_api::nad::NetworkAttachmentDefinition;
use portolan_api::portolan::{IPLock, NetworkAttachment};
use portolan_api::{kubeovn, kubevirt, portolan};
use portolan_model::{Dirty, Unit};
use portolan_watch::{Change, Listed, Page, Unreadable};

use super::Engine;
use super::kinds::{Kind, Observed};
use super::northbound::Evidence;

impl Engine {
    /// Takes in what a follower reports. A fresh list makes only what differs dirty.
    pub fn feed<K: Observed>(&mut self, change: &Change<K>) {
        self.take(change, &Evidence::of(change));
        if matches!(change, Change::Listed(_)) {
            self.pages.end(K::KIND);
        }
    }

    /// Takes in some of the objects of a list; a [`Change::Listed`] says that they were all. What such an object no longer asks for is
    /// absent by a list.
    pub fn feed_page<K: Observed>(&mut self, page: Page<K>) {
        let Listed { objects, unreadable } = page.listed;
        let metadata =
            objects.iter().map(K::meta).chain(unreadable.iter().map(|object| &object.object.metadata));
        let page = match page.first {
            true if self.unlisted.contains(&K::KIND) => PageOf::FirstList,
            true => PageOf::List,
            false => PageOf::Rest,
        };
        self.pages.add(K::KIND, page, metadata);
        for object in objects {
            self.take(&Change::Applied(object), &Evidence::List);
        }
        for object in unreadable {
            self.take(&Change::Unreadable(Box::new(object)), &Evidence::List);
        }
    }

    fn take<K: Observed>(&mut self, change: &Change<K>, evidence: &Evidence) {
        K::before(self, change);
        let dirty = match change {
            Change::Applied(object) => self.world.apply(object),
            Change::Unreadable(object) => self.world.apply_unreadable::<K>(&in_model(object)),
            Change::Deleted(object) => self.world.delete_named::<K>(&object.metadata),
            Change::Listed(Listed { objects, unreadable }) => {
                if objects.is_empty() && unreadable.is_empty() && self.pages.are_all(K::KIND) {
                    Dirty::default()
                } else {
                    let earlier = self.pages.of(K::KIND).map(|(namespace, name)| identity(namespace, name));
                    self.world.relist_after(earlier, objects, unreadable.iter().map(in_model))
                }
            }
        };
        self.follow_units(&dirty);
        self.note(dirty, evidence);
        if matches!(change, Change::Listed(_)) {
            self.read_what_is_missing::<K>();
            if self.unlisted.remove(&K::KIND) && self.is_synced() {
                self.requesters.extend(self.world.open_requesters());
                self.report_all_annotations();
                self.report_all_tenants();
            }
        }
        self.report_unreadable(change);
        K::after(self, change);
    }

    /// What follows from a change of units, however it became known.
    pub(super) fn follow_units(&mut self, dirty: &Dirty) {
        for unit in &dirty.units {
            if !self.stands_by() {
                self.compare_conditions_of_unit(unit);
                self.compare_results_of_unit(unit);
            }
            self.report_addresses_of_unit(unit);
            self.report_clashes_of_unit(unit);
            self.report_tenants_of_unit(unit);
            self.report_service_of_unit(unit);
        }
        if dirty.units.iter().any(|unit| matches!(unit, Unit::Node(_))) {
            // An address that a Node has no longer, or is believed no longer to have, may be what stood in a subnet's way.
            self.subnets.recheck();
        }
    }
}

/// What came in the pages of lists that are not all read.
#[derive(Debug, Default)]
pub(super) struct Pages(BTreeMap<Kind, Came>);

#[derive(Debug)]
enum Came {
    /// All that is known of the kind: there was nothing before the first page.
    All,
    /// The objects of these names.
    Named(BTreeSet<(String, String)>),
}

impl Pages {
    fn add<'a>(&mut self, kind: Kind, page: PageOf, objects: impl Iterator<Item = &'a ObjectMeta>) {
        match page {
            PageOf::FirstList if !self.0.contains_key(&kind) => drop(self.0.insert(kind, Came::All)),
            PageOf::FirstList | PageOf::List => drop(self.0.insert(kind, Came::Named(BTreeSet::new()))),
            PageOf::Rest => {}
        }
        let Some(Came::Named(names)) = self.0.get_mut(&kind) else { return };
        let name = |text: &Option<String>| text.clone().unwrap_or_default();
        names.extend(objects.map(|metadata| (name(&metadata.namespace), name(&metadata.name))));
    }

    fn end(&mut self, kind: Kind) {
        self.0.remove(&kind);
    }

    /// Whether all objects that are known of a kind came in pages: a list lacks none of them.
    fn are_all(&self, kind: Kind) -> bool {
        matches!(self.0.get(&kind), Some(Came::All))
    }

    /// Namespaces and names of the objects of a kind that came beside others.
    fn of(&self, kind: Kind) -> impl Iterator<Item = &(String, String)> {
        let names = match self.0.get(&kind) {
            Some(Came::Named(names)) => Some(names),
            Some(Came::All) | None => None,
        };
        names.into_iter().flatten()
    }

    /// Whether an object came in a page.
    pub(super) fn have(&self, kind: Kind, object: &(String, String)) -> bool {
        match self.0.get(&kind) {
            None => false,
            Some(Came::All) => true,
            Some(Came::Named(names)) => names.contains(object),
        }
    }
}

/// Which page of which list.
#[derive(Clone, Copy)]
enum PageOf {
    /// The first, when no list of the kind was read to its end yet.
    FirstList,
    /// The first, later.
    List,
    /// Another one.
    Rest,
}

/// Metadata of which only the name is known.
fn identity(namespace: &str, name: &str) -> ObjectMeta {
    let namespace = (!namespace.is_empty()).then(|| namespace.to_owned());
    ObjectMeta { namespace, name: Some(name.to_owned()), ..ObjectMeta::default() }
}

/// An object that cannot be decoded, as the model has it.
fn in_model<K>(object: &Unreadable<K>) -> portolan_model::Unreadable<'_> {
    let Unreadable { object, content, field, problem } = object;
    portolan_model::Unreadable { metadata: &object.metadata, content, field, problem }
}

impl Observed for NetworkAttachment {
    fn after(engine: &mut Engine, change: &Change<Self>) {
        engine.observe_conditions(change);
    }
}

impl Observed for Pod {
    const TURN: Option<u8> = Some(2);

    fn after(engine: &mut Engine, change: &Change<Self>) {
        engine.check(change);
        let pods = match change {
            Change::Applied(pod) => std::slice::from_ref(pod),
            Change::Listed(Listed { objects, .. }) => objects,
            Change::Unreadable(_) | Change::Deleted(_) => &[],
        };
        for pod in pods {
            engine.report_annotations(&pod.namespace().unwrap_or_default(), &pod.name_any());
        }
        engine.observe_results(change);
    }
}

impl Observed for Node {
    fn after(engine: &mut Engine, change: &Change<Self>) {
        engine.nodes_changed = true;
        engine.observe_node_mtu(change);
        engine.observe_agents(change);
        engine.observe_prefixes(change);
    }
}

impl Observed for StatefulSet {}
impl Observed for Service {}
impl Observed for EndpointSlice {}
impl Observed for kubevirt::VirtualMachine {}
impl Observed for kubevirt::VirtualMachineInstance {}

impl Observed for NetworkAttachmentDefinition {
    fn after(engine: &mut Engine, change: &Change<Self>) {
        engine.check(change);
        engine.subnets.recheck();
    }
}

macro_rules! observed_vpc {
    ($($object:ty),*) => {
        $(impl Observed for $object {
            fn after(engine: &mut Engine, change: &Change<Self>) {
                engine.check(change);
                engine.observe_conditions(change);
                engine.observe_life(change);
                // The networks of its peerings may be what stood in a subnet's way.
                engine.subnets.recheck();
            }
        })*
    };
}

observed_vpc!(portolan::Vpc, kubeovn::Vpc);

macro_rules! observed_subnet {
    ($($object:ty),*) => {
        $(impl Observed for $object {
            fn after(engine: &mut Engine, change: &Change<Self>) {
                engine.subnets.take(change, &engine.world);
                engine.observe_conditions(change);
                engine.observe_life(change);
            }
        })*
    };
}

observed_subnet!(portolan::Subnet, kubeovn::Subnet);

impl Observed for kubeovn::IPPool {
    fn before(engine: &mut Engine, change: &Change<Self>) {
        engine.compare_pools_beside(change);
    }

    fn after(engine: &mut Engine, change: &Change<Self>) {
        engine.compare_pools_beside(change);
        engine.observe_conditions(change);
    }
}

impl Observed for kubeovn::Vip {
    fn after(engine: &mut Engine, change: &Change<Self>) {
        engine.observe_conditions(change);
    }
}

impl Observed for IPLock {
    const TURN: Option<u8> = Some(1);

    fn unreadable(&self, engine: &Engine) -> Option<String> {
        if !engine.world.has_unreadable_locks() {
            return None;
        }
        engine.world.unreadable_lock(&self.name_any()).map(|lock| lock.errors.to_string())
    }

    fn after(engine: &mut Engine, change: &Change<Self>) {
        match change {
            Change::Applied(_) | Change::Unreadable(_) => {}
            // Its address may be what stood in the way of a subnet's gateway.
            Change::Deleted(_) => engine.subnets.recheck(),
            Change::Listed(_) => engine.locks_listed(),
        }
    }
}
