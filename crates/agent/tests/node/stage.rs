//! A cluster without a controller, and what a container runtime does.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ipnet::IpNet;
use ovn_schema::vswitch::{Interface, Port};
use ovsdb::{Client, Endpoint, Monitor};
use portolan_agent::{ChangeHook, ChassisSettings, Config, StepHook, Sysfs};
use portolan_api::portolan::{DecidedInterface, Holder, HolderKind, IPLock, IPLockSpec, LockAddress};
use portolan_api::{Domain, Family, Mac};
use portolan_cni::protocol::{self, PROTOCOL};
use portolan_cni::shim::{Environment, Places, run};
use portolan_cni::{Request, Verb};
use portolan_host::{LinkChange, LinkMonitor};
use portolan_model::{FirstInterface, Settings};
use portolan_plan::ServiceProxy;
use portolan_plan::host::LinkName;
use portolan_testbed::{ApiKind, Namespace, Node, TestLab, Testbed};
use serde_json::{Value, json};
use tokio::io::unix::AsyncFd;

/// Where agents serve health checks, each in the namespace of its node.
pub(crate) const HEALTH: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9411);

/// How long an agent may take to see what was made for it.
const PATIENCE: Duration = Duration::from_secs(30);

/// A cluster without a controller, with an agent of this process on each node, and a VPC's subnet in it.
pub(crate) struct Stage {
    // Dropped, and so stopped, before the nodes.
    agents: Vec<Agent>,
    pub(crate) testbed: Testbed,
    pub(crate) settings: Agents,
}

/// The settings of the agents.
#[derive(Clone)]
pub(crate) struct Agents {
    pub(crate) deadline: Duration,
    pub(crate) cluster_networks: Vec<IpNet>,
    pub(crate) first_interface: FirstInterface,
    /// The networks of Services, if Portolan serves these.
    pub(crate) services: Vec<IpNet>,
    pub(crate) steps: StepHook,
    pub(crate) changes: ChangeHook,
    pub(crate) chassis: ChassisSettings,
    /// An administrator's unless given.
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The directory that shows devices, of an agent that is started once there is one.
    pub(crate) sysfs: Option<PathBuf>,
    /// The socket of Open vSwitch's database, of an agent that is started once there is one; the usual one unless given.
    pub(crate) ovsdb: Option<PathBuf>,
}

impl Default for Agents {
    fn default() -> Self {
        Self {
            deadline: Duration::from_secs(60),
            cluster_networks: Vec::new(),
            first_interface: FirstInterface::Other,
            services: Vec::new(),
            steps: StepHook::default(),
            changes: ChangeHook::default(),
            chassis: ChassisSettings::default(),
            kubeconfig: None,
            sysfs: None,
            ovsdb: None,
        }
    }
}

pub(crate) struct Agent {
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    ready: mpsc::Receiver<()>,
}

impl Agent {
    /// Starts an agent and waits until it is ready.
    fn start(node: &Node, kubeconfig: PathBuf, settings: Agents) -> Self {
        let agent = Self::begin(node, kubeconfig, settings, HEALTH);
        agent.wait();
        agent
    }

    /// Waits until it is ready.
    pub(crate) fn wait(&self) {
        self.ready.recv().expect("the agent becomes ready");
    }

