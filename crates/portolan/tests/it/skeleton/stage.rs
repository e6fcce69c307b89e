//! The cluster of these tests: two nodes with the real binaries and no runtime. The test calls the CNI plugin as a runtime does.

use ovsdb::{Cache, Endpoint, Monitor};
use portolan_testbed::{ApiKind, Node, Northbound, Sandbox, TestLab, Testbed};

const OBJECTS: &str = include_str!("objects.yaml");

/// A cluster with the objects, and a copy of its northbound database.
pub(crate) struct Stage {
    pub(crate) testbed: Testbed,
    pub(crate) northbound: Northbound,
}

impl Stage {
    /// Raises everything and waits until the subnets may be used.
    pub(crate) fn start(lab: &TestLab, api: ApiKind) -> Self {
        let testbed = Testbed::builder().nodes(2).api(api).audit_log().without_runtimes().start(lab).unwrap();
        testbed.apply(OBJECTS).unwrap();
        let northbound = testbed.northbound();
        let stage = Self { testbed, northbound };
        stage.kubectl(&["wait", "--for=condition=Validated", "subnets.kubeovn.io", "--all", "--timeout=30s"]);
        stage.northbound.wait_until(|cache| Northbound::units_in(cache).len() == 3);
        stage
    }

    pub(crate) fn kubectl(&self, arguments: &[&str]) -> String {
        self.testbed.kubectl().unwrap().args(arguments).read().unwrap()
    }

    /// Makes a pod that is bound to a node, and its sandbox.
    pub(crate) fn sandbox(&self, name: &str, node: &str, network: &str, gateway: &str) -> Sandbox {
        let pod = self.testbed.pod(name).on(node).nad(network).with("default-route", vec![gateway]);
        pod.create().unwrap();
        self.testbed.sandbox(name).unwrap()
    }

    /// Whether no pod has a port in OVN.
    pub(crate) fn has_no_attachments(&self) -> bool {
        self.northbound.units().iter().all(|unit| !unit.starts_with("attachment/"))
    }

    /// Waits until a node's Open vSwitch has a port of ours.
    pub(crate) fn wait_for_port(&self, node: &Node) {
        use ovn_schema::vswitch::Interface;
        let endpoint = node.ovsdb_server().endpoint().parse::<Endpoint>().unwrap();
        self.testbed.wait(async {
            let client =
                ovsdb::Client::builder("Open_vSwitch", [endpoint]).monitor(Monitor::of::<Interface>());
            let has_tag = |row: Interface| row.external_ids.contains_key("portolan/sandbox");
            let is_there = |cache: &Cache| cache.rows::<Interface>().any(|(_, row)| row.is_ok_and(has_tag));
            client.connect().wait_for(|cache| is_there(cache).then_some(())).await;
        });
    }

    /// Deletes all objects, and waits until nothing is left of them anywhere.
    pub(crate) fn empty(&self, sandboxes: &[Sandbox]) {
        for sandbox in sandboxes {
            sandbox.call("DEL").unwrap();
        }
        for node in self.testbed.nodes() {
            assert_eq!(made_on(node), Vec::<String>::new(), "left on {}", node.name());
        }
        let mut delete = vec!["delete", "pods", "--force", "--grace-period=0"];
        delete.extend(sandboxes.iter().map(Sandbox::name));
        self.kubectl(&delete);
        self.testbed.kubectl().unwrap().args(["delete", "-f-"]).stdin(OBJECTS).read().unwrap();
        self.northbound.wait_until(|cache| Northbound::units_in(cache).is_empty());
        self.kubectl(&["wait", "--for=delete", "iplocks.portolan.dev", "--all", "--timeout=30s"]);
        assert_eq!(self.kubectl(&["get", "iplocks.portolan.dev", "-o=name"]), "");
        assert_eq!(self.testbed.central().nbctl(&["show"]).unwrap(), "");
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
