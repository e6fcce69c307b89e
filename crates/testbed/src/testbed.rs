//! A cluster under test.

use std::ops::Deref;
use std::sync::Arc;

use portolan_lab::cluster::{
    Api, ApiServerOptions, Audit, Cluster, ClusterBuilder, LabApiServer, PortolanApiServer, StartApiServer,
};
use portolan_lab::pki::Authority;
use portolan_lab::{Daemon, Datapath, Lab, Process, Result, built_program};

use crate::artefacts;
use crate::etcd::Etcd;
use crate::faults::{Faults, Faulty};
use crate::kube_apiserver::KubeApiServer;
use crate::test_lab::TestLab;

/// Which API server a test runs on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ApiKind {
    /// Portolan's own, on an embedded database.
    #[default]
    Portolan,
    /// kube-apiserver, on etcd. Without its controllers: namespaces that are deleted stay, and nothing is collected.
    Kubernetes,
    /// The same, on an etcd of three members.
    KubernetesOnEtcdCluster,
}

impl From<ApiKind> for Api {
    fn from(kind: ApiKind) -> Self {
        Api::Custom(Arc::new(kind))
    }
}

impl StartApiServer for ApiKind {
    fn start(&self, lab: &Lab, options: &ApiServerOptions) -> Result<Box<dyn LabApiServer>> {
        match self {
            ApiKind::Portolan => Ok(Box::new(PortolanApiServer::start(lab, options)?)),
            ApiKind::Kubernetes | ApiKind::KubernetesOnEtcdCluster => {
                let members = if *self == ApiKind::Kubernetes { 1 } else { 3 };
                let etcd = Etcd::builder().members(members).start(lab)?;
                let server = KubeApiServer::builder()
                    .etcd(etcd)
                    .advertise(options.address)
                    // Nobody makes service accounts, and nobody takes the taint off a node that became ready.
                    .arg("--disable-admission-plugins=ServiceAccount,TaintNodesByCondition");
                let server = if options.audit == Audit::On { server.audit_log() } else { server };
                Ok(Box::new(server.start(lab)?))
            }
        }
    }
}

impl LabApiServer for KubeApiServer {
    fn authority(&self) -> &Authority {
        self.authority()
    }

    fn port(&self) -> u16 {
        self.port()
    }

    fn audit_log(&self) -> Option<&std::path::Path> {
        self.audit_log()
    }

    fn processes(&self) -> Vec<&Process> {
        self.etcd().members().iter().chain([&**self]).collect()
    }
}

/// A [`Cluster`] in a test: with pods, with traffic between them, and with what is needed to find out why a test failed. Cloning
/// gives another handle to the same one.
///
/// ```no_run
/// use portolan_testbed::{Result, Testbed};
///
/// # fn pods_of_a_switch_reach_each_other() {
/// portolan_testbed::test(async |lab| -> Result<()> {
///     let testbed = Testbed::builder().nodes(2).start(&lab)?;
///     testbed.apply(include_str!("../../portolan/tests/it/skeleton/objects.yaml"))?;
///     let a = testbed.pod("a").on("node1").nad("web").start()?;
///     let b = testbed.pod("b").on("node2").nad("web").start()?;
///     testbed.ping(&a, &b).succeeds();
///     testbed.tcp(&a, &b).succeeds();
///     Ok(())
/// });
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Testbed {
    // Dropped, and so ended, before what it uses.
    controller_manager: Option<Arc<Process>>,
    cluster: Cluster,
    faults: Option<Faults>,
}

/// How a cluster under test shall be.
#[must_use = "no cluster runs until it is started"]
pub struct TestbedBuilder {
    cluster: ClusterBuilder,
    api: ApiKind,
    faults: Option<Faults>,
    workload_controllers: WorkloadControllers,
}

/// Whether something makes the pods of StatefulSets and Deployments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WorkloadControllers {
    Absent,
    Started,
}

impl Testbed {
    /// A cluster of three nodes on Portolan's own API server, with everything running.
    pub fn builder() -> TestbedBuilder {
        TestbedBuilder {
            cluster: Cluster::builder(),
            api: ApiKind::default(),
            faults: None,
            workload_controllers: WorkloadControllers::Absent,
        }
    }

    /// The kube-controller-manager, if it was built with one.
    pub fn controller_manager(&self) -> Option<&Process> {
        self.controller_manager.as_deref()
    }

