//! Whether an object that others use may vanish.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use portolan_api::finalizer::IN_USE;

/// How far a VPC or Subnet is in its life. New addresses are taken only in what is [`Life::Protected`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Life {
    /// It has no finalizer of ours yet: whoever deletes it takes it from under those who use it.
    #[default]
    Unprotected,
    /// It stays until the controller lets it go.
    Protected,
    /// Someone deleted it. Whoever uses it may go on; nobody new may begin.
    Terminating,
}

impl Life {
    /// Of an object.
    pub fn of(metadata: &ObjectMeta) -> Self {
        if metadata.deletion_timestamp.is_some() {
            Life::Terminating
        } else if is_protected(metadata) {
            Life::Protected
        } else {
            Life::Unprotected
        }
    }
}

/// True if an object has the finalizer.
pub fn is_protected(metadata: &ObjectMeta) -> bool {
    metadata.finalizers.iter().flatten().any(|finalizer| finalizer == IN_USE)
}
