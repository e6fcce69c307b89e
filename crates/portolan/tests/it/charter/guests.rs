//! What the cases have in common: guests of the manifests, and what can be said of two of them.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, watcher};
use portolan_testbed::{Pod, Testbed, TestbedBuilder};
use portolan_testbed::{Test, TestLab};
use serde_json::Value;

/// How long something that must come is waited for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The interface that guests have.
pub(crate) const INTERFACE: &str = "net1";

/// A manifest of `examples/harvester`.
macro_rules! example {
    ($name:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/harvester/", $name, ".yaml"))
    };
}
pub(crate) use example;

/// Runs a test in a cluster of its own, with some of the manifests applied.
pub(crate) fn in_a_cluster(
    builder: TestbedBuilder,
    manifests: &'static [&'static str],
    body: impl FnOnce(&Testbed) + Send + 'static,
) {
    let deadline = if is_full() { 1800 } else { 300 };
    Test::new().deadline(Duration::from_secs(deadline)).run(async move |lab: TestLab| {
        let cluster = builder.start(&lab).unwrap();
        for manifest in manifests {
            cluster.apply(manifest).unwrap();
        }
        body(&cluster);
    });
}

/// Whether everything is to be tried, and not only a sample.
pub(crate) fn is_full() -> bool {
    std::env::var("PORTOLAN_CHARTER").is_ok_and(|how| how == "full")
}

/// Guests by name, or by `namespace/name`, once they run.
pub(crate) fn guests<const N: usize>(cluster: &Testbed, names: [&str; N]) -> [Pod; N] {
    names.map(|name| {
        let (namespace, name) = name.split_once('/').unwrap_or(("default", name));
        cluster.running_pod(namespace, name).unwrap()
    })
}

/// Every kind of traffic gets through, full-size packets too, both ways.
#[track_caller]
pub(crate) fn assert_connected(cluster: &Testbed, a: &Pod, b: &Pod) {
    cluster.ping(a, b).succeeds();
    cluster.ping(b, a).succeeds();
    cluster.tcp(a, b).succeeds();
    cluster.udp(b, a).succeeds();
}

/// Nothing gets from one to the other, either way: not by their routes, and not straight to the other's MAC address. It is looked for
/// at the receiver's own end, so that what gets through one way only is seen. Each reaches its witness all the while.
#[track_caller]
pub(crate) fn assert_apart(
    cluster: &Testbed,
    (a, witness_of_a): (&Pod, &Pod),
    (b, witness_of_b): (&Pod, &Pod),
) {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let live = |guest: &Pod, witness: &Pod| {
            while !over.load(Ordering::Relaxed) {
                cluster.ping(guest, witness).succeeds();
            }
            cluster.ping(guest, witness).succeeds();
        };
        scope.spawn(move || live(a, witness_of_a));
        scope.spawn(move || live(b, witness_of_b));
        let tried = scope.spawn(|| {
            assert_dropped(cluster, (a, witness_of_a), (b, witness_of_b));
            let _neighbours = [Neighbour::of(a, b), Neighbour::of(b, a)];
            assert_dropped(cluster, (a, witness_of_a), (b, witness_of_b));
        });
        let tried = tried.join();
        over.store(true, Ordering::Relaxed);
        tried.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

fn assert_dropped(cluster: &Testbed, (a, witness_of_a): (&Pod, &Pod), (b, witness_of_b): (&Pod, &Pod)) {
    thread::scope(|scope| {
        let attempts: [Box<dyn FnOnce() + Send>; 6] = [
            Box::new(|| cluster.ping(a, b).is_dropped(witness_of_b)),
            Box::new(|| cluster.ping(b, a).is_dropped(witness_of_a)),
            Box::new(|| cluster.tcp(a, b).is_dropped(witness_of_b)),
            Box::new(|| cluster.tcp(b, a).is_dropped(witness_of_a)),
            Box::new(|| cluster.udp(a, b).is_dropped(witness_of_b)),
            Box::new(|| cluster.udp(b, a).is_dropped(witness_of_a)),
        ];
        for attempt in attempts.map(|attempt| scope.spawn(attempt)) {
            attempt.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
    });
}

/// A guest believes that another is on its own link, at the other's MAC address: whatever would carry its packets there, does.
pub(crate) struct Neighbour<'a> {
    guest: &'a Pod,
    address: IpAddr,
}

impl<'a> Neighbour<'a> {
    pub(crate) fn of(guest: &'a Pod, other: &Pod) -> Self {
        let address = other.address();
        let mac = mac(other);
        let lines = format!(
            "route replace {address} dev {INTERFACE}\nneighbour replace {address} lladdr {mac} dev {INTERFACE}"
        );
        guest.netns().ip(&lines).unwrap();
        Self { guest, address }
    }
}

impl Drop for Neighbour<'_> {
    fn drop(&mut self) {
        let address = self.address;
        let lines =
            format!("route delete {address} dev {INTERFACE}\nneighbour delete {address} dev {INTERFACE}");
        drop(self.guest.netns().ip(&lines));
    }
}

/// A guest's link as `ip` shows it.
pub(crate) fn link(guest: &Pod) -> Value {
    let shown = guest.command("ip").args(["-j", "address", "show", "dev", INTERFACE]).read().unwrap();
    serde_json::from_str::<Value>(&shown).unwrap()[0].take()
}

/// A guest's MAC address.
pub(crate) fn mac(guest: &Pod) -> String {
    link(guest)["address"].as_str().unwrap().to_owned()
}

/// Waits until an object has an Event of this reason, whose text has all of these words.
#[track_caller]
pub(crate) fn assert_told(cluster: &Testbed, namespace: &str, name: &str, reason: &str, words: &[&str]) {
    let events = Api::<Event>::namespaced(cluster.client(), namespace);
    let about = watcher::Config::default().fields(&format!("involvedObject.name={name}"));
    let (wanted, all) = (reason.to_owned(), words.iter().map(ToString::to_string).collect::<Vec<_>>());
    let found = cluster.wait(async move {
        let mut seen = Vec::new();
        let mut stream = std::pin::pin!(watcher(events, about).default_backoff().applied_objects());
        let search = async {
            while let Some(event) = stream.next().await {
                let Ok(event) = event else { continue };
                let (reason, message) = (event.reason.unwrap_or_default(), event.message.unwrap_or_default());
                if reason == wanted && all.iter().all(|word| message.contains(word.as_str())) {
                    return true;
                }
                seen.push(format!("{reason}: {message}"));
            }
            false
        };
        let found = tokio::time::timeout(PATIENCE, search).await.unwrap_or_default();
        if found { Ok(()) } else { Err(seen) }
    });
    if let Err(seen) = found {
        panic!("{namespace}/{name} is not told {reason} {words:?}; only:\n{}", seen.join("\n"));
    }
}