    /// The faults of its API server.
    ///
    /// # Panics
    /// When it was built without.
    pub fn faults(&self) -> &Faults {
        self.faults.as_ref().expect("the testbed was built with faults")
    }
}

impl Deref for Testbed {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        &self.cluster
    }
}

impl TestbedBuilder {
    /// How many nodes it has, called `node1`, `node2` and so on; three unless set.
    pub fn nodes(self, nodes: usize) -> Self {
        self.with(|cluster| cluster.nodes(nodes))
    }

    /// OVN's databases are raft clusters of three members.
    pub fn ovn_raft(self) -> Self {
        self.with(ClusterBuilder::ovn_raft)
    }

    /// Which API server it has; Portolan's own unless set.
    pub fn api(mut self, kind: ApiKind) -> Self {
        self.api = kind;
        self
    }

    /// A real kube-controller-manager makes and deletes the pods of StatefulSets, Deployments and ReplicaSets, and collects garbage.
    pub fn workload_controllers(mut self) -> Self {
        self.workload_controllers = WorkloadControllers::Started;
        self
    }

    /// The controller and the agents reach the API server through a proxy that can be made to misbehave: [`Testbed::faults`].
    pub fn faults(mut self) -> Self {
        self.faults = Some(Faults::new());
        self
    }

    /// Who forwards the packets of its nodes; ovs-vswitchd unless set.
    pub fn datapath(self, datapath: Datapath) -> Self {
        self.with(|cluster| cluster.datapath(datapath))
    }

    /// Portolan is its primary network. These are the networks of all pods.
    pub fn primary(self, networks: &[&str]) -> Self {
        self.with(|cluster| cluster.primary(networks))
    }

    /// On the primary network: the networks of Services that the nodes serve.
    pub fn services(self, networks: &[&str]) -> Self {
        self.with(|cluster| cluster.services(networks))
    }

    /// On the primary network: Portolan serves Services, which have addresses of these networks.
    pub fn serves_services(self, networks: &[&str]) -> Self {
        self.with(|cluster| cluster.serves_services(networks))
    }

    /// Its API server writes an audit log.
    pub fn audit_log(self) -> Self {
        self.with(|cluster| cluster.audit(Audit::On))
    }

    /// Leaves the definition of Portolan's kinds to the test.
    pub fn without_kinds(self) -> Self {
        self.with(ClusterBuilder::without_kinds)
    }

    /// Starts no controller.
    pub fn without_controller(self) -> Self {
        self.with(ClusterBuilder::without_controller)
    }

    /// Starts no agents on its nodes, and so no runtimes, and binds no pods.
    pub fn without_agents(self) -> Self {
        self.with(ClusterBuilder::without_agents)
    }

    /// Runs no pods on its nodes, and binds none: the test plays the runtime with [`Sandbox`](crate::Sandbox).
    pub fn without_runtimes(self) -> Self {
        self.with(ClusterBuilder::without_runtimes)
    }

    /// Raises it in a test's lab. Returns when every part says that it is ready.
    pub fn start(self, lab: &TestLab) -> Result<Testbed> {
        let api = match &self.faults {
            Some(faults) => Api::Custom(Arc::new(Faulty { kind: self.api, faults: faults.clone() })),
            None => self.api.into(),
        };
        let cluster = self.cluster.api(api).start(lab)?;
        artefacts::collect_on_failure(lab, &cluster);
        let controller_manager = match self.workload_controllers {
            WorkloadControllers::Started => Some(Arc::new(start_controller_manager(lab, &cluster)?)),
            WorkloadControllers::Absent => None,
        };
        Ok(Testbed { controller_manager, cluster, faults: self.faults })
    }

    fn with(mut self, change: impl FnOnce(ClusterBuilder) -> ClusterBuilder) -> Self {
        self.cluster = change(self.cluster);
        self
    }
}

/// Starts the controllers that make and delete pods, and no others: those of nodes would miss the heartbeats of kubelets.
fn start_controller_manager(lab: &Lab, cluster: &Cluster) -> Result<Process> {
    let kubeconfig = cluster.kubeconfig_for("system:kube-controller-manager")?;
    let controllers = [
        "statefulset-controller",
        "deployment-controller",
        "replicaset-controller",
        "garbage-collector-controller",
    ];
    Daemon::new("kube-controller-manager", built_program("kube-controller-manager")?)
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .arg(format!("--controllers={}", controllers.join(",")))
        .args(["--leader-elect=false", "--secure-port=0", "--kube-api-qps=500", "--kube-api-burst=500"])
        .start(lab.home())
}
