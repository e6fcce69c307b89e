//! The agent is killed before and after every change that makes or removes a port of the node itself. The next one finishes it.

use std::time::Duration;

use portolan_testbed::{ONE_SWITCH, Test, TestLab, Testbed};
use serde_json::json;

use crate::node_faults::snapshot;
use crate::node_faults::steps::{kill_at_change, sandbox};

/// The changes of an interface of the node, and of a tap, as metrics name them.
const MAKING: [&[&str]; 2] = [&["plug", "prepare"], &["make_tap", "prepare", "plug"]];
const REMOVING: [&[&str]; 2] = [&["unplug"], &["unplug", "remove_link"]];

fn kubectl(testbed: &Testbed, arguments: &[&str]) -> String {
    testbed.kubectl().unwrap().args(arguments).read().unwrap()
}

fn create(testbed: &Testbed, name: &str, is_tap: bool) {
    let mut object = json!({ "apiVersion": "portolan.dev/v1alpha1", "kind": "NetworkAttachment",
        "metadata": { "name": name, "namespace": "default" }, "spec": { "node": "node1", "subnet": "sea" } });
    if is_tap {
        object["spec"]["tap"] = json!({});
    }
    testbed.apply(&object.to_string()).unwrap();
}

/// Waits until it is ready, and answers its interface.
fn ready(testbed: &Testbed, name: &str) -> String {
    kubectl(testbed, &["wait", "--for=condition=Ready", "--timeout=60s", &format!("pna/{name}")]);
    kubectl(testbed, &["get", "pna", name, "-o=jsonpath={.status.interface}"])
}

#[test]
fn an_agent_killed_at_any_change_of_a_port_of_the_node_leaves_nothing_that_the_next_one_does_not_finish() {
    Test::new().deadline(Duration::from_secs(600)).run(async |lab: TestLab| {
        let testbed = Testbed::builder().nodes(1).without_runtimes().start(&lab).unwrap();
        testbed.apply(ONE_SWITCH).unwrap();
        let witness = sandbox(&testbed, "witness").add().unwrap();
        let before = snapshot::of_node(&testbed);
        for (is_tap, (making, removing)) in [false, true].into_iter().zip(MAKING.into_iter().zip(REMOVING)) {
            for (change, moment) in
                making.iter().chain(removing).flat_map(|change| [(change, "Began"), (change, "Ended")])
            {
                let at = format!("{change} {moment}");
                let name = at.replace([' ', '_'], "-").to_lowercase() + if is_tap { "-tap" } else { "" };
                let is_made = removing.contains(change);
                if is_made {
                    create(&testbed, &name, is_tap);
                    ready(&testbed, &name);
                }
                kill_at_change(&testbed, &at, || match is_made {
                    true => drop(kubectl(&testbed, &["delete", "pna", &name])),
                    false => create(&testbed, &name, is_tap),
                });
                if !is_made {
                    let link = ready(&testbed, &name);
                    if !is_tap {
                        // What its link is given shows that it is guarded, up and on the network.
                        let node = testbed.nodes()[0].namespace();
                        let address =
                            kubectl(&testbed, &["get", "pna", &name, "-o=jsonpath={.status.address}"]);
                        node.ip(&format!("address add {address}/32 dev {link}")).unwrap();
                        let ping = ["-c1", "-w10", "-i0.05", "-I", &link, &witness.address().to_string()];
                        node.command("ping").args(ping).read().unwrap();
                    }
                    kubectl(&testbed, &["delete", "pna", &name]);
                }
                snapshot::wait_for(&testbed, &before, &at).await;
            }
        }
    });
}
