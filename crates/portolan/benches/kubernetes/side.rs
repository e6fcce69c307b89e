//! One of the two clusters.

use std::thread;
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use portolan_testbed::kubernetes::{Image, Kubernetes, Network, Portolan};
use portolan_testbed::{Lab, Result};

use crate::steps::{self, Call};

/// What is under the nodes of the reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Underlay {
    /// A link of each node.
    Plain,
    /// The link is a port of an Open vSwitch, as on the nodes with Portolan: where the kernel has no Open vSwitch, everything between nodes goes
    /// through its process.
    OpenVSwitch,
}

/// A cluster with its network. Fields are dropped, and so ended, in this order.
pub(crate) struct Side {
    pub(crate) portolan: Option<Portolan>,
    pub(crate) cluster: Kubernetes,
    pub(crate) lab: Lab,
}

impl Side {
    /// With the reference plugins.
    pub(crate) fn bridge(underlay: Underlay) -> Result<Self> {
        let lab = Lab::new()?;
        let builder = Kubernetes::builder().nodes(2).for_measurements();
        let builder = if underlay == Underlay::OpenVSwitch { builder.open_vswitch() } else { builder };
        let cluster = builder.start(&lab)?;
        cluster.load(&Image::agnhost()?)?;
        Ok(Self { portolan: None, cluster, lab })
    }

    /// With Portolan as the primary network.
    pub(crate) fn portolan() -> Result<Self> {
        let lab = Lab::new()?;
        let builder = Kubernetes::builder().nodes(2).for_measurements();
        let cluster = builder.network(Network::None).open_vswitch().start(&lab)?;
        cluster.load(&Image::agnhost()?)?;
        let portolan = Portolan::start(&cluster)?;
        cluster.kubectl(&["wait", "--for=condition=Ready", "nodes", "--all", "--timeout=300s"])?;
        Ok(Self { portolan: Some(portolan), cluster, lab })
    }

    /// Runs what needs a client of its API server, where that can be reached.
    pub(crate) fn with_client<T, F>(&self, body: impl FnOnce(Client) -> F + Send + 'static) -> T
    where
        T: Send + 'static,
        F: Future<Output = T>,
    {
        let kubeconfig = self.cluster.api_server().kubeconfig().to_owned();
        let thread = self.lab.home().spawn_thread("client", move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
                let options = KubeConfigOptions::default();
                let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
                body(portolan_watch::client(config).unwrap()).await
            })
        });
        thread.unwrap().join().unwrap()
    }

    /// The steps of all ADDs so far, in the agents' words.
    pub(crate) fn calls(&self) -> Vec<Call> {
        let agents = self.portolan.iter().flat_map(portolan_testbed::kubernetes::Portolan::agents);
        agents.flat_map(|agent| steps::all_in(agent.log())).collect()
    }

    /// Lets what nobody waits for come to its end: statuses, Events, annotations.
    pub(crate) fn settle(&self) {
        thread::sleep(Duration::from_secs(3));
    }
}
