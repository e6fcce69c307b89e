//! The kernel's datapath: Debian's kernel boots under qemu, with the machine's files as its own, and runs the test `inside`. Its packets
//! are forwarded by the modules openvswitch and geneve, which the kernel of the machine need not have.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

mod machine;

use std::time::Duration;

use portolan_testbed::{Datapath, ONE_SWITCH, Sandbox, Test, TestLab, Testbed};

use crate::machine::Machine;

/// Set in the machine under qemu, and nowhere else.
const INSIDE: &str = "PORTOLAN_TEST_INSIDE";

#[test]
#[ignore = "boots a kernel under qemu, which takes minutes; `make test-full` runs it"]
fn pods_on_two_nodes_reach_each_other_through_the_kernels_datapath() {
    Machine::find().run("inside", INSIDE, Duration::from_secs(1200));
}

/// Two nodes, a pod on each; traffic between them across geneve; nothing left in the end.
#[test]
#[ignore = "run by pods_on_two_nodes_reach_each_other_through_the_kernels_datapath"]
fn inside() {
    if std::env::var_os(INSIDE).is_none() {
        return;
    }
    Test::new().deadline(Duration::from_secs(1000)).run(async |lab: TestLab| {
        let testbed =
            Testbed::builder().nodes(2).datapath(Datapath::System).without_runtimes().start(&lab).unwrap();
        testbed.apply(ONE_SWITCH).unwrap();
        let [first, second] = ["node1", "node2"].map(|node| sandbox(&testbed, node));
        let (a, b) = (first.add().unwrap(), second.add().unwrap());
        testbed.ping(&a, &b).patience(Duration::from_secs(60)).succeeds();
        testbed.tcp(&a, &b).succeeds();
        for node in testbed.nodes() {
            let bridge = node.vsctl(&["get", "Bridge", "br-int", "datapath_type"]).unwrap();
            assert_eq!(bridge, "system");
            let links = node.command("ip").args(["-o", "link"]).read().unwrap();
            assert!(links.contains("ovs-system") && links.contains("genev_sys_"), "{links}");
            let rules = node.command("nft").args(["list", "ruleset"]).read().unwrap();
            assert_eq!(rules, "", "the kernel's datapath takes frames before the host sees them");
        }
        for sandbox in [first, second] {
            sandbox.call("DEL").unwrap();
            let ports = sandbox.node().vsctl(&["list-ports", "br-int"]).unwrap();
            assert!(!ports.lines().any(|port| port.starts_with("pt")), "{ports}");
        }
    });
}

fn sandbox(testbed: &Testbed, node: &str) -> Sandbox {
    let name = format!("pod-on-{node}");
    testbed.pod(&name).on(node).nad("sea").create().unwrap();
    testbed.sandbox(&name).unwrap()
}
