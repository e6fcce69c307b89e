//! Policy routes: allow, drop and reroute, and the static route that they come before.

use portolan_lab::cluster::Cluster;

use crate::guests::{assert_connected, example, guests, in_a_cluster};

pub(crate) const POLICY_ROUTES: &str = example!("policy-routes");

#[test]
fn policies_come_before_routes() {
    in_a_cluster(Cluster::builder().nodes(2), &[POLICY_ROUTES], policy_routes);
}

pub(crate) fn policy_routes(cluster: &Cluster) {
    let [refused, allowed, open] = guests(cluster, ["refused", "allowed", "open"]);
    for guarded in guests(cluster, ["guarded1", "guarded2"]) {
        // Both ends of what is dropped are well: each has other traffic meanwhile.
        std::thread::scope(|scope| {
            scope.spawn(|| cluster.ping(&refused, &guarded).fails());
            scope.spawn(|| cluster.tcp(&refused, &guarded).fails());
            scope.spawn(|| cluster.udp(&refused, &guarded).fails());
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
        cluster.tcp(&allowed, west).fails();
        cluster.tcp(&rerouted, east).fails();
    }
}
