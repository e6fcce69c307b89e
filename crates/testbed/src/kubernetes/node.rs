//! A node of a cluster: a machine with containerd and kubelet, which can be switched off and on.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use portolan_lab::{
    Command, Daemon, Error, Machine, MachineBuilder, Namespace, Node, OvnCentral, Process, Ready, Result,
    Trying, Underlay, built_program,
};

use super::{
    Families, KubernetesBuilder, Network, PATIENCE, POD_CIDR, POD_CIDR_IPV6, Purpose, ServiceProxy, bridge,
    ipv6_of, kubelet,
};
use crate::kube_apiserver::KubeApiServer;

/// How long containerd, kubelet and an import of images are given.
const START: Duration = Duration::from_secs(90);

/// What all nodes share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) central: Option<OvnCentral>,
    pub(super) underlay: Underlay,
    pub(super) network: Network,
    pub(super) families: Families,
    pub(super) service_proxy: ServiceProxy,
    purpose: Purpose,
    routes: bridge::Routes,
}

impl Shared {
    pub(super) fn new(underlay: Underlay, central: Option<OvnCentral>, cluster: &KubernetesBuilder) -> Self {
        Self {
            central,
            underlay,
            network: cluster.network,
            families: cluster.families,
            service_proxy: cluster.service_proxy,
            purpose: cluster.purpose,
            routes: bridge::Routes::default(),
        }
    }
}

/// A node of a cluster, on or off.
#[derive(Debug)]
pub struct KubernetesNode {
    running: Mutex<Option<Arc<Running>>>,
    files: Files,
    machine: MachineBuilder,
    name: String,
    address: Ipv4Addr,
    pod_cidr: Option<String>,
    shared: Arc<Shared>,
}

/// What a node's processes read.
#[derive(Debug)]
struct Files {
    containerd: PathBuf,
    kubelet: PathBuf,
    kubelet_kubeconfig: PathBuf,
    proxy_kubeconfig: PathBuf,
}

/// What a node is from when it is switched on until it is switched off.
#[derive(Debug)]
pub struct Running {
    // Dropped, and so ended, before what they use.
    kube_proxy: Option<Process>,
    kubelet: Process,
    host: Host,
}

/// A machine that can run containers.
#[derive(Debug)]
pub(super) struct Host {
    containerd: Process,
    open_vswitch: Option<Node>,
    machine: Machine,
}

/// A node before there is an API server.
#[derive(Debug)]
pub(super) struct Prepared {
    name: String,
    address: Ipv4Addr,
    machine: MachineBuilder,
    containerd: PathBuf,
    shared: Arc<Shared>,
}

impl Running {
    /// Its kubelet.
    pub fn kubelet(&self) -> &Process {
        &self.kubelet
    }

    /// Its containerd. Containers go on without it.
    pub fn containerd(&self) -> &Process {
        &self.host.containerd
    }

    /// Its kube-proxy, if it has one.
    pub fn kube_proxy(&self) -> Option<&Process> {
        self.kube_proxy.as_ref()
    }

    /// Its Open vSwitch and ovn-controller, if it runs them itself.
    pub fn open_vswitch(&self) -> Option<&Node> {
        self.host.open_vswitch.as_ref()
    }

    /// Its namespaces and directories.
    pub fn machine(&self) -> &Machine {
        &self.host.machine
    }
}

impl KubernetesNode {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its address.
    pub fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// The addresses of its pods, where a network of the cluster has them.
    pub fn pod_cidr(&self) -> Option<&str> {
        self.pod_cidr.as_deref()
    }

    /// Its processes. An error if it is off.
    pub fn running(&self) -> Result<Arc<Running>> {
        self.slot().clone().ok_or_else(|| self.refused("that it is off"))
    }

