//! Who reaches whom: within a subnet, between subnets, between VPCs; and how much fits into a packet.

use portolan_testbed::{Pod, Testbed};

use crate::charter::guests::{
    Neighbour, assert_apart, assert_connected, example, guests, in_a_cluster, link,
};

pub(crate) const LAYER2: &str = example!("layer2");
pub(crate) const LAYER3: &str = example!("layer3");
pub(crate) const ISOLATION: &str = example!("isolation");
pub(crate) const PEERING: &str = example!("peering");
pub(crate) const SAME_CIDR: &str = example!("same-cidr");
pub(crate) const MTU: &str = example!("mtu");

#[test]
fn connected_subnets_reach_each_other() {
    let manifests = &[LAYER2, LAYER3, PEERING, MTU];
    in_a_cluster(Testbed::builder().nodes(2), manifests, |cluster| {
        layer2(cluster);
        layer3(cluster);
        peering(cluster);
        mtu(cluster);
    });
}

#[test]
fn unconnected_subnets_cannot_reach_each_other() {
    in_a_cluster(Testbed::builder().nodes(2), &[ISOLATION, SAME_CIDR], |cluster| {
        isolation(cluster);
        same_cidr(cluster);
    });
}

pub(crate) fn layer2(cluster: &Testbed) {
    let [a, b, c] = guests(cluster, ["switch-vm1", "switch-vm2", "switch-vm3"]);
    assert_placed(&a, &b, &c);
    assert_connected(cluster, &a, &b);
    assert_connected(cluster, &a, &c);
    // What isolation is tried with, does carry packets where there is a switch to carry them.
    let _neighbours = [Neighbour::of(&a, &c), Neighbour::of(&c, &a)];
    cluster.ping(&a, &c).succeeds();
}

pub(crate) fn layer3(cluster: &Testbed) {
    let [a, b, c] = guests(cluster, ["vm1", "vm2", "vm3"]);
    assert_placed(&a, &b, &c);
    assert_connected(cluster, &a, &b);
    assert_connected(cluster, &a, &c);
}

pub(crate) fn peering(cluster: &Testbed) {
    let [a, b, c] = guests(cluster, ["peer-vm1", "peer-vm2", "peer-vm3"]);
    assert_placed(&a, &b, &c);
    assert_connected(cluster, &a, &b);
    assert_connected(cluster, &a, &c);
}

pub(crate) fn isolation(cluster: &Testbed) {
    let [green1, green2, amber1, amber2] =
        guests(cluster, ["green-vm1", "green-vm2", "amber-vm1", "amber-vm2"]);
    assert_apart(cluster, (&green1, &green2), (&amber1, &amber2));
    assert_apart(cluster, (&green1, &green2), (&amber2, &amber1));
    let [north1, north2, south1, south2] =
        guests(cluster, ["north-vm1", "north-vm2", "south-vm1", "south-vm2"]);
    assert_apart(cluster, (&north1, &north2), (&south1, &south2));
    assert_apart(cluster, (&north1, &north2), (&south2, &south1));
}

pub(crate) fn same_cidr(cluster: &Testbed) {
    let tenants = ["tenant1", "tenant2"].map(|tenant| {
        let names = ["vm1", "vm2", "vm3"].map(|name| format!("{tenant}/{name}"));
        guests(cluster, [&names[0], &names[1], &names[2]])
    });
    let [[a1, b1, c1], [a2, b2, c2]] = &tenants;
    for (ours, theirs) in tenants[0].iter().zip(&tenants[1]) {
        assert_eq!(ours.address(), theirs.address(), "both use the address at the same time");
    }
    // Who listens is in the caller's own namespace, and nobody listens there in the other: what arrives, arrives at the right one.
    std::thread::scope(|scope| {
        for [a, b, c] in [[a1, b1, c1], [a2, b2, c2]] {
            assert_placed(a, b, c);
            scope.spawn(move || {
                assert_connected(cluster, a, b);
                assert_connected(cluster, a, c);
            });
        }
    });
    let [own, near, far] = guests(cluster, ["tenant1/own1", "tenant2/own1", "tenant2/own2"]);
    assert_placed(&own, &near, &far);
    assert_apart(cluster, (&own, a1), (&near, a2));
    assert_apart(cluster, (&own, c1), (&far, c2));
}

pub(crate) fn mtu(cluster: &Testbed) {
    let [wide, near, far] = guests(cluster, ["wide-vm1", "narrow-vm1", "narrow-vm2"]);
    assert_eq!((&link(&wide)["mtu"], &link(&near)["mtu"]), (&1442.into(), &1200.into()));
    // What it learned earlier it would not be told again.
    wide.netns().ip("route flush cache").unwrap();
    for narrow in [near, far] {
        // The way back is narrow from its beginning; the way there is found to be.
        cluster.ping(&narrow, &wide).succeeds();
        let to = narrow.address().to_string();
        let told = said(&wide, &["-c1", "-w10", "-Mdo", "-s1414", &to]);
        assert!(told.contains("Frag needed and DF set (mtu = 1200)"), "{told}");
        cluster.tcp(&wide, &narrow).succeeds();
        let route = wide.command("ip").args(["route", "get", &to]).read().unwrap();
        assert!(route.contains("mtu 1200"), "{route}");
        cluster.udp(&narrow, &wide).succeeds();
    }
    let refused = said(&wide, &["-c1", "-w10", "-Mdo", "-s1415", "10.61.0.1"]);
    assert!(refused.contains("message too long, mtu=1442"), "{refused}");
}

/// What ping says, however it ends.
pub(crate) fn said(from: &Pod, arguments: &[&str]) -> String {
    let output = from.command("ping").args(arguments).output().unwrap();
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// The first two are on one node, the third on another.
fn assert_placed(a: &Pod, b: &Pod, c: &Pod) {
    assert_eq!(a.node(), b.node());
    assert_ne!(a.node(), c.node());
}
