//! What a pod's containers share: a network namespace with what the CNI plugins put into it.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::cni::{self, Attachment, Failure, Network};
use crate::error::Result;
use crate::namespace::Namespace;
use crate::remains::end_processes;

/// How long processes are given to end once they are killed.
const PATIENCE: Duration = Duration::from_secs(10);

/// A sandbox, from the moment that something may exist for it.
#[derive(Debug)]
pub(super) struct Sandbox {
    id: String,
    namespace: Namespace,
    network: Attached,
    /// The pod's annotations when it was made.
    annotations: BTreeMap<String, String>,
}

#[derive(Debug)]
enum Attached {
    /// It is the node's own network: no plugin is asked.
    Node(IpAddr),
    /// The plugins were asked, or are about to be.
    Asked,
    /// The plugins have answered.
    Made(Network),
}

/// The pod that a sandbox is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PodId {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
}

impl Sandbox {
    /// A new network namespace on the node, with nothing in it.
    pub(super) async fn with_own_network(
        node: &Namespace,
        id: String,
        pod: &PodId,
        annotations: BTreeMap<String, String>,
    ) -> Result<Self> {
        let (node, name) = (node.clone(), pod.name.clone());
        let made = tokio::task::spawn_blocking(move || node.network_beside(&name)).await;
        let namespace = made.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))?;
        Ok(Self { id, namespace, network: Attached::Asked, annotations })
    }

    /// The node's own network.
    pub(super) fn with_network_of_node(node: &Namespace, address: IpAddr, id: String) -> Self {
        let annotations = BTreeMap::new();
        Self { id, namespace: node.clone(), network: Attached::Node(address), annotations }
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// Whether containers may run in it.
    pub(super) fn is_ready(&self) -> bool {
        !matches!(self.network, Attached::Asked)
    }

    /// The pod's addresses.
    pub(super) fn addresses(&self) -> Vec<IpAddr> {
        match &self.network {
            Attached::Node(address) => vec![*address],
            Attached::Asked => Vec::new(),
            Attached::Made(network) => network.addresses(),
        }
    }

    /// Has the plugins make the network. Whatever comes of it, also if this is dropped, [`Sandbox::detach`] undoes it.
    pub(super) async fn attach(&mut self, node: &Namespace, pod: &PodId) -> Result<(), Failure> {
        if !self.is_ready() {
            let network = cni::add(node, &self.attachment(pod)).await?;
            self.network = Attached::Made(network);
        }
        Ok(())
    }

    /// Ends what still runs in it and has the plugins remove the network. May be repeated.
    pub(super) async fn detach(&mut self, node: &Namespace, pod: &PodId) -> Result<(), Failure> {
        let network = match &self.network {
            Attached::Node(_) => return Ok(()),
            Attached::Asked => None,
            Attached::Made(network) => Some(network.clone()),
        };
        self.end_processes().await?;
        cni::del(node, &self.attachment(pod), network.as_ref()).await
    }

    /// Ends every process whose network is the sandbox's: also those that a container left behind, and guests of
    /// `portolan lab exec`.
    async fn end_processes(&self) -> Result<()> {
        let namespace = self.namespace.clone();
        let end = move || {
            let own = std::fs::read_link(namespace.path()).ok();
            let is_here =
                |pid: u32| own.is_some() && std::fs::read_link(format!("/proc/{pid}/ns/net")).ok() == own;
            end_processes(is_here, Instant::now() + PATIENCE)
        };
        let ended = tokio::task::spawn_blocking(end).await;
        ended.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
    }

    fn attachment<'a>(&'a self, pod: &'a PodId) -> Attachment<'a> {
        Attachment {
            container: &self.id,
            netns: &self.namespace,
            pod_namespace: &pod.namespace,
            pod_name: &pod.name,
            pod_uid: &pod.uid,
            annotations: &self.annotations,
        }
    }
}
