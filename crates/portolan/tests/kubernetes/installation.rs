//! Portolan installed as its users do, on nodes with a primary network: by `portolan install`, and by the manifest. Nothing of it runs outside
//! of pods.

use std::time::Duration;

use portolan_testbed::kubernetes::{Image, Kubernetes, KubernetesNode};
use portolan_testbed::{Command, Result, Test, TestLab};

use crate::secondary::{Guest, with_image};

const PORTOLAN: &str = env!("CARGO_BIN_EXE_portolan");
const MANIFEST: &str = include_str!("../../../../deploy/portolan.yaml");
const LAYER3: &str = include_str!("../../../../examples/harvester/layer3.yaml");

#[test]
fn pods_get_their_networks_by_what_was_installed_and_nodes_are_as_before_afterwards() {
    Test::new().deadline(Duration::from_secs(900)).run(async |lab: TestLab| -> Result<()> {
        let cluster = Kubernetes::builder().nodes(2).start(&lab)?;
        cluster.show_on_failure(&lab);
        for image in [Image::agnhost()?, Image::portolan(&lab)?, Image::portolan_ovs(&lab)?] {
            cluster.load(&image)?;
        }
        let installed = Installed { cluster: &cluster, lab: &lab };
        let before = installed.nodes()?;

        installed.userspace_datapath()?;
        let said = installed.portolan(&["install", "--mode=secondary", "--timeout=240"]).read()?;
        assert!(said.ends_with("examples/ has some to begin with."), "{said}");
        installed.pods_have_networks()?;
        installed.nodes_know_the_api_servers()?;
        installed.central_moves()?;
        let refused = installed.portolan(&["uninstall"]).read().unwrap_err().to_string();
        assert!(refused.contains("have interfaces of Portolan"), "{refused}");
        installed.remove(&["uninstall"])?;
        assert_eq!(installed.nodes()?, before);
        assert!(
            cluster.kubectl(&["get", "vpcs.kubeovn.io", "-o=name"])?.contains("commonvpc"),
            "objects stay"
        );

        // The same objects, by those who have kubectl alone.
        installed.userspace_datapath()?;
        cluster.kubectl_command()?.args(["apply", "--server-side", "-f-"]).stdin(MANIFEST).read()?;
        for workload in [
            "statefulset/ovn-central",
            "daemonset/ovn-controller",
            "daemonset/portolan-agent",
            "deployment/portolan-controller",
        ] {
            cluster.kubectl(&["rollout", "status", "-n=portolan-system", workload, "--timeout=240s"])?;
        }
        installed.pods_have_networks()?;
        // A node is gone for good, as it seems.
        installed.nobody_has_addresses()?;
        installed.host_datapath()?;
        let [node1, node2] = [cluster.node("node1")?, cluster.node("node2")?];
        node2.switch_off()?;
        let refused = installed.portolan(&["uninstall", "--skip-node=node3"]).read().unwrap_err().to_string();
        assert!(refused.contains("there is no Node node3"), "{refused}");
        let said =
            installed.portolan(&["uninstall", "--skip-node=node2", "--delete-crds", "--yes"]).read()?;
        assert!(said.contains("node node2 was not cleaned: on it are the CNI plugin"), "{said}");
        assert_eq!(installed.left_on(node1)?, before[0]);
        let definitions = cluster.kubectl(&["get", "crds", "-o=name"])?;
        assert!(!definitions.contains("portolan.dev"), "{definitions}");
        // Who applies a manifest does not say what was there before.
        assert!(said.contains("subnets.kubeovn.io stays: kubectl wrote it too"), "{said}");
        assert!(definitions.contains("subnets.kubeovn.io"), "{definitions}");

        node2.switch_on()?;
        let files = |text: &str| {
            text.lines().filter(|line| line.starts_with('/')).map(str::to_owned).collect::<Vec<_>>()
        };
        let left = installed.left_on(node2)?;
        assert!(files(&left).iter().any(|file| file.ends_with("portolan.conflist")), "{left}");
        node2.command(PORTOLAN)?.args(["agent", "uninstall", "--everything"]).read()?;
        assert_eq!(files(&installed.left_on(node2)?), files(&before[1]));
        Ok(())
    });
}

pub(crate) struct Installed<'a> {
    pub(crate) cluster: &'a Kubernetes,
    pub(crate) lab: &'a TestLab,
}

