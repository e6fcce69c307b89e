//! `k8s.cni.cncf.io`: NetworkAttachmentDefinition.

use kube_core::ResourceExt;
use portolan_api::nad::NetworkAttachmentDefinition;

use crate::nad::Nad;

/// A NetworkAttachmentDefinition as a value.
pub fn nad(object: &NetworkAttachmentDefinition) -> Nad {
    Nad {
        namespace: object.namespace().unwrap_or_default(),
        name: object.name_any(),
        uid: object.uid().unwrap_or_default(),
        config: object.parse(),
    }
}