    /// A command to run on it.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Result<Command> {
        Ok(self.running()?.machine().command(program))
    }

    /// Takes its power away: all its processes are killed, those of pods too, and its namespaces are gone. Its disk stays.
    pub fn switch_off(&self) -> Result<()> {
        let running = self.slot().take().ok_or_else(|| self.refused("that it is off already"))?;
        let machine = running.machine().clone();
        machine.switch_off()
    }

    /// Switches it on again. Returns when kubelet runs; pods come later.
    pub fn switch_on(&self) -> Result<()> {
        let mut slot = self.slot();
        if slot.is_some() {
            return Err(self.refused("that it is on already"));
        }
        let host = Host::start(&self.machine, &self.name, &self.files.containerd, &self.shared)?;
        let running = self.start_kubelet(host)?;
        if let Some(pod_cidr) = &self.pod_cidr {
            self.shared.routes.tell(&running, pod_cidr, &self.shared.underlay)?;
        }
        *slot = Some(Arc::new(running));
        Ok(())
    }

    /// Switches it off and on.
    pub fn reboot(&self) -> Result<()> {
        self.switch_off()?;
        self.switch_on()
    }

    /// Starts what needs no API server.
    pub(super) fn prepare(name: String, address: Ipv4Addr, shared: Arc<Shared>) -> Result<(Prepared, Host)> {
        let directory = shared.underlay.lab().directory(format!("{name}/kubernetes"))?;
        let containerd = directory.join("containerd.toml");
        std::fs::write(&containerd, kubelet::CONTAINERD)
            .trying(|| format!("write {}", containerd.display()))?;
        let machine = Machine::builder(&name).address(address).keep_disk().control_group();
        let host = Host::start(&machine, &name, &containerd, &shared)?;
        let plugins: &[&str] = match shared.network {
            // As the distributions' packages of the reference plugins bring them.
            Network::None => &["loopback", "portmap"],
            Network::Bridge => &["bridge", "host-local", "loopback", "portmap"],
        };
        for plugin in plugins {
            let (from, to) = (built_program(plugin)?, Path::new("/opt/cni/bin").join(plugin));
            host.machine.namespace().run(move || {
                std::fs::copy(&from, &to).trying(|| format!("copy {} to {}", from.display(), to.display()))
            })?;
        }
        Ok((Prepared { name, address, machine, containerd, shared }, host))
    }

    /// Starts what needs the API server, and lets pods have a network.
    pub(super) fn complete(
        prepared: Prepared,
        host: Host,
        api_server: &KubeApiServer,
        proxy_kubeconfig: PathBuf,
        archive: &Path,
    ) -> Result<Self> {
        let Prepared { name, address, machine, containerd, shared } = prepared;
        let (lab, home) = (shared.underlay.lab(), shared.underlay.home_address().into());
        let user = format!("system:node:{name}");
        let files = Files {
            containerd,
            kubelet: kubelet::write(
                &lab.directory(format!("{name}/kubernetes"))?,
                &host.machine,
                api_server,
            )?,
            kubelet_kubeconfig: api_server.kubeconfig_for(&user, Some("system:nodes"), home)?,
            proxy_kubeconfig,
        };
        let mut node = Self {
            running: Mutex::default(),
            files,
            machine,
            name,
            address,
            pod_cidr: None,
            shared: Arc::clone(&shared),
        };
        host.import(archive)?;
        let running = node.start_kubelet(host)?;
        let kubectl = |arguments: &[&str]| api_server.kubectl()?.args(arguments).read();
        let object = format!("node/{}", node.name);
        kubectl(&["wait", "--for=create", &object, PATIENCE])?;
        if shared.network == Network::Bridge {
            kubectl(&["wait", "--for=jsonpath={.spec.podCIDR}", &object, PATIENCE])?;
            let pod_cidr = kubectl(&["get", &object, "--output=jsonpath={.spec.podCIDR}"])?;
            bridge::configure(running.machine(), &pod_cidr)?;
            shared.routes.tell(&running, &pod_cidr, &shared.underlay)?;
            node.pod_cidr = Some(pod_cidr);
        }
        *node.slot() = Some(Arc::new(running));
        Ok(node)
    }

    /// Takes an archive of images in.
    pub(super) fn import(&self, archive: &Path) -> Result<()> {
        self.running()?.host.import(archive)
    }

    fn start_kubelet(&self, host: Host) -> Result<Running> {
        let namespace = host.machine.namespace();
        let kubelet = Daemon::new(format!("{}/kubelet", self.name), built_program("kubelet")?)
            .arg("--config")
            .arg(&self.files.kubelet)
            .arg("--kubeconfig")
            .arg(&self.files.kubelet_kubeconfig)
            .args(["--hostname-override", &self.name, "--v=2", "--node-ip"])
            .arg(self.shared.families.list(self.address, ipv6_of(self.address)))
            .env("PATH", PATH)
            .ready(Ready::Notify)
            .patience(START)
            .start(namespace)?;
        let mode = match self.shared.service_proxy {
            ServiceProxy::None => None,
            ServiceProxy::Iptables => Some("iptables"),
            ServiceProxy::Nftables => Some("nftables"),
        };
        let kube_proxy = mode.map(|mode| {
            Daemon::new(format!("{}/kube-proxy", self.name), built_program("kube-proxy")?)
                .arg("--kubeconfig")
                .arg(&self.files.proxy_kubeconfig)
                // The limit of connections is the whole machine's, and is left alone.
                .args(["--proxy-mode", mode, "--conntrack-max-per-core=0", "--cluster-cidr"])
                .arg(self.shared.families.list(POD_CIDR, POD_CIDR_IPV6))
                .args(["--hostname-override", &self.name])
                .env("PATH", PATH)
                .start(namespace)
        });
        Ok(Running { kube_proxy: kube_proxy.transpose()?, kubelet, host })
    }

    fn slot(&self) -> MutexGuard<'_, Option<Arc<Running>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refused(&self, answer: &str) -> Error {
        Error::Refused { peer: self.name.clone(), answer: answer.into() }
    }
}

