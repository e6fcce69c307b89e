//! Network attachment definitions as the World holds them.

use portolan_api::FieldErrors;
use portolan_api::nad::NadConfig;

/// A network that pods can ask for by name.
#[derive(Clone, Debug, PartialEq)]
pub struct Nad {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The object's UID.
    pub uid: String,
    /// Whose network it is, or what is wrong with it.
    pub config: Result<NadConfig, FieldErrors>,
}
