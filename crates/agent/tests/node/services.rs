//! What a node translates for Services.

use std::sync::Arc;
use std::time::Duration;

use portolan_host::service_map::TABLE;
use portolan_host::{TableChange, TableMonitor};
use portolan_testbed::{Node, Test};
use serde_json::json;
use tokio::io::unix::AsyncFd;

use crate::health::get;
use crate::plugged::primary;
use crate::stage::{Agents, Stage, blocking};

/// The table of a node, and its changes.
struct Table<'a> {
    node: &'a Node,
    monitor: Arc<TableMonitor>,
}

impl<'a> Table<'a> {
    fn of(node: &'a Node) -> Self {
        Self { node, monitor: node.namespace().run(|| TableMonitor::open(TABLE).unwrap()).into() }
    }

    fn nft(&self, command: &str) -> Option<String> {
        self.node.command("nft").args(command.split(' ')).read().ok()
    }

    /// Waits until a map of it has this text, or has not.
    fn waits(&mut self, map: &str, text: &str, expected: bool) {
        let has = |table: &Self| {
            table.nft(&format!("list map inet {TABLE} {map}")).is_some_and(|is| is.contains(text))
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        while has(self) != expected {
            runtime.block_on(async {
                #[expect(deprecated, reason = "its successor is unsafe")]
                let monitor = AsyncFd::new(Arc::clone(&self.monitor)).unwrap();
                loop {
                    let mut ready = monitor.readable().await.unwrap();
                    if let Ok(changes) = ready.try_io(|monitor| monitor.get_ref().read())
                        && !changes.unwrap().is_empty()
                    {
                        return;
                    }
                }
            });
        }
        while self.monitor.read().is_ok() {}
    }
}

#[test]
fn the_node_translates_for_services_what_these_say_and_what_somebody_destroys_comes_back() {
    Test::new().deadline(Duration::from_secs(300)).run(async |lab| {
        blocking(move || {
            let services = vec!["10.96.0.0/16".parse().unwrap()];
            let mut stage = Stage::start(&lab, 1, Agents { services, ..primary(60) });
            let service = |name: &str, ip: &str, node_port: u16, policy: &str| {
                stage.apply(&json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": name },
                    "spec": { "type": "NodePort", "clusterIP": ip, "externalTrafficPolicy": policy,
                        "ports": [{ "port": 80, "protocol": "TCP", "nodePort": node_port }] } }));
            };
            let node = &stage.testbed.nodes()[0];
            let mut table = Table::of(node);
            service("one", "10.96.7.1", 30081, "Local");
            table.waits("outside-node-ports-v4", "tcp . 30081 : 169.254.169.3", true);
            table.waits("node-ports-v4", "tcp . 30081 : 10.96.7.1", true);
            let routes = node.command("ip").args(["route", "show", "dev", "portolan0"]).read().unwrap();
            for route in ["10.96.0.0/16 via 10.128.0.1", "169.254.169.0/26 via 10.128.0.1"] {
                assert!(routes.contains(route), "{route}: {routes}");
            }
            while get(node, "/readyz/services").0 != 200 {
                std::thread::yield_now();
            }

            // Another one costs one transaction, and the first nothing.
            service("two", "10.96.7.2", 30082, "Cluster");
            let ready =
                |table: &Table<'_>| table.nft(&format!("list map inet {TABLE} node-ports-v4-port")).unwrap();
            let mut transactions = 0;
            while !ready(&table).contains("tcp . 30082 : 80") {
                std::thread::yield_now();
            }
            while let Ok(changes) = table.monitor.read() {
                assert!(!changes.contains(&TableChange::Lost));
                transactions += changes.len();
            }
            assert_eq!(transactions, 1);

            for damage in [
                format!("flush map inet {TABLE} node-ports-v4"),
                format!("delete element inet {TABLE} node-ports-v4 {{ tcp . 30081 }}"),
                format!("delete table inet {TABLE}"),
                "flush ruleset".to_owned(),
            ] {
                table.nft(&damage).unwrap();
                table.waits("node-ports-v4", "tcp . 30081 : 10.96.7.1", true);
            }
            let rules = || table.nft(&format!("list table inet {TABLE}")).unwrap_or_default();
            table.nft(&format!("flush chain inet {TABLE} output")).unwrap();
            let output =
                "chain output {\n\t\ttype nat hook output priority -100; policy accept;\n\t\tdnat ip to";
            while !rules().contains(output) {
                std::thread::yield_now();
            }

            // A change while something is missing that the table was taken to have.
            table.nft(&format!("delete element inet {TABLE} node-ports-v4 {{ tcp . 30082 }}")).unwrap();
            stage.kubectl(&["delete", "service", "two"], "");
            table.waits("node-ports-v4-port", "30082", false);
            table.waits("node-ports-v4", "tcp . 30081 : 10.96.7.1", true);

            // An agent that is to serve none takes away what is left.
            stage.stop_agents();
            stage.settings.services = Vec::new();
            stage.start_agents();
            let node = &stage.testbed.nodes()[0];
            while node.command("nft").args(["list", "table", "inet", TABLE]).read().is_ok() {
                std::thread::yield_now();
            }
        })
        .await;
    });
}
