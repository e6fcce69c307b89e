//! A cluster of two nodes with the real binaries, and pods on it as a scheduler and a container runtime make them.

use std::path::PathBuf;

use ovsdb::{Cache, Endpoint, Monitor};
use portolan_lab::cluster::{Api, ApiServer};
use portolan_lab::{Daemon, Lab, Namespace, Node, OvnCentral, Process, Ready, Underlay};
use serde_json::{Value, json};
use tokio::runtime::Handle;

const CRDS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/crds");
const OBJECTS: &str = include_str!("objects.yaml");
const PORTOLAN: &str = env!("CARGO_BIN_EXE_portolan");

/// Whom the API server knows the controller as.
pub(crate) const CONTROLLER: &str = "portolan-controller";

/// The plugin is another package's binary; a build of the workspace puts it beside ours.
fn plugin() -> PathBuf {
    let path = PathBuf::from(PORTOLAN).with_file_name("portolan-cni");
    assert!(path.exists(), "{} is missing: build the whole workspace", path.display());
    path
}

pub(crate) struct Cluster {
    pub(crate) controller: Process,
    pub(crate) agents: Vec<Process>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) api: ApiServer,
    lab: Lab,
    administrator: PathBuf,
    pub(crate) central: OvnCentral,
    /// A copy of the northbound database.
    pub(crate) nb: ovsdb::Client,
    runtime: Handle,
    // Holds the network between the nodes.
    _underlay: Underlay,
}

/// A pod with its sandbox.
pub(crate) struct Pod {
    pub(crate) name: &'static str,
    pub(crate) node: usize,
    uid: String,
    pub(crate) netns: Namespace,
}

