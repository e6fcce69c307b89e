//! Logs of Portolan's pods: of the containers that run, and of those before them.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, LogParams};
use kube::{Api, ResourceExt as _};
use tokio::time::{Instant, timeout_at};

use super::archive::Archive;
use crate::cluster::Cluster;
use crate::install::apply::PART_OF;
use crate::install::rollout::why_not_ready;

/// How much of each log there is, from its end.
const LINES: i64 = 20_000;
const BYTES: i64 = 8 << 20;
/// Of how many pods. A cluster has an agent on each node, and most say the same.
const PODS: usize = 60;

pub(super) async fn collect(
    cluster: &Cluster,
    namespace: &str,
    deadline: Instant,
    archive: &mut Archive,
) -> anyhow::Result<()> {
    let api: Api<Pod> = Api::namespaced(cluster.client.clone(), namespace);
    let ours = ListParams::default().labels(&format!("{PART_OF}=portolan"));
    let mut pods = match api.list(&ours).await {
        Ok(list) => list.items,
        Err(error) => {
            archive.missing("logs", &format!("{:#}", cluster.explain("the list of Pods", &error)));
            return Ok(());
        }
    };
    pods.sort_by_key(rank);
    for (number, pod) in pods.iter().enumerate() {
        let name = pod.name_any();
        if number >= PODS {
            archive.missing(&format!("logs/{name}"), &format!("logs of {PODS} pods are collected"));
            continue;
        }
        for container in pod.spec.iter().flat_map(|spec| &spec.containers) {
            let restarts = restarts(pod, &container.name);
            for previous in [false, true] {
                if previous && restarts == 0 {
                    continue;
                }
                let which = if previous { ".previous" } else { "" };
                let file = format!("logs/{name}/{}{which}.log", container.name);
                let parameters = LogParams {
                    container: Some(container.name.clone()),
                    previous,
                    tail_lines: Some(LINES),
                    limit_bytes: Some(BYTES),
                    timestamps: true,
                    ..LogParams::default()
                };
                match timeout_at(deadline, api.logs(&name, &parameters)).await {
                    Ok(Ok(log)) => archive.add(&file, log.as_bytes())?,
                    Ok(Err(error)) => {
                        archive.missing(&file, &format!("{:#}", cluster.explain("the log", &error)));
                    }
                    Err(_) => archive.missing(&file, "the time was up"),
                }
            }
        }
    }
    Ok(())
}

fn restarts(pod: &Pod, container: &str) -> i32 {
    let statuses = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
    statuses.filter(|one| one.name == container).map(|one| one.restart_count).sum()
}

/// First what is not as it should be, then what there is one of.
fn rank(pod: &Pod) -> (bool, bool, String) {
    let part = pod.labels().get("app").map(String::as_str).unwrap_or_default();
    let is_of_each_node = !["ovn-central", "portolan-controller"].contains(&part);
    (why_not_ready(pod).is_none(), is_of_each_node, pod.name_any())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pods_in_trouble_come_first_and_then_those_of_which_there_are_few() {
        let pod = |name: &str, part: &str, ready: bool| -> Pod {
            serde_json::from_value(json!({
                "metadata": {"name": name, "labels": {"app": part}},
                "spec": {"containers": []},
                "status": {"containerStatuses": [{"name": "a", "ready": ready, "restartCount": 0, "image": "", "imageID": ""}]},
            }))
            .expect("it is a Pod")
        };
        let mut pods = [
            pod("agent-1", "portolan-agent", true),
            pod("ovn-central-0", "ovn-central", true),
            pod("agent-2", "portolan-agent", false),
        ];
        pods.sort_by_key(rank);
        let names: Vec<_> = pods.iter().map(kube::ResourceExt::name_any).collect();
        assert_eq!(names, ["agent-2", "ovn-central-0", "agent-1"]);
    }
}
