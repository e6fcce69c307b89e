//! Watchers, each of which wants the objects of one node.

use std::time::{Duration, Instant};

use futures::AsyncBufReadExt as _;
use futures::StreamExt as _;
use http::{Method, Request};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::load::{CLIENTS, request};
use crate::server::Server;

const PATH: &str = "/apis/bench.example/v1/namespaces/default/ports";

/// How events came to watchers.
pub(crate) struct Delivery {
    pub(crate) watchers: usize,
    /// From the request that makes an event to its arrival, where one is made after another.
    pub(crate) p99: Duration,
    events: usize,
    unwatched: Cpu,
    watched: Cpu,
}

/// The server's CPU time for the same number of events.
struct Cpu {
    /// One event is made after another: each is a write of its own to the disk.
    one_by_one: Duration,
    /// As many clients write at once as there are watchers, up to [`CLIENTS`].
    at_once: Duration,
}

impl Delivery {
    /// In microseconds, one after another, the write included.
    pub(crate) fn one_by_one(&self) -> f64 {
        self.per_event(self.watched.one_by_one)
    }

    /// In microseconds, many at once, the write included.
    pub(crate) fn at_once(&self) -> f64 {
        self.per_event(self.watched.at_once)
    }

    /// In microseconds, one after another, without what the same writes cost when nobody watches.
    pub(crate) fn for_watching(&self) -> f64 {
        self.per_event(self.watched.one_by_one.saturating_sub(self.unwatched.one_by_one))
    }

    fn per_event(&self, cpu: Duration) -> f64 {
        cpu.as_secs_f64() * 1e6 / self.events as f64
    }
}

/// Updates objects while nobody watches; then again with watchers, each of which sees the changes of one object.
pub(crate) async fn deliver(server: &Server, watchers: usize, events: usize) -> Delivery {
    let writer = server.client().await;
    for index in 0..watchers {
        let object = json!({"apiVersion": "bench.example/v1", "kind": "Port",
            "metadata": {"name": format!("port-{watchers}-{index}")},
            "spec": {"node": format!("node-{watchers}-{index}"), "text": ""}});
        writer.request_text(request(Method::POST, PATH, Some(&object))).await.unwrap();
    }
    let (unwatched, _) = write(server, watchers, events, &mut None).await;

    let (sender, mut seen) = mpsc::unbounded_channel();
    let mut tasks = JoinSet::new();
    for index in 0..watchers {
        tasks.spawn(watch(server.client().await, watchers, index, sender.clone()));
    }
    // Each sees the object that is there.
    for _ in 0..watchers {
        seen.recv().await.unwrap();
    }
    let (watched, mut latencies) = write(server, watchers, events, &mut Some(seen)).await;
    tasks.shutdown().await;
    latencies.sort();
    Delivery { watchers, p99: latencies[latencies.len() * 99 / 100], events, unwatched, watched }
}

/// Who saw an event, and when.
type Seen = (usize, Instant);

async fn watch(client: kube::Client, watchers: usize, index: usize, sender: mpsc::UnboundedSender<Seen>) {
    let path =
        format!("/apis/bench.example/v1/ports?watch=true&fieldSelector=spec.node%3Dnode-{watchers}-{index}");
    let stream = client.request_stream(request(Method::GET, &path, None)).await.unwrap();
    let mut lines = Box::pin(stream).lines();
    while let Some(line) = lines.next().await {
        let line = line.unwrap();
        assert!(line.contains(&format!("\"node-{watchers}-{index}\"")), "not its own: {line}");
        if sender.send((index, Instant::now())).is_err() {
            return;
        }
    }
}

/// Makes events, first one after another, then many at once, and waits until all were seen, if anybody watches.
async fn write(
    server: &Server,
    objects: usize,
    events: usize,
    seen: &mut Option<mpsc::UnboundedReceiver<Seen>>,
) -> (Cpu, Vec<Duration>) {
    let writer = server.client().await;
    let mut latencies = Vec::with_capacity(events);
    let began_with = server.cpu();
    for event in 0..events {
        let index = event % objects;
        let patch = patch(objects, index);
        let began = Instant::now();
        let written = writer.request_text(patch);
        let arrival = async {
            if let Some(seen) = seen {
                let (who, at) = seen.recv().await.unwrap();
                assert_eq!(who, index, "an event came to the wrong watcher");
                latencies.push(at - began);
            }
        };
        tokio::join!(written, arrival).0.unwrap();
    }
    let one_by_one = server.cpu() - began_with;

    // Each client has objects of its own, so that no patch has to be tried again.
    let writers = objects.min(CLIENTS);
    let mut clients = Vec::new();
    for _ in 0..writers {
        clients.push(server.client().await);
    }
    let began_with = server.cpu();
    let writes = clients.iter().enumerate().map(async |(first, client)| {
        let mut own = (first..objects).step_by(writers).cycle();
        for _ in (first..events).step_by(writers) {
            client.request_text(patch(objects, own.next().unwrap())).await.unwrap();
        }
    });
    let arrivals = async {
        if let Some(seen) = seen {
            for _ in 0..events {
                seen.recv().await.unwrap();
            }
        }
    };
    tokio::join!(futures::future::join_all(writes), arrivals);
    (Cpu { one_by_one, at_once: server.cpu() - began_with }, latencies)
}

/// A change that differs from the one before.
fn patch(objects: usize, index: usize) -> Request<Vec<u8>> {
    let patch = json!({"spec": {"text": fastrand::u64(..).to_string()}});
    let mut patch = request(Method::PATCH, &format!("{PATH}/port-{objects}-{index}"), Some(&patch));
    patch.headers_mut().insert("Content-Type", "application/merge-patch+json".parse().unwrap());
    patch
}