impl Cluster {
    /// Raises everything and waits until the subnets may be used.
    pub(crate) fn start(lab: &Lab, api: Api, runtime: Handle) -> Self {
        let underlay = Underlay::start(lab).unwrap();
        let central = OvnCentral::builder().start(lab).unwrap();
        let home = underlay.home_address();
        let api = ApiServer::builder(api, home).audit_log().start(lab).unwrap();
        let kubeconfig = |user| api.kubeconfig_for(user, lab, home).unwrap();
        let administrator = kubeconfig("admin");
        let kubectl = |arguments: &[&str], input: &str| {
            api.kubectl(&administrator, lab).unwrap().args(arguments).stdin(input).read().unwrap();
        };
        kubectl(&["apply", "--server-side", "-f", CRDS], "");
        kubectl(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=30s"], "");
        kubectl(&["apply", "-f-"], OBJECTS);
        let controller = Daemon::new("controller", PORTOLAN)
            .args(["controller", "--ovn-nb", &central.nb().endpoint(), "--kubeconfig"])
            .arg(kubeconfig(CONTROLLER))
            .start(lab.home())
            .unwrap();
        let (mut agents, mut nodes) = (Vec::new(), Vec::new());
        for name in ["node1", "node2"] {
            let node = Node::builder(name).ovn(&central).start(&underlay).unwrap();
            let sockets = node.run_directory().join("portolan");
            std::fs::create_dir_all(&sockets).unwrap();
            let agent = Daemon::new(format!("agent-{name}"), PORTOLAN)
                .args(["agent", "--log=info,portolan_agent=debug", "--node", name, "--kubeconfig"])
                .arg(kubeconfig(name))
                .ready(Ready::Socket(sockets.join("cni.sock")))
                .start(node.namespace())
                .unwrap();
            agents.push(agent);
            nodes.push(node);
        }
        let nb = {
            let _runtime = runtime.enter();
            let endpoints = Endpoint::parse_list(&central.nb().endpoint()).unwrap();
            let builder = ovsdb::Client::builder("OVN_Northbound", endpoints);
            let tables = portolan_plan::northbound::DATABASE.indexes().into_iter();
            tables.fold(builder, |builder, (table, _)| builder.monitor(Monitor::table(table))).connect()
        };
        assert!(runtime.block_on(nb.ready()));
        let cluster = Cluster {
            controller,
            agents,
            nodes,
            api,
            lab: lab.clone(),
            administrator,
            central,
            nb,
            runtime,
            _underlay: underlay,
        };
        cluster.kubectl(
            &["wait", "--for=condition=Validated", "subnets.kubeovn.io", "--all", "--timeout=30s"],
            "",
        );
        cluster.wait_for_nb(|cache| portolan_plan::northbound::DATABASE.units_in(cache).len() == 3);
        cluster
    }

    pub(crate) fn kubectl(&self, arguments: &[&str], input: &str) -> String {
        self.api.kubectl(&self.administrator, &self.lab).unwrap().args(arguments).stdin(input).read().unwrap()
    }

    /// Waits until the northbound database is as it should be.
    pub(crate) fn wait_for_nb(&self, look: impl Fn(&Cache) -> bool) {
        self.runtime.block_on(self.nb.wait_for(|cache| look(cache).then_some(())));
    }

    /// Keeps the controller from writing to OVN until what is returned is dropped. It goes on with all else.
    pub(crate) fn hold_writes(&self) -> ovsdb::Lock {
        let mut lock = {
            let _runtime = self.runtime.enter();
            self.nb.steal("portolan")
        };
        assert!(self.runtime.block_on(lock.held()));
        lock
    }

    /// Whether no pod has a port in OVN.
    pub(crate) fn has_no_attachments(&self) -> bool {
        portolan_plan::northbound::DATABASE
            .units_in(&self.nb.read())
            .keys()
            .all(|unit| !unit.starts_with("attachment/"))
    }

    /// Waits until a node's Open vSwitch has a port of ours.
    pub(crate) fn wait_for_port(&self, node: usize) {
        use ovn_schema::vswitch::Interface;
        let endpoint = self.nodes[node].ovsdb_server().endpoint().parse::<Endpoint>().unwrap();
        self.runtime.block_on(async {
            let client =
                ovsdb::Client::builder("Open_vSwitch", [endpoint]).monitor(Monitor::of::<Interface>());
            let has_tag = |row: Interface| row.external_ids.contains_key("portolan/sandbox");
            let is_there = |cache: &Cache| cache.rows::<Interface>().any(|(_, row)| row.is_ok_and(has_tag));
            client.connect().wait_for(|cache| is_there(cache).then_some(())).await;
        });
    }

    /// Makes a pod that is bound to a node, and its sandbox.
    pub(crate) fn pod(&self, name: &'static str, node: usize, network: &str, gateway: &str) -> Pod {
        let networks =
            json!([{"name": network, "namespace": "default", "default-route": [gateway]}]).to_string();
        let pod = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "annotations": {"k8s.v1.cni.cncf.io/networks": networks}},
            "spec": {"nodeName": self.nodes[node].name(), "automountServiceAccountToken": false,
                "containers": [{"name": "main", "image": "none"}]}});
        self.kubectl(&["create", "-f-"], &pod.to_string());
        let uid = self.kubectl(&["get", "pod", name, "-o=jsonpath={.metadata.uid}"], "");
        let netns = self.nodes[node].namespace().network_beside(name).unwrap();
        Pod { name, node, uid, netns }
    }

    /// Plugs a pod in, as a container runtime does; returns its address.
    pub(crate) fn add(&self, pod: &Pod) -> Result<String, String> {
        let said = self.cni("ADD", pod)?;
        let result: Value = serde_json::from_str(&said).unwrap();
        let address = result["ips"][0]["address"].as_str().unwrap();
        Ok(address.split('/').next().unwrap().to_owned())
    }

    /// Calls the plugin as a container runtime does. A plugin that fails says why on standard output.
    pub(crate) fn cni(&self, command: &str, pod: &Pod) -> Result<String, String> {
        let arguments = format!(
            "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME={};K8S_POD_UID={}",
            pod.name, pod.uid
        );
        let config = json!({"cniVersion": "1.0.0", "name": "portolan", "type": "portolan-cni", "interfaces": "further"});
        let output = self.nodes[pod.node]
            .command(plugin())
            .env("CNI_COMMAND", command)
            .env("CNI_CONTAINERID", format!("sandbox-{}", pod.name))
            .env("CNI_NETNS", pod.netns.path())
            .env("CNI_IFNAME", "eth0")
            .env("CNI_PATH", "/opt/cni/bin")
            .env("CNI_ARGS", arguments)
            .stdin(config.to_string())
            .output()
            .unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        if output.status.success() { Ok(said) } else { Err(said) }
    }

    /// Deletes all objects, and waits until nothing is left of them anywhere.
    pub(crate) fn empty(&self, pods: &[Pod]) {
        for pod in pods {
            self.cni("DEL", pod).unwrap();
        }
        for node in &self.nodes {
            assert_eq!(made_on(node), Vec::<String>::new(), "left on {}", node.name());
        }
        let mut delete = vec!["delete", "pods", "--force", "--grace-period=0"];
        delete.extend(pods.iter().map(|pod| pod.name));
        self.kubectl(&delete, "");
        self.kubectl(&["delete", "-f-"], OBJECTS);
        self.wait_for_nb(|cache| portolan_plan::northbound::DATABASE.units_in(cache).is_empty());
        self.kubectl(&["wait", "--for=delete", "iplocks.portolan.dev", "--all", "--timeout=30s"], "");
        assert_eq!(self.kubectl(&["get", "iplocks.portolan.dev", "-o=name"], ""), "");
        assert_eq!(self.central.nbctl(&["show"]).unwrap(), "");
    }
}

/// What agents made on a node: ports, links and guards, all of which have the names that agents give links.
fn made_on(node: &Node) -> Vec<String> {
    let ports = node.vsctl(&["--bare", "--columns=name", "list", "Port"]).unwrap();
    let interfaces = node.vsctl(&["--bare", "--columns=name", "list", "Interface"]).unwrap();
    let links = node.command("ip").args(["-o", "link"]).read().unwrap();
    let guards = node.command("nft").args(["list", "ruleset"]).read().unwrap();
    let words = [ports, interfaces, links, guards].join("\n");
    let found =
        words.split([' ', '\n', '@', ':', '"']).filter(|word| word.starts_with("pt") && word.len() == 14);
    found.map(str::to_owned).collect()
}
