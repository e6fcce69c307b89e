//! What the agent found, as annotations of its Node. Written when they differ, and tried again for ever.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams};
use portolan_model::node::{
    CHASSIS_ANNOTATION, PRIMARY_ANNOTATION, PROBLEM_ANNOTATION, TUNNEL_MTU_ANNOTATION,
};
use portolan_watch::{Plain, Retries};
use serde_json::{Map, Value, json};
use tokio::time::{Instant, sleep_until};

use super::NodeFacts;
use super::desired::Encapsulation;
use crate::server::Agent;

const DATAPATH: &str = "portolan.dev/datapath";
const ENCAP_IP: &str = "portolan.dev/encap-ip";
const OVS_VERSION: &str = "portolan.dev/ovs-version";

/// Pauses after a write that failed.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// How long less must fit into tunnels until the Node says so. The controller tells all pods the smallest MTU of all nodes, and never a larger
/// one again: a link that is small for a moment, as while its driver starts anew, must not count.
const FALL_LASTS: Duration = Duration::from_secs(10);

/// Since when less fits into tunnels than the Node said last.
#[derive(Debug, Default)]
struct Fall {
    since: Option<Instant>,
    /// Where the tunnels ended of which the Node said last what fits into them, and that: a link that goes and comes back, as while somebody
    /// makes it anew, may be small at first too.
    said: Option<(String, u32)>,
}

/// What is to be on the Node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Report {
    /// The name of its chassis.
    pub(crate) chassis: String,
    pub(crate) datapath: &'static str,
    /// Whether the agent makes pods' first interfaces: the controller must agree.
    pub(crate) is_primary: bool,
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
            (PRIMARY_ANNOTATION, Some(self.is_primary.to_string())),
            (PROBLEM_ANNOTATION, self.problem.clone()),
        ])
    }

    /// The annotations that the Node lacks, has with other values, or has too many.
    fn differences(&self, node: &NodeFacts) -> Map<String, Value> {
        let differs = |(key, value): &(&str, Option<String>)| node.annotations.get(*key) != value.as_ref();
        let different = self.annotations().into_iter().filter(differs);
        different.map(|(key, value)| (key.to_owned(), json!(value))).collect()
    }
}

impl Fall {
    /// Leaves out of a patch what fits into tunnels, if it fell a moment ago. Answers when it is to be written, if nothing changes until then.
    fn hold_back(
        &mut self,
        patch: &mut Map<String, Value>,
        report: &Report,
        node: &NodeFacts,
        now: Instant,
    ) -> Option<Instant> {
        let mtu = node.annotations.get(TUNNEL_MTU_ANNOTATION).and_then(|said| said.parse().ok());
        if let (Some(address), Some(mtu)) = (node.annotations.get(ENCAP_IP), mtu) {
            self.said = Some((address.clone(), mtu));
        }
        let falls =
            report.encapsulation.as_ref().zip(self.said.as_ref()).is_some_and(|(is, (address, said))| {
                // Somebody who chooses another end of tunnels means it.
                *address == is.address.to_string() && is.tunnel_mtu() < *said
            });
        if !falls {
            self.since = None;
            return None;
        }
        let due = *self.since.get_or_insert(now) + FALL_LASTS;
        if due <= now {
            return None;
        }
        patch.remove(TUNNEL_MTU_ANNOTATION);
        Some(due)
    }
}

