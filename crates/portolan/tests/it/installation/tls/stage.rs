//! The parts, each with the token that its pod would have.

use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::Secret;
use portolan_authority::{Authority, Leaf, Usages};
use portolan_testbed::{Daemon, KubeApiServer, Node, Process, Ready, Result, TestLab, Underlay};
use serde_json::json;

use crate::installation::PORTOLAN;

const MANIFEST: &str = include_str!("../../../../../../deploy/portolan.yaml");
pub(super) const NAMESPACE: &str = "portolan-system";
/// Where everything but nodes is.
pub(super) const HOME: &str = "172.31.0.1";

/// An API server with the objects of the installation. Nothing of it runs by itself.
pub(super) struct Stage<'a> {
    pub(super) lab: &'a TestLab,
    pub(super) api: KubeApiServer,
    pub(super) underlay: Underlay,
    directory: PathBuf,
}

/// Files of a client.
pub(super) struct Client {
    pub(super) arguments: [String; 3],
}

impl<'a> Stage<'a> {
    pub(super) fn new(lab: &'a TestLab) -> Result<Self> {
        let underlay = Underlay::start(lab)?;
        Self::on(lab, underlay, KubeApiServer::builder().start(lab)?)
    }

    pub(super) fn on(lab: &'a TestLab, underlay: Underlay, api: KubeApiServer) -> Result<Self> {
        let stage = Self { lab, api, underlay, directory: lab.directory("certified")? };
        let apply = ["apply", "--server-side", "-f-"];
        stage.api.kubectl()?.args(apply).stdin(MANIFEST).read()?;
        stage.kubectl(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"])?;
        stage.node_object("central", HOME)?;
        Ok(stage)
    }

    pub(super) fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        self.api.kubectl()?.args(arguments).read()
    }

    pub(super) fn apply(&self, object: &serde_json::Value) -> Result<String> {
        self.api.kubectl()?.args(["apply", "-f-"]).stdin(object.to_string()).read()
    }

