//! StatefulSets and Deployments whose pods a real kube-controller-manager makes and deletes: whatever is done to them, every pod is Ready
//! in the end, and pods that run are not cut off.
//!
//! All scenarios at once on one cluster, each on a network of its own. `PORTOLAN_SCENARIO=orphan` runs those whose names contain that.

mod deployments;
mod stateful_sets;
mod workload;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::Duration;

use portolan_testbed::{ApiKind, Test, TestLab, Testbed};

use crate::workloads::workload::Workload;

type Scenario = (&'static str, fn(&Workload<'_>));

const SCENARIOS: &[Scenario] = &[
    ("set-deleted", stateful_sets::pods_are_connected_until_they_have_ended),
    ("set-orphaned", stateful_sets::orphaned_pods_keep_their_network_and_are_adopted),
    ("set-scaled", stateful_sets::ordinals_come_and_go),
    ("set-networks", stateful_sets::the_networks_of_the_template_change),
    ("static-address", deployments::a_static_address_is_handed_over_ten_times),
    ("pool", deployments::replicas_on_one_node_share_a_pool),
];

#[test]
fn every_pod_of_a_workload_is_ready_in_the_end() {
    let wanted = std::env::var("PORTOLAN_SCENARIO").unwrap_or_default();
    Test::new().deadline(Duration::from_secs(420)).run(async move |lab: TestLab| {
        let builder = Testbed::builder().nodes(2).api(ApiKind::Kubernetes).workload_controllers();
        let testbed = builder.start(&lab).unwrap();
        let failed: Vec<_> = thread::scope(|scope| {
            let wanted = SCENARIOS.iter().enumerate().filter(|(_, (name, _))| name.contains(&wanted));
            let running: Vec<_> = wanted
                .map(|(number, (name, scenario))| {
                    let workload = Workload::new(&testbed, name, number);
                    (
                        name,
                        scope.spawn(move || catch_unwind(AssertUnwindSafe(|| scenario(&workload))).is_err()),
                    )
                })
                .collect();
            running.into_iter().filter_map(|(name, done)| done.join().unwrap().then_some(*name)).collect()
        });
        assert_eq!(failed, Vec::<&str>::new(), "scenarios that failed; what went wrong is above");
    });
}
