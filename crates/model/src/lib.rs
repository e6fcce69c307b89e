//! What users asked for, as parsed values with indexes; and what it means.
//!
//! This crate must never know IO, clocks, randomness, tokio or a Kubernetes client. Everything in it is synchronous and a
//! function of what it was told.
//!
//! ```text
//!  API objects ──doors──▶ values ──▶ World: maps and indexes ──▶ Dirty { units, requesters }
//!                            └─ or the errors that go on the object      │          └─▶ Request ──▶ crates/ipam
//!                                                                        └─▶ View ──▶ crates/plan
//! ```
//!
//! Start reading at [`World`]: `apply`, `delete` and `reset` feed it with objects of any kind, and each answers what to look
//! at again. [`view`] is what the plan of a [`Unit`] may read, [`request`] what a pod asks for. [`doors`] turn the objects of
//! each API into values. [`validate`] compares an object with the World for webhook, API server and CLI alike, and
//! [`ovn_match`] has the grammar of OVN's match expressions.

pub mod attachment;
pub mod dirty;
pub mod doors;
#[cfg(feature = "fixtures")]
pub mod fixtures;
pub mod group;
pub mod guest;
pub mod guest_addresses;
pub mod holder;
pub mod ip_pool;
pub mod life;
pub mod lock;
pub mod nad;
pub mod node;
pub mod node_subnet;
pub mod ovn_match;
pub mod peering;
pub mod pod;
pub mod request;
pub mod service;
pub mod subnet;
pub mod uid;
pub mod unit;
pub mod unreadable;
pub mod validate;
pub mod view;
pub mod vip;
pub mod vpc;
pub mod world;

pub use attachment::{Attachment, AttachmentId};
pub use dirty::{Dirty, LockChange};
pub use group::Group;
pub use guest_addresses::AddressProblem;
pub use ip_pool::{IpPool, IpPoolProblem};
pub use life::Life;
pub use lock::{Claim, Lock, UnreadableLock};
pub use nad::Nad;
pub use node::Node;
pub use peering::{Peering, PeeringEnd, PeeringProblem, VpcPair};
pub use pod::{Pod, PodController};
pub use request::{InterfaceRequest, Needs, Pool, Request, Requester, Wait};
pub use service::{EndpointSlice, Service};
pub use subnet::{Subnet, Validation};
pub use uid::Uid;
pub use unit::{Unit, UnitState};
pub use unreadable::Unreadable;
pub use view::{
    AttachmentView, ChassisView, NodePort, NodeRef, NodeView, PeeringView, PlacedNode, ServiceView,
    SubnetRef, SubnetView, View, VpcRef, VpcView,
};
pub use vip::Vip;
pub use vpc::Vpc;
pub use world::{
    FirstInterface, HeldNetworks, NodeAddressProblem, ObjectKey, Settings, Source, TenantProblem, World,
};
