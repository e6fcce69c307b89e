//! The annotations that tell agents the MTU of pods.

use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use portolan_model::node::MTU_ANNOTATION;
use portolan_watch::{Plain, is_not_found};
use serde_json::json;

use super::writer::Write;

/// Writes the annotation, through the status subresource: whoever may write it need not be able to change Nodes.
pub(crate) struct NodeMtuWriter(pub(crate) Client);

impl Write for NodeMtuWriter {
    type Key = String;
    type Value = u16;
    const ATTEMPTS: Option<u32> = None;

    fn merge(_: u16, newer: u16) -> u16 {
        newer
    }

    async fn write(&self, node: String, mtu: u16) -> Result<(), String> {
        let api = Api::<Node>::all(self.0.clone());
        let patch = json!({"metadata": {"annotations": {MTU_ANNOTATION: mtu.to_string()}}});
        match api.patch_status(&node, &PatchParams::default(), &Patch::Merge(patch)).await {
            Ok(_) => {
                tracing::info!(node, mtu, "told the agent the MTU of new pods");
                Ok(())
            }
            Err(error) if is_not_found::<Node>(&error, &node) => Ok(()),
            Err(error) => Err(format!("the MTU of pods cannot be written on the Node: {}", Plain(&error))),
        }
    }
}
