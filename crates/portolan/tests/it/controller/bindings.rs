//! A port that another chassis has bound than the one that it is for is told of, as OVN lets any chassis bind any port.

use ovn_schema::sb::{Chassis, PortBinding};
use ovsdb::{Cache, Client, Endpoint, Monitor};
use portolan_testbed::Testbed;

use crate::controller::OBJECTS;

/// The pod's port, once OVN knows which chassis it is for.
fn port(cache: &Cache) -> Option<PortBinding> {
    let ports = cache.rows::<PortBinding>().filter_map(|(_, row)| row.ok());
    ports
        .filter(|row| row.requested_chassis.is_some())
        .find(|row| row.logical_port.starts_with("port:default/app/"))
}

#[test]
fn a_port_that_another_chassis_binds_gets_an_event_until_it_no_longer_does() {
    portolan_testbed::test(async |lab| {
        let testbed = Testbed::builder().nodes(1).without_agents().without_runtimes().start(&lab).unwrap();
        let node = testbed.nodes()[0].name();
        let object = format!(r#"{{"apiVersion": "v1", "kind": "Node", "metadata": {{"name": "{node}"}}}}"#);
        testbed.kubectl().unwrap().args(["apply", "-f-"]).stdin(object.as_str()).read().unwrap();
        testbed.apply(OBJECTS).unwrap();
        testbed.pod("app").on(node).nad("web").create().unwrap();
        let endpoints = Endpoint::parse_list(&testbed.central().sb().endpoint()).unwrap();
        let builder = Client::builder("OVN_Southbound", endpoints).monitor(Monitor::of::<PortBinding>());
        let southbound = builder.monitor(Monitor::of::<Chassis>()).connect();
        let own = southbound.wait_for(port).await;

        testbed.central().sbctl(&["chassis-add", "thief", "geneve", "172.31.0.99"]).unwrap();
        let find = ["--bare", "--columns=_uuid", "find", "Port_Binding"];
        let found = format!("logical_port=\"{}\"", own.logical_port);
        let row = testbed.central().sbctl(&[&find[..], &[&found]].concat()).unwrap();
        let thief = testbed.central().sbctl(&["get", "Chassis", "thief", "_uuid"]).unwrap();
        let steal = format!("chassis={}", thief.trim());
        testbed.central().sbctl(&["set", "Port_Binding", row.trim(), &steal]).unwrap();
        let events = |reason: &str| {
            let fields = format!("--field-selector=reason={reason},regarding.name=app");
            let get = ["get", "events.events.k8s.io", &fields, "-o=jsonpath={.items[*].note}"];
            testbed.kubectl().unwrap().args(get).read().unwrap()
        };
        let note = loop {
            let note = events("BoundElsewhere");
            if !note.is_empty() {
                break note;
            }
        };
        assert!(
            note.contains(&format!("is bound by chassis thief and is for {node}"))
                && note.contains(&own.logical_port),
            "{note}"
        );

        testbed.central().sbctl(&["clear", "Port_Binding", row.trim(), "chassis"]).unwrap();
        while !events("Resolved").contains("BoundElsewhere") {}
    });
}
