//! Raises a cluster: whatever does not need another part is raised at the same time.

use std::net::Ipv4Addr;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Namespace as KubeNamespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Client, ResourceExt as _};

use super::api_server::{Api, ApiServer, Audit};
use super::programs::Programs;
use super::tasks::Tasks;
use super::{Cluster, Inner};
use crate::error::{Error, Result};
use crate::lab::Lab;
use crate::node::{Datapath, Node};
use crate::ovn_central::OvnCentral;
use crate::process::{Daemon, Process};
use crate::readiness::Ready;
use crate::runtime::{self, NodeRuntime};
use crate::underlay::Underlay;

/// How long the API server is given to define kinds.
const PATIENCE: Duration = Duration::from_secs(30);

/// Is told how far the raising is.
type Tell = Box<dyn Fn(&Progress) -> Result<()> + Send + Sync>;

/// How a cluster shall be.
#[must_use = "no cluster runs until it is started"]
pub struct ClusterBuilder {
    name: String,
    nodes: usize,
    raft: bool,
    api: Api,
    audit: Audit,
    kinds: Kinds,
    control: Control,
    node_software: NodeSoftware,
    programs: Option<Programs>,
    datapath: Datapath,
    /// The networks of pods, if Portolan is the primary network.
    primary: Option<Vec<String>>,
    /// The networks of Services.
    services: Vec<String>,
    service_proxy: ServiceProxy,
    progress: Tell,
}

/// Whether Portolan's kinds are defined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kinds {
    Defined,
    Undefined,
}

/// Whether a controller is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Control {
    Started,
    Absent,
}

/// Who serves Services.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServiceProxy {
    Portolan,
    Nobody,
}

/// What runs on nodes besides Open vSwitch and OVN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NodeSoftware {
    Nothing,
    Agent,
    AgentAndRuntime,
}

/// A step on the way to a cluster that runs.
#[derive(Clone, Debug)]
pub struct Progress {
    /// What is raised.
    pub step: String,
    /// How long it took; none when it is begun.
    pub took: Option<Duration>,
    /// How many steps there are in all.
    pub steps: usize,
}

impl ClusterBuilder {
    pub(super) fn new() -> Self {
        Self {
            name: "lab".into(),
            nodes: 3,
            raft: false,
            api: Api::default(),
            audit: Audit::Off,
            kinds: Kinds::Defined,
            control: Control::Started,
            node_software: NodeSoftware::AgentAndRuntime,
            programs: None,
            datapath: Datapath::default(),
            primary: None,
            services: Vec::new(),
            service_proxy: ServiceProxy::Nobody,
            progress: Box::new(|_| Ok(())),
        }
    }

    /// The cluster's name, which is on its Nodes; `lab` unless set.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// How many nodes it has, called `node1`, `node2` and so on; three unless set.
    pub fn nodes(mut self, nodes: usize) -> Self {
        self.nodes = nodes;
        self
    }

    /// OVN's databases are raft clusters of three members.
    pub fn ovn_raft(mut self) -> Self {
        self.raft = true;
        self
    }

    /// Which API server it has; [`Api::default`] unless set.
    pub fn api(mut self, api: Api) -> Self {
        self.api = api;
        self
    }

    /// Whether its API server writes an audit log; not unless set.
    pub fn audit(mut self, audit: Audit) -> Self {
        self.audit = audit;
        self
    }

    /// Leaves the definition of Portolan's kinds to the caller.
    pub fn without_kinds(mut self) -> Self {
        self.kinds = Kinds::Undefined;
        self
    }

    /// Starts no controller.
    pub fn without_controller(mut self) -> Self {
        self.control = Control::Absent;
        self
    }

    /// Starts no agents on its nodes, and so no runtimes, and binds no pods.
    pub fn without_agents(mut self) -> Self {
        self.node_software = NodeSoftware::Nothing;
        self
    }

    /// Runs no pods on its nodes, and binds none.
    pub fn without_runtimes(mut self) -> Self {
        if matches!(self.node_software, NodeSoftware::AgentAndRuntime) {
            self.node_software = NodeSoftware::Agent;
        }
        self
    }