    /// Starts an agent.
    fn begin(node: &Node, kubeconfig: PathBuf, settings: Agents, health: SocketAddr) -> Self {
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let (ready, is_ready) = mpsc::channel();
        let name = node.name().to_owned();
        let body = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let kubeconfig = kube::config::Kubeconfig::read_from(kubeconfig).unwrap();
                let kube =
                    kube::Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await.unwrap();
                let mut config = Config::new(name, kube);
                config.deadline = settings.deadline;
                config.cluster_networks = settings.cluster_networks;
                if !settings.services.is_empty() {
                    (config.service_networks, config.service_proxy) =
                        (settings.services, ServiceProxy::Portolan);
                }
                config.settings = Settings { first_interface: settings.first_interface };
                config.steps = settings.steps;
                config.changes = settings.changes;
                config.chassis = settings.chassis;
                config.health = Some(health);
                if let Some(socket) = settings.ovsdb {
                    config.ovsdb = Endpoint::Unix(socket);
                }
                config.sysfs = settings.sysfs.map(Sysfs::at).unwrap_or_default();
                tokio::select! {
                    ended = portolan_agent::run(config, move || ready.send(()).unwrap()) => {
                        panic!("the agent ended: {ended:?}")
                    }
                    _ = stopped => {}
                }
            });
        };
        let thread = node.namespace().spawn_thread("agent", body).unwrap();
        Self { stop: Some(stop), thread: Some(thread), ready: is_ready }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        drop(self.stop.take());
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Stage {
    pub(crate) fn start(lab: &TestLab, nodes: usize, settings: Agents) -> Self {
        let _ = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::INFO)
            .with_env_filter("info,portolan_agent=debug")
            .with_ansi(false)
            .with_test_writer()
            .try_init();
        let builder = Testbed::builder().nodes(nodes).api(ApiKind::Kubernetes).audit_log();
        let testbed = builder.without_controller().without_agents().start(lab).unwrap();
        let mut stage = Self { agents: Vec::new(), testbed, settings };
        for node in stage.testbed.nodes() {
            // As the controller says.
            let metadata = json!({ "name": node.name(), "annotations": { "portolan.dev/mtu": "1400" } });
            stage.apply(&json!({ "apiVersion": "v1", "kind": "Node", "metadata": metadata }));
            let status =
                json!({ "status": { "addresses": [{ "type": "InternalIP", "address": node.address() }] } });
            stage.patch_status("node", node.name(), &status);
        }
        stage.apply(
            &json!({ "apiVersion": "portolan.dev/v1alpha1", "kind": "Vpc", "metadata": { "name": "aegean" },
            "spec": {} }),
        );
        stage.subnet("sea", "10.0.0.0/24,fd00::/64", "aegean", None);
        if stage.settings.first_interface.is_portolan() {
            stage.node_ports();
        }
        stage.start_agents();
        stage
    }

    /// The nodes' own ports in the primary network, as the controller gives them addresses. No agent is ready without.
    fn node_ports(&self) {
        self.subnet("nodes", "10.128.0.0/24", "ovn-cluster", None);
        let interface =
            DecidedInterface { interface: "node".into(), families: vec![Family::IPv4, Family::IPv4] };
        let mut locks = Vec::new();
        for (number, node) in self.testbed.nodes().iter().enumerate() {
            let uid = self.kubectl(&["get", "node", node.name(), "-o=jsonpath={.metadata.uid}"], "");
            for address in [10 + 2 * number, 11 + 2 * number] {
                let address: LockAddress = format!("10.128.0.{address}").parse().unwrap();
                let spec = IPLockSpec {
                    subnet: "nodes".into(),
                    mac: Some(format!("0a:58:0a:80:00:{number:02x}")),
                    holder: Holder {
                        kind: HolderKind::Node,
                        name: node.name().into(),
                        uid: uid.clone(),
                        interface: Some("node".into()),
                        ..Holder::default()
                    },
                    node: Some(node.name().into()),
                    interfaces: vec![interface.clone()],
                    ..IPLockSpec::default()
                };
                let lock = IPLock::of(&Domain::Vpc("ovn-cluster".into()), address, spec);
                locks.push(serde_json::to_value(lock).unwrap());
            }
        }
        self.apply(&json!({ "apiVersion": "v1", "kind": "List", "items": locks }));
    }

    pub(crate) fn start_agents(&mut self) {
        let kubeconfig = self.settings.kubeconfig.clone();
        let kubeconfig = kubeconfig.unwrap_or_else(|| self.testbed.kubeconfig_for("agents").unwrap());
        let start = |node| Agent::start(node, kubeconfig.clone(), self.settings.clone());
        self.agents = self.testbed.nodes().iter().map(start).collect();
    }

    /// Begins another agent on the first node, beside the one that is there.
    pub(crate) fn begin_another(&self, health: SocketAddr) -> Agent {
        let kubeconfig = self.testbed.kubeconfig_for("agents").unwrap();
        Agent::begin(&self.testbed.nodes()[0], kubeconfig, self.settings.clone(), health)
    }

    pub(crate) fn stop_agents(&mut self) {
        self.agents.clear();
    }

    pub(crate) fn kubectl(&self, arguments: &[&str], stdin: &str) -> String {
        self.testbed.kubectl().unwrap().args(arguments).stdin(stdin).read().unwrap()
    }

    pub(crate) fn apply(&self, object: &Value) {
        self.kubectl(&["apply", "-f", "-"], &object.to_string());
    }

    fn patch_status(&self, kind: &str, name: &str, patch: &Value) {
        let patch = patch.to_string();
        self.kubectl(&["patch", kind, name, "--subresource=status", "--type=merge", "-p", &patch], "");
    }

    /// A subnet that is in effect, for every namespace; the default for pods' first interfaces if it has no provider.
    pub(crate) fn subnet(&self, name: &str, cidr: &str, vpc: &str, provider: Option<&str>) {
        let mut subnet = json!({ "apiVersion": "portolan.dev/v1alpha1", "kind": "Subnet",
            "metadata": { "name": name },
            "spec": { "vpc": vpc, "cidrBlock": cidr, "mtu": 1400, "allowedNamespaces": ["*"] } });
        match provider {
            Some(provider) => subnet["spec"]["provider"] = provider.into(),
            None => subnet["spec"]["default"] = true.into(),
        }
        self.apply(&subnet);
        self.validate("subnets.portolan.dev", name);
    }

    /// Marks a subnet as validated, as the controller does, and makes its switch.
    pub(crate) fn validate(&self, kind: &str, name: &str) {
        let validated = json!({ "status": { "conditions": [{ "type": "Validated", "status": "True", "reason": "Tested",
            "message": "", "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z" }] } });
        self.patch_status(kind, name, &validated);
        self.testbed.central().nbctl(&["ls-add", name]).unwrap();
    }

    pub(crate) fn nad(&self, name: &str, config: &str) {
        self.apply(&json!({ "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
            "metadata": { "name": name, "namespace": "default" }, "spec": { "config": config } }));
    }

    /// Makes a pod on a node; returns its UID.
    pub(crate) fn pod(&self, name: &str, node: &str) -> String {
        self.pod_with(name, node, &json!({}))
    }

    pub(crate) fn pod_with(&self, name: &str, node: &str, annotations: &Value) -> String {
        self.apply(&json!({ "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": name, "annotations": annotations },
            "spec": { "nodeName": node, "automountServiceAccountToken": false,
                "containers": [{ "name": "main", "image": "none" }] } }));
        self.uid(name)
    }

    pub(crate) fn uid(&self, pod: &str) -> String {
        self.kubectl(&["get", "pod", pod, "-o=jsonpath={.metadata.uid}"], "")
    }

    /// What the controller does for a pod's first interface: locks, and a port in OVN.
    pub(crate) fn assign(&self, pod: &str, uid: &str, node: &str, last: u8) {
        let addresses = [format!("10.0.0.{last}"), format!("fd00::{last:x}")];
        let addresses = [addresses[0].as_str(), addresses[1].as_str()];
        self.assign_addresses(pod, uid, node, ("sea", "aegean"), ("eth0", &addresses), &["eth0"]);
    }

    /// Asks for an interface of a node on subnet `sea`, with `tap` if it is to be a tap; returns the object's UID. What the controller does
    /// is to be played with [`Stage::address`].
    pub(crate) fn attachment(&self, name: &str, node: &str, tap: Option<Value>) -> String {
        let mut object = json!({ "apiVersion": "portolan.dev/v1alpha1", "kind": "NetworkAttachment",
            "metadata": { "name": name, "namespace": "default" }, "spec": { "node": node, "subnet": "sea" } });
        if let Some(tap) = tap {
            object["spec"]["tap"] = tap;
        }
        self.apply(&object);
        self.kubectl(&["get", "pna", name, "-o=jsonpath={.metadata.uid}"], "")
    }

    /// What the controller does for `NetworkAttachment`s: locks, and ports in OVN. Names, UIDs and the last bytes of their addresses.
    pub(crate) fn address(&self, node: &str, attachments: &[(&str, &str, u8)]) {
        let (mut locks, mut ports) = (Vec::new(), Vec::new());
        for (name, uid, last) in attachments {
            let address: LockAddress = format!("10.0.0.{last}").parse().unwrap();
            let mac = Mac::derive(format!("10.0.0.{last}").parse().unwrap(), None).to_string();
            let interface = DecidedInterface { interface: "attachment".into(), families: vec![Family::IPv4] };
            let spec = IPLockSpec {
                subnet: "sea".into(),
                mac: Some(mac.clone()),
                holder: Holder {
                    kind: HolderKind::NetworkAttachment,
                    namespace: Some("default".into()),
                    name: (*name).into(),
                    uid: (*uid).into(),
                    interface: Some("attachment".into()),
                },
                node: Some(node.into()),
                interfaces: vec![interface],
                ..IPLockSpec::default()
            };
            let lock = IPLock::of(&Domain::Vpc("aegean".into()), address, spec);
            locks.push(serde_json::to_value(lock).unwrap());
            let iface_id = format!("port:default/{name}/attachment/{}", &uid[..8]);
            let all = format!("{mac} 10.0.0.{last}");
            let port = ["--", "lsp-add", "sea", &iface_id, "--", "lsp-set-addresses", &iface_id, &all];
            ports.extend(port.map(str::to_owned));
        }
        self.apply(&json!({ "apiVersion": "v1", "kind": "List", "items": locks }));
        let arguments: Vec<_> = ports.iter().map(String::as_str).collect();
        self.testbed.central().nbctl(&arguments[1..]).unwrap();
    }

    /// Waits until a `NetworkAttachment` says that it is ready, and answers its interface.
    pub(crate) fn ready(&self, name: &str) -> String {
        self.kubectl(&["wait", "--for=condition=Ready", "--timeout=60s", &format!("pna/{name}")], "");
        self.kubectl(&["get", "pna", name, "-o=jsonpath={.status.interface}"], "")
    }

    /// Waits until `Ready` of a `NetworkAttachment` has a reason, and answers its message.
    pub(crate) fn ready_reason(&self, name: &str, reason: &str) -> String {
        let condition = r#"{.status.conditions[?(@.type=="Ready")]"#;
        let wait = format!("--for=jsonpath={condition}.reason}}={reason}");
        self.kubectl(&["wait", &wait, "--timeout=60s", &format!("pna/{name}")], "");
        self.kubectl(&["get", "pna", name, &format!("-o=jsonpath={condition}.message}}")], "")
    }

    /// The same for one further interface, which is all that the pod has.
    pub(crate) fn assign_further(
        &self,
        pod: &str,
        uid: &str,
        node: &str,
        network: (&str, &str),
        (interface, address): (&str, &str),
    ) {
        self.assign_addresses(pod, uid, node, network, (interface, &[address]), &[interface]);
    }

    /// The same for one of several further interfaces.
    pub(crate) fn assign_interface(
        &self,
        pod: &str,
        uid: &str,
        node: &str,
        network: (&str, &str),
        (interface, address): (&str, &str),
        decided: &[&str],
    ) {
        self.assign_addresses(pod, uid, node, network, (interface, &[address]), decided);
    }

    fn assign_addresses(
        &self,
        pod: &str,
        uid: &str,
        node: &str,
        (subnet, vpc): (&str, &str),
        (interface, addresses): (&str, &[&str]),
        decided: &[&str],
    ) {
        let decided: Vec<_> = decided.iter().map(|name| (*name, addresses)).collect();
        self.assign_all(pod, uid, (node, vpc), &[(subnet, interface, addresses)], &decided);
    }

    /// What the controller does for several interfaces of a pod: subnet, interface and addresses of each. `decided` are all
    /// interfaces that the pod has or will have.
    pub(crate) fn assign_all(
        &self,
        pod: &str,
        uid: &str,
        (node, vpc): (&str, &str),
        interfaces: &[(&str, &str, &[&str])],
        decided: &[(&str, &[&str])],
    ) {
        let decided = decided.iter().map(|(name, addresses)| {
            let families = addresses.iter().map(|one| Family::of(one.parse().unwrap())).collect();
            DecidedInterface { interface: (*name).to_owned(), families }
        });
        let decided: Vec<_> = decided.collect();
        let (mut locks, mut ports) = (Vec::new(), Vec::new());
        for (subnet, interface, addresses) in interfaces {
            let iface_id = format!("port:default/{pod}/{interface}/{}", &uid[..8]);
            let mac = Mac::derive(addresses[0].parse().unwrap(), None).to_string();
            for address in *addresses {
                let spec = IPLockSpec {
                    subnet: (*subnet).into(),
                    mac: Some(mac.clone()),
                    holder: Holder {
                        namespace: Some("default".into()),
                        name: pod.into(),
                        uid: uid.into(),
                        interface: Some((*interface).into()),
                        ..Holder::default()
                    },
                    node: Some(node.into()),
                    iface_id: Some(iface_id.clone()),
                    interfaces: decided.clone(),
                    ..IPLockSpec::default()
                };
                let address: LockAddress = address.parse().unwrap();
                let lock = IPLock::of(&Domain::Vpc(vpc.into()), address, spec);
                locks.push(serde_json::to_value(lock).unwrap());
            }
            let all = format!("{mac} {}", addresses.join(" "));
            let port = ["--", "lsp-add", subnet, &iface_id, "--", "lsp-set-addresses", &iface_id, &all];
            ports.extend(port.map(str::to_owned));
        }
        self.apply(&json!({ "apiVersion": "v1", "kind": "List", "items": locks }));
        let arguments: Vec<_> = ports.iter().map(String::as_str).collect();
        self.testbed.central().nbctl(&arguments[1..]).unwrap();
    }
}

