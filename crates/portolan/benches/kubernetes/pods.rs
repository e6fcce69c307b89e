//! Pods that are made all at once, and when they were scheduled and ready, as a watch shows it: what their conditions say themselves is exact to
//! a second only.

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Instant;

use futures::future::join_all;
use futures::{FutureExt as _, StreamExt as _};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, PostParams, WatchEvent, WatchParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;

/// How pods came up, in seconds.
pub(crate) struct Times {
    /// Of each pod, from being scheduled to being ready.
    pub(crate) each: Vec<f64>,
    /// From the first request until all were ready.
    pub(crate) all: f64,
}

#[derive(Default)]
struct Seen {
    scheduled: Option<Instant>,
    ready: Option<Instant>,
}

/// Makes pods and waits until all are ready.
pub(crate) async fn create(client: Client, count: usize) -> Times {
    let pods = Api::<Pod>::default_namespaced(client);
    let mut events = pin!(pods.watch(&WatchParams::default(), &version(&pods).await).await.unwrap());
    let begun = Instant::now();
    let made = join_all((0..count).map(|number| make(&pods, number)));
    let ready = async {
        let mut seen = BTreeMap::<String, Seen>::new();
        while seen.values().filter(|one| one.ready.is_some()).count() < count {
            let event = events.next().await.expect("the API server goes on").unwrap();
            let (WatchEvent::Added(pod) | WatchEvent::Modified(pod)) = event else { continue };
            let (now, one) = (Instant::now(), seen.entry(pod.name_any()).or_default());
            if has(&pod, "PodScheduled") {
                one.scheduled.get_or_insert(now);
            }
            if has(&pod, "Ready") {
                one.ready.get_or_insert(now);
            }
        }
        seen
    };
    let (_, seen) = futures::join!(made, ready);
    let took = |one: &Seen| Some((one.ready? - one.scheduled?).as_secs_f64());
    Times { each: seen.values().filter_map(took).collect(), all: begun.elapsed().as_secs_f64() }
}

/// Removes all pods and waits until they are gone.
pub(crate) async fn delete(client: Client) {
    let pods = Api::<Pod>::default_namespaced(client);
    let list = pods.list_metadata(&ListParams::default()).await.unwrap();
    let mut left = list.items.len();
    let version = list.metadata.resource_version.unwrap();
    let mut events = pin!(pods.watch(&WatchParams::default(), &version).await.unwrap());
    pods.delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
    while left > 0 {
        let event = events.next().await.expect("the API server goes on").unwrap();
        left -= usize::from(matches!(event, WatchEvent::Deleted(_)));
    }
}

fn make(pods: &Api<Pod>, number: usize) -> impl Future<Output = ()> {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("pod{number}")},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": [{"name": "main", "image": "agnhost:1"}]}});
    let pod = serde_json::from_value(pod).unwrap();
    async move { pods.create(&PostParams::default(), &pod).map(|made| drop(made.unwrap())).await }
}

async fn version(pods: &Api<Pod>) -> String {
    let list = pods.list_metadata(&ListParams::default()).await.unwrap();
    assert!(list.items.is_empty(), "the pods of before are gone");
    list.metadata.resource_version.unwrap()
}

fn has(pod: &Pod, condition: &str) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|one| one.type_ == condition && one.status == "True")
}
