//! The kinds that the controller follows. A new kind gets one line in [`for_each_kind`], a door in the model, and an
//! implementation of [`Observed`] if it needs more than that the World knows it.

use kube::Resource;
use portolan_model::Source;
use portolan_plan::ServiceProxy;
use portolan_watch::Change;

use super::Engine;

/// Calls a macro with the table of kinds.
macro_rules! for_each_kind {
    ($do:ident) => {
        $do! {
            Vpc: ::portolan_api::portolan::Vpc,
            KubeOvnVpc: ::portolan_api::kubeovn::Vpc,
            Subnet: ::portolan_api::portolan::Subnet,
            KubeOvnSubnet: ::portolan_api::kubeovn::Subnet,
            IPPool: ::portolan_api::kubeovn::IPPool,
            Vip: ::portolan_api::kubeovn::Vip,
            NetworkAttachment: ::portolan_api::portolan::NetworkAttachment,
            IPLock: ::portolan_api::portolan::IPLock,
            NetworkAttachmentDefinition: ::portolan_api::nad::NetworkAttachmentDefinition,
            Pod: ::k8s_openapi::api::core::v1::Pod,
            Node: ::k8s_openapi::api::core::v1::Node,
            StatefulSet: ::k8s_openapi::api::apps::v1::StatefulSet,
            Service: ::k8s_openapi::api::core::v1::Service,
            EndpointSlice: ::k8s_openapi::api::discovery::v1::EndpointSlice,
            VirtualMachine: ::portolan_api::kubevirt::VirtualMachine,
            VirtualMachineInstance: ::portolan_api::kubevirt::VirtualMachineInstance,
        }
    };
}
pub(crate) use for_each_kind;

macro_rules! kind {
    ($($kind:ident: $object:ty),* $(,)?) => {
        /// A kind that the controller follows.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Kind {
            $(#[doc = concat!("`", stringify!($object), "`")] $kind,)*
        }

        impl Kind {
            /// Every one of them.
            pub const ALL: &[Kind] = &[$(Kind::$kind),*];

            /// Whether it is followed where this serves Services.
            pub fn is_followed(self, services: ServiceProxy) -> bool {
                match self {
                    Kind::Service | Kind::EndpointSlice => services == ServiceProxy::Portolan,
                    _ => true,
                }
            }
        }

        $(impl HasKind for $object {
            const KIND: Kind = Kind::$kind;
        })*
    };
}
for_each_kind!(kind);

/// An object of a kind of the table.
pub trait HasKind {
    /// Which one.
    const KIND: Kind;
}

/// A kind that the engine takes in.
pub trait Observed: HasKind + Source + Resource<DynamicType = ()> + Sized {
    /// Set if there may be more objects than should be in memory at once: its lists come by [`Engine::feed_page`]. The first of them comes
    /// once all kinds without a turn were listed, and those whose turn is earlier. Locks that come before subnets, or pods before locks,
    /// would have to be looked at twice.
    const TURN: Option<u8> = None;
    /// Why the object cannot be read, if it can be decoded and still says nothing that the World could take in.
    #[doc(hidden)]
    fn unreadable(&self, _engine: &Engine) -> Option<String> {
        None
    }
    /// Takes a change in before the World does.
    #[doc(hidden)]
    fn before(_engine: &mut Engine, _change: &Change<Self>) {}
    /// Takes a change in once the World has.
    #[doc(hidden)]
    fn after(_engine: &mut Engine, _change: &Change<Self>) {}
}
