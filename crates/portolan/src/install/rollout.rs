//! Waits until what was installed runs, and until what was removed has ended.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::{Namespace, Pod, PodSpec};
use kube::api::{DeleteParams, DynamicObject, ListParams, Preconditions, WatchEvent, WatchParams};
use kube::runtime::wait::{await_condition, conditions::is_deleted};
use kube::{Api, ResourceExt as _};
use portolan_manifests::Object;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::apply::api;
use crate::cluster::Cluster;
use crate::exit::{Exit, Failure};
use crate::output::plain;
use crate::waiting::Waiting;

/// How long one watch lasts at most; the next begins where everything is looked at again.
const WATCH: u32 = 60;

/// Waits until all of them have as many pods ready as they want.
pub(crate) async fn wait(cluster: &Cluster, workloads: &[&Object], patience: Duration) -> anyhow::Result<()> {
    let deadline = Instant::now() + patience;
    for workload in workloads {
        let what = workload.description();
        let shown = Waiting::start(format!("waiting for {what}"));
        let mut last = String::new();
        let outcome = timeout_at(deadline, until_ready(cluster, workload, &mut last)).await;
        drop(shown);
        match outcome {
            Ok(outcome) => outcome?,
            Err(_) => {
                let why = pods_that_are_not_ready(cluster, workload).await;
                return Err(Failure::with(
                    Exit::Failed,
                    format!("{what} does not run after {} s: {last}{why}", patience.as_secs()),
                ));
            }
        }
    }
    Ok(())
}

async fn until_ready(cluster: &Cluster, workload: &Object, last: &mut String) -> anyhow::Result<()> {
    let (what, api) = (workload.description(), api(cluster, workload));
    let explain = |error: &kube::Error| cluster.explain(&what, error);
    loop {
        let one = format!("metadata.name={}", workload.name());
        let found = api.get(workload.name()).await.map_err(|error| explain(&error))?;
        if is_ready(&found, last) {
            return Ok(());
        }
        let version = found.resource_version().unwrap_or_default();
        let parameters = WatchParams::default().fields(&one).timeout(WATCH);
        let events = api.watch(&parameters, &version).await.map_err(|error| explain(&error))?;
        let mut events = std::pin::pin!(events);
        // A watch that ends or fails is begun again with a look.
        while let Ok(Some(event)) = events.try_next().await {
            match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) if is_ready(&object, last) => {
                    return Ok(());
                }
                WatchEvent::Error(_) => break,
                _ => {}
            }
        }
    }
}

/// Whether a workload has what it wants, and how far it is.
fn is_ready(object: &DynamicObject, said: &mut String) -> bool {
    let (spec, status) = (&object.data["spec"], &object.data["status"]);
    let number = |value: &Value| value.as_u64().unwrap_or_default();
    let is_observed = number(&status["observedGeneration"])
        >= object.metadata.generation.unwrap_or_default().cast_unsigned();
    let kind = object.types.as_ref().map(|types| types.kind.as_str()).unwrap_or_default();
    let (wanted, updated, ready) = match kind {
        "DaemonSet" => {
            let updated = &status["updatedNumberScheduled"];
            (number(&status["desiredNumberScheduled"]), number(updated), number(&status["numberReady"]))
        }
        _ => (
            spec["replicas"].as_u64().unwrap_or(1),
            number(&status["updatedReplicas"]),
            number(&status["readyReplicas"]),
        ),
    };
    // Nodes get a new version when their administrator deletes the pod.
    let waits_for_update = spec["updateStrategy"]["type"] != "OnDelete";
    *said = format!("{ready} of {wanted} pods are ready, {updated} are of this version");
    is_observed && ready >= wanted && (updated >= wanted || !waits_for_update)
}

/// The pods of a workload that are not ready, and why as far as they say so.
async fn pods_that_are_not_ready(cluster: &Cluster, workload: &Object) -> String {
    let Some(namespace) = workload.namespace() else { return String::new() };
    let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), namespace);
    let of = ListParams::default().labels(&format!("app={}", workload.name()));
    let Ok(pods) = pods.list(&of).await else { return String::new() };
    let reasons: BTreeMap<String, String> =
        pods.iter().filter_map(|pod| Some((pod.name_any(), why_not_ready(pod)?))).collect();
    reasons
        .iter()
        .map(|(pod, why)| {
            let why = plain(why);
            format!("\n  pod {namespace}/{pod}: {why}; `kubectl logs -n {namespace} {pod} --all-containers` has more")
        })
        .collect()
}

