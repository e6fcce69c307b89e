//! Policy routes: allow, drop and reroute, and the static route that they come before.

use portolan_testbed::Testbed;

use crate::charter::guests::{assert_connected, assert_told, example, guests, in_a_cluster};

pub(crate) const POLICY_ROUTES: &str = example!("policy-routes");

#[test]
fn policies_come_before_routes() {
    in_a_cluster(Testbed::builder().nodes(2), &[POLICY_ROUTES], |cluster| {
        policy_routes(cluster);
        a_mistake_is_told_and_changes_nothing(cluster);
    });
}

fn a_mistake_is_told_and_changes_nothing(cluster: &Testbed) {
    let nonsense =
        r#"[{"op": "replace", "path": "/spec/policyRoutes/1/match", "value": "ip4.source == 10.41.0.11"}]"#;
    let patch = ["patch", "vpcs.kubeovn.io", "policed", "--type=json", "--patch", nonsense];
    cluster.kubectl().unwrap().args(patch).read().unwrap();
    // Events of what is in no namespace are in this one.
    assert_told(cluster, "default", "policed", "InvalidSpec", &["spec.policyRoutes[1].match", "ip4.source"]);
    policy_routes(cluster);
}

pub(crate) fn policy_routes(cluster: &Testbed) {
    let [refused, allowed, open] = guests(cluster, ["refused", "allowed", "open"]);
    for guarded in guests(cluster, ["guarded1", "guarded2"]) {
        // Both ends of what is dropped are well: each has other traffic meanwhile.
        std::thread::scope(|scope| {
            scope.spawn(|| cluster.ping(&refused, &guarded).is_dropped(&allowed));
            scope.spawn(|| cluster.tcp(&refused, &guarded).is_dropped(&allowed));
            scope.spawn(|| cluster.udp(&refused, &guarded).is_dropped(&allowed));
            scope.spawn(|| cluster.ping(&refused, &open).succeeds());
            scope.spawn(|| cluster.ping(&allowed, &guarded).succeeds());
        });
        assert_connected(cluster, &allowed, &guarded);
    }
    let [rerouted] = guests(cluster, ["rerouted"]);
    let east_and_west = guests(cluster, ["east-vm1", "west-vm1", "east-vm2", "west-vm2"]);
    for [east, west] in east_and_west.as_chunks::<2>().0 {
        assert_eq!(east.address(), west.address());
        // Only one of the two listens: where a packet arrives is for the router to say.
        assert_connected(cluster, &allowed, east);
        assert_connected(cluster, &rerouted, west);
        cluster.tcp(&allowed, west).arrives_elsewhere(&rerouted);
        cluster.tcp(&rerouted, east).arrives_elsewhere(&allowed);
    }
}
