//! One thread through every part, with the real binaries: objects by kubectl, the controller, two nodes with an agent each, the
//! CNI plugin called as a container runtime calls it, traffic within a subnet and across subnets, and nothing left in the end.
//! The same again with the controller, and with an agent, killed at the worst moment; and all of it on either API server.

mod cost;
mod stage;

use std::io::Write as _;
use std::time::Duration;

use portolan_testbed::{ApiKind, Pod, Process, Sandbox, Test};

use crate::skeleton::cost::Counts;
use crate::skeleton::stage::Stage;

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
        walk(ApiKind::Kubernetes, Killed::Nobody);
    }

    #[test]
    fn a_controller_killed_between_lock_and_plan_changes_nothing() {
        walk(ApiKind::Kubernetes, Killed::ControllerBetweenLockAndPlan);
    }

    #[test]
    fn an_agent_killed_between_plug_and_answer_changes_nothing() {
        walk(ApiKind::Kubernetes, Killed::AgentBetweenPlugAndAnswer);
    }
}

mod on_portolans_own_apiserver {
    use super::*;

    #[test]
    fn pods_on_two_nodes_reach_each_other_within_and_across_subnets() {
        walk(ApiKind::Portolan, Killed::Nobody);
    }

    #[test]
    fn a_controller_killed_between_lock_and_plan_changes_nothing() {
        walk(ApiKind::Portolan, Killed::ControllerBetweenLockAndPlan);
    }

    #[test]
    fn an_agent_killed_between_plug_and_answer_changes_nothing() {
        walk(ApiKind::Portolan, Killed::AgentBetweenPlugAndAnswer);
    }
}

fn walk(api: ApiKind, killed: Killed) {
    Test::new().deadline(Duration::from_secs(180)).run(async move |lab| {
        walk_on(&Stage::start(&lab, api), killed);
    });
}

fn walk_on(stage: &Stage, killed: Killed) {
    let testbed = &stage.testbed;
    let before = Counts::of(stage);
    let (sandbox_of_a, a) = first_pod(stage, killed);
    let sandbox_of_b = stage.sandbox("b", "node2", "web", "10.0.0.1");
    let b = sandbox_of_b.add().unwrap();
    let sandbox_of_c = stage.sandbox("c", "node2", "db", "10.0.1.1");
    let c = sandbox_of_c.add().unwrap();

    for (from, to) in [(&a, &b), (&b, &a), (&a, &c), (&c, &a)] {
        testbed.ping(from, to).succeeds();
    }
    testbed.tcp(&a, &b).succeeds();
    testbed.tcp(&c, &a).succeeds();

    let after = Counts::of(stage);
    let (api_writes, nb_transactions) =
        (after.api_writes - before.api_writes, after.nb_transactions - before.nb_transactions);
    let by_step = cost::add_by_step(stage);
    // Past the capture of tests that pass: these are for people.
    let _ = writeln!(
        std::io::stderr(),
        "{killed:?}: for 3 pods {api_writes} API writes and {nb_transactions} NB transactions; ADD by step:\n{by_step}"
    );
    assert_eq!(api_writes, 3, "one write per address, whoever was killed");
    assert!(after.told - before.told <= 3, "each pod is told what it got at most once: {after:?}");
    assert!(nb_transactions <= 3, "at most one transaction per pod, there were {nb_transactions}");

    stage.empty(&[sandbox_of_a, sandbox_of_b, sandbox_of_c]);
    assert!(testbed.controller().is_some_and(Process::is_alive));
    assert!(testbed.agents().iter().all(Process::is_alive));
}

/// The first pod, during whose attachment someone may be killed.
fn first_pod(stage: &Stage, killed: Killed) -> (Sandbox, Pod) {
    let hold = (killed != Killed::Nobody).then(|| stage.northbound.hold_writes());
    let sandbox = stage.sandbox("a", "node1", "web", "10.0.0.1");
    let added = std::thread::scope(|scope| {
        let add = scope.spawn(|| sandbox.add());
        if killed != Killed::Nobody {
            // A port is plugged once its locks are there.
            stage.wait_for_port(sandbox.node());
            let victim = match killed {
                Killed::ControllerBetweenLockAndPlan => stage.testbed.controller().unwrap(),
                _ => &stage.testbed.agents()[0],
            };
            assert!(stage.has_no_attachments());
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
        sandbox.call("DEL").unwrap();
        let pod = sandbox.add().unwrap();
        return (sandbox, pod);
    }
    (sandbox, added.unwrap())
}
