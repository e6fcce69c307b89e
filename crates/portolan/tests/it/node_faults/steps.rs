//! The agent is killed at every step of a call, by the step's name. A new one serves the same container, and leaves nothing behind.

use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use portolan_agent::{ChangeHook, Config, Moment, Step, StepHook, Sysfs};
use portolan_model::FirstInterface;
use portolan_testbed::{Daemon, ONE_SWITCH, Process, Ready, Sandbox, Test, TestLab, Testbed};

use crate::node_faults::snapshot;

/// Where the agent that kills itself does so, and how it reaches the API server.
const KILL_AT: &str = "PORTOLAN_TEST_KILL_AT";
const KUBECONFIG: &str = "PORTOLAN_TEST_KUBECONFIG";
/// Whether it makes first interfaces.
const PRIMARY: &str = "PORTOLAN_TEST_PRIMARY";
/// Where it sees devices, if not where the kernel shows them.
const SYSFS: &str = "PORTOLAN_TEST_SYSFS";

#[test]
fn an_agent_killed_at_any_step_leaves_nothing_that_the_next_one_cannot_use_or_remove() {
    Test::new().deadline(Duration::from_secs(600)).run(async |lab: TestLab| {
        let testbed = Testbed::builder().nodes(1).without_runtimes().start(&lab).unwrap();
        testbed.apply(ONE_SWITCH).unwrap();
        let witness = sandbox(&testbed, "witness").add().unwrap();
        let before = snapshot::of_node(&testbed);
        let began = [(Moment::Began, Then::GiveUp), (Moment::Began, Then::AddAgain)];
        let ended = [(Moment::Ended, Then::AddAgain), (Moment::Ended, Then::GiveUp)];
        let all = Step::ALL.map(|step| (step, [began, ended].concat()));
        // The parts of one: there is less to go wrong.
        let parts = Step::OF_LINKS.map(|step| (step, vec![began[0], ended[0]]));
        for (step, ways) in all.into_iter().chain(parts) {
            for (moment, then) in ways {
                let at = format!("{step} {moment:?}");
                let sandbox = sandbox(&testbed, &format!("{step}-{moment:?}-{then:?}").to_lowercase());
                kill(&testbed, &sandbox, step, &at);
                if then == Then::AddAgain && step != Step::Undo {
                    let pod = sandbox.add().unwrap_or_else(|error| panic!("after {at}: {error}"));
                    testbed.ping(&witness, &pod).succeeds();
                    testbed.ping(&pod, &witness).succeeds();
                }
                sandbox.call("DEL").unwrap_or_else(|error| panic!("after {at}: {error}"));
                assert_eq!(snapshot::of_node(&testbed), before, "after {at}, {then:?}");
            }
        }
    });
}

/// Where Portolan makes the first interface, its links are made while its addresses are awaited.
#[test]
fn an_agent_of_the_primary_network_killed_while_it_makes_links_leaves_nothing_either() {
    Test::new().deadline(Duration::from_secs(600)).run(async |lab: TestLab| {
        let testbed =
            Testbed::builder().nodes(1).primary(&["10.16.0.0/14"]).without_runtimes().start(&lab).unwrap();
        let prefix = r#"{"spec": {"podCIDR": "10.16.1.0/24", "podCIDRs": ["10.16.1.0/24"]}}"#;
        testbed
            .kubectl()
            .unwrap()
            .args(["patch", "node", "node1", "--type=merge", "-p", prefix])
            .read()
            .unwrap();
        let sandbox = |name: &str| {
            testbed.pod(name).on("node1").create().unwrap();
            testbed.sandbox(name).unwrap()
        };
        let witness = sandbox("witness").add().unwrap();
        let before = snapshot::of_node(&testbed);
        for step in Step::OF_LINKS.into_iter().chain([Step::Locks]) {
            for (moment, then) in [(Moment::Began, Then::GiveUp), (Moment::Ended, Then::AddAgain)] {
                let at = format!("{step} {moment:?}");
                let sandbox = sandbox(&format!("{step}-{moment:?}").to_lowercase());
                kill(&testbed, &sandbox, step, &at);
                if then == Then::AddAgain {
                    let pod = sandbox.add().unwrap_or_else(|error| panic!("after {at}: {error}"));
                    testbed.ping(&witness, &pod).succeeds();
                    testbed.ping(&pod, &witness).succeeds();
                }
                sandbox.call("DEL").unwrap_or_else(|error| panic!("after {at}: {error}"));
                assert_eq!(snapshot::of_node(&testbed), before, "after {at}, {then:?}");
            }
        }
    });
}

