//! The kinds that the World is fed with.

use k8s_openapi::api::{apps, core, discovery};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::ResourceExt;
use portolan_api::nad::NetworkAttachmentDefinition;
use portolan_api::portolan::{self, IPLock, NetworkAttachment};
use portolan_api::{Provider, kubeovn, kubevirt, portolan as native};
use serde_json::Value;

use super::rivals::{Candidate, Rivals};
use super::{Name, World};
use crate::dirty::Dirty;
use crate::doors::attachment::RequestedAttachment;
use crate::doors::{self, Meta};
use crate::group::Group;
use crate::holder::Read;
use crate::ip_pool::IpPool;
use crate::nad::Nad;
use crate::node::Node;
use crate::pod::{Pod, StatefulSet, VirtualMachine};
use crate::subnet::{DEFAULT_VPC, Validation};
use crate::unreadable::Unreadable;
use crate::vip::Vip;

/// A kind that the World is fed with.
pub trait Source {
    /// What tells two objects of the kind apart.
    type Key: ObjectKey;
    /// Of this object.
    fn key(&self) -> Self::Key;
    /// Takes the object in.
    #[doc(hidden)]
    fn put(&self, world: &mut World, dirty: &mut Dirty);
    /// Takes in that the object exists and cannot be decoded. By default it stays what it was.
    #[doc(hidden)]
    fn put_unreadable(_object: &Unreadable<'_>, _world: &mut World, _dirty: &mut Dirty) {}
    /// Forgets an object.
    #[doc(hidden)]
    fn remove(key: &Self::Key, world: &mut World, dirty: &mut Dirty);
    /// Every object of the kind that the World knows.
    #[doc(hidden)]
    fn keys(world: &World) -> Vec<Self::Key>;
    /// How to find out whether an object that a list lacks is gone. Until then it stays what it was.
    #[doc(hidden)]
    fn read(key: &Self::Key) -> Option<Read>;
}

/// What tells two objects of a kind apart: the name, with the namespace of those that have one.
pub trait ObjectKey: Ord {
    /// Of an object.
    fn of(metadata: &ObjectMeta) -> Self;
}

impl ObjectKey for String {
    fn of(metadata: &ObjectMeta) -> Self {
        metadata.name.clone().unwrap_or_default()
    }
}

impl ObjectKey for Name {
    fn of(metadata: &ObjectMeta) -> Self {
        (metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default())
    }
}

fn of_group<T>(map: &std::collections::BTreeMap<String, Rivals<T>>, group: Group) -> Vec<String> {
    map.iter().filter(|(_, rivals)| rivals.get(group).is_some()).map(|(name, _)| name.clone()).collect()
}

fn provider(text: Option<&str>) -> Option<Provider> {
    text?.parse().ok()
}

/// The namespaces that a Subnet of a tenant's VPC names; none of one that serves a network attachment definition.
fn tenants(vpc: Option<&str>, provider: Option<&str>, namespaces: &[String]) -> Vec<String> {
    let is_for_namespaces = !matches!(self::provider(provider), Some(Provider::Nad { .. }));
    let is_of_tenant = vpc.is_some_and(|vpc| !vpc.is_empty() && vpc != DEFAULT_VPC);
    if is_of_tenant && is_for_namespaces { namespaces.to_vec() } else { Vec::new() }
}

/// The namespaces to which a VPC gives its Subnet; none of that of the primary network, which is no tenant's.
fn tenants_of_vpc(name: &str, gives_subnet: bool, namespaces: &[String]) -> Vec<String> {
    if name != DEFAULT_VPC && gives_subnet { namespaces.to_vec() } else { Vec::new() }
}

/// The namespaces of a Subnet that cannot be decoded, as far as they can be read.
fn tenants_of_outline(_: &str, spec: &Value, namespaces: &[String]) -> Vec<String> {
    tenants(spec["vpc"].as_str(), spec["provider"].as_str(), namespaces)
}

/// The namespaces of a VPC that cannot be decoded, as far as they can be read. A Subnet that cannot be read is one all the same.
fn tenants_of_vpc_outline(name: &str, spec: &Value, namespaces: &[String]) -> Vec<String> {
    let subnet = &spec["defaultSubnet"];
    tenants_of_vpc(name, !subnet.is_null() && subnet != "", namespaces)
}

macro_rules! two_groups {
    ($object:ty, $read:ident, $group:expr, $map:ident, $set:ident, $value:path, $validation:expr, $provider:expr, $tenants:expr, $outline:path) => {
        impl Source for $object {
            type Key = String;
            fn key(&self) -> String {
                self.name_any()
            }
            fn put(&self, world: &mut World, dirty: &mut Dirty) {
                let (meta, validation, provider) = (Meta::of(self), $validation(self), $provider(self));
                let tenants = $tenants(self);
                let candidate = Candidate { meta, validation, value: $value(self), provider, tenants };
                world.$set(&self.name_any(), $group, Some(candidate), dirty);
            }
            fn put_unreadable(object: &Unreadable<'_>, world: &mut World, dirty: &mut Dirty) {
                let (name, meta) = (object.name(), Meta::of_metadata(object.metadata));
                // What was found about it before still counts against a rival of its name.
                let known = world.$map.get(&name).and_then(|rivals| rivals.get($group));
                let validation = match known.filter(|known| known.meta.uid == meta.uid) {
                    Some(known) => known.validation,
                    None => Validation::Not,
                };
                let spec = &object.content["spec"];
                let named = spec["namespaces"].as_array().into_iter().flatten();
                let named: Vec<String> = named.filter_map(|one| one.as_str().map(str::to_owned)).collect();
                let tenants = $outline(&name, spec, &named);
                let provider = provider(spec["provider"].as_str());
                let candidate =
                    Candidate { meta, validation, value: Err(object.errors()), provider, tenants };
                world.$set(&name, $group, Some(candidate), dirty);
            }
            fn remove(key: &String, world: &mut World, dirty: &mut Dirty) {
                world.$set(key, $group, None, dirty);
            }
            fn keys(world: &World) -> Vec<String> {
                of_group(&world.$map, $group)
            }
            fn read(key: &String) -> Option<Read> {
                Some(Read::$read { group: $group, name: key.clone() })
            }
        }
    };
}

two_groups!(
    portolan::Vpc,
    Vpc,
    Group::Portolan,
    vpcs,
    set_vpc,
    doors::portolan::vpc,
    |_| { Validation::Current },
    |_| None,
    |vpc: &portolan::Vpc| {
        let spec = &vpc.spec;
        let gives_subnet = spec.default_subnet.as_deref().is_some_and(|subnet| !subnet.is_empty());
        tenants_of_vpc(&vpc.name_any(), gives_subnet, &spec.namespaces)
    },
    tenants_of_vpc_outline
);
two_groups!(
    kubeovn::Vpc,
    Vpc,
    Group::KubeOvn,
    vpcs,
    set_vpc,
    doors::kubeovn::vpc,
    |_| { Validation::Current },
    |_| None,
    |vpc: &kubeovn::Vpc| {
        let spec = &vpc.spec;
        let gives_subnet = spec.default_subnet.as_deref().is_some_and(|subnet| !subnet.is_empty());
        tenants_of_vpc(&vpc.name_any(), gives_subnet, spec.namespaces.as_deref().unwrap_or_default())
    },
    tenants_of_vpc_outline
);
two_groups!(
    native::Subnet,
    SubnetOf,
    Group::Portolan,
    subnets,
    set_subnet,
    doors::portolan::subnet,
    doors::portolan::validation,
    |subnet: &native::Subnet| provider(subnet.spec.provider.as_deref()),
    |subnet: &native::Subnet| {
        let spec = &subnet.spec;
        tenants(spec.vpc.as_deref(), spec.provider.as_deref(), &spec.namespaces)
    },
    tenants_of_outline
);
two_groups!(
    kubeovn::Subnet,
    SubnetOf,
    Group::KubeOvn,
    subnets,
    set_subnet,
    doors::kubeovn::subnet,
    doors::kubeovn::validation,
    |subnet: &kubeovn::Subnet| provider(subnet.spec.provider.as_deref()),
    |subnet: &kubeovn::Subnet| {
        let spec = &subnet.spec;
        tenants(spec.vpc.as_deref(), spec.provider.as_deref(), spec.namespaces.as_deref().unwrap_or_default())
    },
    tenants_of_outline
);

impl Source for IPLock {
    type Key = String;
    fn key(&self) -> String {
        self.name_any()
    }
    fn put(&self, world: &mut World, dirty: &mut Dirty) {
        world.set_lock_object(&self.name_any(), doors::portolan::lock_or_claim(self), dirty);
    }
    fn put_unreadable(object: &Unreadable<'_>, world: &mut World, dirty: &mut Dirty) {
        let lock = doors::portolan::unreadable_lock(object);
        world.set_lock_object(&object.name(), lock.map(Err), dirty);
    }
    fn remove(key: &String, world: &mut World, dirty: &mut Dirty) {
        world.set_lock_object(key, None, dirty);
    }
    fn keys(world: &World) -> Vec<String> {
        let readable = world.locks.iter().map(|lock| lock.name.to_string());
        readable.chain(world.unreadable_locks.keys().cloned()).collect()
    }
    fn read(key: &String) -> Option<Read> {
        Some(Read::Lock { name: key.clone() })
    }
}

impl Source for Node {
    type Key = String;
    fn key(&self) -> String {
        self.name.clone()
    }
    fn put(&self, world: &mut World, dirty: &mut Dirty) {
        world.set_node(&self.name, Some(self.clone()), dirty);
    }
    fn remove(key: &String, world: &mut World, dirty: &mut Dirty) {
        world.set_node(key, None, dirty);
    }
    fn keys(world: &World) -> Vec<String> {
        world.nodes.keys().cloned().collect()
    }
    fn read(key: &String) -> Option<Read> {
        Some(Read::Node { name: key.clone() })
    }
}

/// A kind of another API, by way of its door.
macro_rules! by_door {
    ($object:ty, $value:ty, $door:path) => {
        impl Source for $object {
            type Key = <$value as Source>::Key;
            fn key(&self) -> Self::Key {
                ObjectKey::of(kube_core::Resource::meta(self))
            }
            fn put(&self, world: &mut World, dirty: &mut Dirty) {
                $door(self).put(world, dirty);
            }
            fn put_unreadable(object: &Unreadable<'_>, world: &mut World, dirty: &mut Dirty) {
                <$value as Source>::put_unreadable(object, world, dirty);
            }
            fn read(key: &Self::Key) -> Option<Read> {
                <$value as Source>::read(key)
            }
            fn remove(key: &Self::Key, world: &mut World, dirty: &mut Dirty) {
                <$value as Source>::remove(key, world, dirty);
            }
            fn keys(world: &World) -> Vec<Self::Key> {
                <$value as Source>::keys(world)
            }
        }
    };
}

macro_rules! namespaced {
    ($value:ty, $map:ident, $set:ident, $read:ident $(, unreadable: $unreadable:expr)?) => {
        impl Source for $value {
            type Key = Name;
            fn key(&self) -> Name {
                (self.namespace.to_string(), self.name.to_string())
            }
            fn put(&self, world: &mut World, dirty: &mut Dirty) {
                world.$set(&self.key(), Some(self.clone()), dirty);
            }
            fn remove(key: &Name, world: &mut World, dirty: &mut Dirty) {
                world.$set(key, None, dirty);
            }
            fn keys(world: &World) -> Vec<Name> {
                world.$map.iter().map(Source::key).collect()
            }
            fn read((namespace, name): &Name) -> Option<Read> {
                Some(Read::$read { namespace: namespace.clone(), name: name.clone() })
            }
            $(fn put_unreadable(object: &Unreadable<'_>, world: &mut World, dirty: &mut Dirty) {
                let value: $value = $unreadable(object);
                value.put(world, dirty);
            })?
        }
    };
}

namespaced!(Pod, pods, set_pod, Pod);
namespaced!(StatefulSet, stateful_sets, set_stateful_set, StatefulSet);
namespaced!(Nad, nads, set_nad, Nad, unreadable: doors::nad::unreadable_nad);
namespaced!(
    RequestedAttachment,
    network_attachments,
    set_network_attachment,
    NetworkAttachment,
    unreadable: doors::attachment::unreadable_network_attachment
);

impl Source for VirtualMachine {
    type Key = Name;
    fn key(&self) -> Name {
        (self.namespace.clone(), self.name.clone())
    }
    fn put(&self, world: &mut World, dirty: &mut Dirty) {
        world.set_machine(&self.key(), Some(self.clone()), dirty);
    }
    fn remove(key: &Name, world: &mut World, dirty: &mut Dirty) {
        world.set_machine(key, None, dirty);
    }
    fn keys(world: &World) -> Vec<Name> {
        let machines = world.machines.iter().filter(|(_, machine)| machine.machine.is_some());
        machines.map(|(key, _)| key.clone()).collect()
    }
    fn read((namespace, name): &Name) -> Option<Read> {
        Some(Read::VirtualMachine { namespace: namespace.clone(), name: name.clone() })
    }
}

impl Source for kubevirt::VirtualMachineInstance {
    type Key = Name;
    fn key(&self) -> Name {
        (self.namespace().unwrap_or_default(), self.name_any())
    }
    fn put(&self, world: &mut World, dirty: &mut Dirty) {
        world.set_instance(&self.key(), doors::kubevirt::instance(self), dirty);
    }
    fn remove(key: &Name, world: &mut World, dirty: &mut Dirty) {
        world.set_instance(key, None, dirty);
    }
    fn keys(world: &World) -> Vec<Name> {
        let machines = world.machines.iter().filter(|(_, machine)| machine.instance.is_some());
        machines.map(|(key, _)| key.clone()).collect()
    }
    fn read((namespace, name): &Name) -> Option<Read> {
        Some(Read::VirtualMachineInstance { namespace: namespace.clone(), name: name.clone() })
    }
}

by_door!(kubevirt::VirtualMachine, VirtualMachine, doors::kubevirt::machine);
by_door!(core::v1::Pod, Pod, doors::pod::pod);
by_door!(core::v1::Node, Node, doors::node::node);
by_door!(apps::v1::StatefulSet, StatefulSet, doors::pod::stateful_set);
by_door!(NetworkAttachmentDefinition, Nad, doors::nad::nad);
by_door!(kubeovn::IPPool, IpPool, doors::kubeovn::ip_pool);
by_door!(kubeovn::Vip, Vip, doors::kubeovn::vip);
by_door!(NetworkAttachment, RequestedAttachment, doors::attachment::network_attachment);

/// A kind of which only some objects are values. One that is none any more is as good as gone.
macro_rules! some_by_door {
    ($object:ty, $map:ident, $set:ident, $read:ident, $door:path) => {
        impl Source for $object {
            type Key = Name;
            fn key(&self) -> Name {
                (self.namespace().unwrap_or_default(), self.name_any())
            }
            fn put(&self, world: &mut World, dirty: &mut Dirty) {
                world.$set(&self.key(), $door(self), dirty);
            }
            fn remove(key: &Name, world: &mut World, dirty: &mut Dirty) {
                world.$set(key, None, dirty);
            }
            fn keys(world: &World) -> Vec<Name> {
                world.$map.iter().map(|one| (one.namespace.to_string(), one.name.to_string())).collect()
            }
            fn read((namespace, name): &Name) -> Option<Read> {
                Some(Read::$read { namespace: namespace.clone(), name: name.clone() })
            }
        }
    };
}

some_by_door!(core::v1::Service, services, set_service, Service, doors::service::service);
some_by_door!(
    discovery::v1::EndpointSlice,
    endpoint_slices,
    set_endpoint_slice,
    EndpointSlice,
    doors::service::endpoint_slice
);
