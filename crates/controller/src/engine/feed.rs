//! How watched objects come in.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;
use portolan_api::nad::NetworkAttachmentDefinition;
use portolan_api::portolan::{IPLock, NetworkAttachment};
use portolan_api::{kubeovn, portolan};
use portolan_model::{Group, Source, doors};

use super::Engine;

/// The kinds that are watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// `Vpc` of `portolan.dev`.
    Vpc,
    /// `Vpc` of `kubeovn.io`.
    KubeOvnVpc,
    /// `Subnet` of `portolan.dev`.
    Subnet,
    /// `Subnet` of `kubeovn.io`.
    KubeOvnSubnet,
    /// `NetworkAttachment`.
    NetworkAttachment,
    /// `IPLock`.
    IPLock,
    /// `NetworkAttachmentDefinition`.
    Nad,
    /// `Pod`.
    Pod,
    /// `Node`.
    Node,
    /// `StatefulSet`.
    StatefulSet,
}

impl Kind {
    /// Every one of them.
    pub const ALL: &[Kind] = &[
        Kind::Vpc,
        Kind::KubeOvnVpc,
        Kind::Subnet,
        Kind::KubeOvnSubnet,
        Kind::NetworkAttachment,
        Kind::IPLock,
        Kind::Nad,
        Kind::Pod,
        Kind::Node,
        Kind::StatefulSet,
    ];
}

/// What a watch tells.
#[derive(Clone, Debug)]
pub enum Change<K> {
    /// An object is there, new or changed.
    Applied(K),
    /// An object is gone.
    Deleted(K),
    /// These are all that there are.
    Listed(Vec<K>),
}

/// A kind that the engine is fed with.
pub trait Fed: Source + Sized {
    /// Which one.
    const KIND: Kind;
    /// Takes a change in, after [`Engine::feed`] has told the World.
    #[doc(hidden)]
    fn told(_engine: &mut Engine, _change: &Change<Self>) {}
}

impl Engine {
    /// Takes in what a watch tells. A fresh list makes only what differs dirty.
    pub fn feed<K: Fed>(&mut self, change: &Change<K>) {
        let dirty = match change {
            Change::Applied(object) => self.world.apply(object),
            Change::Deleted(object) => self.world.delete(object),
            Change::Listed(objects) => self.world.reset(objects),
        };
        self.note(dirty);
        if matches!(change, Change::Listed(_)) {
            self.unlisted.remove(&K::KIND);
        }
        K::told(self, change);
    }
}

macro_rules! fed {
    ($($object:ty => $kind:ident),* $(,)?) => {
        $(impl Fed for $object {
            const KIND: Kind = Kind::$kind;
        })*
    };
}

fed! {
    NetworkAttachment => NetworkAttachment,
    Pod => Pod,
    Node => Node,
    StatefulSet => StatefulSet,
}

impl Fed for NetworkAttachmentDefinition {
    const KIND: Kind = Kind::Nad;

    fn told(engine: &mut Engine, change: &Change<Self>) {
        engine.tell_mistakes(change);
    }
}

macro_rules! fed_vpc {
    ($($object:ty => $kind:ident),*) => {
        $(impl Fed for $object {
            const KIND: Kind = Kind::$kind;
            fn told(engine: &mut Engine, change: &Change<Self>) {
                engine.tell_mistakes(change);
                // Its peerings' networks may be what stood in a subnet's way.
                engine.subnets.mark_if_any();
            }
        })*
    };
}

fed_vpc! { portolan::Vpc => Vpc, kubeovn::Vpc => KubeOvnVpc }

macro_rules! fed_subnet {
    ($object:ty, $kind:ident, $group:expr, $validation:path) => {
        impl Fed for $object {
            const KIND: Kind = Kind::$kind;
            fn told(engine: &mut Engine, change: &Change<Self>) {
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

fed_subnet!(portolan::Subnet, Subnet, Group::Portolan, doors::portolan::validation);
fed_subnet!(kubeovn::Subnet, KubeOvnSubnet, Group::KubeOvn, doors::kubeovn::validation);

impl Fed for IPLock {
    const KIND: Kind = Kind::IPLock;

    fn told(engine: &mut Engine, change: &Change<Self>) {
        if matches!(change, Change::Listed(_)) {
            engine.locks_listed();
        }
    }
}