/// What a container runtime does.
#[derive(Clone)]
pub(crate) struct Runtime {
    pub(crate) places: Places,
    pub(crate) container: String,
    pub(crate) interface: String,
    pub(crate) netns: Option<String>,
    pub(crate) args: String,
}

impl Runtime {
    pub(crate) fn new(node: &Node, container: &str, pod: &str, uid: &str, netns: &Namespace) -> Self {
        Self {
            places: Places { socket: node.run_directory().join("portolan/cni.sock"), ..Places::default() },
            container: container.into(),
            interface: "eth0".into(),
            netns: Some(netns.path().display().to_string()),
            args: format!("IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME={pod};K8S_POD_UID={uid}"),
        }
    }

    /// The host-side link of the interface.
    pub(crate) fn link(&self) -> String {
        LinkName::new(&self.container, &self.interface).to_string()
    }

    pub(crate) fn call(&self, command: &str) -> (u8, Value) {
        self.call_with(command, &json!({}))
    }

    pub(crate) fn call_with(&self, command: &str, more: &Value) -> (u8, Value) {
        let mut config = json!({ "cniVersion": "1.1.0", "name": "portolan", "type": "portolan-cni" });
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.call_exactly(command, &config.to_string())
    }

    /// A call with exactly this on standard input.
    pub(crate) fn call_exactly(&self, command: &str, stdin: &str) -> (u8, Value) {
        let environment = Environment {
            command: Some(command.into()),
            container_id: Some(self.container.clone()),
            netns: self.netns.clone(),
            ifname: Some(self.interface.clone()),
            args: Some(self.args.clone()),
        };
        let output = run(&environment, stdin.as_bytes(), &self.places);
        (output.code, serde_json::from_slice(&output.stdout).unwrap_or_default())
    }

