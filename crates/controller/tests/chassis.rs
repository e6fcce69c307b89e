//! Chassis of nodes that are gone leave OVN's southbound database, and no others do.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

use std::collections::BTreeSet;
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use ovn_schema::sb::{Chassis, ChassisPrivate};
use ovsdb::{Cache, Client, Endpoint, Monitor, TypedRow as _};
use portolan_controller::Config;
use portolan_testbed::{ApiKind, TestLab, Testbed};
use tokio::task::JoinHandle;

struct Stage {
    testbed: Testbed,
    southbound: Client,
}

impl Stage {
    fn new(lab: &TestLab) -> Self {
        let builder = Testbed::builder().nodes(0).api(ApiKind::Portolan);
        let testbed = builder.without_controller().without_agents().start(lab).unwrap();
        let endpoints = Endpoint::parse_list(&testbed.central().sb().endpoint()).unwrap();
        let builder = Client::builder("OVN_Southbound", endpoints);
        let southbound = builder.monitor(Monitor::of::<Chassis>()).monitor(Monitor::of::<ChassisPrivate>());
        Stage { southbound: southbound.connect(), testbed }
    }

    async fn start_controller(&self) -> JoinHandle<()> {
        let kubeconfig = Kubeconfig::read_from(self.testbed.kubeconfig()).unwrap();
        let kube =
            kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        let endpoints = |text: String| Endpoint::parse_list(&text).unwrap();
        let mut config = Config::new(kube, endpoints(self.testbed.central().nb().endpoint()));
        config.sb = endpoints(self.testbed.central().sb().endpoint()).into();
        tokio::spawn(async move { portolan_controller::run(config, std::future::pending()).await.unwrap() })
    }

    fn kubectl(&self, arguments: &[&str], input: &str) {
        self.testbed.kubectl().unwrap().args(arguments).stdin(input).read().unwrap();
    }

    fn add_node(&self, name: &str, chassis: &str) {
        let node = serde_json::json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "annotations": {"portolan.dev/chassis": chassis}},
        });
        self.kubectl(&["apply", "-f-"], &node.to_string());
    }

    /// What an ovn-controller would make.
    fn add_chassis(&self, name: &str, address: &str) {
        let central = self.testbed.central();
        central.sbctl(&["chassis-add", name, "geneve", address]).unwrap();
        central.sbctl(&["create", "Chassis_Private", &format!("name={name}")]).unwrap();
    }

    async fn wait(&self, what: &str, is_as_wanted: impl Fn(&Cache) -> bool + Send + Sync + 'static) {
        let seen = self.southbound.wait_for(move |cache| is_as_wanted(cache).then_some(()));
        if tokio::time::timeout(Duration::from_secs(30), seen).await.is_err() {
            panic!("{what}: there are {:?}", tagged(&self.southbound.read()));
        }
    }

    /// Waits until there are these chassis, each with the node it is tagged with.
    async fn chassis(&self, expected: &[(&str, &str)]) {
        let expected: BTreeSet<(String, String)> =
            expected.iter().map(|(chassis, node)| ((*chassis).to_owned(), (*node).to_owned())).collect();
        let what = format!("{expected:?}");
        self.wait(&what, move |cache| {
            let private: BTreeSet<String> =
                cache.rows::<ChassisPrivate>().map(|(_, row)| row.unwrap().name).collect();
            tagged(cache) == expected && private.iter().eq(expected.iter().map(|(chassis, _)| chassis))
        })
        .await;
    }
}

fn tagged(cache: &Cache) -> BTreeSet<(String, String)> {
    let rows = cache.table(Chassis::TABLE).into_iter().flat_map(ovsdb::Table::iter);
    let rows = rows.map(|row| Chassis::decode(row).unwrap());
    rows.map(|mut row| (row.name, row.external_ids.remove("portolan/node").unwrap_or_default())).collect()
}

#[test]
fn the_chassis_of_a_node_goes_with_the_node_and_no_other_does() {
    portolan_testbed::test(async |lab| {
        let stage = Stage::new(&lab);
        for (chassis, address) in
            [("one", "10.9.0.1"), ("two", "10.9.0.2"), ("three", "10.9.0.3"), ("stranger", "10.9.0.4")]
        {
            stage.add_chassis(chassis, address);
        }
        for (node, chassis) in [("node-1", "one"), ("node-2", "two"), ("node-3", "three")] {
            stage.add_node(node, chassis);
        }
        let first = stage.start_controller().await;
        stage.chassis(&[("one", "node-1"), ("two", "node-2"), ("three", "node-3"), ("stranger", "")]).await;
        stage.kubectl(&["delete", "node/node-1"], "");
        stage.chassis(&[("two", "node-2"), ("three", "node-3"), ("stranger", "")]).await;
        // A node that goes while no controller runs is known by the tag.
        first.abort();
        stage.kubectl(&["delete", "node/node-2"], "");
        let second = stage.start_controller().await;
        stage.chassis(&[("three", "node-3"), ("stranger", "")]).await;
        // A node that is made again keeps its chassis; one whose agent names another one does not.
        stage.kubectl(&["delete", "node/node-3"], "");
        stage.chassis(&[("stranger", "")]).await;
        stage.add_chassis("three", "10.9.0.3");
        stage.add_node("node-3", "three");
        stage.chassis(&[("three", "node-3"), ("stranger", "")]).await;
        stage.add_chassis("new", "10.9.0.5");
        stage.kubectl(&["annotate", "--overwrite", "node/node-3", "portolan.dev/chassis=new"], "");
        stage.chassis(&[("new", "node-3"), ("stranger", "")]).await;
        assert!(!second.is_finished());
        second.abort();
    });
}