/// Why a pod is not ready, as far as it says so; none if it is.
pub(crate) fn why_not_ready(pod: &Pod) -> Option<String> {
    let status = pod.status.clone().unwrap_or_default();
    let mut said: Vec<String> = Vec::new();
    for container in status.container_statuses.iter().flatten().filter(|one| !one.ready) {
        let state = container.state.clone().unwrap_or_default();
        let waiting = state.waiting.and_then(|waiting| waiting.reason);
        let ended = state.terminated.and_then(|ended| ended.reason);
        said.push(format!(
            "{} {}",
            container.name,
            waiting.or(ended).unwrap_or_else(|| "is not ready".into())
        ));
    }
    let unscheduled =
        status.conditions.iter().flatten().find(|one| one.type_ == "PodScheduled" && one.status == "False");
    said.extend(unscheduled.and_then(|one| one.message.clone()));
    (!said.is_empty()).then(|| said.join(", "))
}

/// Waits until a part has no pods any more. Those of nodes that are gone are deleted without their kubelets, which would never say that they have
/// ended.
pub(crate) async fn wait_for_end(
    cluster: &Cluster,
    namespace: &str,
    part: &str,
    gone: &[String],
    patience: Duration,
) -> anyhow::Result<()> {
    let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), namespace);
    let selector = format!("app={part}");
    let _shown = Waiting::start(format!("waiting for the end of the pods of {part}"));
    let ended = async {
        loop {
            let list = pods.list(&ListParams::default().labels(&selector)).await;
            let list = list.map_err(|error| cluster.explain("the list of Pods", &error))?;
            if list.items.is_empty() {
                return anyhow::Ok(());
            }
            let is_on_one = |pod: &&Pod| pod.spec.as_ref().is_some_and(|spec| is_one_of(spec, gone));
            for pod in list.items.iter().filter(is_on_one) {
                forget(cluster, &pods, pod).await?;
            }
            let version = list.metadata.resource_version.unwrap_or_default();
            let parameters = WatchParams::default().labels(&selector).timeout(WATCH);
            let events = pods.watch(&parameters, &version).await;
            let events = events.map_err(|error| cluster.explain("the watch of Pods", &error))?;
            let mut events = std::pin::pin!(events);
            while let Ok(Some(event)) = events.try_next().await {
                let is_to_be_forgotten =
                    matches!(&event, WatchEvent::Added(pod) | WatchEvent::Modified(pod) if is_on_one(&pod));
                if is_to_be_forgotten || matches!(event, WatchEvent::Deleted(_) | WatchEvent::Error(_)) {
                    break;
                }
            }
        }
    };
    tokio::time::timeout(patience, ended).await.unwrap_or_else(|_| {
        Err(Failure::with(
            Exit::Failed,
            format!(
                "pods of {part} in namespace {namespace} have not ended after {} s; `kubectl get pods -n {namespace} -o wide` says on which nodes; \
                 if one is gone, --skip-node NAME leaves it out",
                patience.as_secs()
            ),
        ))
    })
}

fn is_one_of(spec: &PodSpec, nodes: &[String]) -> bool {
    spec.node_name.as_ref().is_some_and(|node| nodes.contains(node))
}

/// Deletes a pod, and does not wait for its kubelet.
async fn forget(cluster: &Cluster, pods: &Api<Pod>, pod: &Pod) -> anyhow::Result<()> {
    let name = pod.name_any();
    let preconditions = Preconditions { uid: pod.uid(), resource_version: None };
    match pods.delete(&name, &DeleteParams::default().grace_period(0).preconditions(preconditions)).await {
        Ok(_) => Ok(()),
        // It has gone by itself, or another has its name by now.
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        Err(error) => Err(cluster.explain(&format!("Pod {name}"), &error)),
    }
}

/// Waits until a namespace that is being deleted is gone: nothing can be installed into it before.
pub(crate) async fn wait_for_end_of_namespace(
    cluster: &Cluster,
    namespace: &str,
    patience: Duration,
) -> anyhow::Result<()> {
    let api: Api<Namespace> = Api::all(cluster.client.clone());
    let found = api.get_metadata_opt(namespace).await;
    let found = found.map_err(|error| cluster.explain("the namespace", &error))?;
    let Some(uid) = found.and_then(|found| found.uid()) else { return Ok(()) };
    let _shown = Waiting::start(format!("waiting for the end of namespace {namespace}"));
    let gone = await_condition(api, namespace, is_deleted(&uid));
    match tokio::time::timeout(patience, gone).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(error.into()),
        Err(_) => Err(Failure::with(
            Exit::Failed,
            format!(
                "namespace {namespace} is not gone after {} s; its status says what is left: `kubectl get namespace {namespace} -o yaml`",
                patience.as_secs()
            ),
        )),
    }
}
