//! Portolan beside the bridge plugin: its further interfaces on real pods, by the manifests in `examples`.
//!
//! Its processes run on the nodes themselves, beside an Open vSwitch of the nodes' own.

use std::panic::resume_unwind;
use std::thread;
use std::time::Duration;

use portolan_testbed::kubernetes::{Image, Kubernetes, Portolan};
use portolan_testbed::{Result, Test, TestLab};

use crate::{harvester, ovn4nfv};

const LAYER3: &str = include_str!("../../../../examples/harvester/layer3.yaml");

#[test]
fn users_of_harvester_and_ovn4nfv_have_what_they_rely_on_beside_the_primary() {
    Test::new().deadline(Duration::from_secs(900)).run(async |lab: TestLab| -> Result<()> {
        let cluster = Kubernetes::builder().nodes(2).open_vswitch().start(&lab)?;
        cluster.show_on_failure(&lab);
        cluster.load(&Image::agnhost()?)?;
        let portolan = Portolan::start(&cluster)?;
        for manifest in harvester::manifests().into_iter().chain([ovn4nfv::manifest()]) {
            cluster.apply(&manifest)?;
        }
        cluster.kubectl(&[
            "wait",
            "--for=condition=Ready",
            "pods",
            "--all",
            "--all-namespaces",
            "--timeout=400s",
        ])?;
        harvester::check(&cluster)?;
        ovn4nfv::check(&cluster)?;

        cluster.kubectl(&["delete", "pods", "--all", "--all-namespaces", "--grace-period=1"])?;
        // Those without a node are of gateways, and stay with their Subnets.
        for node in cluster.nodes() {
            let of_node = format!("--field-selector=spec.node={}", node.name());
            cluster.kubectl(&["wait", "--for=delete", "iplocks.portolan.dev", &of_node, "--timeout=60s"])?;
        }
        let ports = cluster.ovn().unwrap().nbctl(&[
            "--bare",
            "--columns=name",
            "find",
            "Logical_Switch_Port",
            "type=\"\"",
        ])?;
        assert_eq!(ports, "", "every lock is given back after its port");
        for node in cluster.nodes() {
            let left = node.running()?.open_vswitch().unwrap().vsctl(&["list-ports", "br-int"])?;
            assert!(left.lines().all(|port| port.starts_with("ovn-")), "{}: {left}", node.name());
        }
        for process in portolan.agents().iter().chain([portolan.controller()]) {
            assert!(process.is_alive(), "{}", process.log_tail());
        }
        Ok(())
    });
}

#[test]
fn guests_have_their_addresses_again_after_their_node_was_rebooted() {
    Test::new().deadline(Duration::from_secs(400)).run(async |lab: TestLab| -> Result<()> {
        let cluster = Kubernetes::builder().nodes(2).open_vswitch().start(&lab)?;
        cluster.show_on_failure(&lab);
        cluster.load(&Image::agnhost()?)?;
        let mut portolan = Portolan::start(&cluster)?;
        cluster.apply(&with_image(LAYER3))?;
        cluster.kubectl(&["wait", "--for=condition=Ready", "pods", "--all", "--timeout=180s"])?;
        let [vm1, vm2, vm3] =
            ["vm1", "vm2", "vm3"].map(|name| Guest { cluster: &cluster, namespace: "default", name });
        let addresses = [vm1.address()?, vm3.address()?];
        vm1.reaches(&addresses[1])?;

        cluster.node("node2")?.switch_off()?;
        vm1.reaches(&vm2.address()?)?;
        cluster.node("node2")?.switch_on()?;
        portolan.start_agent(&cluster, "node2")?;
        let restarted = "--for=jsonpath={.status.containerStatuses[0].restartCount}=1";
        cluster.kubectl(&["wait", restarted, "pod/vm3", "--timeout=180s"])?;
        cluster.kubectl(&["wait", "--for=condition=Ready", "pod/vm3", "--timeout=60s"])?;

        assert_eq!([vm1.address()?, vm3.address()?], addresses);
        vm1.reaches(&addresses[1])?;
        vm3.reaches(&addresses[0])
    });
}

/// A pod whose further interface is `net1`.
pub(crate) struct Guest<'a> {
    pub(crate) cluster: &'a Kubernetes,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
}

impl Guest<'_> {
    pub(crate) fn address(&self) -> Result<String> {
        let shown = self.run(&["ip", "-4", "-o", "address", "show", "net1"])?;
        let prefix = shown.split_whitespace().nth(3).unwrap_or_default();
        Ok(prefix.split('/').next().unwrap_or_default().to_owned())
    }

    pub(crate) fn reaches(&self, address: &str) -> Result<()> {
        self.run(&["ping", "-c1", "-w10", address]).map(drop)
    }

    /// With packets that must not be fragmented, and carry so many bytes.
    pub(crate) fn reaches_in_full_size(&self, address: &str, bytes: &str) -> Result<()> {
        self.run(&["ping", "-c1", "-w10", "-Mdo", "-s", bytes, address]).map(drop)
    }

    /// It is seen to reach others just before and after.
    pub(crate) fn does_not_reach(&self, addresses: impl IntoIterator<Item = impl AsRef<str>>) -> Result<()> {
        let addresses: Vec<_> = addresses.into_iter().map(|address| address.as_ref().to_owned()).collect();
        let at_once = r#"for address; do ping -c5 -i0.2 -w3 "$address" & done; wait"#;
        let output = self.command(&["sh", "-c", at_once, "sh"])?.args(&addresses).output()?;
        let said = String::from_utf8_lossy(&output.stdout);
        let silent = said.matches(" 0 received").count();
        assert_eq!(silent, addresses.len(), "{}/{} to {addresses:?}: {said}", self.namespace, self.name);
        Ok(())
    }

    pub(crate) fn run(&self, command: &[&str]) -> Result<String> {
        self.command(command)?.read()
    }

    fn command(&self, command: &[&str]) -> Result<portolan_testbed::Command> {
        Ok(self
            .cluster
            .kubectl_command()?
            .args(["exec", "-n", self.namespace, self.name, "--"])
            .args(command))
    }
}

/// The guests of the examples, as containers that wait.
pub(crate) fn with_image(manifest: &str) -> String {
    let guests = manifest.replace("image: none", "image: \"agnhost:1\"");
    assert_ne!(guests, manifest);
    guests
}

/// Goes through several lists at the same time: most of it is waiting for kubectl.
pub(crate) fn all_at_once(cluster: &Kubernetes, lists: &[fn(&Kubernetes) -> Result<()>]) -> Result<()> {
    thread::scope(|scope| {
        let running: Vec<_> = lists.iter().map(|list| scope.spawn(move || list(cluster))).collect();
        let results =
            running.into_iter().map(|list| list.join().unwrap_or_else(|panic| resume_unwind(panic)));
        results.collect::<Vec<_>>().into_iter().collect()
    })
}
