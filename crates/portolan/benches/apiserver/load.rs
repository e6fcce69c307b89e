//! Writes, from several connections at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use http::{Method, Request};
use serde_json::{Value, json};

use crate::server::Server;

/// How many clients write at once.
pub(crate) const CLIENTS: usize = 32;
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// How fast something was done, and at which price.
pub(crate) struct Rate {
    count: usize,
    wall: Duration,
    cpu: Duration,
}

impl Rate {
    pub(crate) fn per_second(&self) -> f64 {
        self.count as f64 / self.wall.as_secs_f64()
    }

    pub(crate) fn per_cpu_second(&self) -> f64 {
        self.count as f64 / self.cpu.as_secs_f64()
    }
}

/// A kind whose objects are watched by a field of theirs.
pub(crate) async fn define(server: &Server) {
    let client = server.client().await;
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "node": {"type": "string"}, "text": {"type": "string"}}}}});
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "ports.bench.example"},
        "spec": {"group": "bench.example", "scope": "Namespaced", "names": {"plural": "ports", "kind": "Port"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
                "selectableFields": [{"jsonPath": ".spec.node"}]}]}});
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    client.request_text(request(Method::POST, path, Some(&definition))).await.unwrap();
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/ports.bench.example";
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let list = client.request_text(request(Method::GET, "/apis/bench.example/v1/ports", None)).await;
        let seen = client.request_text(request(Method::GET, path, None)).await.unwrap();
        if list.is_ok() && seen.contains("\"Established\"") {
            break;
        }
        assert!(Instant::now() < deadline, "{} does not serve the kind: {seen}", server.name);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Creates ConfigMaps of about one kibibyte.
pub(crate) async fn creates(server: &Server, prefix: &'static str, count: usize) -> Rate {
    run(server, count, move |client, index| async move {
        let object = config_map(&format!("{prefix}-{index}"), index);
        client.request_text(request(Method::POST, CONFIG_MAPS, Some(&object))).await.unwrap();
    })
    .await
}

/// Replaces each of them once, whatever its version.
pub(crate) async fn updates(server: &Server, prefix: &'static str, count: usize) -> Rate {
    run(server, count, move |client, index| async move {
        let name = format!("{prefix}-{index}");
        let object = config_map(&name, index + 1);
        client
            .request_text(request(Method::PUT, &format!("{CONFIG_MAPS}/{name}"), Some(&object)))
            .await
            .unwrap();
    })
    .await
}

fn config_map(name: &str, seed: usize) -> Value {
    let text: String = (0..12)
        .map(|part| format!("{:016x}", (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15 ^ part)))
        .collect();
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {"app": "bench", "shard": (seed % 64).to_string()}},
        "data": {"one": text, "two": text, "three": text, "four": text}})
}

async fn run<F, W>(server: &Server, count: usize, work: W) -> Rate
where
    W: Fn(kube::Client, usize) -> F + Clone + Send + 'static,
    F: Future<Output = ()> + Send,
{
    let next = Arc::new(AtomicUsize::new(0));
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(server.client().await);
    }
    let (began, cpu) = (Instant::now(), server.cpu());
    let tasks: Vec<_> = clients
        .into_iter()
        .map(|client| {
            let (next, work) = (Arc::clone(&next), work.clone());
            tokio::spawn(async move {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= count {
                        return;
                    }
                    work(client.clone(), index).await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    Rate { count, wall: began.elapsed(), cpu: server.cpu() - cpu }
}

pub(crate) fn request(method: Method, path: &str, body: Option<&Value>) -> Request<Vec<u8>> {
    let body = body.map(|body| serde_json::to_vec(body).unwrap()).unwrap_or_default();
    Request::builder().method(method).uri(path).header("Content-Type", "application/json").body(body).unwrap()
}
