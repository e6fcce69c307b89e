//! Pods that come and go.

use std::collections::BTreeMap;

use futures::future::join_all;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, PostParams};
use kube::{Client, ResourceExt as _};
use portolan_testbed::Testbed;
use serde_json::{Value, json};

use crate::crash_rounds::observer::{Departures, Observer};

/// How many pods come and go at once, at most.
const BURST: usize = 24;

/// A VPC, its subnets, a definition for each, and a node.
pub(crate) fn objects(subnets: usize) -> String {
    let mut items = vec![
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}}),
        json!({"apiVersion": "kubeovn.io/v1", "kind": "Vpc", "metadata": {"name": "blue"}, "spec": {}}),
    ];
    for number in 0..subnets {
        let (name, provider) = (format!("net{number}"), format!("net{number}.default.ovn"));
        let config = json!({"cniVersion": "0.3.1", "type": "kube-ovn", "provider": provider}).to_string();
        items.push(
            json!({"apiVersion": "kubeovn.io/v1", "kind": "Subnet", "metadata": {"name": name}, "spec": {
            "vpc": "blue", "protocol": "IPv4", "provider": provider,
            "cidrBlock": format!("10.{number}.0.0/24"), "gateway": format!("10.{number}.0.1"),
            "excludeIps": [format!("10.{number}.0.150..10.{number}.0.254")]}}),
        );
        items.push(json!({"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
            "metadata": {"name": name, "namespace": "default"}, "spec": {"config": config}}));
    }
    json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
}

pub(crate) struct Churn {
    testbed: Testbed,
    client: Client,
    departures: Departures,
    /// The UIDs of the pods that there should be, by name.
    living: BTreeMap<String, String>,
    target: usize,
    created: usize,
}

impl Churn {
    pub(crate) fn new(testbed: &Testbed, observer: &Observer, target: usize) -> Self {
        let (client, departures) = (testbed.client(), observer.departures());
        Churn { testbed: testbed.clone(), client, departures, living: BTreeMap::new(), target, created: 0 }
    }

    /// The UIDs of the pods that there should be, by name.
    pub(crate) fn living(&self) -> &BTreeMap<String, String> {
        &self.living
    }

    /// Makes as many pods as there should be about.
    pub(crate) fn fill(&mut self, random: &mut fastrand::Rng) {
        while self.living.len() < self.target {
            let comers = (0..BURST).map(|_| self.comer(random)).collect();
            self.step(comers, Vec::new());
        }
    }

    /// Makes and deletes some pods at once; how many.
    pub(crate) fn burst(&mut self, random: &mut fastrand::Rng) -> u64 {
        let steps = random.usize(1..=BURST);
        let (mut comers, mut leavers) = (Vec::new(), Vec::new());
        for _ in 0..steps {
            // The fewer there are, the more come.
            if random.usize(0..2 * self.target) >= self.living.len() {
                comers.push(self.comer(random));
            } else {
                let name = self.living.keys().nth(random.usize(0..self.living.len())).cloned();
                leavers.extend(name.and_then(|name| self.living.remove_entry(&name)));
            }
        }
        let steps = comers.len() + leavers.len();
        self.step(comers, leavers);
        steps as u64
    }

    fn step(&mut self, comers: Vec<Value>, leavers: Vec<(String, String)>) {
        let (pods, departures) =
            (Api::<Pod>::namespaced(self.client.clone(), "default"), self.departures.clone());
        let born = self.testbed.wait(async move {
            let come = comers.iter().map(|pod| create(&pods, pod));
            let leave = leavers.iter().map(|(name, uid)| delete(&pods, name, uid, &departures));
            futures::join!(join_all(come), join_all(leave)).0
        });
        self.living.extend(born);
    }

    fn comer(&mut self, random: &mut fastrand::Rng) -> Value {
        self.created += 1;
        let number = random.usize(0..crate::crash_rounds::SUBNETS);
        let mut network = json!({"name": format!("net{number}"), "namespace": "default"});
        // Some ask for an address: each for one of its own, among those that are given to nobody else.
        if self.created < 100 && random.u8(0..8) == 0 {
            network["ips"] = json!([format!("10.{number}.0.{}", 150 + self.created)]);
        }
        json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": format!("pod{}", self.created), "annotations": {
                "k8s.v1.cni.cncf.io/networks": json!([network]).to_string()}},
            "spec": {"nodeName": "node-1", "automountServiceAccountToken": false,
                "containers": [{"name": "main", "image": "none"}]}})
    }
}

/// Creates a pod, however often that takes: the server may die with the request. Its name and UID.
async fn create(pods: &Api<Pod>, pod: &Value) -> (String, String) {
    let pod: Pod = serde_json::from_value(pod.clone()).unwrap();
    loop {
        let created = match pods.create(&PostParams::default(), &pod).await {
            Err(kube::Error::Api(status)) if status.is_already_exists() => pods.get(&pod.name_any()).await,
            other => other,
        };
        match created {
            Ok(created) => return (created.name_any(), created.uid().unwrap()),
            Err(error) => retry(&error).await,
        }
    }
}

async fn delete(pods: &Api<Pod>, name: &str, uid: &str, departures: &Departures) {
    departures.add(uid);
    let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
    loop {
        match pods.delete(name, &now).await {
            Ok(_) => return,
            Err(kube::Error::Api(status)) if status.is_not_found() => return,
            Err(error) => retry(&error).await,
        }
    }
}

/// The API server is away for a moment. Nothing tells when it is back but a request that succeeds.
async fn retry(error: &kube::Error) {
    if let kube::Error::Api(status) = error {
        assert!(status.code >= 429, "{status:?}");
    }
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
}
