//! Many ADDs at once on one node.

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use portolan_testbed::{ONE_SWITCH, Sandbox, Test, TestLab, Testbed};

use crate::node_faults::size;

/// What the agent's memory may grow by, at once and for each pod, and the threads it may have, however many calls come at once. It grew
/// by 9 MiB for 40 pods and by 19 MiB for 200, not optimized.
const KIBIBYTES: u64 = 8 * 1024;
const KIBIBYTES_FOR_EACH_POD: u64 = 128;
const THREADS: u64 = 600;

#[test]
fn as_many_adds_at_once_as_a_node_has_pods_succeed_with_bounded_memory() {
    Test::new().deadline(Duration::from_secs(600)).run(async |lab: TestLab| {
        let count = size(40, 200);
        let testbed = Testbed::builder().nodes(1).without_runtimes().start(&lab).unwrap();
        testbed.apply(ONE_SWITCH).unwrap();
        let names: Vec<_> = (0..count).map(|number| format!("pod{number}")).collect();
        for name in &names {
            testbed.pod(name).on("node1").nad("sea").create().unwrap();
        }
        let sandboxes: Vec<_> = names.iter().map(|name| testbed.sandbox(name).unwrap()).collect();
        let agent = testbed.agents()[0].pid().unwrap();
        let before = status(agent, "VmHWM");
        let pods: Vec<_> = thread::scope(|scope| {
            let adds: Vec<_> = sandboxes.iter().map(|sandbox| scope.spawn(|| sandbox.add())).collect();
            adds.into_iter().map(|add| add.join().unwrap().unwrap()).collect()
        });
        let (after, threads) = (status(agent, "VmHWM"), status(agent, "Threads"));
        println!("{count} ADDs at once: most memory {before} KiB before, {after} KiB after; {threads} threads after");
        let allowed = before + KIBIBYTES + KIBIBYTES_FOR_EACH_POD * u64::try_from(count).unwrap();
        assert!(after <= allowed, "the agent had {after} KiB; {allowed} are allowed");
        assert!(threads <= THREADS, "{threads} threads; {THREADS} are allowed");

        let [first, .., last] = pods.as_slice() else { panic!("several pods") };
        testbed.ping(first, last).succeeds();
        thread::scope(|scope| {
            let dels: Vec<_> = sandboxes.iter().map(|sandbox| scope.spawn(|| sandbox.call("DEL"))).collect();
            for del in dels {
                del.join().unwrap().unwrap();
            }
        });
        let ports = testbed.nodes()[0].vsctl(&["list-ports", "br-int"]).unwrap();
        let left: Vec<_> = ports.lines().filter(|port| port.starts_with("pt")).collect();
        assert_eq!(left, Vec::<&str>::new());
    });
}

/// A runtime tries again what failed for now; what it is told otherwise it takes for the pod's fault.
#[test]
fn an_agent_without_descriptors_serves_everybody_in_the_end() {
    Test::new().deadline(Duration::from_secs(300)).run(async |lab: TestLab| {
        let testbed = Testbed::builder().nodes(1).without_runtimes().start(&lab).unwrap();
        testbed.apply(ONE_SWITCH).unwrap();
        let names: Vec<_> = (0..size(30, 100)).map(|number| format!("pod{number}")).collect();
        for name in &names {
            testbed.pod(name).on("node1").nad("sea").create().unwrap();
        }
        let sandboxes: Vec<_> = names.iter().map(|name| testbed.sandbox(name).unwrap()).collect();
        let agent = testbed.agents()[0].pid().unwrap();
        let open = std::fs::read_dir(format!("/proc/{agent}/fd")).unwrap().count();
        let limit = format!("--nofile={0}:{0}", open + 12);
        let home = testbed.lab().home();
        home.command("prlimit").args(["--pid", &agent.to_string(), &limit]).read().unwrap();
        let failures: Vec<String> = thread::scope(|scope| {
            let adds: Vec<_> = sandboxes.iter().map(|sandbox| scope.spawn(|| add_at_last(sandbox))).collect();
            adds.into_iter().flat_map(|add| add.join().unwrap()).collect()
        });
        let told: BTreeSet<_> = failures.iter().map(|said| said.trim().to_owned()).collect();
        println!("{} ADDs with {} descriptors: {} were tried again", names.len(), open + 12, failures.len());
        let wrong: Vec<_> = told.iter().filter(|said| !said.contains(r#""code":11"#)).collect();
        assert!(wrong.is_empty(), "the runtime would not try again: {wrong:#?}");
        for sandbox in &sandboxes {
            sandbox.call("DEL").unwrap();
        }
    });
}

/// Calls ADD as often as the runtime would, and returns what the agent said until it succeeded.
fn add_at_last(sandbox: &Sandbox) -> Vec<String> {
    let mut failures = Vec::new();
    while let Err(said) = sandbox.call("ADD") {
        failures.push(said);
        assert!(failures.len() < 200, "no ADD succeeds: {}", failures[0]);
    }
    failures
}

/// A number from a process's status.
fn status(pid: u32, key: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(&format!("{key}:"))).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}