    /// A plugin that has sent its request and waits for the answer. Dropping it is what the kernel does when it is killed.
    pub(crate) fn begin(&self, verb: Verb) -> UnixStream {
        let mut plugin = UnixStream::connect(&self.places.socket).unwrap();
        let request = Request {
            protocol: PROTOCOL,
            verb,
            container_id: self.container.clone(),
            ifname: self.interface.clone(),
            netns: self.netns.clone(),
            args: self.args.clone(),
            config: json!({ "cniVersion": "1.0.0", "name": "portolan" }),
        };
        let netns = self.netns.as_ref().map(|path| std::fs::File::open(path).unwrap());
        protocol::send(&mut plugin, &request, netns.as_ref().map(AsFd::as_fd)).unwrap();
        plugin
    }

    pub(crate) fn succeeds(&self, command: &str) -> Value {
        self.succeeds_with(command, &json!({}))
    }

    pub(crate) fn succeeds_with(&self, command: &str, more: &Value) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let (code, said) = self.call_with(command, more);
            // Where another plugin makes first interfaces, a pod asks for none of Portolan's before the agent has seen its locks.
            let is_early =
                said["msg"].as_str().is_some_and(|msg| msg.contains("asks Portolan for no interface"));
            if is_early && command == "ADD" && Instant::now() < deadline {
                continue;
            }
            assert_eq!(code, 0, "{command}: {said}");
            return said;
        }
    }
}

