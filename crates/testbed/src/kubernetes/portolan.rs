//! Portolan on a cluster whose nodes run Open vSwitch themselves, its processes started by hand: chained after the bridge plugin or,
//! on a cluster without a network, as its primary network.

use portolan_lab::cluster::Programs;
use portolan_lab::{Daemon, Error, OvnCentral, Process, Ready, Result};

use super::{
    Families, Kubernetes, KubernetesNode, Network, PATIENCE, POD_CIDR, POD_CIDR_IPV6, SERVICE_CIDR,
    SERVICE_CIDR_IPV6, ServiceProxy,
};

/// Definitions of all kinds that Portolan serves.
const KINDS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/crds");

/// Portolan's processes.
#[derive(Debug)]
pub struct Portolan {
    agents: Vec<Process>,
    controller: Process,
}

impl Portolan {
    /// Defines Portolan's kinds, starts a controller and agents, and installs the CNI plugin on all nodes.
    pub fn start(cluster: &Kubernetes) -> Result<Self> {
        let central = cluster.ovn().ok_or_else(|| Error::Refused {
            peer: "the cluster".into(),
            answer: "that it was built without Open vSwitch".into(),
        })?;
        cluster.kubectl(&["apply", "--server-side", "-f", KINDS])?;
        cluster.kubectl(&["wait", "--for=condition=Established", "crd", "--all", PATIENCE])?;
        let programs = Programs::built()?;
        let mode = match cluster.network() {
            Network::Bridge => "chained",
            Network::None => "alone",
        };
        let controller = start_controller(cluster, central, &programs)?;
        let agents = cluster.nodes().iter().map(|node| start_agent(cluster, node, &programs));
        let agents = agents.collect::<Result<Vec<_>>>()?;
        for node in cluster.nodes() {
            node.command(programs.portolan())?.args(["agent", "install", "--mode", mode]).read()?;
        }
        if cluster.network() == Network::None {
            cluster.route_to_pods()?;
        }
        Ok(Self { agents, controller })
    }

    /// Starts the agent of a node that was switched off and on.
    pub fn start_agent(&mut self, cluster: &Kubernetes, node: &str) -> Result<()> {
        let nodes = cluster.nodes().iter().zip(&mut self.agents);
        for (node, agent) in nodes.filter(|(one, _)| one.name() == node) {
            *agent = start_agent(cluster, node, &Programs::built()?)?;
        }
        Ok(())
    }

    /// The controller.
    pub fn controller(&self) -> &Process {
        &self.controller
    }

    /// The agents, in the order of their nodes.
    pub fn agents(&self) -> &[Process] {
        &self.agents
    }
}

/// What both are told of what Portolan is to the cluster.
fn role(cluster: &Kubernetes) -> &'static [&'static str] {
    match cluster.network() {
        Network::Bridge => &[],
        Network::None => &["--primary"],
    }
}

/// What agents are told of the networks of pods, and of Services that the nodes serve.
fn networks_for_agents(cluster: &Kubernetes) -> Vec<String> {
    match cluster.network() {
        // The first interfaces of pods keep what leads there.
        Network::Bridge => {
            networks(cluster).concat().iter().map(|network| format!("--cluster-network={network}")).collect()
        }
        Network::None => {
            let [pods, services] = networks(cluster);
            let pods = pods.iter().map(|network| format!("--cluster-network={network}"));
            let services = services.iter().map(|network| format!("--service-network={network}"));
            let serves = serves_services(cluster).then(|| "--serve-services".to_owned());
            pods.chain(services).chain(serves).collect()
        }
    }
}

/// What the controller is told of the cluster's own networks.
fn networks_for_controller(cluster: &Kubernetes) -> Vec<String> {
    match cluster.network() {
        Network::Bridge => Vec::new(),
        Network::None => {
            let [_, services] = networks(cluster);
            let served = services.iter().filter(|_| serves_services(cluster));
            let served = served.map(|network| format!("--service-cidr={network}"));
            let all = networks(cluster).concat();
            all.iter().map(|network| format!("--cluster-network={network}")).chain(served).collect()
        }
    }
}

/// Whether Portolan serves Services: as the primary network, where nobody else does.
fn serves_services(cluster: &Kubernetes) -> bool {
    cluster.network() == Network::None && cluster.service_proxy() == ServiceProxy::None
}

/// The networks of pods, and of Services.
fn networks(cluster: &Kubernetes) -> [&'static [&'static str]; 2] {
    match cluster.families() {
        Families::Ipv4 => [&[POD_CIDR], &[SERVICE_CIDR]],
        Families::Both => [&[POD_CIDR, POD_CIDR_IPV6], &[SERVICE_CIDR, SERVICE_CIDR_IPV6]],
    }
}

fn start_controller(cluster: &Kubernetes, central: &OvnCentral, programs: &Programs) -> Result<Process> {
    Daemon::new("controller", programs.portolan())
        .args(["controller", "--leader-election=false", "--ovn-nb", &central.nb().endpoint()])
        .args(["--ovn-sb", &central.sb().endpoint(), "--kubeconfig"])
        .arg(kubeconfig(cluster, "portolan-controller")?)
        .args(role(cluster))
        .args(networks_for_controller(cluster))
        .start(cluster.lab().home())
}

fn start_agent(cluster: &Kubernetes, node: &KubernetesNode, programs: &Programs) -> Result<Process> {
    Daemon::new(format!("{}/agent", node.name()), programs.portolan())
        .args(["agent", "--log=info,portolan_agent=debug", "--node", node.name(), "--kubeconfig"])
        .arg(kubeconfig(cluster, &format!("portolan-agent-{}", node.name()))?)
        .args(role(cluster))
        .args(networks_for_agents(cluster))
        .ready(Ready::Notify)
        .start(node.running()?.machine().namespace())
}

fn kubeconfig(cluster: &Kubernetes, user: &str) -> Result<std::path::PathBuf> {
    let home = cluster.underlay().home_address();
    cluster.api_server().kubeconfig_for(user, Some("system:masters"), home.into())
}