    /// Portolan's own binaries; [`Programs::built`] unless set.
    pub fn programs(mut self, programs: Programs) -> Self {
        self.programs = Some(programs);
        self
    }

    /// Who forwards the packets of its nodes; ovs-vswitchd unless set.
    pub fn datapath(mut self, datapath: Datapath) -> Self {
        self.datapath = datapath;
        self
    }

    /// Portolan is its primary network: it makes pods' first interfaces, and nodes have ports. These are the networks of all pods.
    pub fn primary(mut self, networks: &[&str]) -> Self {
        self.primary = Some(networks.iter().map(|network| (*network).to_owned()).collect());
        self
    }

    /// On the primary network: what goes to these networks of Services leaves pods by their first interfaces.
    pub fn services(mut self, networks: &[&str]) -> Self {
        self.services = networks.iter().map(|network| (*network).to_owned()).collect();
        self
    }

    /// On the primary network: Portolan serves Services, which have addresses of these networks.
    pub fn serves_services(mut self, networks: &[&str]) -> Self {
        self.service_proxy = ServiceProxy::Portolan;
        self.services(networks)
    }

    /// Told of each step when it begins and when it is done. An error ends the raising.
    pub fn progress(mut self, progress: impl Fn(&Progress) -> Result<()> + Send + Sync + 'static) -> Self {
        self.progress = Box::new(progress);
        self
    }

    /// Raises it in a lab. Returns when every part says that it is ready.
    pub fn start(self, lab: &Lab) -> Result<Cluster> {
        let underlay = Underlay::start(lab)?;
        let tasks = Tasks::new(lab)?;
        let raising =
            Raising { how: &self, lab, underlay: &underlay, home: underlay.home_address(), tasks: &tasks };
        let (central, nodes, api, client) = thread::scope(|scope| {
            let api = scope.spawn(|| raising.api());
            let central = raising.step("OVN databases and northd", || raising.central())?;
            let nodes = raising.nodes(&central)?;
            let (api, client) = join(api)?;
            Ok::<_, Error>((central, nodes, api, client))
        })?;
        let controller = match self.control {
            Control::Started => Some(raising.step("controller", || raising.controller(&central, &api))?),
            Control::Absent => None,
        };
        let agents = match self.node_software {
            NodeSoftware::Nothing => Vec::new(),
            NodeSoftware::Agent | NodeSoftware::AgentAndRuntime => {
                // As a kubelet does before it runs anything.
                for node in &nodes {
                    let (lab, name) = (self.name.clone(), node.name().to_owned());
                    tasks.wait(runtime::make_node_object(client.clone(), lab, name, node.address()))?;
                }
                raising.step("agents", || raising.agents(&nodes, &api))?
            }
        };
        let (runtimes, binder) = match self.node_software {
            NodeSoftware::Nothing | NodeSoftware::Agent => (Vec::new(), None),
            NodeSoftware::AgentAndRuntime => {
                let runtimes =
                    nodes.iter().map(|node| raising.runtime(node, &client)).collect::<Result<_>>()?;
                let bind = runtime::bind(client.clone(), self.name.clone());
                (runtimes, Some(tasks.handle().spawn(bind).abort_handle()))
            }
        };
        let kubeconfig = raising.kubeconfig("admin", &api)?;
        let inner = Arc::new(Inner {
            binder,
            runtimes,
            agents,
            controller,
            nodes,
            central,
            api,
            client,
            kubeconfig,
            tasks,
            name: self.name,
            is_primary: self.primary.is_some(),
            underlay,
            lab: lab.clone(),
        });
        Ok(Cluster { inner })
    }
}

/// A cluster that is not one yet.
struct Raising<'a> {
    how: &'a ClusterBuilder,
    lab: &'a Lab,
    underlay: &'a Underlay,
    /// The address of the lab's home namespace.
    home: Ipv4Addr,
    tasks: &'a Tasks,
}

