//! `portolan.dev`: NetworkAttachment.

use kube_core::ResourceExt;
use portolan_api::FieldErrors;
use portolan_api::portolan::{AttachmentConfig, NetworkAttachment};

use crate::unreadable::Unreadable;

/// A `NetworkAttachment` as the World holds it.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestedAttachment {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The object's UID.
    pub uid: String,
    /// What it asks for, or what is wrong with it.
    pub config: Result<AttachmentConfig, FieldErrors>,
}

/// A NetworkAttachment as a value.
pub fn network_attachment(object: &NetworkAttachment) -> RequestedAttachment {
    RequestedAttachment {
        namespace: object.namespace().unwrap_or_default(),
        name: object.name_any(),
        uid: object.uid().unwrap_or_default(),
        config: object.parse(),
    }
}

/// A NetworkAttachment that cannot be decoded.
pub(crate) fn unreadable_network_attachment(object: &Unreadable<'_>) -> RequestedAttachment {
    RequestedAttachment {
        namespace: object.namespace(),
        name: object.name(),
        uid: object.uid(),
        config: Err(object.errors()),
    }
}