/// The plugin's binary, which is built beside this one.
pub(crate) fn plugin() -> PathBuf {
    let plugin = std::env::current_exe().unwrap().ancestors().nth(2).unwrap().join("portolan-cni");
    assert!(plugin.is_file(), "{} is missing: cargo build --workspace --bins", plugin.display());
    plugin
}

/// What agents made on a node: ports, links and guards.
pub(crate) fn made_on(node: &Node) -> Vec<String> {
    let ports = node
        .vsctl(&["--bare", "--columns=name", "find", "Port", "external_ids:portolan/owner!=\"\""])
        .unwrap();
    let interfaces = node.vsctl(&["--bare", "--columns=name", "list", "Interface"]).unwrap();
    let links = node.command("ip").args(["-o", "link"]).read().unwrap();
    let guards = node.command("nft").args(["list", "ruleset"]).read().unwrap();
    let words = [ports, interfaces, links, guards].join("\n");
    let is_ours = |word: &&str| LinkName::parse(word).is_some();
    let found = words.split([' ', '\n', '@', ':']).filter(is_ours);
    found.map(str::to_owned).collect()
}

/// Waits until Open vSwitch has this many ports of agents, and OVN has installed each of them.
pub(crate) fn wait_for_ports(node: &Node, count: usize) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let socket = node.run_directory().join("openvswitch/db.sock");
        let client = Client::builder("Open_vSwitch", [Endpoint::Unix(socket)])
            .monitor(Monitor::of::<Port>().columns(["external_ids", "interfaces", "name"]))
            .monitor(Monitor::of::<Interface>().columns(["external_ids", "name"]))
            .connect();
        client
            .wait_for(|cache| {
                let rows = cache.rows::<Port>().filter_map(|(_, row)| row.ok());
                let ours: Vec<_> =
                    rows.filter(|row| row.external_ids.contains_key("portolan/owner")).collect();
                let interfaces = ours.iter().flat_map(|port| &port.interfaces);
                let rows = interfaces.filter_map(|uuid| cache.get::<Interface>(*uuid).ok()?);
                let installed = rows.filter(|row| row.external_ids.contains_key("ovn-installed")).count();
                (ours.len() == count && installed == count).then_some(())
            })
            .await;
    });
}

