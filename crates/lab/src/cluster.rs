//! A whole cluster on one machine: nodes, OVN, an API server, Portolan's controller and agents as their real binaries, and a
//! runtime on each node for pods. `portolan lab` raises one for people; tests raise one through `portolan_testbed::Testbed`.
//!
//! Calls block, as all of this crate's do.

mod api_server;
mod builder;
mod component;
mod forward;
mod kubeconfig;
mod programs;
mod tasks;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub use api_server::{
    Api, ApiServer, ApiServerBuilder, ApiServerOptions, Audit, LabApiServer, OtherApiServer,
    PortolanApiServer, StartApiServer,
};
pub use builder::{ClusterBuilder, Progress, client, define_kinds};
pub use component::{Component, Health};
pub use forward::Forward;
pub use programs::Programs;

use crate::cluster::tasks::Tasks;
use crate::command::Command;
use crate::error::Result;
use crate::lab::Lab;
use crate::node::Node;
use crate::ovn_central::OvnCentral;
use crate::process::Process;
pub use crate::runtime::{ContainerPlace, NodeRuntime, PodPlace};
use crate::underlay::Underlay;

/// How long something that is asked for an answer is given.
const PATIENCE: Duration = Duration::from_secs(10);

/// A running cluster. Cloning gives another handle to the same one.
#[derive(Clone, Debug)]
pub struct Cluster {
    inner: Arc<Inner>,
}

/// Declared, and so dropped, in the order in which the parts need each other.
struct Inner {
    binder: Option<tokio::task::AbortHandle>,
    runtimes: Vec<NodeRuntime>,
    agents: Vec<Process>,
    controller: Option<Process>,
    nodes: Vec<Node>,
    central: OvnCentral,
    api: ApiServer,
    client: kube::Client,
    kubeconfig: std::path::PathBuf,
    tasks: Tasks,
    name: String,
    is_primary: bool,
    underlay: Underlay,
    lab: Lab,
}

impl Cluster {
    /// A cluster of three nodes.
    pub fn builder() -> ClusterBuilder {
        ClusterBuilder::new()
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Whether Portolan is its primary network.
    pub fn is_primary(&self) -> bool {
        self.inner.is_primary
    }

    /// The lab it runs in.
    pub fn lab(&self) -> &Lab {
        &self.inner.lab
    }

    /// The network that joins its nodes.
    pub fn underlay(&self) -> &Underlay {
        &self.inner.underlay
    }

    /// Its nodes.
    pub fn nodes(&self) -> &[Node] {
        &self.inner.nodes
    }

    /// The node of this name.
    pub fn node(&self, name: &str) -> Option<&Node> {
        self.inner.nodes.iter().find(|node| node.name() == name)
    }

    /// The controller, unless the cluster was built without.
    pub fn controller(&self) -> Option<&Process> {
        self.inner.controller.as_ref()
    }

    /// The agents of its nodes, in the same order; none if the cluster was built without.
    pub fn agents(&self) -> &[Process] {
        &self.inner.agents
    }

    /// The runtimes of its nodes, in the same order; none if the cluster was built without.
    pub fn runtimes(&self) -> &[NodeRuntime] {
        &self.inner.runtimes
    }

    /// OVN's central part.
    pub fn central(&self) -> &OvnCentral {
        &self.inner.central
    }

    /// The API server.
    pub fn api(&self) -> &ApiServer {
        &self.inner.api
    }

    /// The kubeconfig of an administrator, for use in the lab's home namespace.
    pub fn kubeconfig(&self) -> &Path {
        &self.inner.kubeconfig
    }

    /// Writes the kubeconfig of a user who may do everything, for use in the home namespace and on nodes.
    pub fn kubeconfig_for(&self, user: &str) -> Result<std::path::PathBuf> {
        self.inner.api.kubeconfig_for(user, &self.inner.lab, self.inner.underlay.home_address())
    }

    /// A client of the API server. Its futures must be awaited in the lab's home namespace, as in the body of a test.
    pub fn client(&self) -> kube::Client {
        self.inner.client.clone()
    }

    /// A kubectl of an administrator.
    pub fn kubectl(&self) -> Result<Command> {
        self.inner.api.kubectl(self.kubeconfig(), &self.inner.lab)
    }

    /// Applies manifests, as `kubectl apply` does.
    pub fn apply(&self, manifests: &str) -> Result<()> {
        self.kubectl()?.args(["apply", "-f-"]).stdin(manifests).read().map(drop)
    }

    /// Where a pod is; none if it is on none of the nodes.
    pub fn pod_place(&self, namespace: &str, name: &str) -> Option<PodPlace> {
        let places = self.inner.runtimes.iter().filter_map(|runtime| runtime.pod(namespace, name));
        places.max_by_key(|place| place.netns.is_some())
    }

    /// Takes its Nodes away from an API server that outlives it. Nothing happens with one of its own.
    pub fn leave(&self) -> Result<()> {
        if !matches!(self.inner.api, ApiServer::Other(_)) {
            return Ok(());
        }
        let nodes = self.inner.runtimes.iter().map(|runtime| runtime.node().to_owned()).collect();
        let client = self.client();
        let removed = self.wait(async move { crate::runtime::remove_nodes(&client, nodes).await });
        removed.map_err(|error| builder::api_error("remove the lab's Nodes", &error))
    }

    /// Runs a future on the cluster's own threads and waits for it. For calls of [`Cluster::client`] from code that blocks.
    pub fn wait<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> T {
        self.inner.tasks.wait(future)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(binder) = &self.binder {
            binder.abort();
        }
    }
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").field("name", &self.name).finish_non_exhaustive()
    }
}