    /// A Node with this address.
    pub(super) fn node_object(&self, name: &str, address: &str) -> Result<()> {
        self.apply(&json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}))?;
        let status =
            json!({"status": {"addresses": [{"type": "InternalIP", "address": address}]}}).to_string();
        self.kubectl(&["patch", "node", name, "--subresource=status", "--type=merge", "-p", &status])
            .map(drop)
    }

    /// A kubeconfig with the token of a pod of this account on this node.
    pub(super) fn pod(&self, account: &str, node: &str) -> Result<PathBuf> {
        self.pod_named(&format!("{account}-{node}"), account, node)
    }

    /// The same, for a pod of this name.
    pub(super) fn pod_named(&self, pod: &str, account: &str, node: &str) -> Result<PathBuf> {
        self.apply(&json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": pod, "namespace": NAMESPACE},
            "spec": {"nodeName": node, "serviceAccountName": account, "containers": [{"name": "one", "image": "none"}]},
        }))?;
        let bound = ["--bound-object-kind=Pod", &format!("--bound-object-name={pod}")];
        let token = self.kubectl(&[&["create", "token", account, "-n", NAMESPACE][..], &bound].concat())?;
        let ca = self.api.authority().write(&self.directory, "kubernetes")?;
        let server = format!("https://{HOME}:{}", self.api.port());
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "lab",
            "clusters": [{"name": "lab", "cluster": {"server": server, "certificate-authority": ca}}],
            "users": [{"name": pod, "user": {"token": token.trim()}}],
            "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": pod}}],
        });
        let path = self.kubeconfig_of(pod);
        std::fs::write(&path, config.to_string()).unwrap();
        Ok(path)
    }

    /// Where that is.
    pub(super) fn kubeconfig_of(&self, pod: &str) -> PathBuf {
        self.directory.join(format!("{pod}.kubeconfig"))
    }

    /// A controller, which is ready once it has reached both databases.
    pub(super) fn controller(&self, more: &[&str]) -> Result<Process> {
        self.controller_of("controller", "portolan-system/ovn-central", more)
    }

    /// A controller that signs certificates, and finds no database.
    pub(super) fn signer(&self) -> Result<Process> {
        self.controller_of("signer", "portolan-system/nowhere", &[])
    }

    fn controller_of(&self, name: &str, addresses: &str, more: &[&str]) -> Result<Process> {
        let kubeconfig = self.pod("portolan-controller", "central")?;
        let directory = self.directory.join(name);
        let port = self.lab.port();
        Daemon::new(name, PORTOLAN)
            .args(["controller", "--ovn-tls=portolan-system"])
            .arg(format!("--ovn-addresses={addresses}"))
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .arg(format!("--ovn-tls-directory={}", directory.display()))
            .arg(format!("--health-address={port}"))
            .args(more)
            .spawn(self.lab.home())
    }

    /// Waits until a controller says that it acts, with both databases in reach.
    pub(super) fn wait_for_ready(&self, controller: &Process) -> Result<()> {
        self.kubectl(&["wait", "--for=condition=Ready", "subnets.kubeovn.io", "--all", "--timeout=60s"])
            .inspect_err(|_| eprintln!("{}", controller.log_tail()))
            .map(drop)
    }

    /// A server of a database, by a name of its own.
    pub(super) fn database(&self, name: &str, kind: &str, more: &[&str]) -> Result<Daemon> {
        let kubeconfig = self.pod("ovn-central", "central")?;
        let directory = self.central_directory();
        Ok(Daemon::new(name, PORTOLAN)
            .env("RUST_BACKTRACE", "0")
            .args(["ovn-central", kind, "--listen", HOME, "--tls=portolan-system"])
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .arg(format!("--run-dir={}", directory.display()))
            .arg(format!("--data-dir={}", directory.join("data").display()))
            .args(more)
            .ready(Ready::Notify))
    }

    pub(super) fn central_directory(&self) -> PathBuf {
        self.directory.join("central")
    }

    pub(super) fn central(&self) -> Result<Central<'_>> {
        self.central_with(&[])
    }

    pub(super) fn central_with(&self, more: &[&str]) -> Result<Central<'_>> {
        let publish = ["--publish=portolan-system/ovn-central", "--member=ovn-central-0"];
        let publish = [&publish[..], more].concat();
        let southbound = self.database("southbound", "southbound", &publish)?.start(self.lab.home())?;
        let northbound = self.database("northbound", "northbound", more)?.start(self.lab.home())?;
        let run = format!("--run-dir={}", self.central_directory().display());
        let northd =
            Daemon::new("northd", PORTOLAN).args(["ovn-central", "northd", &run]).ready(Ready::Notify);
        let northd = northd.start(self.lab.home())?;
        Ok(Central { stage: self, northbound, southbound, _northd: northd })
    }

    /// A node with Open vSwitch as an agent would have set it up, and no ovn-controller.
    pub(super) fn node(&self, name: &str) -> Result<Node> {
        let node = Node::builder(name).start(&self.underlay)?;
        let address = node.address().to_string();
        self.node_object(name, &address)?;
        let ids = [
            format!("system-id={name}"),
            format!("hostname={name}"),
            format!("ovn-remote=ssl:{HOME}:6642"),
            "ovn-encap-type=geneve".into(),
            format!("ovn-encap-ip={address}"),
            "ovn-bridge-datapath-type=netdev".into(),
        ];
        let ids: Vec<_> = ids.iter().map(|id| format!("external-ids:{id}")).collect();
        let ids: Vec<_> = ids.iter().map(String::as_str).collect();
        node.vsctl(&[&["set", "Open_vSwitch", "."][..], &ids[..]].concat())?;
        Ok(node)
    }

    pub(super) fn ovn_controller(&self, node: &Node) -> Result<Process> {
        self.ovn_controller_with(node, &[])
    }

    pub(super) fn ovn_controller_with(&self, node: &Node, more: &[&str]) -> Result<Process> {
        let kubeconfig = self.pod("ovn-controller", node.name())?;
        Daemon::new("ovn-controller", PORTOLAN)
            .env("RUST_BACKTRACE", "0")
            .args(["ovn-controller", "--run-dir=/run/ovn", "--tls=portolan-system"])
            .args(more)
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .ready(Ready::Notify)
            .spawn(node.namespace())
    }

    /// The authority in a Secret.
    pub(super) fn authority(&self, name: &str) -> Result<Authority> {
        let secret = self.kubectl(&["get", "secret", name, "-n", NAMESPACE, "-o", "json"])?;
        let secret: Secret = serde_json::from_str(&secret).unwrap();
        Ok(Authority::read(&secret).unwrap())
    }

    /// A client with a certificate that this authority signs, as if it were that many days ago.
    pub(super) fn client(&self, authority: &Authority, name: &str, days_ago: i64) -> Client {
        let now = jiff::Timestamp::now() - jiff::SignedDuration::from_hours(24 * days_ago);
        let leaf = Leaf {
            common_name: name.into(),
            organization: None,
            dns_names: Vec::new(),
            addresses: Vec::new(),
            usages: Usages::Client,
            life: jiff::SignedDuration::from_hours(24),
        };
        let key = rcgen::KeyPair::generate().unwrap();
        let signed = authority.sign(&leaf, &key, now).unwrap();
        // Whoever attacks trusts everybody.
        let servers = self.authority("ovn-central-authority").unwrap();
        let directory = self.directory.join(format!("{name}-{:016x}", fastrand::u64(..)));
        std::fs::create_dir_all(&directory).unwrap();
        let write = |flag: &str, text: &str| {
            let path = directory.join(flag);
            std::fs::write(&path, text).unwrap();
            format!("--{flag}={}", path.display())
        };
        Client {
            arguments: [
                write("private-key", &key.serialize_pem()),
                write("certificate", &signed.pem),
                write("ca-cert", servers.bundle()),
            ],
        }
    }
}

