//! Vips: addresses of a subnet that are kept for no interface in particular.

use portolan_api::FieldErrors;
use portolan_api::kubeovn::VipConfig;

/// An address that is kept for no interface in particular.
#[derive(Clone, Debug, PartialEq)]
pub struct Vip {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// What it is for, in the words of the object; empty if it says nothing.
    pub type_: String,
    /// What it asks for, or what is wrong with it.
    pub config: Result<VipConfig, FieldErrors>,
}
