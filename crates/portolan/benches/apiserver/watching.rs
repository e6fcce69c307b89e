//! Watchers, each of which wants the objects of one node.

use std::time::{Duration, Instant};

use futures::AsyncBufReadExt as _;
use futures::StreamExt as _;
use http::Method;
use serde_json::json;
use tokio::sync::mpsc;

use crate::load::request;
use crate::server::Server;

/// How events came to watchers.
pub(crate) struct Delivery {
    pub(crate) watchers: usize,
    pub(crate) p99: Duration,
    events: usize,
    cpu: Duration,
}

impl Delivery {
    /// In microseconds; the write that made the event is part of it.
    pub(crate) fn cpu_per_event(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.events as f64
    }
}

/// Starts watchers and updates objects, one after another, each of which concerns one watcher.
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
    let mut latencies = Vec::with_capacity(events);
    let cpu = server.cpu();
    for event in 0..events {
        let index = event % watchers;
        let path = format!("{path}/port-{watchers}-{index}");
        let patch = json!({"spec": {"text": (event + 1).to_string()}});
        let mut patch = request(Method::PATCH, &path, Some(&patch));
        patch.headers_mut().insert("Content-Type", "application/merge-patch+json".parse().unwrap());
        let began = Instant::now();
        let write = writer.request_text(patch);
        let (written, (who, at)) = tokio::join!(write, async { seen.recv().await.unwrap() });
        written.unwrap();
        assert_eq!(who, index, "an event came to the wrong watcher");
        latencies.push(at - began);
    }
    let cpu = server.cpu() - cpu;
    tasks.shutdown().await;
    latencies.sort();
    Delivery { watchers, p99: latencies[latencies.len() * 99 / 100], events, cpu }
}
