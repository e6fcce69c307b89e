//! A workload of a scenario, with networks of its own.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1 as core;
use kube::api::{Api, ListParams};
use kube::{Resource as _, ResourceExt as _};
use portolan_api::portolan::IPLock;
use portolan_testbed::{Heartbeat, Pod, Testbed};
use serde_json::{Value, json};

/// A scenario's name, which its objects have, and its two networks: `NAME` and `NAME-more`.
pub(crate) struct Workload<'a> {
    pub(crate) testbed: &'a Testbed,
    pub(crate) name: &'static str,
    number: usize,
}

impl<'a> Workload<'a> {
    /// Makes the networks.
    pub(crate) fn new(testbed: &'a Testbed, name: &'static str, number: usize) -> Self {
        let workload = Self { testbed, name, number };
        for (nad, prefix) in [(name.to_owned(), workload.prefix()), (workload.more(), workload.more_prefix())]
        {
            let provider = format!("{nad}.default.ovn");
            let config = json!({"cniVersion": "0.3.1", "type": "kube-ovn", "provider": provider}).to_string();
            let objects = json!({"apiVersion": "v1", "kind": "List", "items": [
                {"apiVersion": "kubeovn.io/v1", "kind": "Subnet", "metadata": {"name": nad}, "spec": {"protocol": "IPv4",
                    "provider": provider, "cidrBlock": format!("{prefix}.0/24"), "gateway": format!("{prefix}.1")}},
                {"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
                    "metadata": {"name": nad, "namespace": "default"}, "spec": {"config": config}},
            ]});
            testbed.apply(&objects.to_string()).unwrap();
        }
        workload
    }

    /// The first three numbers of the addresses of its network.
    pub(crate) fn prefix(&self) -> String {
        format!("10.80.{}", self.number)
    }

    /// Its second network.
    pub(crate) fn more(&self) -> String {
        format!("{}-more", self.name)
    }

    /// The first three numbers of the addresses of its second network.
    pub(crate) fn more_prefix(&self) -> String {
        format!("10.81.{}", self.number)
    }

    pub(crate) fn kubectl(&self, arguments: &[&str]) -> String {
        self.testbed.kubectl().unwrap().args(arguments).read().unwrap()
    }

    /// Applies a StatefulSet or Deployment whose pods are on these networks, as the networks annotation has them.
    pub(crate) fn apply(&self, kind: &str, replicas: u32, networks: &Value, more: &Value) {
        let mut template = json!({"metadata": {"labels": {"app": self.name},
                "annotations": {"k8s.v1.cni.cncf.io/networks": networks.to_string()}},
            "spec": {"automountServiceAccountToken": false, "terminationGracePeriodSeconds": 1,
                "containers": [{"name": "main", "image": "none"}]}});
        merge(&mut template, &more["template"]);
        let mut spec = json!({"replicas": replicas, "selector": {"matchLabels": {"app": self.name}}, "template": template});
        merge(&mut spec, &more["spec"]);
        if kind == "StatefulSet" {
            spec["serviceName"] = json!(self.name);
        }
        let object =
            json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": self.name}, "spec": spec});
        self.testbed.apply(&object.to_string()).unwrap();
    }

    /// Waits until the workload's template is that of all its pods, and all are ready.
    pub(crate) fn rolled_out(&self, kind: &str) {
        self.kubectl(&["rollout", "status", &format!("{kind}/{}", self.name), "--timeout=90s"]);
    }

    /// The pods of the workload that run, by name.
    pub(crate) fn pods(&self) -> BTreeMap<String, core::Pod> {
        let api = Api::<core::Pod>::namespaced(self.testbed.client(), "default");
        let own = ListParams::default().labels(&format!("app={}", self.name));
        let list = self.testbed.wait(async move { api.list(&own).await }).unwrap();
        let live = list.items.into_iter().filter(|pod| pod.meta().deletion_timestamp.is_none());
        live.map(|pod| (pod.name_any(), pod)).collect()
    }

    /// Pods with their addresses.
    pub(crate) fn addresses(&self) -> BTreeMap<String, Vec<String>> {
        let ips = |pod: &core::Pod| {
            let ips = pod.status.as_ref().and_then(|status| status.pod_ips.clone()).unwrap_or_default();
            ips.into_iter().map(|ip| ip.ip).collect()
        };
        self.pods().iter().map(|(name, pod)| (name.clone(), ips(pod))).collect()
    }

    /// A pod that is none of the workload's.
    pub(crate) fn peer(&self, name: &str) -> Pod {
        let name = format!("{}-{name}", self.name);
        self.testbed.pod(&name).on("node2").nad(self.name).start().unwrap()
    }

    /// Connections from a peer to every pod of the workload.
    pub(crate) fn heartbeats(&self, peer: &Pod) -> Vec<Heartbeat> {
        let names = self.pods().into_keys();
        names
            .map(|name| Heartbeat::between(peer, &self.testbed.running_pod("default", &name).unwrap()))
            .collect()
    }

    /// Waits until the controller has seen what there was before: it serves a pod that is made now.
    pub(crate) fn fence(&self, name: &str) {
        self.peer(name).delete().unwrap();
    }

    /// The locks on the workload's networks with their UIDs, without those of fences, which are still being released.
    pub(crate) fn locks(&self) -> BTreeMap<String, String> {
        let api = Api::<IPLock>::all(self.testbed.client());
        let list = self.testbed.wait(async move { api.list(&ListParams::default()).await }).unwrap();
        let is_fence = |lock: &IPLock| lock.spec.holder.name.contains("fence");
        let own = list.items.iter().filter(|lock| {
            (lock.spec.subnet == self.name || lock.spec.subnet == self.more()) && !is_fence(lock)
        });
        own.map(|lock| (lock.name_any(), lock.uid().unwrap_or_default())).collect()
    }
}

fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (_, Value::Null) => {}
        (into, from) => *into = from.clone(),
    }
}