/// Writes for as long as the agent runs.
pub(crate) async fn run(agent: &Agent) -> Infallible {
    let api = Api::<Node>::all(agent.client.clone());
    let mut states = agent.chassis.subscribe();
    let mut network = agent.node_network.subscribe();
    let mut services = agent.services.subscribe();
    let mut cluster = agent.cluster.revisions_of_node();
    let mut forwarding = agent.forwarding.subscribe();
    let mut later = Retries::new(FIRST_PAUSE, LONGEST_PAUSE);
    let mut fall = Fall::default();
    loop {
        let mut report = states.borrow_and_update().report.clone();
        let problem = network.borrow_and_update().problem();
        let of_services = services.borrow_and_update().problem();
        let stopped = forwarding.borrow_and_update().clone();
        if let Some(report) = &mut report {
            let problems: Vec<String> =
                report.problem.take().into_iter().chain(problem).chain(of_services).chain(stopped).collect();
            report.problem = (!problems.is_empty()).then(|| problems.join("; "));
        }
        cluster.borrow_and_update();
        let node = agent.cluster.read(|known| known.node.clone());
        let (mut patch, mut due) = (Map::new(), None);
        if let Some(report) = report.filter(|_| node.exists) {
            patch = report.differences(&node);
            due = fall.hold_back(&mut patch, &report, &node, Instant::now());
        }
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
            changed = network.changed() => changed.expect("invariant: the agent keeps the sender alive"),
            changed = services.changed() => changed.expect("invariant: the agent keeps the sender alive"),
            changed = forwarding.changed() => changed.expect("invariant: the agent keeps the sender alive"),
            changed = cluster.changed() => changed.expect("invariant: the agent keeps the sender alive"),
            () = later.wait() => drop(later.take_due(Instant::now())),
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(link_mtu: u32, address: &str) -> Report {
        let address = address.parse().expect("an address");
        Report {
            chassis: "node1".into(),
            datapath: "system",
            is_primary: false,
            encapsulation: Some(Encapsulation { address, link: "eth0".into(), link_mtu }),
            version: None,
            problem: None,
        }
    }

    /// A Node that says what a report does.
    fn node(report: &Report) -> NodeFacts {
        let said = report.annotations().into_iter();
        let annotations = said.filter_map(|(key, value)| Some((key.to_owned(), value?))).collect();
        NodeFacts { exists: true, annotations, ..NodeFacts::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn what_fits_into_tunnels_falls_only_once_that_has_lasted_and_rises_at_once() {
        let mut fall = Fall::default();
        let mut said = |is: &Report, node: &NodeFacts| {
            let mut patch = is.differences(node);
            let due = fall.hold_back(&mut patch, is, node, Instant::now());
            (patch.get(TUNNEL_MTU_ANNOTATION).and_then(Value::as_str).map(str::to_owned), due)
        };
        let usual = node(&report(1500, "192.0.2.1"));
        let small = report(1400, "192.0.2.1");
        // A node that says nothing yet says what is.
        assert_eq!(said(&small, &NodeFacts::default()), (Some("1342".into()), None));
        let begun = Instant::now();
        assert_eq!(said(&small, &usual), (None, Some(begun + FALL_LASTS)));
        tokio::time::advance(FALL_LASTS / 2).await;
        // Even less: that is said together.
        assert_eq!(said(&report(1300, "192.0.2.1"), &usual), (None, Some(begun + FALL_LASTS)));
        assert_eq!(said(&report(1500, "192.0.2.1"), &usual), (None, None), "it was for a moment");
        tokio::time::advance(FALL_LASTS).await;
        let begun = Instant::now();
        assert_eq!(said(&small, &usual), (None, Some(begun + FALL_LASTS)));
        tokio::time::advance(FALL_LASTS).await;
        assert_eq!(said(&small, &usual), (Some("1342".into()), None));
        assert_eq!(said(&report(9000, "192.0.2.1"), &usual), (Some("8942".into()), None));
        assert_eq!(
            said(&report(1400, "192.0.2.2"), &usual),
            (Some("1342".into()), None),
            "somebody chose it"
        );
        // The link goes, which is said at once, and is made anew; it is not given its size at once.
        let mut nowhere = report(1500, "192.0.2.1");
        nowhere.encapsulation = None;
        assert_eq!(said(&nowhere, &usual), (None, None));
        let without = node(&nowhere);
        tokio::time::advance(FALL_LASTS).await;
        let begun = Instant::now();
        assert_eq!(said(&small, &without), (None, Some(begun + FALL_LASTS)));
        assert_eq!(said(&report(1500, "192.0.2.1"), &without), (Some("1442".into()), None));
        assert_eq!(said(&small, &without), (None, Some(begun + FALL_LASTS)));
        tokio::time::advance(FALL_LASTS).await;
        assert_eq!(said(&small, &without), (Some("1342".into()), None));
        // All else is said at once.
        let mut other = report(1400, "192.0.2.1");
        other.version = Some("3.1.0".into());
        let mut patch = other.differences(&usual);
        assert!(Fall::default().hold_back(&mut patch, &other, &usual, Instant::now()).is_some());
        assert_eq!(patch.keys().collect::<Vec<_>>(), [OVS_VERSION]);
    }
}