/// OVN's central daemons.
pub(super) struct Central<'a> {
    stage: &'a Stage<'a>,
    pub(super) northbound: Process,
    pub(super) southbound: Process,
    _northd: Process,
}

impl Central<'_> {
    fn tool(&self, program: &str, database: &str, more: &[String], arguments: &[&str]) -> Result<String> {
        let command = self.stage.lab.command(program).arg(format!("--db={database}"));
        command.args(["--timeout=30", "--no-leader-only"]).args(more).args(arguments).read()
    }

    fn socket(&self, name: &str) -> String {
        format!("unix:{}", self.stage.central_directory().join(name).display())
    }

    /// As root of the host may, by the Unix socket.
    pub(super) fn nbctl(&self, arguments: &[&str]) -> Result<String> {
        self.tool("ovn-nbctl", &self.socket("ovnnb_db.sock"), &[], arguments)
    }

    pub(super) fn sbctl(&self, arguments: &[&str]) -> Result<String> {
        self.tool("ovn-sbctl", &self.socket("ovnsb_db.sock"), &[], arguments)
    }

    /// As a client may that comes by the network.
    pub(super) fn nbctl_as(&self, client: &Client, arguments: &[&str]) -> Result<String> {
        let short: Vec<String> = [&["--timeout=5".to_owned()][..], &client.arguments].concat();
        self.tool("ovn-nbctl", &format!("ssl:{HOME}:6641"), &short, arguments)
    }

    pub(super) fn sbctl_as(&self, client: &Client, port: u16, arguments: &[&str]) -> Result<String> {
        let short: Vec<String> = [&["--timeout=5".to_owned()][..], &client.arguments].concat();
        self.tool("ovn-sbctl", &format!("ssl:{HOME}:{port}"), &short, arguments)
    }
}

/// The files that a daemon keeps.
pub(super) fn files(directory: &Path) -> Client {
    let file =
        |flag: &str, name: &str| format!("--{flag}={}", directory.join("current").join(name).display());
    Client {
        arguments: [
            file("private-key", "tls.key"),
            file("certificate", "tls.crt"),
            file("ca-cert", "ca.crt"),
        ],
    }
}
