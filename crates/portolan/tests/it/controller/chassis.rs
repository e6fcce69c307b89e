//! The chassis of a lost machine leaves the southbound database once its Node is deleted.

use std::collections::BTreeMap;

use ovn_schema::sb::{Chassis, ChassisPrivate};
use ovsdb::{Cache, Client, Endpoint, Monitor};
use portolan_testbed::Testbed;

/// The only chassis, if there is one.
fn chassis(cache: &Cache) -> Option<Chassis> {
    cache.rows::<Chassis>().next().map(|(_, row)| row.unwrap())
}

fn tags(chassis: &Chassis) -> BTreeMap<&str, &str> {
    let ids = chassis.external_ids.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    ids.filter(|(key, _)| key.starts_with("portolan/")).collect()
}

#[test]
fn the_tag_of_a_chassis_outlives_what_ovn_controller_writes_and_the_chassis_goes_with_its_node() {
    portolan_testbed::test(async |lab| {
        let testbed = Testbed::builder().nodes(1).without_agents().without_runtimes().start(&lab).unwrap();
        let node = &testbed.nodes()[0];
        let endpoints = Endpoint::parse_list(&testbed.central().sb().endpoint()).unwrap();
        let builder = Client::builder("OVN_Southbound", endpoints).monitor(Monitor::of::<Chassis>());
        let southbound = builder.monitor(Monitor::of::<ChassisPrivate>()).connect();
        let object =
            format!(r#"{{"apiVersion": "v1", "kind": "Node", "metadata": {{"name": "{}"}}}}"#, node.name());
        testbed.kubectl().unwrap().args(["apply", "-f-"]).stdin(object.as_str()).read().unwrap();
        let uid = ["get", "node", node.name(), "-o=jsonpath={.metadata.uid}"];
        let uid = testbed.kubectl().unwrap().args(uid).read().unwrap();
        let expected = BTreeMap::from([("portolan/node", node.name()), ("portolan/owner", uid.as_str())]);
        southbound.wait_for(|cache| chassis(cache).filter(|one| tags(one) == expected)).await;

        // ovn-controller writes its row again.
        node.vsctl(&["set", "Open_vSwitch", ".", "external_ids:ovn-cms-options=enable-chassis-as-gw"])
            .unwrap();
        let is_told =
            |one: &Chassis| one.other_config.get("ovn-cms-options").is_some_and(|it| !it.is_empty());
        southbound.wait_for(|cache| chassis(cache).filter(|one| is_told(one) && tags(one) == expected)).await;

        // The machine is lost, and its Node is deleted.
        node.ovn_controller().unwrap().kill().unwrap();
        assert!(chassis(&southbound.read()).is_some());
        testbed.kubectl().unwrap().args(["delete", "node", node.name()]).read().unwrap();
        southbound
            .wait_for(|cache| {
                let gone = chassis(cache).is_none() && cache.rows::<ChassisPrivate>().next().is_none();
                gone.then_some(())
            })
            .await;
    });
}
