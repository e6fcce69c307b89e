//! Whole clusters of real Kubernetes on one machine: every node with its own containerd and kubelet, and containers in which
//! ordinary manifests work.
//!
//! ```text
//!   home namespace      etcd, kube-apiserver, kube-controller-manager, kube-scheduler; with `open_vswitch` OVN's central part
//!   outside 172.31.0.2  a host that is no part of the cluster
//!   node1 172.31.0.11   a Machine with a control group: containerd, kubelet, kube-proxy, pods; with `open_vswitch` a chassis of OVN
//!   node2 172.31.0.12 …
//! ```
//!
//! Pods have addresses of 10.244.0.0/16, Services of 10.96.0.0/16; on a cluster with both families also of fd00:244::/56 and fd96::/112,
//! and nodes of fd00:31::/64. Nothing is pulled: images are made of files ([`Image`]).

mod bridge;
mod control_plane;
mod image;
mod images;
mod kubelet;
mod node;
mod portolan;
mod portolan_images;

use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, ScopedJoinHandle};

use portolan_lab::{Command, Error, Lab, Namespace, OvnCentral, Result, Underlay};

use crate::kube_apiserver::KubeApiServer;
use crate::test_lab::TestLab;
use control_plane::ControlPlane;
pub use image::Image;
use node::Shared;
pub use node::{KubernetesNode, Running};
pub use portolan::Portolan;

/// The addresses of pods.
pub const POD_CIDR: &str = "10.244.0.0/16";

/// The addresses of Services.
pub const SERVICE_CIDR: &str = "10.96.0.0/16";

/// The same of IPv6, on a cluster with both families.
pub const POD_CIDR_IPV6: &str = "fd00:244::/56";
/// The same of Services.
pub const SERVICE_CIDR_IPV6: &str = "fd96::/112";

/// The address of the cluster's DNS.
pub const DNS_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 10);

/// The address of a host that is no part of the cluster.
const OUTSIDE: Ipv4Addr = Ipv4Addr::new(172, 31, 0, 2);

/// What a host has as its IPv6 address that has this IPv4 address.
pub fn ipv6_of(address: Ipv4Addr) -> Ipv6Addr {
    Ipv6Addr::new(0xfd00, 0x31, 0, 0, 0, 0, 0, address.octets()[3].into())
}

/// How long the cluster is given for what it does by itself, in the words of kubectl.
const PATIENCE: &str = "--timeout=120s";

/// A running cluster. Cloning gives another handle to the same one.
///
/// ```no_run
/// use portolan_testbed::Result;
/// use portolan_testbed::kubernetes::{Image, Kubernetes};
///
/// # fn a_pod_runs() {
/// portolan_testbed::test(async |lab| -> Result<()> {
///     let cluster = Kubernetes::builder().nodes(2).start(&lab)?;
///     cluster.load(&Image::busybox()?)?;
///     cluster.kubectl(&["run", "sleeper", "--image=busybox:1", "--", "sleep", "1000"])?;
///     cluster.kubectl(&["wait", "--for=condition=Ready", "pod/sleeper"])?;
///     Ok(())
/// });
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Kubernetes {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    // Dropped, and so ended, before what they use.
    nodes: Vec<KubernetesNode>,
    control_plane: ControlPlane,
    shared: Arc<Shared>,
    outside: Namespace,
    archives: Mutex<Vec<PathBuf>>,
}

/// How a cluster shall be.
#[derive(Debug)]
#[must_use = "no cluster runs until it is started"]
pub struct KubernetesBuilder {
    nodes: usize,
    network: Network,
    service_proxy: ServiceProxy,
    open_vswitch: OpenVSwitch,
    families: Families,
    purpose: Purpose,
    audit: bool,
}

/// What a cluster is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Its etcd does not wait for the disk.
    Tests,
    /// Its etcd does, and containerd tells of each call of a CNI plugin.
    Measurements,
}

/// Which families of addresses pods, Services and nodes have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Families {
    /// IPv4 alone.
    Ipv4,
    /// Both, IPv4 first.
    Both,
}

impl Families {
    /// A value of IPv4, and with both families the other one after a comma, as Kubernetes has it.
    pub(crate) fn list(self, ipv4: impl std::fmt::Display, ipv6: impl std::fmt::Display) -> String {
        match self {
            Families::Ipv4 => ipv4.to_string(),
            Families::Both => format!("{ipv4},{ipv6}"),
        }
    }
}

/// Who makes the network of pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// Nobody: nodes have no CNI configuration, and are not ready, until something is installed.
    None,
    /// The reference plugins `bridge`, `host-local` and `portmap`, with routes between the nodes. What pods send out of the cluster
    /// is masqueraded.
    Bridge,
}

/// Who serves the addresses of Services.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceProxy {
    /// Nobody.
    None,
    /// kube-proxy by iptables.
    Iptables,
    /// kube-proxy by nftables.
    Nftables,
}

/// Whether nodes run Open vSwitch and ovn-controller themselves, and the home namespace OVN's central part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OpenVSwitch {
    Absent,
    OnNodes,
}

