//! `k8s.cni.cncf.io`: NetworkAttachmentDefinition.

use kube_core::ResourceExt;
use portolan_api::nad::NetworkAttachmentDefinition;

use crate::nad::Nad;
use crate::unreadable::Unreadable;

/// A NetworkAttachmentDefinition as a value.
pub fn nad(object: &NetworkAttachmentDefinition) -> Nad {
    Nad {
        namespace: object.namespace().unwrap_or_default(),
        name: object.name_any(),
        uid: object.uid().unwrap_or_default(),
        config: object.parse(),
    }
}

/// A NetworkAttachmentDefinition that cannot be decoded.
pub(crate) fn unreadable_nad(object: &Unreadable<'_>) -> Nad {
    Nad {
        namespace: object.namespace(),
        name: object.name(),
        uid: object.uid(),
        config: Err(object.errors()),
    }
}
