//! A node with a primary network of the reference plugins, on which Portolan is installed.

use std::time::Duration;

use portolan_testbed::{Test, TestLab, Testbed};

const OBJECTS: &str = include_str!("../lab/objects.yaml");

/// A primary network as an administrator would write it.
const PRIMARY: &str = r#"{
  "cniVersion": "1.0.0", "name": "cluster",
  "plugins": [{"type": "bridge", "bridge": "cni0", "isGateway": true,
    "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.244.1.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]
}"#;

#[test]
fn pods_get_the_primary_network_and_their_own_by_what_was_installed() {
    Test::new().deadline(Duration::from_secs(180)).run(async |lab: TestLab| {
        let testbed = Testbed::builder().nodes(1).start(&lab).unwrap();
        testbed.apply(OBJECTS).unwrap();
        let node = testbed.node("node1").unwrap();
        let programs = portolan_testbed::cluster::Programs::built().unwrap();
        // What the lab has in place is replaced by what a node of a cluster has.
        node.namespace().run(|| {
            std::fs::remove_file("/etc/cni/net.d/10-portolan.conflist").unwrap();
            std::fs::write("/etc/cni/net.d/10-cluster.conflist", PRIMARY).unwrap();
            for plugin in ["bridge", "host-local"] {
                std::os::unix::fs::symlink(
                    format!("/usr/lib/cni/{plugin}"),
                    format!("/opt/cni/bin/{plugin}"),
                )
                .unwrap();
            }
        });
        node.command(programs.portolan()).args(["agent", "install"]).read().unwrap();

        let pods = ["a", "b"].map(|name| testbed.pod(name).on("node1").nad("web").start().unwrap());
        let [a, b] = &pods;
        assert!(b.address().to_string().starts_with("10.244.1."), "the primary's address is the pod's");
        a.command("ping").args(["-c1", "-w10", &b.address().to_string()]).read().unwrap();
        let shown = b.command("ip").args(["-o", "-4", "address", "show", "net1"]).read().unwrap();
        let own = shown.split_whitespace().nth(3).unwrap().split('/').next().unwrap().to_owned();
        assert!(own.starts_with("10.0.0."), "{shown}");
        a.command("ping").args(["-c1", "-w10", "-I", "net1", &own]).read().unwrap();

        for pod in &pods {
            pod.delete().unwrap();
        }
        let said = node.command(programs.portolan()).args(["agent", "uninstall"]).read().unwrap();
        assert!(said.starts_with("/etc/cni/net.d/00-portolan.conflist removed"), "{said}");
        // The runtime's next pod has the primary's network alone.
        let plain = testbed.pod("plain").on("node1").nad("web").start().unwrap();
        assert!(plain.command("ip").args(["link", "show", "net1"]).read().is_err());
    });
}
