//! `portolan agent`.

mod examine;
mod install;
mod uninstall;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use futures::future::OptionFuture;
use ipnet::IpNet;
use ovsdb::Endpoint;
use portolan_agent::{ChassisSettings, Encap};
use portolan_daemons::Transport;
use tokio::sync::watch;

use crate::api_servers::ApiServerArguments;
use crate::controller::listen_address;
use crate::ovn_addresses::{OvnAddresses, Place, tell};

/// `portolan agent` runs the agent; its subcommands are about the node it is to run on.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Invocation {
    #[command(subcommand)]
    subcommand: Option<AgentCommand>,
    #[command(flatten)]
    run: Option<Arguments>,
    // Not within the others: clap would not see then that these were given.
    #[command(flatten)]
    api: ApiServerArguments,
}

#[derive(Debug, Subcommand)]
enum AgentCommand {
    /// Put the CNI plugin and its network configuration where this node's container runtime looks for them, once the agent is ready.
    Install(install::Arguments),
    /// Remove from this node what `portolan agent install` put there. Pods that run keep their interfaces.
    Uninstall(uninstall::Arguments),
    /// Say what this node has and what passes on the way to others: `portolan doctor` runs it.
    #[command(hide = true)]
    Examine(examine::Arguments),
}

/// More do not make the agent faster: what takes time is the kernel's, and Open vSwitch's.
const MOST_WORKERS: usize = 4;

/// Every node has an agent, and its memory is for pods: it does not grow with the number of processors. To be called before there are threads.
pub(crate) fn keep_small(runtime: &mut tokio::runtime::Builder) {
    portolan_agent::keep_small();
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    runtime.worker_threads(processors.min(MOST_WORKERS));
}

pub(crate) async fn start(invocation: Invocation, stop: impl Future<Output = ()>) -> anyhow::Result<()> {
    match (invocation.subcommand, invocation.run) {
        (Some(AgentCommand::Install(arguments)), _) => install::run(arguments, stop).await,
        (Some(AgentCommand::Uninstall(arguments)), _) => uninstall::run(arguments, stop).await,
        (Some(AgentCommand::Examine(arguments)), _) => examine::run(arguments, stop).await,
        (None, Some(arguments)) => run(arguments, invocation.api, stop).await,
        (None, None) => anyhow::bail!("--node is missing"),
    }
}

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The name of this node.
    #[arg(long, value_name = "NAME")]
    node: String,
    /// This node's Open vSwitch database; `unix:/run/openvswitch/db.sock` unless given.
    #[arg(long, value_name = "ENDPOINT")]
    ovsdb: Option<Endpoint>,
    /// Make pods' first interfaces too: Portolan is the cluster's primary network. Controller and agents must agree. Without it another
    /// plugin makes them, and Portolan makes further ones.
    #[arg(long)]
    primary: bool,
    /// Remove from this node what an earlier agent made with --primary: the port portolan0 with its routes, and the table inet portolan of
    /// nftables. Pods that still have interfaces by it do not reach the node any more, nor what is outside: delete them first.
    #[arg(long, conflicts_with = "primary")]
    remove_primary: bool,
    /// Where to listen for the CNI plugin.
    #[arg(long, value_name = "PATH")]
    cni_socket: Option<PathBuf>,
    /// A network of the cluster's pods or services; may be repeated. When a further interface takes a pod's default route, these
    /// stay reachable by the pod's first interface, as the node's own addresses always do.
    #[arg(long, value_name = "CIDR")]
    cluster_network: Vec<IpNet>,
    /// A network of the cluster's Services that something else serves on the nodes, such as kube-proxy; may be repeated. With --primary it is
    /// reached by pods' first interfaces like --cluster-network, and not routed to pods.
    #[arg(long, value_name = "CIDR")]
    service_network: Vec<IpNet>,
    /// Where this node's tunnels end: an interface, or an address of this node. Without it: the Node's first InternalIP. The Node's
    /// annotation ovn.kubernetes.io/tunnel_interface has precedence.
    #[arg(long, value_name = "INTERFACE|ADDRESS")]
    encap: Option<Encap>,
    /// OVN's southbound database, all its members, for this node's ovn-controller, such as tcp:192.0.2.1:6642,tcp:192.0.2.2:6642.
    /// Without it: what is set in Open vSwitch stays.
    #[arg(long, value_name = "ENDPOINTS")]
    ovn_sb: Option<String>,
    /// The ConfigMap, NAMESPACE/NAME, in which the members of ovn-central write their addresses; instead of --ovn-sb.
    #[arg(long, value_name = "CONFIGMAP", conflicts_with = "ovn_sb")]
    ovn_addresses: Option<Place>,
    /// This node's ovn-controller is to reach the database there by TLS. The certificates are its own business: the agent has none.
    #[arg(long, requires = "ovn_addresses")]
    ovn_tls: bool,
    /// Serve /healthz, /readyz and /metrics over plain HTTP at this address, and /debug/node to connections from this host; a port
    /// alone means 127.0.0.1. Not served unless given.
    #[arg(long, value_name = "[HOST:]PORT", value_parser = listen_address)]
    health_address: Option<SocketAddr>,
}

async fn run(
    arguments: Arguments,
    api: ApiServerArguments,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let api = api.reach("portolan-agent").await?;
    let mut config = portolan_agent::Config::new(arguments.node, api.servers.clone());
    config.settings.first_interface = crate::first_interface(arguments.primary, arguments.remove_primary);
    if let Some(ovsdb) = arguments.ovsdb {
        config.ovsdb = ovsdb;
    }
    if let Some(socket) = arguments.cni_socket {
        config.cni_socket = socket;
    }
    config.cluster_networks = arguments.cluster_network;
    config.service_networks = arguments.service_network;
    config.health = arguments.health_address;
    config.chassis = ChassisSettings { encap: arguments.encap, southbound: arguments.ovn_sb };
    let addresses = match arguments.ovn_addresses {
        None => None,
        Some(place) => {
            let (sender, told) = watch::channel(None);
            config.southbound = Some(told);
            let addresses = OvnAddresses::follow(&api.client()?, place);
            let transport = if arguments.ovn_tls { Transport::Tls } else { Transport::Tcp };
            Some(tell(addresses, transport, sender))
        }
    };
    tokio::select! {
        ended = portolan_agent::run(config, crate::notify::ready) => ended,
        Some(ended) = OptionFuture::from(addresses) => match ended? {},
        ended = api.follow() => match ended? {},
        () = stop => Ok(()),
    }
}
