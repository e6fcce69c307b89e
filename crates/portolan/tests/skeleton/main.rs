//! One thread through every part, with the real binaries: objects by kubectl, the controller, two nodes with an agent each, the
//! CNI plugin called as a container runtime calls it, traffic within a subnet and across subnets, and nothing left in the end.
//! The same again with the controller, and with an agent, killed at the worst moment; and all of it on either API server.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

mod cluster;
mod cost;
mod traffic;

use std::io::Write as _;
use std::time::Duration;

use portolan_lab::cluster::Api;
use portolan_lab::{Process, Test};
use tokio::runtime::Handle;

use crate::cluster::{Cluster, Pod};
use crate::cost::Counts;

/// Who is killed, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Killed {
    Nobody,
    /// When the first pod has its lock and no port in OVN.
    ControllerBetweenLockAndPlan,
    /// When the first pod's port is plugged and the plugin waits for its answer.
    AgentBetweenPlugAndAnswer,
}

mod on_kube_apiserver {
    use super::*;

    #[test]
    fn pods_on_two_nodes_reach_each_other_within_and_across_subnets() {
        walk(Api::Kubernetes, Killed::Nobody);
    }

    #[test]
    fn a_controller_killed_between_lock_and_plan_changes_nothing() {
        walk(Api::Kubernetes, Killed::ControllerBetweenLockAndPlan);
    }

    #[test]
    fn an_agent_killed_between_plug_and_answer_changes_nothing() {
        walk(Api::Kubernetes, Killed::AgentBetweenPlugAndAnswer);
    }
}

mod on_portolans_own_apiserver {
    use super::*;

    #[test]
    fn pods_on_two_nodes_reach_each_other_within_and_across_subnets() {
        walk(Api::Portolan, Killed::Nobody);
    }

    #[test]
    fn a_controller_killed_between_lock_and_plan_changes_nothing() {
        walk(Api::Portolan, Killed::ControllerBetweenLockAndPlan);
    }

    #[test]
    fn an_agent_killed_between_plug_and_answer_changes_nothing() {
        walk(Api::Portolan, Killed::AgentBetweenPlugAndAnswer);
    }
}

fn walk(api: Api, killed: Killed) {
    Test::new().deadline(Duration::from_secs(180)).run(async move |lab| {
        let runtime = Handle::current();
        let walked = move || walk_in(&Cluster::start(&lab, api, runtime), killed);
        tokio::task::spawn_blocking(walked).await.unwrap();
    });
}

fn walk_in(cluster: &Cluster, killed: Killed) {
    let before = Counts::of(cluster);
    let (a, address_of_a) = first_pod(cluster, killed);
    let b = cluster.pod("b", 1, "web", "10.0.0.1");
    let address_of_b = cluster.add(&b).unwrap();
    let c = cluster.pod("c", 1, "db", "10.0.1.1");
    let address_of_c = cluster.add(&c).unwrap();

    for (from, to) in [(&a, &address_of_b), (&b, &address_of_a), (&a, &address_of_c), (&c, &address_of_a)] {
        traffic::ping(from, to);
    }
    traffic::transfer(&a, &b, &address_of_b);
    traffic::transfer(&c, &a, &address_of_a);

    let after = Counts::of(cluster);
    let (api_writes, nb_transactions) =
        (after.api_writes - before.api_writes, after.nb_transactions - before.nb_transactions);
    let by_step = cost::add_by_step(cluster);
    // Past the capture of tests that pass: these are for people.
    let _ = writeln!(
        std::io::stderr(),
        "{killed:?}: for 3 pods {api_writes} API writes and {nb_transactions} NB transactions; ADD by step:\n{by_step}"
    );
    assert_eq!(api_writes, 3, "one write per address, whoever was killed");
    assert!(nb_transactions <= 3, "at most one transaction per pod, there were {nb_transactions}");

    cluster.empty(&[a, b, c]);
    assert!(cluster.controller.is_alive() && cluster.agents.iter().all(Process::is_alive));
}

/// The first pod, during whose attachment someone may be killed.
fn first_pod(cluster: &Cluster, killed: Killed) -> (Pod, String) {
    let hold = (killed != Killed::Nobody).then(|| cluster.hold_writes());
    let pod = cluster.pod("a", 0, "web", "10.0.0.1");
    let added = std::thread::scope(|scope| {
        let add = scope.spawn(|| cluster.add(&pod));
        if killed != Killed::Nobody {
            // A port is plugged once its locks are there.
            cluster.wait_for_port(pod.node);
            let victim = match killed {
                Killed::ControllerBetweenLockAndPlan => &cluster.controller,
                _ => &cluster.agents[pod.node],
            };
            assert!(cluster.has_no_attachments());
            victim.kill().unwrap();
            drop(hold);
            victim.restart().unwrap();
        }
        add.join().unwrap()
    });
    if killed == Killed::AgentBetweenPlugAndAnswer {
        // The plugin says so, and a runtime that was told so cleans up and tries again.
        let said = added.unwrap_err();
        assert!(said.contains("agent"), "{said}");
        cluster.cni("DEL", &pod).unwrap();
        let address = cluster.add(&pod).unwrap();
        return (pod, address);
    }
    (pod, added.unwrap())
}