impl Drop for KubernetesNode {
    fn drop(&mut self) {
        // The lab's end would end it too; but the lab may have other plans.
        if let Some(running) = self.slot().take() {
            let _ = running.machine().clone().switch_off();
        }
    }
}

/// Gives a link of a host the IPv6 address that goes with its other one. What is outside of the prefix is nowhere.
pub(super) fn add_ipv6(namespace: &Namespace, link: &str, address: Ipv4Addr) -> Result<()> {
    // A tap may have a name after an `@`.
    let link = link.split('@').next().unwrap_or(link);
    namespace.sysctl(&format!("net.ipv6.conf.{link}.disable_ipv6"), "0")?;
    namespace.ip(&format!("address add {}/64 dev {link} nodad", ipv6_of(address)))
}

/// What daemons of nodes find their programs by, whatever the tests were started with.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

impl Host {
    fn start(machine: &MachineBuilder, name: &str, configuration: &Path, shared: &Shared) -> Result<Self> {
        let machine = machine.start(&shared.underlay)?;
        let open_vswitch = match &shared.central {
            None => {
                machine.take_address()?;
                None
            }
            Some(central) => {
                Some(Node::builder(name).ovn(central).start_on(machine.clone(), &shared.underlay)?)
            }
        };
        let namespace = machine.namespace();
        namespace.ip(&format!("route add default via {}", shared.underlay.home_address()))?;
        if shared.families == Families::Both {
            // The link that has the other address.
            let brief = machine.command("ip").args(["-brief", "-4", "address", "show", "to"]);
            let brief = brief.arg(machine.address().to_string()).read()?;
            add_ipv6(namespace, brief.split_whitespace().next().unwrap_or_default(), machine.address())?;
        }
        namespace.sysctl("net.ipv4.ip_forward", "1")?;
        namespace.run(|| {
            let manifests = "/etc/kubernetes/manifests";
            std::fs::create_dir_all(manifests).trying(|| format!("make {manifests}"))
        })?;
        let log_level = match shared.purpose {
            Purpose::Tests => "info",
            Purpose::Measurements => "debug",
        };
        let containerd = Daemon::new(format!("{name}/containerd"), "containerd")
            .arg("--config")
            .arg(configuration)
            .args(["--log-level", log_level])
            .env("PATH", PATH)
            .ready(Ready::Notify)
            .patience(START)
            .start(namespace)?;
        Ok(Self { containerd, open_vswitch, machine })
    }

    fn import(&self, archive: &Path) -> Result<()> {
        let import = self.machine.command("ctr").args(["--namespace=k8s.io", "images", "import"]);
        import.arg(archive).read().map(drop)
    }
}
