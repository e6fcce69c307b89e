//! Parts of a node that are killed and started again under pods.

use std::time::Duration;

use portolan_testbed::{ONE_SWITCH, Process, Test, TestLab, Testbed};

use crate::node_faults::pings::Pings;
use crate::node_faults::snapshot::{self, changed};
use crate::node_faults::{pods, size};

/// How long messages are counted at least.
const WINDOW: Duration = Duration::from_secs(2);

fn restart(process: &Process) {
    process.kill().unwrap();
    process.restart().unwrap();
}

/// Messages of all pods in a time.
#[derive(Clone, Copy, Debug)]
struct Window {
    /// Those of each pod.
    messages: u64,
    /// Those of all pods that were not answered.
    lost: u64,
}

/// So many messages of each pod, and more if something takes longer.
fn window(pings: &Pings, least: u64, meanwhile: impl FnOnce()) -> Window {
    let begin = pings.next();
    meanwhile();
    let messages = (pings.next() - begin).max(least);
    Window { messages, lost: pings.lost(&(begin..begin + messages)) }
}

/// Whoever is killed, traffic comes back by itself, and what pods have is not made anew for it.
#[test]
fn open_vswitch_and_ovn_controller_come_back_under_running_pods() {
    Test::new().deadline(Duration::from_secs(600)).run(async |lab: TestLab| {
        let testbed = Testbed::builder().nodes(2).start(&lab).unwrap();
        testbed.apply(ONE_SWITCH).unwrap();
        let pods = pods(&testbed, size(6, 65));
        let pings = Pings::among(&pods);
        let node = &testbed.nodes()[0];
        let (server, vswitchd, controller) =
            (node.ovsdb_server(), node.vswitchd(), node.ovn_controller().unwrap());
        snapshot::mark(&testbed);
        let before = snapshot::take(&testbed);
        let victims: [(&str, &[&Process]); 4] = [
            ("ovsdb-server", &[server]),
            ("ovs-vswitchd", &[vswitchd]),
            ("ovn-controller", &[controller]),
            ("all three", &[server, vswitchd, controller]),
        ];
        for (number, (name, victims)) in victims.into_iter().enumerate() {
            for victim in victims {
                victim.kill().unwrap();
            }
            for victim in victims {
                victim.restart().unwrap();
            }
            let gap = pings.answered();
            println!("{name} killed and started under {} pods: {gap:?} without answers", pods.len());
            // A new pod is served, so every part has taken up its work again.
            let witness = testbed.pod(&format!("witness{number}")).on("node1").nad("sea").start().unwrap();
            testbed.ping(&witness, &pods[0]).succeeds();
            assert_eq!(changed(&before, &snapshot::take(&testbed)), Vec::<String>::new(), "after {name}");
        }
        // What is made anew would have been told: here somebody else removes a port, and the agent makes another.
        let port = before.keys().find_map(|(what, name)| (*what == "Port").then_some(name)).unwrap();
        node.vsctl(&["del-port", "br-int", port]).unwrap();
        node.vsctl(&["wait-until", "Interface", port, "external_ids:ovn-installed=true"]).unwrap();
        let told = changed(&before, &snapshot::take(&testbed));
        assert!(told.iter().any(|line| line.starts_with(&format!("Port {port}: was "))), "{told:?}");
    });
}

/// The agent is no part of the datapath: pods do not notice its end.
#[test]
fn an_agent_that_is_started_again_costs_no_packets_and_changes_nothing() {
    Test::new().deadline(Duration::from_secs(600)).run(async |lab: TestLab| {
        let testbed = Testbed::builder().nodes(2).start(&lab).unwrap();
        testbed.apply(ONE_SWITCH).unwrap();
        let pods = pods(&testbed, size(10, 125));
        let pings = Pings::among(&pods);
        let (agent, least) = (&testbed.agents()[0], pings.worth(WINDOW));
        snapshot::mark(&testbed);
        let before = snapshot::take(&testbed);
        let killed = window(&pings, least, || restart(agent));
        let stopped = window(&pings, least, || {
            agent.stop().unwrap();
            agent.restart().unwrap();
        });
        for (signal, disturbed) in [("SIGKILL", killed), ("SIGTERM", stopped)] {
            // As many messages without an end.
            let undisturbed = window(&pings, disturbed.messages, || {});
            println!("under {} pods: {disturbed:?} with {signal}, {undisturbed:?} undisturbed", pods.len());
            assert_eq!(undisturbed.messages, disturbed.messages);
            assert!(disturbed.lost <= undisturbed.lost, "an agent's end costs packets: {disturbed:?}");
        }
        let witness = testbed.pod("witness").on("node1").nad("sea").start().unwrap();
        testbed.ping(&witness, &pods[0]).succeeds();
        assert_eq!(changed(&before, &snapshot::take(&testbed)), Vec::<String>::new());
    });
}
