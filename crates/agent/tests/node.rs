//! Agents on nodes of a real OVN, with a real kube-apiserver. The controller is played by hand: locks by kubectl, ports by ovn-nbctl.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use portolan_agent::Config;
use portolan_api::Domain;
use portolan_api::portolan::{DecidedInterface, Holder, IPLock, IPLockSpec, LockAddress};
use portolan_cni::protocol::{self, PROTOCOL};
use portolan_cni::shim::{Environment, Places, run};
use portolan_cni::{Request, Verb};
use portolan_testbed::{ApiKind, Namespace, Node, Test, TestLab, Testbed};
use serde_json::{Value, json};

/// A cluster without a controller, with an agent of this process on each node, and a VPC's subnet in it.
struct Stage {
    // Dropped, and so stopped, before the nodes.
    _agents: Vec<Agent>,
    testbed: Testbed,
}

struct Agent {
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Agent {
    /// Starts an agent and waits until it is ready.
    fn start(node: &Node, kubeconfig: &std::path::Path, deadline: Duration) -> Self {
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let (ready, is_ready) = mpsc::channel();
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
                    ended = portolan_agent::run(config, move || ready.send(()).unwrap()) => {
                        panic!("the agent ended: {ended:?}")
                    }
                    _ = stopped => {}
                }
            });
        };
        let thread = node.namespace().spawn_thread("agent", body).unwrap();
        is_ready.recv().expect("the agent becomes ready");
        Self { stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        drop(self.stop.take());
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Stage {
    fn start(lab: &TestLab, nodes: usize, deadline: Duration) -> Self {
        let _ = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::INFO)
            .with_env_filter("info,portolan_agent=debug")
            .with_test_writer()
            .try_init();
        let builder = Testbed::builder().nodes(nodes).api(ApiKind::Kubernetes);
        let testbed = builder.without_controller().without_agents().start(lab).unwrap();
        let kubeconfig = testbed.kubeconfig_for("agents").unwrap();
        let start = |node| Agent::start(node, &kubeconfig, deadline);
        let stage = Self { _agents: testbed.nodes().iter().map(start).collect(), testbed };
        stage.apply(
            &json!({ "apiVersion": "portolan.dev/v1alpha1", "kind": "Subnet", "metadata": { "name": "sea" },
            "spec": { "vpc": "aegean", "cidrBlock": "10.0.0.0/24,fd00::/64", "mtu": 1400 } }),
        );
        let validated = json!({ "status": { "conditions": [{ "type": "Validated", "status": "True", "reason": "Tested",
            "message": "", "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z" }] } });
        stage.kubectl(
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
        stage.testbed.central().nbctl(&["ls-add", "sea"]).unwrap();
        stage
    }

    fn kubectl(&self, arguments: &[&str], stdin: &str) -> String {
        self.testbed.kubectl().unwrap().args(arguments).stdin(stdin).read().unwrap()
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
        self.testbed
            .central()
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
        let output = run(&environment, config.to_string().as_bytes(), &self.places);
        (output.code, serde_json::from_slice(&output.stdout).unwrap_or_default())
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
            let stage = Stage::start(&lab, 2, Duration::from_secs(60));
            let [one, two] = stage.testbed.nodes() else { panic!("two nodes") };
            let uids = [stage.pod("argo", "node1"), stage.pod("ikaros", "node2")];
            let netns = [one, two].map(|one| one.namespace().network_beside("pod").unwrap());
            let argo = Runtime::new(one, "cafe01", "argo", &uids[0], &netns[0]);
            let ikaros = Runtime::new(two, "cafe02", "ikaros", &uids[1], &netns[1]);

            // One call comes before its pod has addresses, the other after.
            let early = {
                let argo = argo.clone();
                thread::spawn(move || argo.succeeds("ADD"))
            };
            stage.assign("ikaros", &uids[1], "node2", 8);
            stage.assign("argo", &uids[0], "node1", 7);
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
            stage.testbed.component("kube-apiserver").unwrap().kill().unwrap();
            argo.succeeds("DEL");
            argo.succeeds("DEL");
            assert_eq!(made_on(one), Vec::<String>::new());
            assert_eq!(argo.call("CHECK").0, 1);
            assert!(!made_on(two).is_empty(), "the other node's is untouched");
            Runtime { netns: None, ..ikaros }.succeeds("DEL");
            assert_eq!(made_on(two), Vec::<String>::new());
        })
        .await;
    });
}

#[test]
fn a_call_that_is_given_up_is_undone_and_a_late_del_leaves_the_new_sandbox_alone() {
    Test::new().deadline(Duration::from_secs(180)).run(async |lab| {
        blocking(move || {
            let stage = Stage::start(&lab, 1, Duration::from_secs(10));
            let node = &stage.testbed.nodes()[0];
            let uid = stage.pod("argo", "node1");
            let (first, second) = (
                node.namespace().network_beside("first").unwrap(),
                node.namespace().network_beside("second").unwrap(),
            );
            let old = Runtime::new(node, "cafe01", "argo", &uid, &first);
            old.succeeds("STATUS");
            let links = LinkEvents::of(node);

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
            links.wait_for_new();
            drop(plugin);
            // Calls for one sandbox take turns: the answer to this one comes when the other is undone.
            let undone = Runtime { container: "cafe00".into(), ..old.clone() };
            assert_eq!(undone.call("CHECK").0, 1);
            assert_eq!(made_on(node), Vec::<String>::new());

            stage.assign("argo", &uid, "node1", 7);
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

/// What the kernel says about links of a node, from when this was made.
struct LinkEvents(Child);

impl LinkEvents {
    fn of(node: &Node) -> Self {
        let monitor = node.command("ip").args(["-o", "monitor", "link"]);
        Self(monitor.spawn_with(Stdio::null(), Stdio::piped(), Stdio::null()).unwrap())
    }

    /// Waits until an agent has made a link.
    fn wait_for_new(mut self) {
        let lines = BufReader::new(self.0.stdout.take().unwrap()).lines();
        let names = lines.map_while(Result::ok).filter_map(|line| Some(line.split(": ").nth(1)?.to_owned()));
        assert!(names.into_iter().any(|name| name.starts_with("pt")), "a link of the agent comes");
    }
}

impl Drop for LinkEvents {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
