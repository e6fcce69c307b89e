//! `portolan controller`, beside what its work costs at least: the bare creation of the same pods and locks, and a bare list of them
//! with a copy of the database. Everything in one run, on Portolan's own API server, or on kube-apiserver with `-- --kubernetes`.
//!
//! A smaller run for trying things out is `-- --quick`; one part alone is `-- --rates`, `-- --start` or `-- --failover`.

#![allow(clippy::unwrap_used, reason = "a measurement that cannot go on should stop there")]

mod idle;
mod load;
#[path = "../support/process.rs"]
mod process;
mod stage;

use std::time::{Duration, Instant};

use portolan_testbed::{ApiKind, Test, TestLab};

use crate::stage::Stage;

/// How much of everything.
#[derive(Clone, Copy)]
struct Size {
    /// Pods for the measurements of rates.
    pods: usize,
    /// Attachments for the measurements of start and memory.
    attachments: usize,
    idle: Duration,
}

const FULL: Size = Size { pods: 5_000, attachments: 100_000, idle: Duration::from_secs(60) };
const QUICK: Size = Size { pods: 500, attachments: 2_000, idle: Duration::from_secs(10) };
/// How many pods there are when a controller is killed, and how many come and go before memory is measured.
const FEW: usize = 1_000;

fn main() {
    let has = |flag: &str| std::env::args().any(|argument| argument == flag);
    let size = if has("--quick") { QUICK } else { FULL };
    let api = if has("--kubernetes") { ApiKind::Kubernetes } else { ApiKind::Portolan };
    let test = || Test::new().deadline(Duration::from_secs(3600));
    println!("{:<74} {:>12} {:>10}", "", "measured", "goal");
    let one = ["--rates", "--start", "--failover"].into_iter().find(|part| has(part));
    let runs = |part: &str| one.is_none_or(|one| one == part);
    if runs("--rates") {
        test().run(async move |lab: TestLab| rates(&lab, api, size));
    }
    if runs("--start") {
        test().run(async move |lab: TestLab| start_and_memory(&lab, api, size));
    }
    if runs("--failover") {
        test().run(async move |lab: TestLab| failover_and_idle(&lab, api, size));
    }
}

fn line(what: &str, measured: &str, goal: &str) {
    println!("{what:<74} {measured:>12} {goal:>10}");
}

/// Attachments per second, from the creation of pods to the commit of their ports.
fn rates(lab: &TestLab, api: ApiKind, size: Size) {
    let stage = Stage::new(lab, api);
    let bare = stage.wait(|client| load::bare(client, size.pods));
    stage.clear();
    line("bare creations of a pod and its lock, per second", &format!("{bare:.0}"), "");
    let controller = stage.controller("only", &["--leader-election=false"]);
    stage.warm_up();
    for northd in ["stopped", "running"] {
        if northd == "stopped" {
            stage.stop_northd();
        } else {
            stage.start_northd();
        }
        let prefix = format!("northd-{northd}-");
        let begun = Instant::now();
        stage.create_pods(&prefix, size.pods);
        stage.wait_for_ports(&prefix, size.pods);
        let rate = size.pods as f64 / begun.elapsed().as_secs_f64();
        let what = format!("attachments per second to the commit in OVN, northd {northd}");
        line(&what, &format!("{rate:.0}"), "");
        let goal = if northd == "stopped" { "≥ 0.5" } else { "" };
        line("  as a fraction of the bare creations", &format!("{:.2}", rate / bare), goal);
        stage.delete_pods(&prefix, size.pods);
        stage.wait_for_ports(&prefix, 0);
    }
    drop(controller);
}

/// A start with many attachments in place, and memory with as many.
fn start_and_memory(lab: &TestLab, api: ApiKind, size: Size) {
    let stage = Stage::new(lab, api);
    stage.stop_northd();
    let controller = stage.controller("only", &["--leader-election=false"]);
    stage.warm_up();
    stage.create_pods("many-", size.attachments);
    stage.wait_for_ports("many-", size.attachments);
    controller.kill().unwrap();
    // Both read what there is, and decode it; one does nothing with it.
    let bare = stage.bare_start();
    stage.create_pods("next-", 1);
    let begun = Instant::now();
    controller.restart().unwrap();
    stage.wait_for_ports("next-", 1);
    let took = begun.elapsed();
    let what = format!("start with {} attachments until the next pod has its port, s", size.attachments);
    line(&what, &format!("{:.2}", took.as_secs_f64()), "");
    line(
        "  bare lists of pods and locks, and a copy of the database, s",
        &format!("{:.2}", bare.as_secs_f64()),
        "",
    );
    line("  ratio", &format!("{:.2}", took.as_secs_f64() / bare.as_secs_f64()), "≤ 2");
    stage.create_pods("churn-", FEW);
    stage.wait_for_ports("churn-", FEW);
    stage.delete_pods("churn-", FEW);
    stage.wait_for_ports("churn-", 0);
    let goal = f64::from(35 << 20) + 2048.0 * size.attachments as f64;
    let mib = f64::from(1 << 20);
    let memory = |what: &str, goal: &str| {
        let memory = process::memory(controller.pid().unwrap()) as f64;
        line(what, &format!("{:.0}", memory / mib), goal);
    };
    memory("  resident memory after 1,000 pods of churn, MiB", &format!("≤ {:.0}", goal / mib));
    // The controller follows where the ports are bound that northd makes of all this.
    stage.start_northd();
    stage.wait_for_bindings(size.attachments);
    stage.create_pods("last-", 1);
    stage.wait_for_ports("last-", 1);
    memory("  the same with northd running, MiB", "");
}

/// How soon the next pod is served after SIGKILL, and what an idle controller does.
fn failover_and_idle(lab: &TestLab, api: ApiKind, size: Size) {
    let stage = Stage::new(lab, api);
    let first = stage.controller("first", &[]);
    stage.warm_up();
    stage.create_pods("few-", FEW);
    stage.wait_for_ports("few-", FEW);
    let idle = idle::measure(&stage, &first, size.idle);
    let what = format!("writes in {} idle seconds, besides the Lease", size.idle.as_secs());
    line(&what, &idle.writes.to_string(), "0");
    line("  CPU, per cent of a core", &format!("{:.2}", idle.cpu * 100.0), "≤ 0.1");
    // A new process in its place. The Lease of the killed one expires meanwhile: it is not waited for here.
    let alone = stage.controller("alone", &["--leader-election=false"]);
    first.kill().unwrap();
    alone.kill().unwrap();
    stage.create_pods("killed-", 1);
    let begun = Instant::now();
    alone.restart().unwrap();
    stage.wait_for_ports("killed-", 1);
    line(
        "SIGKILL, new process → next pod has its port, s",
        &format!("{:.2}", begun.elapsed().as_secs_f64()),
        "≤ 1",
    );
    alone.stop().unwrap();
    // A standby that takes over when the Lease of a killed one has expired.
    first.restart().unwrap();
    stage.create_pods("led-", 1);
    stage.wait_for_ports("led-", 1);
    let _second = stage.ready_controller("second");
    first.kill().unwrap();
    let begun = Instant::now();
    stage.create_pods("expired-", 1);
    stage.wait_for_ports("expired-", 1);
    line(
        "SIGKILL of the leader → next pod has its port by a standby, s",
        &format!("{:.2}", begun.elapsed().as_secs_f64()),
        "≤ 3",
    );
}
