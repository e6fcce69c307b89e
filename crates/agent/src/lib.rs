//! The node's side of Portolan: it answers the CNI plugin, plugs pods into Open vSwitch and configures their ends.
//!
//! ```text
//!  portolan-cni ──▶ server ──▶ call ──▶ add ─┬─▶ cluster: pods and locks of this node, subnets   (watches → World)
//!                                  └──▶ del ─┼─▶ vswitch: ports of br-int, ovn-installed          (OVSDB)
//!                                            └─▶ links: pairs, addresses, routes, announcements   (netlink)
//! ```
//!
//! Everything it makes carries the container's id and the call's interface name, in rows and on links, and is found again by these:
//! DEL needs neither the API server nor a memory of what ADD did. Nothing here polls; ADD waits on the watches and on the OVSDB monitor.
//! Start reading at [`run`], then `add`.

mod add;
mod call;
mod cluster;
mod del;
mod links;
mod server;
mod steps;
mod vswitch;

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ovsdb::Endpoint;
use portolan_model::Settings;

use crate::cluster::Cluster;
use crate::server::Agent;
use crate::vswitch::Vswitch;

/// What an agent has to know.
#[derive(Clone, Debug)]
pub struct Config {
    /// The name of its node.
    pub node: String,
    /// How to reach the API server.
    pub kube: kube::Config,
    /// How to reach the node's Open vSwitch.
    pub ovsdb: Endpoint,
    /// Where to listen for the CNI plugin.
    pub cni_socket: PathBuf,
    /// OVN's bridge. Its datapath is what Open vSwitch says it is.
    pub bridge: String,
    /// The largest packet of pods on subnets that say nothing else: what the tunnel leaves.
    pub mtu: u16,
    /// How long a call may take. A runtime that is told to come again does.
    pub deadline: Duration,
    /// What is the same for the whole cluster.
    pub settings: Settings,
}

impl Config {
    /// The defaults.
    pub fn new(node: impl Into<String>, kube: kube::Config) -> Self {
        Self {
            node: node.into(),
            kube,
            ovsdb: Endpoint::Unix("/run/openvswitch/db.sock".into()),
            cni_socket: portolan_cni::DEFAULT_SOCKET.into(),
            bridge: "br-int".into(),
            // As in `portolan_plan::Settings`: 1500 less what geneve takes, with room for IPv6 between the nodes.
            mtu: 1400,
            deadline: Duration::from_secs(90),
            settings: Settings::default(),
        }
    }
}

/// Runs the agent until it fails, or the future is dropped. `ready` is called once, when calls can be served: the socket is
/// there, and what is known of the cluster and of Open vSwitch is in step.
pub async fn run(config: Config, ready: impl FnOnce()) -> anyhow::Result<()> {
    let client = kube::Client::try_from(config.kube.clone())?;
    let (cluster, watches) = Cluster::follow(&client, &config.node, config.settings);
    let vswitch = Vswitch::connect(config.ovsdb.clone(), &config.bridge);
    let agent = Arc::new(Agent { config, cluster, vswitch, calls: server::Calls::default() });
    let listener = server::listen(&agent.config)?;
    let in_step = async {
        agent.vswitch.ready().await;
        agent.cluster.in_step().await;
        ready();
        std::future::pending::<Infallible>().await
    };
    tokio::select! {
        served = server::serve(Arc::clone(&agent), listener) => served,
        () = watches => anyhow::bail!("the watches of the API server have ended"),
        never = in_step => match never {},
    }
}
