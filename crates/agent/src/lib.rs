//! The node's side of Portolan: it answers the CNI plugin, plugs pods into Open vSwitch and configures their ends.
//!
//! ```text
//!  portolan-cni ──▶ server ──▶ add, check, del ──▶ links: pairs, addresses, routes, announcements   (netlink)
//!                                │  ▲
//!          begin, end a sandbox  ▼  │  plugged, installed, removed
//!  cluster ──────────────────▶ engine ◀──▶ reconcile: the loop that observes and applies
//!  (watches → World)                          └─▶ vswitch: ports of br-int, ovn-installed            (OVSDB)
//! ```
//!
//! The engine compares what should be on the node with what is, by the rules of [`portolan_plan::host`]: at start, after every change
//! and after a restart of Open vSwitch. CNI calls are one of its sources. Everything that is made carries the container's id and the
//! call's interface name, in rows and on links, and is found again by these: DEL needs neither the API server nor a memory of what ADD
//! did. Ports of the node itself, which `NetworkAttachment`s ask for, are another source; `attachment_status` says what became of them.
//! `chassis` makes the node a chassis of OVN and keeps it one. Nothing here polls. Start reading at [`run`], then `add` and `reconcile`.

mod accept;
mod add;
mod attachment_status;
mod blocking;
mod call;
mod calls;
mod chassis;
mod check;
mod cluster;
mod confirm;
mod del;
mod device;
mod engine;
mod foreign;
mod forwarding;
mod functions;
mod guard_news;
mod health;
mod holders;
mod host_work;
mod links;
mod metrics;
mod missing;
mod monitor;
mod network_status;
mod node_links;
mod node_lock;
mod node_network;
mod pending;
mod pods;
mod reconcile;
mod server;
mod steps;
mod vswitch;
mod wanted;

pub mod examine;
pub mod install;
pub mod removal;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::future::LocalBoxFuture;
use ipnet::IpNet;
use ovsdb::Endpoint;
use portolan_model::Settings;
use portolan_watch::ApiServers;
use tokio::sync::watch;

use crate::calls::Calls;
pub use crate::chassis::{ChassisSettings, Encap};
use crate::cluster::{Cluster, Known};
use crate::engine::Engine;
use crate::foreign::Foreign;
use crate::functions::Functions;
use crate::metrics::Metrics;
use crate::node_lock::NodeLock;
use crate::pending::Pending;
use crate::server::Agent;
use crate::vswitch::Vswitch;

pub use portolan_host::Sysfs;
pub use portolan_host::memory::keep_small;

pub use crate::steps::{AtChange, AtStep, ChangeHook, Moment, Step, StepHook};

/// The settings of an agent.
#[derive(Clone, Debug)]
pub struct Config {
    /// The name of its node.
    pub node: String,
    /// How to reach the API server.
    pub kube: ApiServers,
    /// How to reach the node's Open vSwitch.
    pub ovsdb: Endpoint,
    /// Where to listen for the CNI plugin.
    pub cni_socket: PathBuf,
    /// OVN's bridge. Its datapath is the one that Open vSwitch reports.
    pub bridge: String,
    /// How long a call may take. The runtime tries again then.
    pub deadline: Duration,
    /// The cluster's networks of pods and services: a pod reaches them by its first interface, also when another one takes the default
    /// route. The node's own addresses always count among them.
    pub cluster_networks: Vec<IpNet>,
    /// Networks of services that are none of pods: on the primary network what goes there is not for the node to send to pods.
    pub service_networks: Vec<IpNet>,
    /// The settings of the whole cluster.
    pub settings: Settings,
    /// Told of every step of every call.
    pub steps: StepHook,
    /// Told of every change of ports and links that is not a step of a call.
    pub changes: ChangeHook,
    /// How the node is to be a chassis of OVN.
    pub chassis: ChassisSettings,
    /// Says where OVN's southbound database is, whenever that changes; has precedence over the settings of the chassis.
    pub southbound: Option<watch::Receiver<Option<String>>>,
    /// Where to serve health checks and metrics; not unless given.
    pub health: Option<SocketAddr>,
    /// Where the kernel shows devices. Tests make one up.
    pub sysfs: Sysfs,
}

