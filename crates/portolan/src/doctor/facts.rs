//! What is known of a cluster before anything is concluded from it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;
use portolan_agent::examine::facts::{NodeFacts, Outcome, Path};
use serde::Serialize;

/// What the API server says of a cluster.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Facts {
    /// Where the installation is, or would be.
    pub(crate) namespace: String,
    /// The time of the API server, in seconds since 1970, when it was asked.
    pub(crate) now: i64,
    /// By how many seconds its clock is ahead of this machine's; unknown if it does not say.
    pub(crate) ahead: Outcome<i64>,
    pub(crate) version: Outcome<Version>,
    pub(crate) kube_ovn: Outcome<Vec<String>>,
    pub(crate) definitions: Outcome<Vec<Definition>>,
    pub(crate) installation: Outcome<Option<Installed>>,
    pub(crate) members: Outcome<Vec<Member>>,
    pub(crate) certificates: Outcome<Vec<Certificate>>,
    pub(crate) webhook: Outcome<Webhook>,
    pub(crate) api_services: Outcome<Vec<ApiService>>,
    pub(crate) stuck_namespaces: Outcome<Vec<StuckNamespace>>,
    pub(crate) lease: Outcome<Option<Lease>>,
    pub(crate) nodes: Outcome<Vec<Node>>,
    pub(crate) service_networks: Outcome<Vec<IpNet>>,
    pub(crate) subnets: Outcome<Vec<Subnet>>,
    pub(crate) troubled: Outcome<Vec<Troubled>>,
}

/// The version of Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Version {
    pub(crate) text: String,
    /// Of version 1.
    pub(crate) minor: u32,
}

/// A definition of a kind that this version brings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Definition {
    pub(crate) name: String,
    pub(crate) state: DefinitionState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum DefinitionState {
    Missing,
    Current,
    /// It differs from that of this version.
    Differs,
    /// It is another program's, and used as it is.
    SomebodyElses,
}

/// What runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Installed {
    pub(crate) is_primary: bool,
    pub(crate) image: String,
    /// `--cluster-network` of agents.
    pub(crate) cluster_networks: Vec<IpNet>,
    /// Where nodes have network configurations and plugins.
    pub(crate) directories: Option<[String; 2]>,
    pub(crate) workloads: Vec<Workload>,
}

/// A Deployment, DaemonSet or StatefulSet of an installation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Workload {
    /// As in `DaemonSet portolan-system/portolan-agent`.
    pub(crate) title: String,
    pub(crate) name: String,
    pub(crate) wanted: u64,
    pub(crate) ready: u64,
    pub(crate) updated: u64,
    /// Its pods get a new version when somebody deletes them.
    pub(crate) on_delete: bool,
    /// The pods that are not ready, with the reason.
    pub(crate) not_ready: BTreeMap<String, String>,
}

/// A member of OVN's databases.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) address: String,
}

/// A certificate, without its key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Certificate {
    /// Where it is, as in `Secret portolan-system/portolan-webhook-ca, tls.crt`.
    pub(crate) place: String,
    pub(crate) subject: String,
    pub(crate) begins: i64,
    pub(crate) ends: i64,
}

/// Whether the API server reaches the webhook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Webhook {
    /// There is no ValidatingWebhookConfiguration.
    Absent,
    /// It refused what it should refuse.
    Answers,
    /// What it should refuse was accepted.
    DoesNotAnswer,
    /// The API server could not call it, in its words.
    Fails(String),
}

/// An API that another server serves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ApiService {
    pub(crate) name: String,
    pub(crate) is_ours: bool,
    /// Why it is not available.
    pub(crate) problem: Option<String>,
}

/// A namespace that cannot be deleted as long as an API cannot be asked for its objects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StuckNamespace {
    pub(crate) name: String,
    pub(crate) message: String,
}

/// The Lease of the controller that leads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Lease {
    pub(crate) holder: Option<String>,
    pub(crate) renewed: Option<i64>,
    /// For how long, in seconds.
    pub(crate) duration: i64,
}

/// A Node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) is_linux: bool,
    pub(crate) is_ready: bool,
    /// Why not, in the words of its kubelet; none if that says nothing any more.
    pub(crate) not_ready: Option<String>,
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) pod_networks: Vec<IpNet>,
    /// Those of Portolan.
    pub(crate) annotations: BTreeMap<String, String>,
    /// Whether its agent is ready; none if it has none.
    pub(crate) agent: Option<AgentState>,
    /// When its kubelet last said that it lives, by the node's own clock.
    pub(crate) renewed: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum AgentState {
    Ready,
    NotReady,
}

/// The networks of a Subnet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Subnet {
    /// As in `Subnet.kubeovn.io web`.
    pub(crate) title: String,
    pub(crate) networks: Vec<IpNet>,
    /// Whether it does not say with which address its pods leave the cluster, where Portolan is the primary network.
    pub(crate) is_nat_outgoing_unset: bool,
}

/// An object whose conditions say that something is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Troubled {
    /// As in `Subnet.kubeovn.io`.
    pub(crate) kind: String,
    /// With its namespace, if it has one.
    pub(crate) name: String,
    pub(crate) condition: String,
    pub(crate) reason: String,
    pub(crate) message: String,
    /// The command that says more.
    pub(crate) describe: String,
}

/// What became of the examination of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Examined {
    pub(crate) facts: Option<NodeFacts>,
    pub(crate) paths: Option<Vec<Path>>,
    /// Why there is nothing, or not all.
    pub(crate) problem: Option<String>,
    #[serde(skip)]
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    /// What could not be collected, with the reason.
    pub(crate) missing: BTreeMap<String, String>,
}

/// All that is known: the cluster, and its nodes if they were examined.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Known {
    pub(crate) cluster: Facts,
    pub(crate) nodes: Option<BTreeMap<String, Examined>>,
}

impl Facts {
    /// The installation, if there is one and it could be seen.
    pub(crate) fn installed(&self) -> Option<&Installed> {
        self.installation.found()?.as_ref()
    }

    /// The Nodes that could be seen.
    pub(crate) fn all_nodes(&self) -> impl Iterator<Item = &Node> + Clone {
        self.nodes.found().into_iter().flatten()
    }

    /// The MTU of pods that the controller told the nodes, if it is the same everywhere.
    pub(crate) fn pod_mtu(&self) -> Option<u32> {
        let told: BTreeSet<u32> =
            self.all_nodes().filter_map(|node| node.number("portolan.dev/mtu")).collect();
        told.first().copied().filter(|_| told.len() == 1)
    }
}

impl Node {
    pub(crate) fn number(&self, annotation: &str) -> Option<u32> {
        self.annotations.get(annotation)?.parse().ok()
    }

    /// Whether its kubelet works: pods that need no network of pods run there, also where the Node is not ready for lack of one.
    pub(crate) fn is_alive(&self) -> bool {
        self.is_ready || self.not_ready.is_some()
    }

    /// Where its tunnels end, or would end.
    pub(crate) fn tunnel_address(&self) -> Option<IpAddr> {
        let reported = self.annotations.get("portolan.dev/encap-ip").and_then(|text| text.parse().ok());
        reported.or_else(|| self.addresses.first().copied())
    }

    /// The size of the packets that its tunnels send for packets of pods of this size.
    pub(crate) fn outer_size(&self, inner: u32) -> u32 {
        // As `portolan.dev/tunnel-mtu` is computed: UDP, geneve, OVN's option and the Ethernet header inside, and the IP header.
        let header = if self.tunnel_address().is_some_and(|address| address.is_ipv6()) { 40 } else { 20 };
        inner + 38 + header
    }
}