impl Installed<'_> {
    pub(crate) fn portolan(&self, arguments: &[&str]) -> Command {
        let kubeconfig = self.cluster.api_server().kubeconfig();
        self.lab.command(PORTOLAN).args(arguments).env("KUBECONFIG", kubeconfig)
    }

    /// The guests of an example reach each other, on one node and between nodes, and go.
    fn pods_have_networks(&self) -> Result<()> {
        let cluster = self.cluster;
        cluster.apply(&with_image(LAYER3))?;
        cluster.kubectl(&["wait", "--for=condition=Ready", "pods", "--all", "--timeout=120s"])?;
        let [vm1, vm2, vm3] = ["vm1", "vm2", "vm3"].map(|name| Guest { cluster, namespace: "default", name });
        vm1.reaches(&vm2.address()?)?;
        vm1.reaches(&vm3.address()?)?;
        vm3.reaches(&vm1.address()?)
    }

    /// Every node keeps where API servers are, as these say it themselves.
    fn nodes_know_the_api_servers(&self) -> Result<()> {
        let of_service =
            ["get", "endpointslices", "-n=default", "-l=kubernetes.io/service-name=kubernetes", "-o"];
        let shown = "jsonpath={.items[0].endpoints[0].addresses[0]}:{.items[0].ports[0].port}";
        let listed = self.cluster.kubectl(&[&of_service[..], &[shown]].concat())?;
        for node in self.cluster.nodes() {
            assert_eq!(self.shell(node, "cat /var/lib/portolan/api-servers/addresses")?.trim(), listed);
        }
        Ok(())
    }

    /// OVN's databases come up empty on another node, and everybody finds them: networks are as they were, and new pods get theirs.
    fn central_moves(&self) -> Result<()> {
        let cluster = self.cluster;
        let place = ["get", "pod", "ovn-central-0", "-n=portolan-system", "-o=jsonpath={.spec.nodeName}"];
        let from = cluster.kubectl(&place)?;
        cluster.kubectl(&["cordon", &from])?;
        cluster.kubectl(&["delete", "pod", "ovn-central-0", "-n=portolan-system"])?;
        cluster.kubectl(&[
            "rollout",
            "status",
            "-n=portolan-system",
            "statefulset/ovn-central",
            "--timeout=120s",
        ])?;
        assert_ne!(cluster.kubectl(&place)?, from);
        cluster.kubectl(&["uncordon", &from])?;
        cluster.kubectl(&["delete", "pods", "--all", "--grace-period=1"])?;
        self.pods_have_networks()
    }

    /// Removes the guests, and the installation.
    fn remove(&self, arguments: &[&str]) -> Result<()> {
        self.nobody_has_addresses()?;
        self.host_datapath()?;
        self.portolan(arguments).read().map(drop)
    }

    fn nobody_has_addresses(&self) -> Result<()> {
        self.cluster.kubectl(&["delete", "pods", "--all", "--grace-period=1"])?;
        for node in self.cluster.nodes() {
            let of_node = format!("--field-selector=spec.node={}", node.name());
            self.cluster.kubectl(&[
                "wait",
                "--for=delete",
                "iplocks.portolan.dev",
                &of_node,
                "--timeout=60s",
            ])?;
        }
        Ok(())
    }

    /// Installs Open vSwitch alone. Its userspace datapath, which this machine has alone, sends tunnels by ports of its own: the interface that
    /// the nodes' network is on becomes one, before anything else has connections by it.
    pub(crate) fn userspace_datapath(&self) -> Result<()> {
        let is_needed = |document: &&str| {
            document.contains("\nkind: Namespace\n")
                || document.contains("\nkind: DaemonSet\n") && document.contains("\n  name: ovs\n")
        };
        let documents: Vec<_> = MANIFEST.split("\n---\n").filter(is_needed).collect();
        assert_eq!(documents.len(), 2);
        let apply = self.cluster.kubectl_command()?.args(["apply", "--server-side", "-f-"]);
        apply.stdin(documents.join("\n---\n")).read()?;
        let ready = format!("--for=jsonpath={{.status.numberReady}}={}", self.cluster.nodes().len());
        self.cluster.kubectl(&["wait", &ready, "-n=portolan-system", "daemonset/ovs", "--timeout=120s"])?;
        for node in self.cluster.nodes() {
            self.shell(node, USERSPACE_DATAPATH)?;
            node.running()?.machine().namespace().checksum_offload_off("br-und")?;
        }
        Ok(())
    }

    /// Gives the interfaces back to the hosts, before Open vSwitch goes.
    pub(crate) fn host_datapath(&self) -> Result<()> {
        self.cluster.nodes().iter().try_for_each(|node| self.shell(node, HOST_DATAPATH).map(drop))
    }

    pub(crate) fn shell(&self, node: &KubernetesNode, script: &str) -> Result<String> {
        node.command("bash")?.args(["-euc", script]).read()
    }

    /// What an installation could leave on nodes, and what it must not take.
    pub(crate) fn nodes(&self) -> Result<Vec<String>> {
        self.cluster.nodes().iter().map(|node| self.left_on(node)).collect()
    }

    fn left_on(&self, node: &KubernetesNode) -> Result<String> {
        let annotations = ["get", "node", node.name(), "-o=jsonpath={.metadata.annotations}"];
        let annotations = self.cluster.kubectl(&annotations)?;
        let ours = annotations.split(',').filter(|one| one.contains("portolan")).collect::<String>();
        Ok(format!("{}\n{ours}", self.shell(node, LEFT)?))
    }
}

const USERSPACE_DATAPATH: &str = "
address=$(ip -4 -o address show dev eth0 | awk '{print $4}')
routes=$(ip -4 route show dev eth0 | grep via || true)
ovs-vsctl --timeout=30 --may-exist add-br br-und -- set Bridge br-und datapath_type=netdev -- --may-exist add-port br-und eth0
ip address flush dev eth0
ip address add $address dev br-und
ip link set br-und up
while read -r route; do [ -z \"$route\" ] || ip route replace $route dev br-und; done <<<\"$routes\"";

const HOST_DATAPATH: &str = "
address=$(ip -4 -o address show dev br-und | awk '{print $4}')
routes=$(ip -4 route show dev br-und | grep via || true)
ovs-vsctl --timeout=30 del-br br-und
ip address add $address dev eth0
while read -r route; do [ -z \"$route\" ] || ip route replace $route dev eth0; done <<<\"$routes\"";

/// Links but those of pods and the bridge that the primary network makes for the first of them, files of the container runtime and of Portolan, and tables of nftables.
const LEFT: &str = "
ip -o link | awk '{print $2}' | grep -v '^veth\\|^cni0' | sort
find /etc/cni/net.d /opt/cni/bin /var/lib/portolan -type f 2>/dev/null | sort
nft list tables | grep -i portolan || true";