impl Raising<'_> {
    fn step<T>(&self, name: &str, body: impl FnOnce() -> Result<T>) -> Result<T> {
        // The API server, its kinds, OVN's central part, the controller, the agents; and every node.
        let steps = self.how.nodes + 5;
        let tell = |took| (self.how.progress)(&Progress { step: name.into(), took, steps });
        tell(None)?;
        let begun = Instant::now();
        let value = body()?;
        tell(Some(begun.elapsed()))?;
        Ok(value)
    }

    fn central(&self) -> Result<OvnCentral> {
        let builder = OvnCentral::builder();
        let builder = if self.how.raft { builder.raft() } else { builder };
        builder.start(self.lab)
    }

    fn nodes(&self, central: &OvnCentral) -> Result<Vec<Node>> {
        let names = (1..=self.how.nodes).map(|number| format!("node{number}"));
        let named =
            names.map(|name| Ok((name, self.underlay.node_address()?))).collect::<Result<Vec<_>>>()?;
        thread::scope(|scope| {
            let raise = |(name, address): &(String, Ipv4Addr)| {
                let builder =
                    Node::builder(name.as_str()).address(*address).ovn(central).datapath(self.how.datapath);
                self.step(name, || builder.start(self.underlay))
            };
            let raised: Vec<_> = named.iter().map(|node| scope.spawn(move || raise(node))).collect();
            raised.into_iter().map(join).collect()
        })
    }

    fn api(&self) -> Result<(ApiServer, Client)> {
        let mut builder = ApiServer::builder(self.how.api.clone(), self.home).audit(self.how.audit);
        if let Some(programs) = &self.how.programs {
            builder = builder.programs(programs.clone());
        }
        let server = self.step("API server", || builder.start(self.lab))?;
        let (file, kinds) = (self.kubeconfig("portolan-lab", &server)?, self.how.kinds);
        let client = self.step("kinds of Portolan", || {
            self.tasks.wait(async move {
                let client = client(&file).await?;
                if kinds == Kinds::Defined {
                    define_kinds(&client).await?;
                }
                wait_for_default_namespace(&client).await.map(|()| client)
            })
        })?;
        Ok((server, client))
    }

    fn programs(&self) -> Result<Programs> {
        self.how.programs.clone().map_or_else(Programs::built, Ok)
    }

    fn controller(&self, central: &OvnCentral, api: &ApiServer) -> Result<Process> {
        Daemon::new("controller", self.programs()?.portolan())
            // There is one: when it is killed and started again, it need not wait for its former Lease to end.
            .args([
                "controller",
                "--leader-election=false",
                "--ovn-nb",
                &central.nb().endpoint(),
                "--ovn-sb",
                &central.sb().endpoint(),
                "--kubeconfig",
            ])
            .arg(self.kubeconfig("portolan-controller", api)?)
            .args(self.how.primary.as_ref().map(|_| "--primary"))
            .args(self.cluster_networks())
            .args(self.service_networks().iter().map(|network| format!("--service-cidr={network}")))
            .start(self.lab.home())
    }

    fn agents(&self, nodes: &[Node], api: &ApiServer) -> Result<Vec<Process>> {
        thread::scope(|scope| {
            let raise = |node| scope.spawn(move || self.agent(node, api));
            let raised: Vec<_> = nodes.iter().map(raise).collect();
            raised.into_iter().map(join).collect()
        })
    }

    fn agent(&self, node: &Node, api: &ApiServer) -> Result<Process> {
        let programs = self.programs()?;
        NodeRuntime::install_plugin(node.namespace(), programs.plugin())?;
        Daemon::new(format!("{}/agent", node.name()), programs.portolan())
            .args(["agent", "--log=info,portolan_agent=debug", "--node", node.name(), "--kubeconfig"])
            .arg(self.kubeconfig(node.name(), api)?)
            .args(self.primary_of_agents())
            .ready(Ready::Notify)
            .start(node.namespace())
    }

    /// What the controller is told of the cluster's own networks.
    fn cluster_networks(&self) -> Vec<String> {
        let networks = self.how.primary.iter().flatten().chain(&self.how.services);
        networks.map(|network| format!("--cluster-network={network}")).collect()
    }

    /// The networks of Services that Portolan serves.
    fn service_networks(&self) -> &[String] {
        match self.how.service_proxy {
            ServiceProxy::Portolan => &self.how.services,
            ServiceProxy::Nobody => &[],
        }
    }

    fn primary_of_agents(&self) -> Vec<String> {
        let Some(networks) = &self.how.primary else { return Vec::new() };
        let networks = networks.iter().map(|network| format!("--cluster-network={network}"));
        let services = self.how.services.iter().map(|network| format!("--service-network={network}"));
        let serves =
            (self.how.service_proxy == ServiceProxy::Portolan).then(|| "--serve-services".to_owned());
        std::iter::once("--primary".to_owned()).chain(networks).chain(services).chain(serves).collect()
    }

    fn runtime(&self, node: &Node, client: &Client) -> Result<NodeRuntime> {
        let config = runtime::Config {
            name: node.name().into(),
            address: node.address(),
            namespace: node.namespace().clone(),
            logs: self.lab.directory("pods")?,
            client: client.clone(),
        };
        Ok(NodeRuntime::start(config, self.tasks.handle().clone()))
    }

    fn kubeconfig(&self, user: &str, api: &ApiServer) -> Result<PathBuf> {
        api.kubeconfig_for(user, self.lab, self.home)
    }
}

