//! The Node object of a node.

use std::net::Ipv4Addr;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;

use crate::error::{Error, Result};

/// On a node: the lab that it belongs to.
pub(super) const LAB: &str = "lab.portolan.dev/name";

/// Makes the object, or takes over one of an earlier lab of this name, and says that the node is ready.
pub(crate) async fn apply(client: Client, lab: String, name: String, address: Ipv4Addr) -> Result<()> {
    let api = Api::<Node>::all(client);
    let failed = |why: String| Error::ApiServer { what: format!("make Node {name}"), why };
    let there = api.get_opt(&name).await.map_err(|error| failed(error.to_string()))?;
    if there.is_some_and(|node| node.labels().get(LAB) != Some(&lab)) {
        return Err(failed(format!("there is one that does not have the label {LAB}={lab}")));
    }
    write(&api, &lab, &name, address).await.map_err(|error| failed(error.to_string()))
}

/// Removes the objects of these nodes. One that is gone is no error.
pub(crate) async fn remove(client: &Client, nodes: Vec<String>) -> kube::Result<()> {
    let api = Api::<Node>::all(client.clone());
    for node in nodes {
        match api.delete(&node, &DeleteParams::default()).await {
            Err(kube::Error::Api(answer)) if answer.is_not_found() => {}
            removed => drop(removed?),
        }
    }
    Ok(())
}

async fn write(api: &Api<Node>, lab: &str, name: &str, address: Ipv4Addr) -> kube::Result<()> {
    let parameters = PatchParams::apply("portolan-lab").force();
    let object = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {
        LAB: lab, "kubernetes.io/hostname": name, "kubernetes.io/os": "linux",
        "kubernetes.io/arch": architecture()}}});
    api.patch(name, &parameters, &Patch::Apply(&object)).await?;

    let now = Timestamp::now();
    let uname = rustix::system::uname();
    let resources = json!({"cpu": processors().to_string(), "memory": "0", "pods": "1000"});
    let condition = |kind: &str, status: &str, reason: &str, message: &str| {
        json!({"type": kind, "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": now, "lastTransitionTime": now})
    };
    let status = json!({"status": {
        "addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}],
        "conditions": [
            condition("Ready", "True", "KubeletReady", "the lab's runtime runs pods; there are no heartbeats"),
            condition("NetworkUnavailable", "False", "RouteCreated", "the agent answers the CNI plugin"),
        ],
        "capacity": resources, "allocatable": resources,
        "nodeInfo": {
            "machineID": "", "systemUUID": "", "bootID": "", "kubeProxyVersion": "",
            "architecture": architecture(), "operatingSystem": "linux",
            "kernelVersion": uname.release().to_string_lossy(), "osImage": "the machine's own",
            "containerRuntimeVersion": "none://", "kubeletVersion": concat!("portolan-lab-", env!("CARGO_PKG_VERSION")),
        },
    }});
    api.patch_status(name, &PatchParams::default(), &Patch::Merge(&status)).await?;
    Ok(())
}

/// As Kubernetes spells it.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}
