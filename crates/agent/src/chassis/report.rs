//! What the agent found, as annotations of its Node. Written when they differ, and tried again for ever.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams};
use portolan_model::node::{CHASSIS_ANNOTATION, TUNNEL_MTU_ANNOTATION};
use portolan_watch::{Plain, Retries};
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::NodeFacts;
use super::desired::Encapsulation;
use crate::server::Agent;

const DATAPATH: &str = "portolan.dev/datapath";
const ENCAP_IP: &str = "portolan.dev/encap-ip";
const OVS_VERSION: &str = "portolan.dev/ovs-version";
const PROBLEM: &str = "portolan.dev/problem";

/// Pauses after a write that failed.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// What is to be on the Node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Report {
    /// The name of its chassis.
    pub(crate) chassis: String,
    pub(crate) datapath: &'static str,
    pub(crate) encapsulation: Option<Encapsulation>,
    /// Of Open vSwitch.
    pub(crate) version: Option<String>,
    pub(crate) problem: Option<String>,
}

impl Report {
    fn annotations(&self) -> BTreeMap<&'static str, Option<String>> {
        let encapsulation = self.encapsulation.as_ref();
        BTreeMap::from([
            (CHASSIS_ANNOTATION, Some(self.chassis.clone())),
            (DATAPATH, Some(self.datapath.to_owned())),
            (ENCAP_IP, encapsulation.map(|one| one.address.to_string())),
            (TUNNEL_MTU_ANNOTATION, encapsulation.map(|one| one.tunnel_mtu().to_string())),
            (OVS_VERSION, self.version.clone()),
            (PROBLEM, self.problem.clone()),
        ])
    }

    /// The annotations that the Node lacks, has with other values, or has too many.
    fn differences(&self, node: &NodeFacts) -> Map<String, Value> {
        let differs = |(key, value): &(&str, Option<String>)| node.annotations.get(*key) != value.as_ref();
        let different = self.annotations().into_iter().filter(differs);
        different.map(|(key, value)| (key.to_owned(), json!(value))).collect()
    }
}

/// Writes for as long as the agent runs.
pub(crate) async fn run(agent: &Agent) -> Infallible {
    let api = Api::<Node>::all(agent.client.clone());
    let mut states = agent.chassis.subscribe();
    let mut cluster = agent.cluster.revisions();
    let mut later = Retries::new(FIRST_PAUSE, LONGEST_PAUSE);
    loop {
        let report = states.borrow_and_update().report.clone();
        cluster.borrow_and_update();
        let node = agent.cluster.read(|known| known.node.clone());
        let patch =
            report.filter(|_| node.exists).map(|report| report.differences(&node)).unwrap_or_default();
        if !patch.is_empty() && later.next_due().is_none() {
            let patch = Patch::Merge(json!({ "metadata": { "annotations": patch } }));
            match api.patch_metadata(&agent.config.node, &PatchParams::default(), &patch).await {
                Ok(_) => {}
                // It went meanwhile.
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(error) => {
                    tracing::warn!(error = %Plain(&error), "cannot report on the Node yet");
                }
            }
            // Also after a success: until the watch shows it, the same would be written again.
            later.failed((), Instant::now());
        }
        tokio::select! {
            changed = states.changed() => changed.expect("invariant: the agent keeps the sender alive"),
            changed = cluster.changed() => changed.expect("invariant: the agent keeps the sender alive"),
            () = later.wait() => drop(later.take_due(Instant::now())),
        }
    }
}
