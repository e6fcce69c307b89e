//! Watchers, each of which wants the objects of one node.

use std::time::{Duration, Instant};

use futures::AsyncBufReadExt as _;
use futures::StreamExt as _;
use http::Method;
use serde_json::json;
use tokio::sync::mpsc;

use crate::load::{CLIENTS, request};
use crate::server::Server;

/// How events came to watchers.
pub(crate) struct Delivery {
    pub(crate) watchers: usize,
    /// From the request that makes an event to its arrival, where one is made after another.
    pub(crate) p99: Duration,
    events: usize,
    one_by_one: Duration,
    at_once: Duration,
}

impl Delivery {
    /// The server's CPU time, in microseconds, where one event is made after another: each is a write of its own to the disk, which
    /// is part of it.
    pub(crate) fn cpu_one_by_one(&self) -> f64 {
        self.one_by_one.as_secs_f64() * 1e6 / self.events as f64
    }

    /// The same where as many clients write at once as there are watchers, up to [`CLIENTS`].
    pub(crate) fn cpu_at_once(&self) -> f64 {
        self.at_once.as_secs_f64() * 1e6 / self.events as f64
    }
}

/// Starts watchers and updates objects, each of which concerns one watcher: first one after another, then many at once.
pub(crate) async fn deliver(server: &Server, watchers: usize, events: usize) -> Delivery {
    let path = "/apis/bench.example/v1/namespaces/default/ports";
    let writer = server.client().await;
    let object = |index: usize, text: usize| {
        json!({"apiVersion": "bench.example/v1", "kind": "Port", "metadata": {"name": format!("port-{watchers}-{index}")},
            "spec": {"node": format!("node-{watchers}-{index}"), "text": text.to_string()}})
    };
    let (sender, mut seen) = mpsc::unbounded_channel();
    let mut tasks = tokio::task::JoinSet::new();
    for index in 0..watchers {
        writer.request_text(request(Method::POST, path, Some(&object(index, 0)))).await.unwrap();
        let watch = format!(
            "/apis/bench.example/v1/ports?watch=true&fieldSelector=spec.node%3Dnode-{watchers}-{index}"
        );
        let (client, sender) = (server.client().await, sender.clone());
        tasks.spawn(async move {
            let stream = client.request_stream(request(Method::GET, &watch, None)).await.unwrap();
            let mut lines = Box::pin(stream).lines();
            while let Some(line) = lines.next().await {
                let line = line.unwrap();
                assert!(line.contains(&format!("\"node-{watchers}-{index}\"")), "not its own: {line}");
                if sender.send((index, Instant::now())).is_err() {
                    return;
                }
            }
        });
    }
    // Each sees the object that is there.
    for _ in 0..watchers {
        seen.recv().await.unwrap();
    }
    let patch = |index: usize, text: usize| {
        let patch = json!({"spec": {"text": text.to_string()}});
        let mut patch = request(Method::PATCH, &format!("{path}/port-{watchers}-{index}"), Some(&patch));
        patch.headers_mut().insert("Content-Type", "application/merge-patch+json".parse().unwrap());
        patch
    };
    let mut latencies = Vec::with_capacity(events);
    let cpu = server.cpu();
    for event in 0..events {
        let index = event % watchers;
        let patch = patch(index, event + 1);
        let began = Instant::now();
        let write = writer.request_text(patch);
        let (written, (who, at)) = tokio::join!(write, async { seen.recv().await.unwrap() });
        written.unwrap();
        assert_eq!(who, index, "an event came to the wrong watcher");
        latencies.push(at - began);
    }
    let one_by_one = server.cpu() - cpu;

    // Each client has objects of its own, so that no patch has to be tried again.
    let writers = watchers.min(CLIENTS);
    let mut clients = Vec::new();
    for _ in 0..writers {
        clients.push(server.client().await);
    }
    let cpu = server.cpu();
    let writes = clients.iter().enumerate().map(async |(first, client)| {
        let mut own = (first..watchers).step_by(writers).cycle();
        for event in (first..events).step_by(writers) {
            let index = own.next().unwrap();
            client.request_text(patch(index, events + event + 1)).await.unwrap();
        }
    });
    let arrivals = async {
        for _ in 0..events {
            seen.recv().await.unwrap();
        }
    };
    tokio::join!(futures::future::join_all(writes), arrivals);
    let at_once = server.cpu() - cpu;
    tasks.shutdown().await;
    latencies.sort();
    Delivery { watchers, p99: latencies[latencies.len() * 99 / 100], events, one_by_one, at_once }
}
