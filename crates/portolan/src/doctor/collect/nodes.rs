//! Of nodes, as their objects say.

use std::collections::BTreeMap;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node as NodeObject, Pod};
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};
use portolan_agent::examine::facts::Outcome;

use super::super::facts::{AgentState, Node};
use super::Ask;

pub(super) async fn all(ask: &Ask<'_>) -> Outcome<Vec<Node>> {
    Outcome::of(nodes(ask).await)
}

async fn nodes(ask: &Ask<'_>) -> anyhow::Result<Vec<Node>> {
    let client = || ask.cluster.client.clone();
    let pods: Api<Pod> = Api::namespaced(client(), ask.namespace);
    let leases: Api<Lease> = Api::namespaced(client(), "kube-node-lease");
    let agents = ListParams::default().labels("app=portolan-agent");
    let nodes = ask.all::<NodeObject>();
    let none = ListParams::default();
    let (nodes, pods, leases) = futures::try_join!(
        ask.list(&nodes, "the list of Nodes", &none),
        ask.list(&pods, "the list of Pods", &agents),
        ask.list(&leases, "the list of Leases in namespace kube-node-lease", &none),
    )?;
    let renewed: BTreeMap<String, i64> = leases
        .iter()
        .filter_map(|lease| Some((lease.name_any(), lease.spec.as_ref()?.renew_time.as_ref()?.0.as_second())))
        .collect();
    let agents: BTreeMap<String, AgentState> = pods.iter().filter_map(agent).collect();
    Ok(nodes.into_iter().map(|node| read(node, &agents, &renewed)).collect())
}

/// The node of an agent, and whether it is ready.
fn agent(pod: &Pod) -> Option<(String, AgentState)> {
    let node = pod.spec.as_ref()?.node_name.clone()?;
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    let is_ready = conditions.into_iter().flatten().any(|one| one.type_ == "Ready" && one.status == "True");
    Some((node, if is_ready { AgentState::Ready } else { AgentState::NotReady }))
}

fn read(node: NodeObject, agents: &BTreeMap<String, AgentState>, renewed: &BTreeMap<String, i64>) -> Node {
    let name = node.name_any();
    let ours = node.annotations().iter().filter(|(key, _)| key.starts_with("portolan.dev/"));
    let annotations = ours.map(|(key, value)| (key.clone(), value.clone())).collect();
    let is_linux = node.labels().get("kubernetes.io/os").is_none_or(|os| os == "linux");
    let (spec, status) = (node.spec.unwrap_or_default(), node.status.unwrap_or_default());
    let internal = status.addresses.iter().flatten().filter(|one| one.type_ == "InternalIP");
    let mut conditions = status.conditions.iter().flatten();
    let ready = conditions.find(|one| one.type_ == "Ready");
    // Of a kubelet that does not answer, `Unknown` is said in its place.
    let not_ready = ready.filter(|one| one.status == "False");
    Node {
        is_linux,
        is_ready: ready.is_some_and(|one| one.status == "True"),
        not_ready: not_ready.map(|one| one.message.clone().unwrap_or_default()),
        addresses: internal.filter_map(|one| one.address.parse().ok()).collect(),
        pod_networks: spec.pod_cidrs.iter().flatten().filter_map(|text| text.parse().ok()).collect(),
        annotations,
        agent: agents.get(&name).copied(),
        renewed: renewed.get(&name).copied(),
        name,
    }
}
