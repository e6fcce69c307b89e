//! What a list lacks: nothing changes for it until a live read says whether it is gone.
//!
//! Lists are of servers that may be starting, and of moments that may be past. So whatever is not in one stays what it was, of every
//! kind, until the object itself was read.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{ObjectKey, Source, World};
use crate::dirty::Dirty;
use crate::doors::attachment::RequestedAttachment;
use crate::holder::Read;
use crate::ip_pool::IpPool;
use crate::nad::Nad;
use crate::node::Node;
use crate::pod::{Pod, StatefulSet};
use crate::unreadable::Unreadable;
use crate::vip::Vip;

impl World {
    /// Takes all objects of a kind in, like [`World::reset_with`]; but nothing changes for one that is not among them until its absence
    /// is confirmed. An empty list may come from a server that does not know the kind yet.
    pub fn relist<'a, O: Source + 'a>(
        &mut self,
        objects: impl IntoIterator<Item = &'a O>,
        unreadable: impl IntoIterator<Item = Unreadable<'a>>,
    ) -> Dirty {
        self.relist_after([], objects, unreadable)
    }

    /// Like [`World::relist`], for the rest of a list: objects of it that were taken in before are given by their metadata.
    pub fn relist_after<'a, O: Source + 'a>(
        &mut self,
        earlier: impl IntoIterator<Item = ObjectMeta>,
        objects: impl IntoIterator<Item = &'a O>,
        unreadable: impl IntoIterator<Item = Unreadable<'a>>,
    ) -> Dirty {
        let mut dirty = Dirty::default();
        let mut missing = self.take_all(objects, unreadable, &mut dirty);
        for metadata in earlier {
            missing.remove(&O::Key::of(&metadata));
        }
        for key in missing {
            self.missing.extend(O::read(&key));
        }
        self.note_nodes(&mut dirty);
        dirty
    }

    /// The objects that a list lacks and that are still here, as they were.
    pub fn missing(&self) -> impl Iterator<Item = &Read> {
        self.missing.iter()
    }

    /// True if a list lacks an object that is still here.
    pub fn is_missing(&self, read: &Read) -> bool {
        self.missing.contains(read)
    }

    /// True if a list lacks the object of a kind with this key, and it is still here.
    pub fn is_missing_of<O: Source>(&self, key: &O::Key) -> bool {
        !self.missing.is_empty() && O::read(key).is_some_and(|read| self.is_missing(&read))
    }

    /// An object that was never seen here should exist: it is to be read, as if a list lacked it.
    pub fn expect(&mut self, read: Read) {
        self.missing.insert(read);
    }

    /// The UID of a VPC or subnet that is to be read.
    pub fn uid_of(&self, read: &Read) -> Option<&str> {
        let meta = match read {
            Read::Vpc { group, name } => &self.vpcs.get(name)?.get(*group)?.meta,
            Read::SubnetOf { group, name } => &self.subnets.get(name)?.get(*group)?.meta,
            _ => return None,
        };
        Some(&meta.uid)
    }

    /// A live read of an object that a list lacks was answered: `found` has it if it exists, and nothing else.
    pub fn settle_missing(&mut self, read: &Read, found: &World) -> Dirty {
        let mut dirty = Dirty::default();
        if !self.missing.remove(read) {
            return dirty;
        }
        let key = |namespace: &String, name: &String| (namespace.clone(), name.clone());
        match read {
            Read::Pod { namespace, name } => {
                self.settle::<Pod>(&key(namespace, name), found.pod(namespace, name), &mut dirty);
            }
            Read::StatefulSet { namespace, name } => {
                let set = found.stateful_set(namespace, name);
                self.settle::<StatefulSet>(&key(namespace, name), set, &mut dirty);
            }
            Read::VirtualMachine { namespace, name } => {
                let key = key(namespace, name);
                let machine = found.machines.get(&key).and_then(|machine| machine.machine.clone());
                self.set_machine(&key, machine, &mut dirty);
            }
            Read::VirtualMachineInstance { namespace, name } => {
                let key = key(namespace, name);
                let instance = found.machines.get(&key).and_then(|machine| machine.instance.clone());
                self.set_instance(&key, instance, &mut dirty);
            }
            Read::NetworkAttachment { namespace, name } => {
                let object = found.network_attachment(namespace, name);
                self.settle::<RequestedAttachment>(&key(namespace, name), object, &mut dirty);
            }
            Read::Nad { namespace, name } => {
                self.settle::<Nad>(&key(namespace, name), found.nad(namespace, name), &mut dirty);
            }
            Read::Node { name } => self.settle::<Node>(name, found.node(name), &mut dirty),
            Read::Vpc { group, name } => {
                let vpc = found.vpcs.get(name).and_then(|rivals| rivals.get(*group)).cloned();
                self.set_vpc(name, *group, vpc, &mut dirty);
            }
            Read::SubnetOf { group, name } => {
                let subnet = found.subnets.get(name).and_then(|rivals| rivals.get(*group)).cloned();
                self.set_subnet(name, *group, subnet, &mut dirty);
            }
            Read::IpPool { name } => self.settle::<IpPool>(name, found.ip_pool(name), &mut dirty),
            Read::Vip { name } => self.settle::<Vip>(name, found.vip(name), &mut dirty),
            Read::Lock { name } => {
                let lock = found.lock(name).cloned().map(Ok);
                let lock = lock.or_else(|| found.unreadable_locks.get(name).cloned().map(Err));
                self.set_lock_object(name, lock, &mut dirty);
            }
            Read::Service { namespace, name } => {
                let service = found.service(namespace, name).cloned();
                self.set_service(&key(namespace, name), service, &mut dirty);
            }
            Read::EndpointSlice { namespace, name } => {
                let slice = found.endpoint_slices.get(namespace, name).cloned();
                self.set_endpoint_slice(&key(namespace, name), slice, &mut dirty);
            }
            // Asked only about holders.
            Read::Subnet { .. } => {}
        }
        self.note_nodes(&mut dirty);
        dirty
    }

    fn settle<O: Source>(&mut self, key: &O::Key, found: Option<&O>, dirty: &mut Dirty) {
        match found {
            Some(object) => object.put(self, dirty),
            None => O::remove(key, self, dirty),
        }
    }

    /// Nothing is missing about an object any more.
    pub(super) fn found<O: Source>(&mut self, key: &O::Key) {
        if !self.missing.is_empty()
            && let Some(read) = O::read(key)
        {
            self.missing.remove(&read);
        }
    }
}
