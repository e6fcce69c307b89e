//! The kernel's datapath: Debian's kernel boots under qemu, with the machine's files as its own, and runs the test `inside`. Its packets
//! are forwarded by the modules openvswitch and geneve, which the kernel of the machine need not have.

mod machine;

use std::time::Duration;

use portolan_testbed::{Datapath, ONE_SWITCH, Pod, Sandbox, Test, TestLab, Testbed};

use crate::kernel_datapath::machine::Machine;

/// Set in the machine under qemu, and nowhere else.
const INSIDE: &str = "PORTOLAN_TEST_INSIDE";

#[test]
#[ignore = "boots a kernel under qemu, which takes minutes; `make test-full` runs it"]
fn pods_on_two_nodes_reach_each_other_through_the_kernels_datapath() {
    Machine::find().run("kernel_datapath::inside", INSIDE, Duration::from_secs(1200));
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
        packets_of_the_mtu_get_through_whole(&a, &b);
        for node in testbed.nodes() {
            let bridge = node.vsctl(&["get", "Bridge", "br-int", "datapath_type"]).unwrap();
            assert_eq!(bridge, "system");
            let links = node.command("ip").args(["-o", "link"]).read().unwrap();
            assert!(links.contains("ovs-system") && links.contains("genev_sys_"), "{links}");
            let rules = node.command("nft").args(["list", "ruleset"]).read().unwrap();
            assert_eq!(rules, "", "the kernel's datapath takes frames before the host sees them");
        }
        interfaces_of_the_node(&testbed, &a);
        a_link_that_is_no_port_is_down(&testbed, [&a, &b]);
        for sandbox in [first, second] {
            sandbox.call("DEL").unwrap();
            let ports = sandbox.node().vsctl(&["list-ports", "br-int"]).unwrap();
            assert!(!ports.lines().any(|port| port.starts_with("pt")), "{ports}");
        }
    });
}

fn packets_of_the_mtu_get_through_whole(from: &Pod, to: &Pod) {
    let link = from.netns().command("ip").args(["-o", "link", "show", "net1"]).read().unwrap();
    let mtu = link.split_once(" mtu ").unwrap().1.split(' ').next().unwrap();
    // What headers leave.
    let size = (mtu.parse::<u16>().unwrap() - 28).to_string();
    let to = to.address().to_string();
    from.netns().command("ping").args(["-c1", "-w60", "-i0.2", "-Mdo", "-s", &size, &to]).read().unwrap();
}

const INTERFACES: &str = "
apiVersion: portolan.dev/v1alpha1
kind: NetworkAttachment
metadata: {name: front, namespace: default}
spec: {node: node1, subnet: sea, address: 10.0.7.1}
---
apiVersion: portolan.dev/v1alpha1
kind: NetworkAttachment
metadata: {name: vm, namespace: default}
spec: {node: node1, subnet: sea, tap: {}}
";

/// An interface of the node, which has its guard on this datapath too, and a tap, which has none and is up only as a port.
fn interfaces_of_the_node(testbed: &Testbed, pod: &Pod) {
    testbed.apply(INTERFACES).unwrap();
    let kubectl = |arguments: &[&str]| testbed.kubectl().unwrap().args(arguments).read().unwrap();
    kubectl(&["wait", "--for=condition=Ready", "--timeout=300s", "pna/front", "pna/vm"]);
    let link = |name: &str| kubectl(&["get", "pna", name, "-o=jsonpath={.status.interface}"]);
    let (front, vm) = (link("front"), link("vm"));
    let node = &testbed.nodes()[0];
    let shown = |link: &str| node.command("ip").args(["-d", "-o", "link", "show", link]).read();
    let tap = shown(&vm).unwrap();
    assert!(tap.contains(",UP") && tap.contains("master ovs-system"), "{tap}");
    assert!(shown(&front).unwrap().contains(",UP"));
    let guards = node.command("nft").args(["list", "chains"]).read().unwrap();
    assert!(guards.contains(&front) && !guards.contains(&vm), "{guards}");
    node.namespace()
        .ip(&format!("address add 10.0.7.1/32 dev {front}\nroute add 10.0.0.0/16 dev {front}"))
        .unwrap();
    pod.netns().command("ping").args(["-c1", "-w60", "-i0.2", "10.0.7.1"]).read().unwrap();
    kubectl(&["delete", "pna", "front", "vm"]);
    let is_gone = || [&front, &vm].iter().all(|link| shown(link).is_err());
    std::iter::repeat_with(is_gone).find(|is_gone| *is_gone).unwrap();
}

/// Somebody takes a pod's link out of the datapath, and nobody puts it back: what the pod sends would go to the node's own stack.
fn a_link_that_is_no_port_is_down(testbed: &Testbed, [a, b]: [&Pod; 2]) {
    let node = &testbed.nodes()[0];
    let is_of_pod = |name: &&str| name.starts_with("pt") && name.len() == 14;
    let links = node.command("ip").args(["-o", "link"]).read().unwrap();
    let link = links.split([' ', ':', '@']).find(is_of_pod).unwrap();
    let is_up = || node.command("ip").args(["-o", "link", "show", link]).read().unwrap().contains(",UP");
    assert!(is_up());
    node.vswitchd().kill().unwrap();
    node.command("ovs-dpctl").args(["del-if", "ovs-system", link]).read().unwrap();
    std::iter::repeat_with(is_up).find(|is_up| !is_up).unwrap();
    // `ping` gives up as soon as the kernel has found no neighbour, and Open vSwitch takes longer here.
    let to = b.address().to_string();
    let is_reached = || a.netns().command("ping").args(["-c1", "-w1", &to]).read().is_ok();
    node.vswitchd().restart().unwrap();
    std::iter::repeat_with(is_reached).find(|is_reached| *is_reached).unwrap();
    assert!(is_up());
    // The same by way of Open vSwitch: the port comes back, and with it the link.
    node.vsctl(&["del-port", "br-int", link]).unwrap();
    node.vsctl(&["wait-until", "Interface", link, "external_ids:ovn-installed=true"]).unwrap();
    std::iter::repeat_with(is_reached).find(|is_reached| *is_reached).unwrap();
    assert!(is_up());
}

fn sandbox(testbed: &Testbed, node: &str) -> Sandbox {
    let name = format!("pod-on-{node}");
    testbed.pod(&name).on(node).nad("sea").create().unwrap();
    testbed.sandbox(&name).unwrap()
}
