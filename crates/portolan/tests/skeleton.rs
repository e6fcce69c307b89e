//! One thread through every part, with the real binaries: objects by kubectl, the controller, two nodes with an agent each, the
//! CNI plugin called as a container runtime calls it, and traffic within a subnet and across subnets.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

use std::path::PathBuf;
use std::time::Duration;

use portolan_lab::{Daemon, KubeApiServer, Lab, Namespace, Node, OvnCentral, Process, Test, Underlay};
use serde_json::json;

const CRDS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/crds");
const OBJECTS: &str = include_str!("objects.yaml");
const PORTOLAN: &str = env!("CARGO_BIN_EXE_portolan");

/// The plugin is another package's binary; a build of the workspace puts it beside ours.
fn plugin() -> PathBuf {
    let path = PathBuf::from(PORTOLAN).with_file_name("portolan-cni");
    assert!(path.exists(), "{} is missing: build the whole workspace", path.display());
    path
}

struct Cluster {
    controller: Process,
    agents: Vec<Process>,
    nodes: Vec<Node>,
    api: KubeApiServer,
    central: OvnCentral,
    // Holds the network between the nodes.
    _underlay: Underlay,
}

/// A pod with its sandbox.
struct Pod {
    name: &'static str,
    uid: String,
    node: usize,
    netns: Namespace,
    address: String,
}

impl Cluster {
    fn start(lab: &Lab) -> Self {
        let underlay = Underlay::start(lab).unwrap();
        let central = OvnCentral::builder().start(lab).unwrap();
        let home = underlay.home_address();
        let api = KubeApiServer::builder().advertise(home).audit_log().start(lab).unwrap();
        let kubectl = |arguments: &[&str], input: &str| {
            api.kubectl().unwrap().args(arguments).stdin(input).read().unwrap();
        };
        kubectl(&["apply", "--server-side", "-f", CRDS], "");
        kubectl(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=30s"], "");
        kubectl(&["create", "serviceaccount", "default"], "");
        kubectl(&["apply", "-f-"], OBJECTS);
        let kubeconfig = |user| api.kubeconfig_for(user, Some("system:masters"), home.into()).unwrap();
        let controller = Daemon::new("controller", PORTOLAN)
            .args(["controller", "--ovn-nb", &central.nb().endpoint(), "--kubeconfig"])
            .arg(kubeconfig("portolan-controller"))
            .start(lab.home())
            .unwrap();
        let mut cluster =
            Cluster { controller, agents: Vec::new(), nodes: Vec::new(), api, central, _underlay: underlay };
        for name in ["node1", "node2"] {
            let node = Node::builder(name).ovn(&cluster.central).start(&cluster._underlay).unwrap();
            let agent = Daemon::new(format!("agent-{name}"), PORTOLAN)
                .args(["agent", "--node", name, "--kubeconfig"])
                .arg(cluster.api.kubeconfig_for(name, Some("system:masters"), home.into()).unwrap())
                .start(node.namespace())
                .unwrap();
            cluster.agents.push(agent);
            cluster.nodes.push(node);
        }
        cluster
    }

    fn kubectl(&self, arguments: &[&str], input: &str) -> String {
        self.api.kubectl().unwrap().args(arguments).stdin(input).read().unwrap()
    }

    /// Makes a pod on a node, as a scheduler and a container runtime do.
    fn pod(&self, name: &'static str, node: usize, network: &str, gateway: &str) -> Pod {
        let networks =
            json!([{"name": network, "namespace": "default", "default-route": [gateway]}]).to_string();
        let pod = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "annotations": {"k8s.v1.cni.cncf.io/networks": networks}},
            "spec": {"nodeName": self.nodes[node].name(), "automountServiceAccountToken": false,
                "containers": [{"name": "main", "image": "none"}]}});
        self.kubectl(&["apply", "-f-"], &pod.to_string());
        let uid = self.kubectl(&["get", "pod", name, "-o=jsonpath={.metadata.uid}"], "");
        let netns = self.nodes[node].namespace().network_beside(name).unwrap();
        let mut pod = Pod { name, uid, node, netns, address: String::new() };
        let result: serde_json::Value = serde_json::from_str(&self.cni("ADD", &pod)).unwrap();
        let address = result["ips"][0]["address"].as_str().unwrap();
        pod.address = address.split('/').next().unwrap().to_owned();
        pod
    }

    fn cni(&self, command: &str, pod: &Pod) -> String {
        let arguments = format!(
            "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME={};K8S_POD_UID={}",
            pod.name, pod.uid
        );
        self.nodes[pod.node]
            .command(plugin())
            .env("CNI_COMMAND", command)
            .env("CNI_CONTAINERID", format!("sandbox-{}", pod.name))
            .env("CNI_NETNS", pod.netns.path())
            .env("CNI_IFNAME", "eth0")
            .env("CNI_PATH", "/opt/cni/bin")
            .env("CNI_ARGS", arguments)
            .stdin(json!({"cniVersion": "1.0.0", "name": "portolan", "type": "portolan-cni", "interfaces": "further"}).to_string())
            .read()
            .unwrap()
    }
}

fn ping(from: &Pod, to: &Pod) {
    from.netns.command("ping").args(["-c1", "-w10", "-i0.05", &to.address]).read().unwrap();
}

#[test]
fn pods_on_two_nodes_reach_each_other_within_and_across_subnets() {
    Test::new().deadline(Duration::from_secs(180)).run(async |lab| {
        tokio::task::spawn_blocking(move || {
            let cluster = Cluster::start(&lab);
            let a = cluster.pod("a", 0, "web", "10.0.0.1");
            let b = cluster.pod("b", 1, "web", "10.0.0.1");
            let c = cluster.pod("c", 1, "db", "10.0.1.1");
            for (from, to) in [(&a, &b), (&b, &a), (&a, &c), (&c, &a)] {
                ping(from, to);
            }
            for pod in [&a, &b, &c] {
                cluster.cni("DEL", pod);
                cluster.kubectl(&["delete", "pod", pod.name, "--force", "--grace-period=0"], "");
            }
            cluster.kubectl(&["wait", "--for=delete", "iplocks.portolan.dev", "--all", "--timeout=30s"], "");
            assert!(cluster.controller.is_alive() && cluster.agents.iter().all(Process::is_alive));
        })
        .await
        .unwrap();
    });
}