impl Kubernetes {
    /// A cluster of two nodes with the bridge plugin and kube-proxy.
    pub fn builder() -> KubernetesBuilder {
        KubernetesBuilder {
            nodes: 2,
            network: Network::Bridge,
            service_proxy: ServiceProxy::Nftables,
            open_vswitch: OpenVSwitch::Absent,
            families: Families::Ipv4,
            purpose: Purpose::Tests,
            audit: false,
        }
    }

    /// The lab it runs in.
    pub fn lab(&self) -> &Lab {
        self.underlay().lab()
    }

    /// The network that its nodes reach each other by.
    pub fn underlay(&self) -> &Underlay {
        &self.inner.shared.underlay
    }

    /// Its API server.
    pub fn api_server(&self) -> &KubeApiServer {
        &self.inner.control_plane.api_server
    }

    /// Its OVN, if it was built with one.
    pub fn ovn(&self) -> Option<&OvnCentral> {
        self.inner.shared.central.as_ref()
    }

    /// Who makes the network of its pods.
    pub fn network(&self) -> Network {
        self.inner.shared.network
    }

    /// Who serves the addresses of its Services on the nodes.
    pub fn service_proxy(&self) -> ServiceProxy {
        self.inner.shared.service_proxy
    }

    /// Which families of addresses it has.
    pub fn families(&self) -> Families {
        self.inner.shared.families
    }

    /// Its nodes, on or off.
    pub fn nodes(&self) -> &[KubernetesNode] {
        &self.inner.nodes
    }

    /// The node of this name.
    pub fn node(&self, name: &str) -> Result<&KubernetesNode> {
        let found = self.nodes().iter().find(|node| node.name() == name);
        found.ok_or_else(|| Error::Refused { peer: "the cluster".into(), answer: format!("no node {name}") })
    }

    /// A host on the nodes' network that is no part of the cluster, and knows nothing of pods and Services.
    pub fn outside(&self) -> &Namespace {
        &self.inner.outside
    }

    /// Its address.
    pub fn outside_address(&self) -> Ipv4Addr {
        OUTSIDE
    }

    /// Runs kubectl as the administrator and returns what it prints.
    pub fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        self.kubectl_command()?.args(arguments).read()
    }

    /// A kubectl that runs as the administrator.
    pub fn kubectl_command(&self) -> Result<Command> {
        self.api_server().kubectl()
    }

    /// Applies a manifest.
    pub fn apply(&self, manifest: &str) -> Result<String> {
        self.kubectl_command()?.args(["apply", "-f", "-"]).stdin(manifest).read()
    }

    /// Gives all nodes an image.
    pub fn load(&self, image: &Image) -> Result<()> {
        let directory = self.lab().directory("images")?;
        let mut archives = self.inner.archives.lock().unwrap_or_else(PoisonError::into_inner);
        let archive = directory.join(format!("{}.tar", archives.len()));
        image.write(&archive)?;
        archives.push(archive.clone());
        drop(archives);
        thread::scope(|scope| {
            let importing = self.nodes().iter().map(|node| scope.spawn(|| node.import(&archive)));
            let importing: Vec<_> = importing.collect();
            importing.into_iter().try_for_each(join)
        })
    }

    /// Lets the API server, which is on no node, reach pods by the nodes that they are on: it proxies to them, and calls webhooks and extension
    /// servers.
    pub fn route_to_pods(&self) -> Result<()> {
        for node in self.nodes() {
            let object = format!("node/{}", node.name());
            self.kubectl(&["wait", "--for=jsonpath={.spec.podCIDR}", &object, PATIENCE])?;
            let prefix = self.kubectl(&["get", &object, "-o=jsonpath={.spec.podCIDR}"])?;
            self.lab().home().ip(&format!("route replace {prefix} via {}", node.address()))?;
        }
        Ok(())
    }

    /// Starts the cluster's DNS and waits until it answers. It needs a network and a service proxy.
    pub fn start_dns(&self) -> Result<()> {
        self.load(&Image::coredns()?)?;
        self.apply(include_str!("kubernetes/coredns.yaml"))?;
        self.kubectl(&["-n=kube-system", "rollout", "status", "deployment/coredns", PATIENCE]).map(drop)
    }

    /// What there is in the cluster and what happened to it, for a person to read.
    pub fn overview(&self) -> String {
        let questions: [&[&str]; 4] = [
            &["get", "nodes", "--output=wide"],
            &["get", "pods", "--all-namespaces", "--output=wide"],
            &["describe", "nodes"],
            &["get", "events", "--all-namespaces", "--sort-by=.lastTimestamp"],
        ];
        let answer = |question: &&[&str]| {
            let answer = self.kubectl(question).unwrap_or_else(|error| error.to_string());
            format!("---- kubectl {}\n{answer}\n", question.join(" "))
        };
        questions.iter().map(answer).collect()
    }

    /// Has the overview printed when a test fails, and the logs of pods kept.
    pub fn show_on_failure(&self, lab: &TestLab) {
        let cluster = self.clone();
        lab.on_failure(move |directory| {
            let overview = cluster.overview();
            eprintln!("{overview}");
            if let Err(error) = std::fs::write(directory.join("overview"), overview) {
                eprintln!("cannot write the overview of the cluster: {error}");
            }
            for node in cluster.nodes() {
                let logs = cluster.lab().path().join(node.name()).join("var/log/pods");
                let copy = cluster.lab().command("cp").arg("-r").arg(logs);
                if let Err(error) = copy.arg(directory.join(format!("{}-pods", node.name()))).read() {
                    eprintln!("cannot copy logs of pods: {error}");
                }
            }
        });
    }
}

