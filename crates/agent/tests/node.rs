//! Agents on two nodes of a real OVN, with a real kube-apiserver. The controller is played by hand: locks by kubectl, ports by ovn-nbctl.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use portolan_agent::Config;
use portolan_api::Domain;
use portolan_api::portolan::{DecidedInterface, Holder, IPLock, IPLockSpec, LockAddress};
use portolan_cni::protocol::{self, PROTOCOL};
use portolan_cni::shim::{Environment, Places, run};
use portolan_cni::{Request, Verb};
use portolan_lab::{KubeApiServer, Lab, Namespace, Node, OvnCentral, Test, Underlay};
use serde_json::{Value, json};

const CRDS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/crds");

/// The cluster that all tests here need, with a VPC's subnet in it.
struct Cluster {
    central: OvnCentral,
    api: KubeApiServer,
    nodes: Vec<AgentNode>,
    underlay: Underlay,
}

/// A node with an agent on it.
struct AgentNode {
    // Dropped, and so stopped, before the node.
    _agent: Agent,
    node: Node,
}

struct Agent {
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Agent {
    fn start(node: &Node, kubeconfig: &std::path::Path, deadline: Duration) -> Self {
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let (name, kubeconfig) = (node.name().to_owned(), kubeconfig.to_owned());
        let body = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let kubeconfig = kube::config::Kubeconfig::read_from(kubeconfig).unwrap();
                let kube =
                    kube::Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await.unwrap();
                let mut config = Config::new(name, kube);
                config.deadline = deadline;
                tokio::select! {
                    ended = portolan_agent::run(config, || ()) => panic!("the agent ended: {ended:?}"),
                    _ = stopped => {}
                }
            });
        };
        let thread = node.namespace().spawn_thread("agent", body).unwrap();
        Self { stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        drop(self.stop.take());
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Cluster {
    fn start(lab: &Lab, nodes: u8, deadline: Duration) -> Self {
        let _ = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::INFO)
            .with_env_filter("info,portolan_agent=debug")
            .with_test_writer()
            .try_init();
        let underlay = Underlay::start(lab).unwrap();
        let central = OvnCentral::builder().start(lab).unwrap();
        let api = KubeApiServer::builder().advertise(underlay.home_address()).start(lab).unwrap();
        let kubeconfig =
            api.kubeconfig_for("agents", Some("system:masters"), underlay.home_address().into()).unwrap();
        let mut cluster = Self { central, api, nodes: Vec::new(), underlay };
        cluster.kubectl(&["apply", "-f", CRDS], "");
        cluster.kubectl(&["wait", "--for=condition=Established", "--timeout=30s", "crd", "--all"], "");
        cluster.kubectl(&["create", "serviceaccount", "default"], "");
        cluster.apply(
            &json!({ "apiVersion": "portolan.dev/v1alpha1", "kind": "Subnet", "metadata": { "name": "sea" },
            "spec": { "vpc": "aegean", "cidrBlock": "10.0.0.0/24,fd00::/64", "mtu": 1400 } }),
        );
        let validated = json!({ "status": { "conditions": [{ "type": "Validated", "status": "True", "reason": "Tested",
            "message": "", "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z" }] } });
        cluster.kubectl(
            &[
                "patch",
                "subnets.portolan.dev",
                "sea",
                "--subresource=status",
                "--type=merge",
                "-p",
                &validated.to_string(),
            ],
            "",
        );
        cluster.central.nbctl(&["ls-add", "sea"]).unwrap();
        for index in 1..=nodes {
            let node = Node::builder(format!("node{index}")).ovn(&cluster.central);
            let node = node.start(&cluster.underlay).unwrap();
            cluster.nodes.push(AgentNode { _agent: Agent::start(&node, &kubeconfig, deadline), node });
        }
        cluster
    }

    fn kubectl(&self, arguments: &[&str], stdin: &str) -> String {
        self.api.kubectl().unwrap().args(arguments).stdin(stdin).read().unwrap()
    }

    fn apply(&self, object: &Value) {
        self.kubectl(&["apply", "-f", "-"], &object.to_string());
    }

    /// Makes a pod on a node; returns its UID.
    fn pod(&self, name: &str, node: &str) -> String {
        self.apply(&json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name },
            "spec": { "nodeName": node, "automountServiceAccountToken": false,
                "containers": [{ "name": "main", "image": "none" }] } }));
        self.kubectl(&["get", "pod", name, "-o=jsonpath={.metadata.uid}"], "")
    }

    /// What the controller does for a pod: locks, and a port in OVN.
    fn assign(&self, pod: &str, uid: &str, node: &str, last: u8) {
        let iface_id = format!("port:default/{pod}/eth0/{}", &uid[..8]);
        let mac = format!("0a:58:0a:00:00:{last:02x}");
        let addresses = [format!("10.0.0.{last}"), format!("fd00::{last:x}")];
        for address in &addresses {
            let spec = IPLockSpec {
                subnet: "sea".into(),
                mac: Some(mac.clone()),
                holder: Holder {
                    namespace: Some("default".into()),
                    name: pod.into(),
                    uid: uid.into(),
                    interface: Some("eth0".into()),
                    ..Holder::default()
                },
                node: Some(node.into()),
                iface_id: Some(iface_id.clone()),
                interfaces: vec![DecidedInterface {
                    interface: "eth0".into(),
                    families: vec![portolan_api::Family::IPv4, portolan_api::Family::IPv6],
                }],
                ..IPLockSpec::default()
            };
            let address: LockAddress = address.parse().unwrap();
            let lock = IPLock::of(&Domain::Vpc("aegean".into()), address, spec);
            self.apply(&serde_json::to_value(lock).unwrap());
        }
        self.central
            .nbctl(&[
                "lsp-add",
                "sea",
                &iface_id,
                "--",
                "lsp-set-addresses",
                &iface_id,
                &format!("{mac} {}", addresses.join(" ")),
            ])
            .unwrap();
    }
}

