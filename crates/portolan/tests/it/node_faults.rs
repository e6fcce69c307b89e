//! A node under load and with parts that end: many ADDs at once, Open vSwitch, ovn-controller and the agent started again under pods.
//! `PORTOLAN_NODE_FAULTS=full` plays it with as many pods as nodes have.

mod adds;
mod attachments;
mod functions;
mod pings;
mod restarts;
mod snapshot;
mod steps;

use portolan_testbed::{Pod, Testbed};

/// How much of something: a sample, or all.
fn size(sample: usize, full: usize) -> usize {
    match std::env::var("PORTOLAN_NODE_FAULTS").as_deref() {
        Ok("full") => full,
        _ => sample,
    }
}

/// Running pods: every fifth on the second node, so that some have neighbours across the tunnel, and the others on the first.
fn pods(testbed: &Testbed, count: usize) -> Vec<Pod> {
    let names: Vec<_> = (0..count).map(|number| format!("pod{number}")).collect();
    for (number, name) in names.iter().enumerate() {
        let node = if number % 5 == 4 { "node2" } else { "node1" };
        testbed.pod(name).on(node).nad("sea").create().unwrap();
    }
    names.iter().map(|name| testbed.running_pod("default", name).unwrap()).collect()
}