/// An ovs-vswitchd that is stopped until this is dropped.
pub(crate) struct Stopped<'a> {
    node: &'a Node,
    pid: u32,
}

impl<'a> Stopped<'a> {
    pub(crate) fn vswitchd(node: &'a Node) -> Self {
        let stopped = Self { node, pid: node.vswitchd().pid().unwrap() };
        stopped.signal("STOP");
        stopped
    }

    fn signal(&self, signal: &str) {
        self.node.command("sh").args(["-c", &format!("kill -{signal} {}", self.pid)]).read().unwrap();
    }
}

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        self.signal("CONT");
    }
}

/// Waits until an agent has made a link, from when the monitor was opened.
pub(crate) fn wait_for_link(monitor: LinkMonitor) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        #[expect(deprecated, reason = "its successor is unsafe")]
        let monitor = AsyncFd::new(monitor).unwrap();
        loop {
            let mut ready = monitor.readable().await.unwrap();
            let Ok(changes) = ready.try_io(|monitor| monitor.get_ref().read()) else { continue };
            let ours = |change: &LinkChange| {
                matches!(change, LinkChange::Present(link) if link.name.starts_with("pt"))
            };
            if changes.unwrap().iter().any(ours) {
                return;
            }
        }
    });
}

pub(crate) async fn blocking<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(body).await.unwrap()
}