/// What a container runtime does.
#[derive(Clone)]
struct Runtime {
    places: Places,
    container: String,
    netns: Option<String>,
    args: String,
}

impl Runtime {
    fn new(node: &Node, container: &str, pod: &str, uid: &str, netns: &Namespace) -> Self {
        Self {
            places: Places { socket: node.run_directory().join("portolan/cni.sock"), ..Places::default() },
            container: container.into(),
            netns: Some(netns.path().display().to_string()),
            args: format!("IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME={pod};K8S_POD_UID={uid}"),
        }
    }

    fn call(&self, command: &str) -> (u8, Value) {
        self.call_with(command, &json!({}))
    }

    fn call_with(&self, command: &str, more: &Value) -> (u8, Value) {
        let environment = Environment {
            command: Some(command.into()),
            container_id: Some(self.container.clone()),
            netns: self.netns.clone(),
            ifname: Some("eth0".into()),
            args: Some(self.args.clone()),
        };
        let mut config = json!({ "cniVersion": "1.1.0", "name": "portolan", "type": "portolan-cni" });
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        // An agent that has only just been started may not listen yet.
        let deadline = std::time::Instant::now() + Duration::from_secs(20);
        loop {
            let output = run(&environment, config.to_string().as_bytes(), &self.places);
            let said: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
            let absent = said["msg"].as_str().is_some_and(|msg| msg.contains("cannot be reached"));
            if !absent || std::time::Instant::now() > deadline {
                return (output.code, said);
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn succeeds(&self, command: &str) -> Value {
        let (code, said) = self.call(command);
        assert_eq!(code, 0, "{command}: {said}");
        said
    }
}

/// What agents made on a node: ports, links and guards.
fn made_on(node: &Node) -> Vec<String> {
    let ports = node
        .vsctl(&["--bare", "--columns=name", "find", "Port", "external_ids:portolan/sandbox!=\"\""])
        .unwrap();
    let interfaces = node.vsctl(&["--bare", "--columns=name", "list", "Interface"]).unwrap();
    let links = node.command("ip").args(["-o", "link"]).read().unwrap();
    let guards = node.command("nft").args(["list", "ruleset"]).read().unwrap();
    let words = [ports, interfaces, links, guards].join("\n");
    let found = words.split([' ', '\n', '@', ':']).filter(|word| word.starts_with("pt") && word.len() == 14);
    found.map(str::to_owned).collect()
}

async fn blocking<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(body).await.unwrap()
}

#[test]
fn pods_on_two_nodes_are_plugged_reach_each_other_and_leave_nothing() {
    Test::new().deadline(Duration::from_secs(180)).run(async |lab| {
        blocking(move || {
            let cluster = Cluster::start(&lab, 2, Duration::from_secs(60));
            let [one, two] = &cluster.nodes[..] else { panic!("two nodes") };
            let uids = [cluster.pod("argo", "node1"), cluster.pod("ikaros", "node2")];
            let netns = [one, two].map(|one| one.node.namespace().network_beside("pod").unwrap());
            let argo = Runtime::new(&one.node, "cafe01", "argo", &uids[0], &netns[0]);
            let ikaros = Runtime::new(&two.node, "cafe02", "ikaros", &uids[1], &netns[1]);

            // One call comes before its pod has addresses, the other after.
            let early = {
                let argo = argo.clone();
                thread::spawn(move || argo.succeeds("ADD"))
            };
            cluster.assign("ikaros", &uids[1], "node2", 8);
            cluster.assign("argo", &uids[0], "node1", 7);
            let result = early.join().unwrap();
            ikaros.succeeds("ADD");

            assert_eq!(result["interfaces"][1]["name"], "eth0");
            assert_eq!(result["interfaces"][1]["mac"], "0a:58:0a:00:00:07");
            assert_eq!(result["interfaces"][1]["mtu"], 1400);
            let sandbox = netns[0].path().display().to_string();
            assert_eq!(result["interfaces"][1]["sandbox"], sandbox);
            assert_eq!(
                result["ips"][0],
                json!({ "address": "10.0.0.7/24", "gateway": "10.0.0.1", "interface": 1 })
            );
            assert_eq!(result["ips"][1]["address"], "fd00::7/64");
            assert_eq!(result["routes"][0], json!({ "dst": "0.0.0.0/0", "gw": "10.0.0.1" }));

            for (netns, address) in [(&netns[0], "10.0.0.8"), (&netns[1], "10.0.0.7"), (&netns[0], "fd00::8")]
            {
                netns.command("ping").args(["-c1", "-w10", "-i0.05", address]).read().unwrap();
            }
            send_4_mib(&netns[0], &netns[1], "10.0.0.8:7000");
            argo.succeeds("CHECK");
            argo.succeeds("STATUS");
            let valid = json!([{ "containerID": "cafe01", "ifname": "eth0" }]);
            assert_eq!(argo.call_with("GC", &json!({ "cni.dev/valid-attachments": valid })).0, 0);
            argo.succeeds("CHECK");

            // DEL needs neither the API server nor the namespace.
            cluster.api.kill().unwrap();
            argo.succeeds("DEL");
            argo.succeeds("DEL");
            assert_eq!(made_on(&one.node), Vec::<String>::new());
            assert_eq!(argo.call("CHECK").0, 1);
            assert!(!made_on(&two.node).is_empty(), "the other node's is untouched");
            Runtime { netns: None, ..ikaros }.succeeds("DEL");
            assert_eq!(made_on(&two.node), Vec::<String>::new());
        })
        .await;
    });
}

#[test]
fn a_call_that_is_given_up_is_undone_and_a_late_del_leaves_the_new_sandbox_alone() {
    Test::new().deadline(Duration::from_secs(180)).run(async |lab| {
        blocking(move || {
            let cluster = Cluster::start(&lab, 1, Duration::from_secs(10));
            let node = &cluster.nodes[0].node;
            let uid = cluster.pod("argo", "node1");
            let (first, second) = (
                node.namespace().network_beside("first").unwrap(),
                node.namespace().network_beside("second").unwrap(),
            );
            let old = Runtime::new(node, "cafe01", "argo", &uid, &first);
            until(|| old.call("STATUS").0 == 0);

            // The plugin is killed while the pod's addresses are awaited, and its link is there already.
            let mut plugin = UnixStream::connect(&old.places.socket).unwrap();
            let request = Request {
                protocol: PROTOCOL,
                verb: Verb::Add,
                container_id: "cafe00".into(),
                ifname: "eth0".into(),
                netns: old.netns.clone(),
                args: old.args.clone(),
                config: json!({ "cniVersion": "1.0.0", "name": "portolan" }),
            };
            let descriptor = std::fs::File::open(first.path()).unwrap();
            protocol::send(&mut plugin, &request, Some(descriptor.as_fd())).unwrap();
            until(|| !made_on(node).is_empty());
            drop(plugin);
            until(|| made_on(node).is_empty());

            cluster.assign("argo", &uid, "node1", 7);
            old.succeeds("ADD");
            let new = Runtime::new(node, "cafe02", "argo", &uid, &second);
            new.succeeds("ADD");
            old.succeeds("DEL");
            new.succeeds("CHECK");
            assert_eq!(old.call("CHECK").0, 1);

            // The runtime no longer knows the new one either.
            assert_eq!(new.call_with("GC", &json!({ "cni.dev/valid-attachments": [] })).0, 0);
            assert_eq!(made_on(node), Vec::<String>::new());
            // A pod that does not exist is waited for, and the call is undone when its time is up.
            let absent = Runtime { args: "K8S_POD_NAMESPACE=default;K8S_POD_NAME=nobody".into(), ..new };
            let (code, said) = absent.call("ADD");
            assert_eq!((code, &said["code"]), (1, &json!(11)));
            assert!(said["details"].as_str().unwrap().contains("pod default/nobody on node node1"), "{said}");
            assert_eq!(made_on(node), Vec::<String>::new());
        })
        .await;
    });
}

fn send_4_mib(from: &Namespace, to: &Namespace, address: &'static str) {
    const LENGTH: u64 = 4 << 20;
    let listener = to.run(move || TcpListener::bind(address)).unwrap();
    let sender = from.spawn_thread("sender", move || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(&vec![7; usize::try_from(LENGTH).unwrap()]).unwrap();
    });
    let (stream, _) = listener.accept().unwrap();
    assert_eq!(std::io::copy(&mut stream.take(LENGTH + 1), &mut std::io::sink()).unwrap(), LENGTH);
    sender.unwrap().join().unwrap();
}

/// The agent says nothing when it is done with a call that nobody waits for: asking is all there is.
fn until(done: impl Fn() -> bool) {
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    while !done() {
        assert!(std::time::Instant::now() < deadline, "it did not come about");
        thread::sleep(Duration::from_millis(20));
    }
}
