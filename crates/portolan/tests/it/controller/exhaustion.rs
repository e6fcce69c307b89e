//! A subnet that is too small for those who want addresses in it: what becomes free goes to the first in line who can use it.

use std::collections::BTreeMap;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, DeleteParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Client, ResourceExt as _};
use portolan_api::portolan::{HolderKind, IPLock};
use portolan_testbed::{ApiKind, TestLab};
use serde_json::json;
use tokio::sync::mpsc;

use crate::controller::Stage;

/// Eight addresses: the network's, the gateway's, the broadcast one, and five for pods.
const TINY: &str = r#"
apiVersion: kubeovn.io/v1
kind: Subnet
metadata: {name: tiny}
spec: {vpc: blue, cidrBlock: 10.0.9.0/29, gateway: 10.0.9.1, provider: tiny.default.ovn, protocol: IPv4}
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: tiny, namespace: default}
spec: {config: '{"cniVersion": "0.3.1", "type": "kube-ovn", "provider": "tiny.default.ovn"}'}
"#;

/// Locks of pods as they come and go: the address, and whose it is; none once it is free.
struct Locks {
    changes: mpsc::UnboundedReceiver<(String, Option<String>)>,
    held: BTreeMap<String, String>,
}

impl Locks {
    async fn follow(client: Client) -> Self {
        let (sender, changes) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let locks = watcher(Api::<IPLock>::all(client), watcher::Config::default()).default_backoff();
            let mut locks = std::pin::pin!(locks);
            while let Some(Ok(event)) = locks.next().await {
                let (lock, is_held) = match event {
                    watcher::Event::Apply(lock) | watcher::Event::InitApply(lock) => (lock, true),
                    watcher::Event::Delete(lock) => (lock, false),
                    watcher::Event::Init | watcher::Event::InitDone => continue,
                };
                let holder = lock.spec.holder;
                if holder.kind == HolderKind::Pod {
                    _ = sender.send((lock.spec.address, is_held.then_some(holder.name)));
                }
            }
        });
        Locks { changes, held: BTreeMap::new() }
    }

    async fn next(&mut self) -> (String, Option<String>) {
        let (address, holder) = self.changes.recv().await.unwrap();
        match &holder {
            Some(holder) => drop(self.held.insert(address.clone(), holder.clone())),
            None => drop(self.held.remove(&address)),
        }
        (address, holder)
    }

    fn address_of(&self, pod: &str) -> Option<&str> {
        self.held.iter().find(|(_, holder)| *holder == pod).map(|(address, _)| address.as_str())
    }
}

/// What a claimant asks for.
#[derive(Clone, Debug)]
enum Wish {
    Any,
    Exactly(String),
    OneOf(Vec<String>),
}

async fn create(client: &Client, name: &str, wish: &Wish) {
    let mut network = json!({"name": "tiny", "namespace": "default"});
    let mut annotations = json!({});
    match wish {
        Wish::Any => {}
        Wish::Exactly(address) => network["ips"] = json!([address]),
        Wish::OneOf(pool) => {
            annotations["tiny.default.ovn.kubernetes.io/ip_pool"] = json!(pool.join(","));
        }
    }
    annotations["k8s.v1.cni.cncf.io/networks"] = json!(json!([network]).to_string());
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "annotations": annotations},
        "spec": {"nodeName": "node-1", "automountServiceAccountToken": false,
            "containers": [{"name": "main", "image": "none"}]}});
    let pod: Pod = serde_json::from_value(pod).unwrap();
    Api::namespaced(client.clone(), "default").create(&Default::default(), &pod).await.unwrap();
}

/// Waits until an Event says that a pod waits, and so has its place in line.
async fn waits(client: &Client, pod: &str) {
    let events = watcher(Api::<Event>::namespaced(client.clone(), "default"), watcher::Config::default());
    let mut events = std::pin::pin!(events.default_backoff().applied_objects());
    while let Some(Ok(event)) = events.next().await {
        let regarding = event.regarding.clone().unwrap_or_default();
        if regarding.name.as_deref() == Some(pod) && event.type_.as_deref() == Some("Warning") {
            return;
        }
    }
    panic!("the watch of Events ended");
}

async fn claimants_are_served_in_order(client: Client) {
    let pods = Api::<Pod>::namespaced(client.clone(), "default");
    let mut locks = Locks::follow(client.clone()).await;
    for number in 1..=5 {
        create(&client, &format!("p{number:02}"), &Wish::Any).await;
        assert!(locks.next().await.1.is_some());
    }
    let addresses: Vec<String> = locks.held.keys().cloned().collect();
    assert_eq!(addresses.len(), 5, "{:?}", locks.held);
    // Fifteen more: every third wants one address, every third one of two.
    let mut line: Vec<(String, Wish)> = Vec::new();
    for number in 6..=20 {
        let at = |offset: usize| addresses[(number + offset) % addresses.len()].clone();
        let wish = match number % 3 {
            0 => Wish::Any,
            1 => Wish::Exactly(at(0)),
            _ => Wish::OneOf(vec![at(0), at(2)]),
        };
        let name = format!("p{number:02}");
        create(&client, &name, &wish).await;
        waits(&client, &name).await;
        line.push((name, wish));
    }
    // Each address in turn is given back, until nobody waits any more.
    for turn in 0.. {
        if line.is_empty() {
            break;
        }
        let address = &addresses[turn % addresses.len()];
        let Some(holder) = locks.held.get(address).cloned() else { continue };
        let can_use = |wish: &Wish| match wish {
            Wish::Any => true,
            Wish::Exactly(exact) => exact == address,
            Wish::OneOf(pool) => pool.contains(address),
        };
        let next = line.iter().position(|(_, wish)| can_use(wish));
        pods.delete(&holder, &DeleteParams::default().grace_period(0)).await.unwrap();
        assert_eq!(locks.next().await, (address.clone(), None), "turn {turn}");
        let Some(next) = next else { continue };
        let (name, wish) = line.remove(next);
        // And nobody else is served: the next change is this one, and the one after it comes with the next turn.
        assert_eq!(
            locks.next().await,
            (address.clone(), Some(name)),
            "turn {turn}: {wish:?} before {line:?}"
        );
    }
    assert_eq!(pods.list(&Default::default()).await.unwrap().items.len(), locks.held.len());
    let held_by_the_living = pods.list(&Default::default()).await.unwrap().items;
    assert!(held_by_the_living.iter().all(|pod| locks.address_of(&pod.name_any()).is_some()));
}

fn exhaustion(lab: &TestLab, api: ApiKind) {
    let stage = Stage::with_objects(lab, api);
    stage.testbed.apply(TINY).unwrap();
    let _controller = stage.start("only", &[]);
    let client = stage.testbed.client();
    stage.testbed.wait(claimants_are_served_in_order(client));
}

#[test]
fn what_becomes_free_in_a_full_subnet_goes_to_the_next_who_can_use_it_on_portolans_own_apiserver() {
    portolan_testbed::test(async |lab| exhaustion(&lab, ApiKind::Portolan));
}

#[test]
fn what_becomes_free_in_a_full_subnet_goes_to_the_next_who_can_use_it_on_kube_apiserver() {
    portolan_testbed::test(async |lab| exhaustion(&lab, ApiKind::Kubernetes));
}
