//! Parts of a node that are killed and started again under pods.

use std::time::Duration;

use portolan_testbed::{ONE_SWITCH, Pod, Process, Test, TestLab, Testbed};

use crate::pings::Pings;
use crate::snapshot::{self, changed};
use crate::{pods, size};

/// How many messages of each pair are counted at least: three seconds' worth.
const WINDOW: u64 = 300;

fn restart(process: &Process) {
    process.kill().unwrap();
    process.restart().unwrap();
}

fn pairs(pods: &[Pod]) -> Vec<Pings> {
    let pairs = pods.chunks_exact(2).take(10);
    pairs.map(|pair| Pings::between(&pair[0], &pair[1])).collect()
}

/// Messages of all pairs in a time.
#[derive(Clone, Copy, Debug)]
struct Window {
    /// Those of each pair.
    messages: u64,
    /// Those of all pairs that were not answered.
    lost: u64,
}

/// So many messages of each pair, and more if something takes longer.
fn window(pings: &[Pings], least: u64, meanwhile: impl FnOnce()) -> Window {
    let begins: Vec<_> = pings.iter().map(Pings::next).collect();
    meanwhile();
    let sent = pings.iter().zip(&begins).map(|(pings, begin)| pings.next() - begin);
    let messages = sent.max().unwrap_or_default().max(least);
    let lost = pings.iter().zip(begins).map(|(pings, begin)| pings.lost(&(begin..begin + messages)));
    Window { messages, lost: lost.sum() }
}

/// Whoever is killed, traffic comes back by itself, and what pods have is not made anew for it.
#[test]
fn open_vswitch_and_ovn_controller_come_back_under_running_pods() {
    Test::new().deadline(Duration::from_secs(600)).run(async |lab: TestLab| {
        let testbed = Testbed::builder().nodes(1).start(&lab).unwrap();
        testbed.apply(ONE_SWITCH).unwrap();
        let pods = pods(&testbed, size(6, 50));
        let pings = pairs(&pods);
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
            let gap = pings.iter().map(Pings::answered).max().unwrap();
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
        let testbed = Testbed::builder().nodes(1).start(&lab).unwrap();
        testbed.apply(ONE_SWITCH).unwrap();
        let pods = pods(&testbed, size(10, 100));
        let pings = pairs(&pods);
        let agent = &testbed.agents()[0];
        snapshot::mark(&testbed);
        let before = snapshot::take(&testbed);
        let killed = window(&pings, WINDOW, || restart(agent));
        let stopped = window(&pings, WINDOW, || {
            agent.stop().unwrap();
            agent.restart().unwrap();
        });
        let undisturbed = window(&pings, killed.messages.max(stopped.messages), || {});
        println!(
            "under {} pods: {killed:?} with SIGKILL, {stopped:?} with SIGTERM, {undisturbed:?} undisturbed",
            pods.len()
        );
        for disturbed in [killed, stopped] {
            assert!(disturbed.lost <= undisturbed.lost, "an agent's end costs packets: {disturbed:?}");
        }
        let witness = testbed.pod("witness").on("node1").nad("sea").start().unwrap();
        testbed.ping(&witness, &pods[0]).succeeds();
        assert_eq!(changed(&before, &snapshot::take(&testbed)), Vec::<String>::new());
    });
}
