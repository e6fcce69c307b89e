//! `portolan.dev/v1alpha1`, Portolan's own API group.
//!
//! Field names follow `kubeovn.io/v1` where both groups have the thing. Each kind has a `parse` that gives
//! its content as values, or every [`FieldError`](crate::FieldError) that the object alone can show.

mod ip_lock;
mod lock_name;
mod network_attachment;
mod subnet;
mod vpc;

pub use ip_lock::{
    DecidedInterface, Holder, HolderKind, IPLock, IPLockSpec, IPLockStatus, LockConfig, LockTarget, LockUser,
};
pub use lock_name::{LockAddress, LockDomain, LockName};
pub use network_attachment::{
    AttachmentConfig, NetworkAttachment, NetworkAttachmentSpec, NetworkAttachmentStatus, Tap, TapAccess,
};
pub use subnet::{Subnet, SubnetSpec, SubnetStatus};
pub use vpc::{PolicyRoute, StaticRoute, Vpc, VpcPeering, VpcSpec, VpcStatus};

/// The API group.
pub const GROUP: &str = "portolan.dev";
/// Its version.
pub const VERSION: &str = "v1alpha1";
