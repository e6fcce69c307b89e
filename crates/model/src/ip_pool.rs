//! Pools: addresses of a subnet that are kept for those who name the pool, or whose namespace does.

use portolan_api::FieldErrors;
use portolan_api::kubeovn::IpPoolConfig;

/// A pool of addresses.
#[derive(Clone, Debug, PartialEq)]
pub struct IpPool {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// What it says, or what is wrong with it.
    pub config: Result<IpPoolConfig, FieldErrors>,
}
