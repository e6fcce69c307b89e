//! What an ADD costs beside the reference plugins `bridge` and `host-local`: on the same node, in the same run, by turns, called in the
//! same way. Then how long the plugin itself takes, and how much memory the agent has.

#![allow(clippy::unwrap_used, reason = "a measurement that cannot go on should stop there")]

mod call;
#[path = "../support/process.rs"]
#[allow(dead_code, reason = "not every bench measures everything")]
mod process;
#[path = "../support/steps.rs"]
mod steps;

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use portolan_testbed::cluster::Programs;
use portolan_testbed::{ONE_SWITCH, Test, TestLab, Testbed};

use crate::call::{Caller, Container};
use crate::steps::Call;

/// So many calls one after another; so many at once, so often. A smaller run for trying things out is `-- --quick`.
struct Sizes {
    alone: usize,
    at_once: usize,
    rounds: usize,
}

const FULL: Sizes = Sizes { alone: 100, at_once: 50, rounds: 4 };
const QUICK: Sizes = Sizes { alone: 4, at_once: 4, rounds: 1 };

fn main() {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let sizes = if quick { QUICK } else { FULL };
    Test::new().deadline(Duration::from_secs(900)).run(async move |lab: TestLab| {
        let testbed = Testbed::builder().nodes(1).without_runtimes().start(&lab).unwrap();
        testbed.apply(ONE_SWITCH).unwrap();
        let caller = Caller::new(&testbed);

        let (mut reference, mut ours, mut containers) = (Vec::new(), Vec::new(), Vec::new());
        for number in 0..sizes.alone {
            let [theirs, own] = caller.containers(&format!("alone{number}"));
            reference.push(timed(|| caller.add_reference(&theirs)));
            ours.push(timed(|| caller.add(&own)));
            containers.extend([theirs, own]);
        }
        report("one after another", &reference, &ours, &last_calls(&testbed, ours.len()));
        let agent = testbed.agents()[0].pid().unwrap();
        let mebibytes = process::memory(agent) / (1 << 20);
        println!("agent's memory with {} pods: {mebibytes} MiB (goal: at most 25 with 100)", sizes.alone);
        end(&caller, containers);

        let (mut reference, mut ours, mut calls) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..sizes.rounds {
            let names: Vec<_> = (0..sizes.at_once).map(|number| format!("round{round}x{number}")).collect();
            let pairs: Vec<_> = names.iter().map(|name| caller.containers(name)).collect();
            reference.extend(at_once(pairs.iter().map(|[theirs, _]| || caller.add_reference(theirs))));
            ours.extend(at_once(pairs.iter().map(|[_, own]| || caller.add(own))));
            calls.extend(last_calls(&testbed, sizes.at_once));
            end(&caller, pairs.into_iter().flatten().collect());
        }
        report(&format!("{} at once", sizes.at_once), &reference, &ours, &calls);
    });
    shim(if quick { 10 } else { 200 });
}

fn timed(body: impl FnOnce()) -> f64 {
    let begun = Instant::now();
    body();
    begun.elapsed().as_secs_f64() * 1000.0
}

fn at_once<F: FnOnce() + Send>(bodies: impl Iterator<Item = F>) -> Vec<f64> {
    thread::scope(|scope| {
        let threads: Vec<_> = bodies.map(|body| scope.spawn(|| timed(body))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn last_calls(testbed: &Testbed, calls: usize) -> Vec<Call> {
    let mut all = steps::all_in(testbed.agents()[0].log());
    all.split_off(all.len().saturating_sub(calls))
}

fn end(caller: &Caller<'_>, containers: Vec<Container>) {
    for container in containers {
        caller.del(&container);
    }
}

/// How long a call takes that needs no agent, from its start to its end: of the plugin as nodes have it, small and static.
fn shim(times: usize) {
    let plugin = installed_plugin();
    let version = || {
        let mut plugin = Command::new(&plugin);
        plugin.env("CNI_COMMAND", "VERSION").stdin(Stdio::null()).stdout(Stdio::null());
        assert!(plugin.status().unwrap().success());
    };
    let taken: Vec<_> = (0..times).map(|_| timed(version)).collect();
    println!("\n{:<44}{:>10}{:>10}", format!("the plugin itself ({times} samples)"), "p50, ms", "p99, ms");
    line("VERSION, from start to end (goal: 2)", &taken);
}

/// What `cargo xtask plugin` has built, for whichever target.
fn installed_plugin() -> PathBuf {
    let release = Programs::built().unwrap().plugin().to_owned();
    let target = release.ancestors().nth(2).unwrap();
    let targets = std::fs::read_dir(target).unwrap().map(|entry| entry.unwrap().path());
    let mut built = targets.map(|target| target.join("cni/portolan-cni")).filter(|plugin| plugin.is_file());
    built.next().unwrap_or_else(|| {
        panic!("{} has no plugin as nodes have it: run cargo xtask plugin", target.display())
    })
}

fn report(what: &str, reference: &[f64], ours: &[f64], calls: &[Call]) {
    println!("\n{:<44}{:>10}{:>10}", format!("{what} ({} samples)", ours.len()), "p50, ms", "p99, ms");
    line("bridge + host-local: ADD", reference);
    line("Portolan: ADD", ours);
    let of = |step: fn(&Call) -> f64| calls.iter().map(step).collect::<Vec<_>>();
    line("  waits for the controller's addresses", &of(|call| call.step("locks")));
    line("  waits for OVN", &of(|call| call.step("installed")));
    let own = of(Call::own);
    line("  the agent's own steps", &own);
    for (step, words) in steps::OWN {
        line(&format!("    {words}"), &calls.iter().map(|call| call.step(step)).collect::<Vec<_>>());
    }
    let ratio = |percent| percentile(&own, percent) / percentile(reference, percent);
    println!("{:<44}{:>10.2}{:>10.2}", "own steps / bridge + host-local (goal: 0.5)", ratio(50), ratio(99));
}

fn line(what: &str, taken: &[f64]) {
    println!("{what:<44}{:>10.2}{:>10.2}", percentile(taken, 50), percentile(taken, 99));
}

/// The least that so many in a hundred do not exceed. None measured is not a number.
fn percentile(taken: &[f64], percent: usize) -> f64 {
    let mut sorted = taken.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}
