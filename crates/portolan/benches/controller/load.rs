//! Creations and deletions, many at a time.

use std::time::Instant;

use futures::stream::{self, StreamExt as _};
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, DeleteParams, PostParams};
use portolan_api::portolan::IPLock;
use portolan_model::fixtures::mk_lock;
use serde_json::json;

/// How many requests are under way at once.
const AT_ONCE: usize = 64;
/// How many subnets the pods are spread over.
pub(crate) const SUBNETS: usize = 20;

/// How many pods and their locks can be created per second, with nobody to decide anything.
pub(crate) async fn bare(client: Client, count: usize) -> f64 {
    let locks = Api::<IPLock>::all(client.clone());
    let begun = Instant::now();
    stream::iter(0..count)
        .for_each_concurrent(AT_ONCE, |number| {
            let (client, locks) = (client.clone(), locks.clone());
            async move {
                let name = format!("bare-{number}");
                create_pod(&client, &name, number).await;
                let address = format!(
                    "10.{}.{}.{}",
                    number % SUBNETS,
                    number / SUBNETS / 250,
                    number / SUBNETS % 250 + 2
                );
                let subnet = format!("net{}", number % SUBNETS);
                let mut lock = mk_lock("vpc/blue", &subnet, &address, &name, 1);
                lock.metadata.uid = None;
                lock.metadata.resource_version = None;
                lock.metadata.creation_timestamp = None;
                locks.create(&PostParams::default(), &lock).await.unwrap();
            }
        })
        .await;
    count as f64 / begun.elapsed().as_secs_f64()
}

pub(crate) async fn create(client: Client, prefix: String, count: usize) {
    let create = |number| {
        let (client, name) = (client.clone(), format!("{prefix}{number}"));
        async move { create_pod(&client, &name, number).await }
    };
    stream::iter(0..count).for_each_concurrent(AT_ONCE, create).await;
}

pub(crate) async fn delete(client: Client, prefix: String, count: usize) {
    let pods = Api::<Pod>::namespaced(client, "default");
    let delete = |number| {
        let (pods, name) = (pods.clone(), format!("{prefix}{number}"));
        async move {
            pods.delete(&name, &DeleteParams::default().grace_period(0)).await.unwrap();
        }
    };
    stream::iter(0..count).for_each_concurrent(AT_ONCE, delete).await;
}

async fn create_pod(client: &Client, name: &str, number: usize) {
    let network = format!("net{}", number % SUBNETS);
    let pod = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "annotations": {"k8s.v1.cni.cncf.io/networks": network}},
        "spec": {"nodeName": "node-1", "automountServiceAccountToken": false,
            "containers": [{"name": "main", "image": "none"}]}});
    let pod: Pod = serde_json::from_value(pod).unwrap();
    Api::namespaced(client.clone(), "default").create(&PostParams::default(), &pod).await.unwrap();
}
