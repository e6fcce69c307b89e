//! Two API servers on one etcd, one of which is lost for good: everything goes on with the other, also what is started anew with the address
//! of the first.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use portolan_testbed::{Daemon, KubeApiServer, Node, Process, Ready, Result, Test, TestLab, Underlay};
use serde_json::json;

use super::stage::{HOME, Stage};
use crate::installation::PORTOLAN;

/// Where the second one is.
const SECOND: IpAddr = IpAddr::V4(Ipv4Addr::new(172, 31, 0, 2));

/// Whoever has the second.
struct Kubectl<'a> {
    stage: &'a Stage<'a>,
    kubeconfig: PathBuf,
}

impl Kubectl<'_> {
    fn run(&self, arguments: &[&str], input: &str) -> Result<String> {
        let kubectl = self.stage.api.kubectl()?.env("KUBECONFIG", &self.kubeconfig);
        kubectl.args(arguments).stdin(input).read()
    }

    /// Asks for an interface of the node, which takes a controller and the node's agent, and waits until it is there.
    fn attach(&self, name: &str) -> Result<()> {
        let object = json!({"apiVersion": "portolan.dev/v1alpha1", "kind": "NetworkAttachment",
            "metadata": {"name": name, "namespace": "default"}, "spec": {"node": "node1", "subnet": "blue"}});
        self.run(&["apply", "-f-"], &object.to_string())?;
        self.run(&["wait", "--for=condition=Ready", "--timeout=90s", &format!("pna/{name}")], "").map(drop)
    }
}

fn agent(stage: &Stage<'_>, node: &Node, file: &Path) -> Result<Process> {
    let kubeconfig = stage.pod("portolan-agent", node.name())?;
    Daemon::new("agent", PORTOLAN)
        .env("RUST_BACKTRACE", "0")
        .args(["agent", "--node", node.name(), "--ovn-addresses=portolan-system/ovn-central", "--ovn-tls"])
        .arg(format!("--kubeconfig={}", kubeconfig.display()))
        .arg(format!("--api-servers-file={}", file.display()))
        .arg("--health-address=10691")
        .ready(Ready::Notify)
        .start(node.namespace())
}

/// Waits until all API servers are known, wherever that is said.
fn wait_for_both(port: u16, process: &Process, said: impl Fn() -> Result<String>) -> Result<()> {
    wait_for(&[HOME, &SECOND.to_string()].map(|address| format!("{address}:{port}")), process, said)
}

fn wait_for(parts: &[String], process: &Process, said: impl Fn() -> Result<String>) -> Result<()> {
    loop {
        let said = said()?;
        if parts.iter().all(|part| said.contains(part.as_str())) {
            return Ok(());
        }
        assert!(process.is_alive(), "{}", process.log_tail());
        std::thread::yield_now();
    }
}

fn read(file: &Path) -> Result<String> {
    Ok(std::fs::read_to_string(file).unwrap_or_default())
}

fn page(node: &Node, path: &str) -> Result<String> {
    node.command("curl").args(["-sS", &format!("http://127.0.0.1:10691/{path}")]).read()
}

fn debug(node: &Node) -> Result<String> {
    page(node, "debug/node")
}

#[test]
fn everything_goes_on_with_another_api_server_also_after_a_restart_with_the_address_of_the_one_that_is_gone()
{
    Test::new().deadline(Duration::from_secs(400)).run(async |lab: TestLab| -> Result<()> {
        let underlay = Underlay::start(&lab)?;
        lab.home().ip(&format!("address add {SECOND}/24 dev underlay"))?;
        let home: IpAddr = HOME.parse().unwrap();
        let first = KubeApiServer::builder().advertise(home).arg("--permit-port-sharing").start(&lab)?;
        let _second = first.another(&lab, "second", SECOND)?;
        let stage = Stage::on(&lab, underlay, first)?;
        let (port, files) = (stage.api.port(), lab.directory("api-servers")?);
        let by_second = Kubectl {
            stage: &stage,
            kubeconfig: stage.api.kubeconfig_for("second", Some("system:masters"), SECOND)?,
        };

        let file = |name: &str| files.join(name);
        let flag = |name: &str| format!("--api-servers-file={}", file(name).display());
        let controller = stage.controller(&[&flag("controller")])?;
        wait_for_both(port, &controller, || read(&file("controller")))?;
        let central = stage.central_with(&[&flag("central")])?;
        let node = stage.node("node1")?;
        let ovn_controller = stage.ovn_controller_with(&node, &[&flag("ovn-controller")])?;
        let agent = agent(&stage, &node, &file("agent"))?;
        ovn_controller.wait_until_ready()?;
        wait_for_both(port, &agent, || read(&file("agent")))?;
        wait_for_both(port, &agent, || debug(&node))?;
        let followed = ["portolan_agent_api_servers 2\n", "portolan_agent_api_servers_followed 1\n"];
        wait_for(&followed.map(str::to_owned), &agent, || page(&node, "metrics"))?;
        wait_for_both(port, &ovn_controller, || read(&file("ovn-controller")))?;
        wait_for_both(port, &central.southbound, || read(&file("central")))?;
        stage.apply(
            &json!({"apiVersion": "kubeovn.io/v1", "kind": "Vpc", "metadata": {"name": "blue"}, "spec": {}}),
        )?;
        stage.apply(&json!({
            "apiVersion": "kubeovn.io/v1", "kind": "Subnet", "metadata": {"name": "blue"},
            "spec": {"vpc": "blue", "protocol": "IPv4", "cidrBlock": "10.1.0.0/24", "gateway": "10.1.0.1", "namespaces": ["default"]},
        }))?;
        by_second.attach("before")?;

        stage.api.kill()?;
        by_second.attach("after")?;
        assert!(debug(&node)?.contains(&format!("\"current\": \"{SECOND}:{port}\"")), "{}", debug(&node)?);
        // Both begin with the address that they were given, where nobody is any more.
        for process in [&agent, &controller] {
            process.kill()?;
            process.restart()?;
        }
        agent.wait_until_ready()?;
        by_second.attach("anew")?;
        // What asks for certificates and keeps addresses of databases goes on as well.
        let certificates = [
            (&central.southbound, stage.central_directory().join("southbound-tls")),
            (&ovn_controller, node.file("/run/ovn/ovn-controller-tls")),
        ];
        for (process, certificate) in certificates {
            process.kill()?;
            std::fs::remove_dir_all(certificate).unwrap();
            process.restart()?;
            process.wait_until_ready()?;
        }
        by_second.attach("at-last")
    });
}
