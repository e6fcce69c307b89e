//! Portolan as the primary network beside the reference plugin `bridge`: two clusters of real Kubernetes that run at the same time, measured by
//! turns, each pod made by a request of its own, all at once. `docs/kubernetes-bench.md` says how to read what it prints.
//!
//! `ROUNDS` is how often, 10 unless set. With `UNDERLAY=ovs` the nodes of the reference have the same Open vSwitch under them as those of Portolan.
//! One part alone is `-- --load` or `-- --restart`.

#![allow(clippy::unwrap_used, reason = "a measurement that cannot go on should stop there")]

mod adds;
mod audit;
mod bare;
mod components;
mod load;
mod pods;
mod report;
mod restart;
mod side;
mod statistics;
#[path = "../support/steps.rs"]
#[allow(dead_code, reason = "not every bench measures everything")]
mod steps;

use crate::load::Load;
use crate::report::Report;
use crate::side::{Side, Underlay};

/// How many pods are made at once, and how often in a round.
const LOADS: [(usize, usize); 3] = [(1, 3), (20, 1), (60, 1)];

fn main() {
    let rounds = std::env::var("ROUNDS").ok().filter(|rounds| !rounds.is_empty());
    let rounds = rounds.map_or(10, |rounds| rounds.parse().unwrap());
    let underlay = match std::env::var("UNDERLAY").as_deref() {
        Ok("ovs") => Underlay::OpenVSwitch,
        _ => Underlay::Plain,
    };
    let (bridge, portolan) = (Side::bridge(underlay).unwrap(), Side::portolan().unwrap());
    // What is done for the first time takes longer, on both.
    for side in [&bridge, &portolan] {
        Load::of(side, 20);
    }
    let has = |part: &str| std::env::args().any(|argument| argument == part);
    let mut report = Report::new(underlay);
    for round in 0..if has("--restart") { 0 } else { rounds } {
        for (pods, times) in LOADS {
            for _ in 0..times {
                let (first, second) = in_turn(round, &bridge, &portolan);
                let (first, second) = (Load::of(first, pods), Load::of(second, pods));
                let (bridge, portolan) = in_turn(round, first, second);
                report.load(pods, bridge, portolan);
            }
        }
        report.bare(bare::ports(&portolan, 60));
        eprintln!("load: round {} of {rounds} is done", round + 1);
    }
    for round in 0..if has("--load") { 0 } else { rounds } {
        let (first, second) = in_turn(round, &bridge, &portolan);
        let (first, second) = (restart::of_api_server(first), restart::of_api_server(second));
        let (bridge, portolan) = in_turn(round, first, second);
        report.restart(bridge, portolan);
        eprintln!("restart: round {} of {rounds} is done", round + 1);
    }
    report.print();
}

/// Who is first changes with every round.
fn in_turn<T>(round: usize, one: T, other: T) -> (T, T) {
    if round.is_multiple_of(2) { (one, other) } else { (other, one) }
}
