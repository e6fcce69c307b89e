//! The annotations of Nodes by which agents are told what was decided about their nodes.

use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use portolan_model::node::{MTU_ANNOTATION, POD_CIDRS_ANNOTATION};
use portolan_watch::{Plain, is_not_found};
use serde_json::{Map, Value, json};

use super::writer::Write;

/// Writes them, through the status subresource: whoever may write it need not be able to change Nodes.
pub(crate) struct NodeWriter(pub(crate) Client);

/// What a Node is to say.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct NodeAnnotations {
    mtu: Option<u16>,
    /// The prefixes of its pods, with the UID of the Node that they were found free of clashes for.
    pod_cidrs: Option<(String, String)>,
}

impl NodeAnnotations {
    /// The MTU of pods on subnets that name none.
    pub(crate) fn mtu(mtu: u16) -> Self {
        Self { mtu: Some(mtu), pod_cidrs: None }
    }

    /// Which prefixes of its pods are used.
    pub(crate) fn pod_cidrs(uid: String, cidrs: String) -> Self {
        Self { mtu: None, pod_cidrs: Some((uid, cidrs)) }
    }

    fn patch(&self) -> Value {
        let mut annotations = Map::new();
        annotations.extend(self.mtu.map(|mtu| (MTU_ANNOTATION.to_owned(), json!(mtu.to_string()))));
        let mut metadata = Map::new();
        if let Some((uid, cidrs)) = &self.pod_cidrs {
            annotations.insert(POD_CIDRS_ANNOTATION.to_owned(), json!(cidrs));
            metadata.insert("uid".to_owned(), json!(uid));
        }
        metadata.insert("annotations".to_owned(), annotations.into());
        json!({"metadata": metadata})
    }
}

impl Write for NodeWriter {
    type Key = String;
    type Value = NodeAnnotations;
    const ATTEMPTS: Option<u32> = None;

    fn merge(older: NodeAnnotations, newer: NodeAnnotations) -> NodeAnnotations {
        NodeAnnotations { mtu: newer.mtu.or(older.mtu), pod_cidrs: newer.pod_cidrs.or(older.pod_cidrs) }
    }

    async fn write(&self, node: String, wanted: NodeAnnotations) -> Result<(), String> {
        let mut written = self.patch(&node, &wanted).await;
        // Another Node has the name by now: its prefixes are judged by themselves, and its MTU is the same.
        if let (Err(kube::Error::Api(status)), NodeAnnotations { mtu, pod_cidrs: Some(_) }) =
            (&written, &wanted)
            && status.is_conflict()
        {
            written = match mtu {
                None => return Ok(()),
                Some(mtu) => self.patch(&node, &NodeAnnotations::mtu(*mtu)).await,
            };
        }
        match written {
            Ok(()) => Ok(()),
            Err(error) if is_not_found::<Node>(&error, &node) => Ok(()),
            Err(error) => Err(format!("the annotations of the Node cannot be written: {}", Plain(&error))),
        }
    }
}

impl NodeWriter {
    async fn patch(&self, node: &str, wanted: &NodeAnnotations) -> kube::Result<()> {
        let api = Api::<Node>::all(self.0.clone());
        api.patch_status(node, &PatchParams::default(), &Patch::Merge(wanted.patch())).await?;
        let pod_cidrs = wanted.pod_cidrs.as_ref().map(|(_, cidrs)| cidrs);
        tracing::info!(node, mtu = wanted.mtu, pod_cidrs, "told the agent what was decided");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wanted_of_one_node_is_written_together() {
        let [mtu, cidrs] =
            [NodeAnnotations::mtu(1400), NodeAnnotations::pod_cidrs("u1".into(), "10.1.0.0/24".into())];
        let both = NodeWriter::merge(mtu.clone(), cidrs.clone());
        let annotations = json!({MTU_ANNOTATION: "1400", POD_CIDRS_ANNOTATION: "10.1.0.0/24"});
        assert_eq!(both.patch(), json!({"metadata": {"uid": "u1", "annotations": annotations}}));
        assert_eq!(NodeWriter::merge(cidrs, mtu.clone()), both);
        // Any Node of the name may be told the MTU.
        assert_eq!(mtu.patch(), json!({"metadata": {"annotations": {MTU_ANNOTATION: "1400"}}}));
    }
}
