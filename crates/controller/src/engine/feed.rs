//! How observed objects come in.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;
use portolan_api::nad::NetworkAttachmentDefinition;
use portolan_api::portolan::{IPLock, NetworkAttachment};
use portolan_api::{kubeovn, portolan};
use portolan_model::{Group, doors};
use portolan_watch::Change;

use super::Engine;
use super::kinds::Observed;

impl Engine {
    /// Takes in what a follower reports. A fresh list makes only what differs dirty.
    pub fn feed<K: Observed>(&mut self, change: &Change<K>) {
        K::before(self, change);
        let dirty = match change {
            Change::Applied(object) => self.world.apply(object),
            Change::Deleted(object) => self.world.delete(object),
            Change::Listed(objects) => self.world.reset(objects),
        };
        self.note(dirty);
        if matches!(change, Change::Listed(_)) {
            self.unlisted.remove(&K::KIND);
        }
        K::after(self, change);
    }
}

impl Observed for NetworkAttachment {}
impl Observed for Pod {}
impl Observed for Node {}
impl Observed for StatefulSet {}

impl Observed for NetworkAttachmentDefinition {
    fn after(engine: &mut Engine, change: &Change<Self>) {
        engine.tell_mistakes(change);
    }
}

macro_rules! observed_vpc {
    ($($object:ty),*) => {
        $(impl Observed for $object {
            fn after(engine: &mut Engine, change: &Change<Self>) {
                engine.tell_mistakes(change);
                // Its peerings' networks may be what stood in a subnet's way.
                engine.subnets.mark_if_any();
            }
        })*
    };
}

observed_vpc!(portolan::Vpc, kubeovn::Vpc);

macro_rules! observed_subnet {
    ($object:ty, $group:expr, $validation:path) => {
        impl Observed for $object {
            fn after(engine: &mut Engine, change: &Change<Self>) {
                let gate = &mut engine.subnets;
                let put = |gate: &mut super::subnets::SubnetGate, subnet: &Self| {
                    let meta = doors::Meta::of(subnet);
                    gate.put(($group, subnet.name_any()), (meta.uid, meta.generation, $validation(subnet)));
                };
                match change {
                    Change::Applied(subnet) => put(gate, subnet),
                    Change::Deleted(subnet) => gate.remove(&($group, subnet.name_any())),
                    Change::Listed(subnets) => {
                        let names = subnets.iter().map(ResourceExt::name_any).collect();
                        gate.keep_only($group, &names);
                        subnets.iter().for_each(|subnet| put(gate, subnet));
                    }
                }
            }
        }
    };
}

observed_subnet!(portolan::Subnet, Group::Portolan, doors::portolan::validation);
observed_subnet!(kubeovn::Subnet, Group::KubeOvn, doors::kubeovn::validation);

impl Observed for IPLock {
    fn before(engine: &mut Engine, change: &Change<Self>) {
        match change {
            Change::Applied(lock) => engine.lock_comes(lock),
            Change::Deleted(lock) => engine.lock_goes(&lock.name_any()),
            Change::Listed(locks) => engine.locks_listed(locks),
        }
    }
}
