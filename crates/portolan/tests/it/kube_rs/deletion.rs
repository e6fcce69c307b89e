//! Deletions that meet other writes.

use futures::StreamExt as _;
use futures::stream;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::kube_rs::Space;

/// A deletion without grace marks the object and removes it. A write between the two completes the deletion, which has succeeded all the same.
pub(crate) async fn who_deletes_is_not_told_that_there_was_nothing(space: Space) {
    let pods: Api<Pod> = space.api();
    let pods = &pods;
    let round = |number: usize| async move {
        let name = format!("pod-{number}");
        let pod = json!({"metadata": {"name": name}, "spec": {"nodeName": "nowhere",
            "containers": [{"name": "main", "image": "none"}]}});
        pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
        let writes = stream::iter(0..8).for_each_concurrent(8, |write| {
            let patch = Patch::Merge(json!({"metadata": {"annotations": {"write": write.to_string()}}}));
            let name = &name;
            // It may come too late.
            async move { drop(pods.patch(name, &PatchParams::default(), &patch).await) }
        });
        let now = DeleteParams::default().grace_period(0);
        let (deleted, ()) = futures::join!(pods.delete(&name, &now), writes);
        deleted.unwrap();
    };
    stream::iter(0..60).for_each_concurrent(4, round).await;
}