impl Config {
    /// The defaults.
    pub fn new(node: impl Into<String>, kube: impl Into<ApiServers>) -> Self {
        Self {
            node: node.into(),
            kube: kube.into(),
            ovsdb: Endpoint::Unix("/run/openvswitch/db.sock".into()),
            cni_socket: portolan_cni::DEFAULT_SOCKET.into(),
            bridge: "br-int".into(),
            deadline: Duration::from_secs(90),
            cluster_networks: Vec::new(),
            service_networks: Vec::new(),
            settings: Settings::default(),
            steps: StepHook::default(),
            changes: ChangeHook::default(),
            chassis: ChassisSettings::default(),
            southbound: None,
            health: None,
            sysfs: Sysfs::default(),
        }
    }

    /// The MTU of subnets that name none, once the controller says it on the Node.
    fn mtu_of_subnets(&self, known: &Known) -> Option<u16> {
        known.world.node(&self.node)?.told_mtu
    }
}

/// Runs the agent until it fails, or the future is dropped. `ready` is called once, when calls can be served: the socket is
/// there, and what is known of the cluster and of Open vSwitch is in step.
pub fn run(config: Config, ready: impl FnOnce() + 'static) -> LocalBoxFuture<'static, anyhow::Result<()>> {
    run_erased(config, Box::new(ready))
}

/// Neither generic nor `async`, it is compiled with this crate. Otherwise all of the agent would be compiled where it is awaited, among whatever
/// else that program has, and with every page of the agent's the kernel would map several of others.
fn run_erased(config: Config, ready: Ready) -> LocalBoxFuture<'static, anyhow::Result<()>> {
    Box::pin(run_parts(config, ready))
}

type Ready = Box<dyn FnOnce()>;

async fn run_parts(config: Config, ready: Ready) -> anyhow::Result<()> {
    let node_lock = NodeLock::begin(&config.cni_socket)?;
    let client = config.kube.client()?;
    let (engine, network_status) = (Arc::new(Engine::new()), Arc::new(Pending::default()));
    let (cluster, mut followers) =
        Cluster::follow(&client, &config.node, config.settings, &engine, &network_status);
    let vswitch = Vswitch::connect(config.ovsdb.clone(), &config.bridge);
    let calls = Calls::default();
    let chassis = chassis::States::new(chassis::State::default());
    let at_start = node_network::Progress::at_start(config.settings.first_interface);
    let node_network = node_network::States::new(at_start);
    let forwarding = forwarding::Stopped::default();
    let metrics = Metrics::new();
    let functions = Arc::new(Functions::new(config.sysfs.clone(), config.steps.clone()));
    let agent = Arc::new(Agent {
        config,
        client,
        cluster,
        engine,
        network_status,
        vswitch,
        calls,
        foreign: Foreign::default(),
        chassis,
        node_network,
        forwarding,
        metrics,
        node_lock,
        functions,
    });
    let recoveries = followers.recoveries();
    tokio::select! {
        ended = work(&agent, recoveries, ready) => match ended? {},
        ended = health::serve(&agent) => match ended? {},
        error = followers.ended() => Err(error.into()),
    }
}

/// Serves calls and keeps the node as it should be, once no other agent does.
async fn work(
    agent: &Arc<Agent>,
    recoveries: portolan_watch::Recoveries,
    ready: Ready,
) -> anyhow::Result<Infallible> {
    agent.node_lock.held().await?;
    let listener = server::listen(&agent.config)?;
    let in_step = async {
        agent.vswitch.ready().await;
        agent.cluster.status().in_step().await;
        ready();
        std::future::pending::<Infallible>().await
    };
    tokio::select! {
        never = server::serve(agent, listener) => match never {},
        never = network_status::run(agent) => match never {},
        never = attachment_status::run(agent) => match never {},
        never = missing::run(&agent.client, &agent.cluster) => match never {},
        ended = reconcile::run(agent, recoveries) => ended,
        ended = chassis::run(agent) => ended,
        ended = node_network::run(agent) => ended,
        never = forwarding::run(agent) => match never {},
        never = chassis::report(agent) => match never {},
        never = in_step => match never {},
    }
}
