//! Portolan's API server beside kube-apiserver with etcd: the same load, one after the other, on the same file system, both with
//! fsync. What counts is the server's own CPU time; on two cores the client's share decides the rest.

#![allow(clippy::unwrap_used, reason = "a measurement that cannot go on should stop there")]

mod load;
#[path = "../support/process.rs"]
mod process;
mod server;
mod watching;

use std::fmt::Display;

use portolan_testbed::Test;

use crate::server::Server;

/// How much of everything; a smaller run for trying things out is `-- --quick`.
#[derive(Clone, Copy)]
struct Size {
    writes: usize,
    events: usize,
    watchers: [usize; 3],
    objects: usize,
}

const FULL: Size = Size { writes: 20_000, events: 4_000, watchers: [1, 100, 1_000], objects: 100_000 };
const QUICK: Size = Size { writes: 2_000, events: 200, watchers: [1, 10, 100], objects: 5_000 };

/// What one server did.
struct Measured {
    creates: load::Rate,
    updates: load::Rate,
    watching: Vec<watching::Delivery>,
    memory: u64,
}

fn main() {
    let size = if std::env::args().any(|argument| argument == "--quick") { QUICK } else { FULL };
    Test::new().deadline(std::time::Duration::from_secs(1800)).run(async move |lab| {
        let theirs = {
            let server = Server::kubernetes(&lab);
            measure(&server, size).await
        };
        let ours = {
            let server = Server::portolan(&lab);
            measure(&server, size).await
        };
        report(size, &ours, &theirs);
    });
}

async fn measure(server: &Server, size: Size) -> Measured {
    eprintln!("{}: defining", server.name);
    load::define(server).await;
    let mut watching = Vec::new();
    for watchers in size.watchers {
        eprintln!("{}: {} events for {watchers} watchers", server.name, size.events);
        watching.push(watching::deliver(server, watchers, size.events).await);
    }
    eprintln!("{}: {} creates", server.name, size.writes);
    let creates = load::creates(server, "created", size.writes).await;
    eprintln!("{}: {} updates", server.name, size.writes);
    let updates = load::updates(server, "created", size.writes).await;
    eprintln!("{}: up to {} objects", server.name, size.objects);
    load::creates(server, "filled", size.objects.saturating_sub(size.writes)).await;
    Measured { creates, updates, watching, memory: server.memory() }
}

fn report(size: Size, ours: &Measured, theirs: &Measured) {
    println!("{:<52} {:>12} {:>22} {:>8}", "", "portolan", "kube-apiserver + etcd", "ratio");
    let line = |what: &dyn Display, ours: f64, theirs: f64, ratio: f64| {
        println!("{what:<52} {ours:>12.1} {theirs:>22.1} {ratio:>7.1}x");
    };
    for (what, ours, theirs) in
        [("creates", &ours.creates, &theirs.creates), ("updates", &ours.updates, &theirs.updates)]
    {
        line(
            &format!("{what} per second"),
            ours.per_second(),
            theirs.per_second(),
            ours.per_second() / theirs.per_second(),
        );
        line(
            &format!("{what} per CPU second of the server"),
            ours.per_cpu_second(),
            theirs.per_cpu_second(),
            ours.per_cpu_second() / theirs.per_cpu_second(),
        );
    }
    for (ours, theirs) in ours.watching.iter().zip(&theirs.watching) {
        let watchers = ours.watchers;
        let (mine, other) = (ours.p99.as_secs_f64() * 1e3, theirs.p99.as_secs_f64() * 1e3);
        line(&format!("p99 of delivery, ms, {watchers} watchers"), mine, other, other / mine);
        let cpu = |what: &str, mine: f64, other: f64| {
            line(&format!("CPU per event, µs, {what}, {watchers} watchers"), mine, other, other / mine);
        };
        cpu("one by one", ours.one_by_one(), theirs.one_by_one());
        cpu("of it for watching", ours.for_watching(), theirs.for_watching());
        cpu("many at once", ours.at_once(), theirs.at_once());
    }
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let (mine, other) = (mib(ours.memory), mib(theirs.memory));
    line(&format!("resident MiB with {} objects", size.objects), mine, other, other / mine);
}
