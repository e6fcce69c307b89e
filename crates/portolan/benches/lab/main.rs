//! How long a lab takes to come up, and how long a pod takes from its creation until another node reaches it: alone, and among a
//! hundred that come at once. Then where the time went, step by step, as the agents say.

#![allow(clippy::unwrap_used, reason = "a measurement that cannot go on should stop there")]

mod steps;

use std::thread;
use std::time::{Duration, Instant};

use portolan_testbed::{ONE_SWITCH, Pod, Testbed};
use portolan_testbed::{Test, TestLab};

/// One pod at a time, this often; and this many at once. A smaller run for trying things out is `-- --quick`.
const FULL: (usize, usize) = (20, 100);
const QUICK: (usize, usize) = (3, 10);

/// How long after it was asked for a pod was in the API server, ready, and reached from another node.
#[derive(Clone, Copy)]
struct Took {
    created: Duration,
    ready: Duration,
    reached: Duration,
}

fn main() {
    let (times, at_once) = if std::env::args().any(|argument| argument == "--quick") { QUICK } else { FULL };
    Test::new().deadline(Duration::from_secs(600)).run(async move |lab: TestLab| {
        let begun = Instant::now();
        let cluster = Testbed::builder().nodes(3).start(&lab).unwrap();
        println!("lab up, three nodes: {:.2} s", begun.elapsed().as_secs_f64());
        cluster.apply(ONE_SWITCH).unwrap();
        let observer = cluster.pod("observer").on("node1").nad("sea").start().unwrap();

        let alone: Vec<_> = (0..times).map(|number| measure(&cluster, &observer, number)).collect();
        report("one pod", &cluster, &alone);
        let together: Vec<_> = thread::scope(|scope| {
            let (cluster, observer) = (&cluster, &observer);
            let measure = |number| scope.spawn(move || measure(cluster, observer, number));
            let begun: Vec<_> = (times..times + at_once).map(measure).collect();
            begun.into_iter().map(|measuring| measuring.join().unwrap()).collect()
        });
        report(&format!("{at_once} pods at once"), &cluster, &together);
    });
}

/// Makes a pod on another node than the observer's, and waits until the observer reaches it.
fn measure(cluster: &Testbed, observer: &Pod, number: usize) -> Took {
    let node = if number.is_multiple_of(2) { "node2" } else { "node3" };
    let begun = Instant::now();
    let name = format!("pod{number}");
    cluster.pod(&name).on(node).nad("sea").create().unwrap();
    let created = begun.elapsed();
    let pod = cluster.running_pod("default", &name).unwrap();
    let ready = begun.elapsed();
    let to = pod.address().to_string();
    observer.command("ping").args(["-c1", "-w60", "-i0.01", &to]).read().unwrap();
    Took { created, ready, reached: begun.elapsed() }
}

/// Prints what was measured since the last report.
fn report(what: &str, cluster: &Testbed, took: &[Took]) {
    let ms = |duration: Duration| duration.as_secs_f64() * 1000.0;
    let columns = columns(took.len());
    let heads: String = columns.iter().map(|(head, _)| format!(" {:>12}", format!("{head}, ms"))).collect();
    println!("\n{:<38}{heads}", format!("{what} ({} samples)", took.len()));
    line("asked for → reached from another node", took.iter().map(|took| ms(took.reached)));
    line("asked for → ready", took.iter().map(|took| ms(took.ready)));
    line("asked for → in the API server", took.iter().map(|took| ms(took.created)));
    for (step, taken) in steps::of_last(cluster, took.len()) {
        line(&format!("  {step}"), taken.into_iter());
    }
}

/// What so many samples can say: a percentile needs some beyond it.
fn columns(samples: usize) -> &'static [(&'static str, usize)] {
    match samples {
        0..100 => &[("median", 50), ("max", 100)],
        100..1000 => &[("median", 50), ("p90", 90), ("max", 100)],
        _ => &[("median", 50), ("p99", 99), ("max", 100)],
    }
}

fn line(what: &str, taken: impl Iterator<Item = f64>) {
    let mut taken: Vec<_> = taken.collect();
    taken.sort_by(f64::total_cmp);
    if taken.is_empty() {
        return;
    }
    let at = |percent: usize| taken[(taken.len() * percent / 100).min(taken.len() - 1)];
    let values: String =
        columns(taken.len()).iter().map(|(_, percent)| format!(" {:>12.1}", at(*percent))).collect();
    println!("{what:<38}{values}");
}