fn join<T>(handle: ScopedJoinHandle<'_, Result<T>>) -> Result<T> {
    handle.join().unwrap_or_else(|panic| resume_unwind(panic))
}

/// A client that does as a kubeconfig says.
pub async fn client(kubeconfig: &std::path::Path) -> Result<Client> {
    let unusable = |why: String| Error::Kubeconfig { file: kubeconfig.into(), why };
    let file = Kubeconfig::read_from(kubeconfig).map_err(|error| unusable(error.to_string()))?;
    let config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
    let config = config.map_err(|error| unusable(error.to_string()))?;
    Client::try_from(config).map_err(|error| unusable(error.to_string()))
}

/// Defines Portolan's kinds and waits until they are served.
pub async fn define_kinds(client: &Client) -> Result<()> {
    let late = |_| api_error("define kinds", &format!("not done after {PATIENCE:?}"));
    tokio::time::timeout(PATIENCE, define_each_kind(client)).await.map_err(late)?
}

async fn define_each_kind(client: &Client) -> Result<()> {
    let api = kube::Api::<CustomResourceDefinition>::all(client.clone());
    let parameters = PatchParams::apply("portolan-lab").force();
    let definitions = portolan_api::crds();
    let define = definitions.iter().map(async |definition| {
        let name = definition.name_any();
        let failed = |error: &dyn std::fmt::Display| api_error(&format!("define {name}"), error);
        api.patch(&name, &parameters, &Patch::Apply(definition)).await.map_err(|error| failed(&error))?;
        let established = await_condition(api.clone(), &name, conditions::is_crd_established()).await;
        established.map(drop).map_err(|error| failed(&error))
    });
    futures::future::try_join_all(define).await.map(drop)
}

/// Waits for the namespace that every cluster has.
async fn wait_for_default_namespace(client: &Client) -> Result<()> {
    let late = |_| api_error("find the namespace default", &format!("it is not there after {PATIENCE:?}"));
    tokio::time::timeout(PATIENCE, default_namespace(client)).await.map_err(late)?
}

async fn default_namespace(client: &Client) -> Result<()> {
    let namespaces = kube::Api::<KubeNamespace>::all(client.clone());
    let created = await_condition(namespaces, "default", conditions::is_created()).await;
    created.map(drop).map_err(|error| api_error("find the namespace default", &error))
}

pub(super) fn api_error(what: &str, why: &dyn std::fmt::Display) -> Error {
    Error::ApiServer { what: what.into(), why: why.to_string() }
}