impl KubernetesBuilder {
    /// How many nodes it has, called `node1`, `node2` and so on; two unless set.
    pub fn nodes(mut self, nodes: usize) -> Self {
        self.nodes = nodes;
        self
    }

    /// Who makes the network of pods; [`Network::Bridge`] unless set.
    pub fn network(mut self, network: Network) -> Self {
        self.network = network;
        self
    }

    /// Who serves the addresses of Services; [`ServiceProxy::Nftables`] unless set.
    pub fn service_proxy(mut self, service_proxy: ServiceProxy) -> Self {
        self.service_proxy = service_proxy;
        self
    }

    /// Nodes run Open vSwitch and ovn-controller themselves, as hosts do that are set up so, and the home namespace OVN's central
    /// part.
    pub fn open_vswitch(mut self) -> Self {
        self.open_vswitch = OpenVSwitch::OnNodes;
        self
    }

    /// Pods, Services and nodes have addresses of both families. The bridge plugin of [`Network::Bridge`] knows IPv4 alone.
    pub fn dual_stack(mut self) -> Self {
        self.families = Families::Both;
        self
    }

    /// Its API server writes an audit log.
    pub fn audit_log(mut self) -> Self {
        self.audit = true;
        self
    }

    /// It is measured: its etcd waits for the disk as in earnest, its API server writes an audit log, and containerd tells in its log when it
    /// calls CNI plugins and when they are done.
    pub fn for_measurements(mut self) -> Self {
        self.purpose = Purpose::Measurements;
        self.audit_log()
    }

    /// Raises it in a lab. Returns when its nodes are ready or, without a network, when they have registered.
    pub fn start(self, lab: &Lab) -> Result<Kubernetes> {
        let underlay = Underlay::start(lab)?;
        let home = underlay.home_address();
        let outside = lab.namespace("outside")?;
        underlay.plug(&outside, "eth0")?;
        outside.ip(&format!("address add {OUTSIDE}/{} dev eth0", Underlay::PREFIX_LENGTH))?;
        if self.families == Families::Both {
            node::add_ipv6(&outside, "eth0", OUTSIDE)?;
        }
        let names = (1..=self.nodes).map(|number| format!("node{number}"));
        let named = names.map(|name| Ok((name, underlay.node_address()?))).collect::<Result<Vec<_>>>()?;

        let (control_plane, shared, machines, archive) = thread::scope(|scope| {
            let control_plane =
                scope.spawn(|| ControlPlane::start(lab, home, self.families, self.purpose, self.audit));
            let pause = scope.spawn(|| {
                let archive = lab.directory("images")?.join("pause.tar");
                Image::pause()?.write(&archive).map(|()| archive)
            });
            let central = match self.open_vswitch {
                OpenVSwitch::Absent => None,
                OpenVSwitch::OnNodes => Some(OvnCentral::builder().start(lab)?),
            };
            let shared = Arc::new(Shared::new(underlay, central, &self));
            let raise = |(name, address): &(String, Ipv4Addr)| {
                let (name, address, shared) = (name.clone(), *address, Arc::clone(&shared));
                scope.spawn(move || KubernetesNode::prepare(name, address, shared))
            };
            let raised: Vec<_> = named.iter().map(raise).collect();
            let machines = raised.into_iter().map(join).collect::<Result<Vec<_>>>()?;
            Ok::<_, Error>((join(control_plane)?, shared, machines, join(pause)?))
        })?;
        let api_server = &control_plane.api_server;
        let proxy = api_server.kubeconfig_for("system:kube-proxy", None, home.into())?;
        let nodes = thread::scope(|scope| {
            let complete = |(node, machine)| {
                let (proxy, archive) = (proxy.clone(), &archive);
                scope.spawn(move || KubernetesNode::complete(node, machine, api_server, proxy, archive))
            };
            let completed: Vec<_> = machines.into_iter().map(complete).collect();
            completed.into_iter().map(join).collect::<Result<Vec<_>>>()
        })?;
        let archives = Mutex::new(vec![archive]);
        let inner = Arc::new(Inner { nodes, control_plane, shared, outside, archives });
        let cluster = Kubernetes { inner };
        if self.network != Network::None {
            cluster.kubectl(&["wait", "--for=condition=Ready", "nodes", "--all", PATIENCE])?;
        }
        // What every pod needs, and the controller manager makes.
        cluster.kubectl(&[
            "wait",
            "--for=create",
            "serviceaccount/default",
            "configmap/kube-root-ca.crt",
            PATIENCE,
        ])?;
        Ok(cluster)
    }
}

fn join<T>(handle: ScopedJoinHandle<'_, T>) -> T {
    handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
