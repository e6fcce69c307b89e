//! The annotations of Nodes by which agents are told what was decided about their nodes.

use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use portolan_model::node::{MTU_ANNOTATION, POD_CIDRS_ANNOTATION};
use portolan_watch::{Plain, is_not_found};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc::Sender;

use super::is_refusal;
use super::writer::Write;
use crate::control::Message;

/// Writes them, through the status subresource: whoever may write it need not be able to change Nodes.
pub(crate) struct NodeWriter {
    client: Client,
    engine: Sender<Message>,
}

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

    /// Whether a Node says all of this.
    fn are_said_by(&self, node: &Node) -> bool {
        let says = |name: &str, value: &str| node.annotations().get(name).is_some_and(|said| said == value);
        self.mtu.is_none_or(|mtu| says(MTU_ANNOTATION, &mtu.to_string()))
            && self.pod_cidrs.as_ref().is_none_or(|(_, cidrs)| says(POD_CIDRS_ANNOTATION, cidrs))
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
        let (why, is_refused) = match written {
            Ok(stored) if wanted.are_said_by(&stored) => {
                let pod_cidrs = wanted.pod_cidrs.as_ref().map(|(_, cidrs)| cidrs);
                tracing::info!(node, mtu = wanted.mtu, pod_cidrs, "told the agent what was decided");
                return Ok(());
            }
            Ok(_) => {
                ("something, as a webhook of others, takes them away as they are written".to_owned(), true)
            }
            Err(error) if is_not_found::<Node>(&error, &node) => return Ok(()),
            Err(error) => {
                let is_refused = matches!(&error, kube::Error::Api(status) if is_refusal(status));
                (Plain(&error).to_string(), is_refused)
            }
        };
        if let (true, Some((uid, _))) = (is_refused, wanted.pod_cidrs) {
            let (name, refused) = (node, why.clone());
            let told = Message::new(move |engine| engine.prefixes_not_told(&name, &uid, &refused));
            // A loop that has ended tells nobody.
            drop(self.engine.send(told).await);
        }
        Err(format!("the annotations of the Node cannot be written: {why}"))
    }
}

impl NodeWriter {
    pub(crate) fn new(client: Client, engine: Sender<Message>) -> Self {
        NodeWriter { client, engine }
    }

    async fn patch(&self, node: &str, wanted: &NodeAnnotations) -> kube::Result<Node> {
        let api = Api::<Node>::all(self.client.clone());
        api.patch_status(node, &PatchParams::default(), &Patch::Merge(wanted.patch())).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_from_which_it_was_taken_away_does_not_say_it() {
        let wanted = NodeAnnotations {
            mtu: Some(1400),
            ..NodeAnnotations::pod_cidrs("u1".into(), "10.1.0.0/24".into())
        };
        let node = |annotations: Value| -> Node {
            serde_json::from_value(json!({"metadata": {"name": "n1", "annotations": annotations}}))
                .expect("a Node")
        };
        let both = json!({MTU_ANNOTATION: "1400", POD_CIDRS_ANNOTATION: "10.1.0.0/24"});
        assert!(wanted.are_said_by(&node(both)));
        for lacks in
            [json!({MTU_ANNOTATION: "1400"}), json!({POD_CIDRS_ANNOTATION: "10.1.0.0/24"}), json!({})]
        {
            assert!(!wanted.are_said_by(&node(lacks.clone())), "{lacks}");
        }
    }

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