/// What the container runtime does with the sandbox whose call failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    AddAgain,
    GiveUp,
}

pub(crate) fn sandbox(testbed: &Testbed, name: &str) -> Sandbox {
    testbed.pod(name).on("node1").nad("sea").create().unwrap();
    testbed.sandbox(name).unwrap()
}

/// Lets an agent end itself at a step of a call for a sandbox, and starts the real one.
fn kill(testbed: &Testbed, sandbox: &Sandbox, step: Step, at: &str) {
    let agent = &testbed.agents()[0];
    agent.stop().unwrap();
    let victim = start_victim(testbed, at, None);
    let call = match step {
        Step::Remove => {
            sandbox.add().unwrap();
            "DEL"
        }
        Step::Undo => {
            // An ADD that fails, as its pod is gone.
            let delete = testbed.kubectl().unwrap();
            delete.args(["delete", "pod", sandbox.name(), "--force", "--grace-period=0"]).read().unwrap();
            "ADD"
        }
        _ => "ADD",
    };
    let said = sandbox.call(call).unwrap_err();
    assert!(said.contains(r#""code":11"#), "{at}: the runtime is to try again: {said}");
    assert!(said.contains("ended during the call"), "{at}: {said}");
    // It was the signal that ended it.
    victim.kill().unwrap();
    agent.restart().unwrap();
}

/// Lets an agent end itself at a change that something causes, and starts the real one.
pub(crate) fn kill_at_change(testbed: &Testbed, at: &str, cause: impl FnOnce()) {
    let agent = &testbed.agents()[0];
    agent.stop().unwrap();
    let victim = start_victim(testbed, at, None);
    cause();
    // It waits for the end of the other one.
    agent.restart().unwrap();
    assert!(victim.ended().is_some(), "{at}");
}

/// Starts an agent that ends itself, in place of the real one.
pub(crate) fn start_victim(testbed: &Testbed, at: &str, sysfs: Option<&Path>) -> Process {
    let node = &testbed.nodes()[0];
    let daemon = Daemon::new(format!("victim at {at}").replace(' ', "-"), std::env::current_exe().unwrap())
        .args(["--exact", "node_faults::steps::victim", "--ignored", "--nocapture"])
        .env(KILL_AT, at)
        .env(KUBECONFIG, testbed.kubeconfig_for("node1").unwrap())
        .env(PRIMARY, testbed.is_primary().to_string())
        .ready(Ready::Notify);
    let daemon = match sysfs {
        Some(sysfs) => daemon.env(SYSFS, sysfs),
        None => daemon,
    };
    daemon.start(node.namespace()).unwrap()
}

/// An agent that ends itself.
#[test]
#[ignore = "run by an_agent_killed_at_any_step_leaves_nothing_that_the_next_one_cannot_use_or_remove"]
fn victim() {
    let (Ok(at), Ok(kubeconfig)) = (std::env::var(KILL_AT), std::env::var(KUBECONFIG)) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let ended = runtime.block_on(async {
        let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
        let kube =
            kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        let mut config = Config::new("node1", kube);
        if std::env::var(PRIMARY).is_ok_and(|is_primary| is_primary == "true") {
            config.settings.first_interface = FirstInterface::Portolan;
        }
        config.sysfs = std::env::var_os(SYSFS).map(Sysfs::at).unwrap_or_default();
        let end_at = |at: &str, now: String| {
            if at == now {
                let _ =
                    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
            }
        };
        let at_change = at.clone();
        config.steps = StepHook::new(move |now| end_at(&at, format!("{} {:?}", now.step, now.moment)));
        config.changes =
            ChangeHook::new(move |now| end_at(&at_change, format!("{} {:?}", now.change, now.moment)));
        portolan_agent::run(config, ready).await
    });
    panic!("the agent ended otherwise: {ended:?}");
}

fn ready() {
    let socket = std::env::var_os("NOTIFY_SOCKET").unwrap();
    UnixDatagram::unbound().unwrap().send_to(b"READY=1\n", socket).unwrap();
}
