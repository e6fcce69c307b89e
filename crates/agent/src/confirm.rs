//! Live reads: whether what ports were made for is gone: the pods of ports whose links are gone, and the `NetworkAttachment`s that a list
//! lacks. A few at a time, in the order in which they were asked for. And the pods of calls that a list lacks.

use std::collections::VecDeque;
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use portolan_api::portolan::NetworkAttachment;
use portolan_plan::reconciler::Absence;
use portolan_watch::Object;

use crate::call::PodArgs;
use crate::cluster::{Cluster, Known};
use crate::engine::{OwnerKind, OwnerOfUnit};
use crate::pods::PodFacts;

/// How many objects are read at a time. After a restart of the node the pods of all its ports may be asked for at once.
const AT_A_TIME: usize = 8;

/// The pause after a live read for a call that settled nothing, before the next one.
pub(crate) const BETWEEN_READS: Duration = Duration::from_secs(5);

/// Live reads under way, and those that wait for their turn.
pub(crate) struct Confirmations {
    client: Client,
    node: String,
    waiting: VecDeque<OwnerOfUnit>,
    running: FuturesUnordered<BoxFuture<'static, (OwnerOfUnit, Absence)>>,
}

impl Confirmations {
    /// `NetworkAttachment`s of nodes other than this one are none of the node's.
    pub(crate) fn new(client: Client, node: &str) -> Self {
        let node = node.to_owned();
        Self { client, node, waiting: VecDeque::new(), running: FuturesUnordered::new() }
    }

    /// Reads these too.
    pub(crate) fn ask(&mut self, owners: impl IntoIterator<Item = OwnerOfUnit>) {
        self.waiting.extend(owners);
        self.start();
    }

    fn start(&mut self) {
        while self.running.len() < AT_A_TIME
            && let Some(owner) = self.waiting.pop_front()
        {
            self.running.push(Box::pin(confirm(self.client.clone(), self.node.clone(), owner)));
        }
    }

    /// Waits for the next answer: whether an owner is gone for certain. Cancel-safe.
    pub(crate) async fn next(&mut self) -> (OwnerOfUnit, Absence) {
        match self.running.next().await {
            Some(answer) => {
                self.start();
                answer
            }
            None => std::future::pending().await,
        }
    }
}

/// Waits until a pod, once it was seen, is being deleted or is gone. That a list lacks it is a reason to read it, and no answer.
pub(crate) async fn pod_ends(client: &Client, cluster: &Cluster, pod: &PodArgs) {
    let api = Api::<Pod>::namespaced(client.clone(), &pod.namespace);
    let mut seen = None;
    loop {
        let is_terminating = cluster.wait_for(|known| match facts(known, pod) {
            Some(facts) => {
                seen = Some(facts.uid.clone());
                facts.terminating.then_some(true)
            }
            None => seen.is_some().then_some(false),
        });
        if is_terminating.await {
            return;
        }
        match portolan_watch::get(client, &api, &pod.name).await {
            Ok(Some(found)) if found.uid() == seen && found.metadata.deletion_timestamp.is_none() => {}
            Ok(_) => return,
            Err(error) => {
                let error = portolan_watch::Plain(&error);
                tracing::warn!(%pod, %error, "cannot read the pod of an ADD, which a list lacks; trying again");
            }
        }
        tokio::select! {
            () = cluster.wait_for(|known| facts(known, pod).map(drop)) => {}
            () = tokio::time::sleep(BETWEEN_READS) => {}
        }
    }
}

fn facts<'k>(known: &'k Known, PodArgs { namespace, name, uid }: &PodArgs) -> Option<&'k PodFacts> {
    known.pods.get(namespace, name).filter(|facts| facts.is(uid.as_deref()))
}

async fn confirm(client: Client, node: String, owner: OwnerOfUnit) -> (OwnerOfUnit, Absence) {
    let OwnerOfUnit { unit, kind, name, uid } = &owner;
    if uid.is_empty() {
        return (owner, Absence::Unknown);
    }
    let found = match (kind, name) {
        (OwnerKind::Pod, Some((namespace, name))) => {
            let api = Api::<Pod>::namespaced(client.clone(), namespace);
            portolan_watch::get(&client, &api, name).await.map(|found| found.and_then(|pod| pod.uid()))
        }
        (OwnerKind::NetworkAttachment, Some((namespace, name))) => {
            let api = Api::<NetworkAttachment>::namespaced(client.clone(), namespace);
            let found = portolan_watch::get(&client, &api, name).await;
            found.map(|found| found.filter(|found| found.spec.node == node).and_then(|found| found.uid()))
        }
        // A link without a port may have no room for a name.
        (OwnerKind::Pod, None) => of_node::<Pod>(&client, "spec.nodeName", &node, uid).await,
        (OwnerKind::NetworkAttachment, None) => {
            of_node::<NetworkAttachment>(&client, "spec.node", &node, uid).await
        }
    };
    let absence = match found {
        Ok(Some(found)) if found == *uid => Absence::Refuted,
        Ok(_) => Absence::Confirmed,
        Err(error) => {
            let error = portolan_watch::Plain(&error);
            tracing::warn!(?kind, ?name, uid, link = %unit, %error, "cannot read what a port was made for; trying again");
            Absence::Unknown
        }
    };
    tracing::debug!(?kind, ?name, uid, link = %unit, ?absence, "read what a port was made for");
    (owner, absence)
}

/// The UID, if an object of this node has it.
async fn of_node<K: Object>(
    client: &Client,
    field: &str,
    node: &str,
    uid: &str,
) -> kube::Result<Option<String>> {
    let of_node = ListParams::default().fields(&format!("{field}={node}"));
    let listed = portolan_watch::list_selected::<K>(client, &of_node).await?;
    let unreadable = listed.unreadable.iter().filter_map(|object| object.object.uid());
    let mut uids = listed.objects.iter().filter_map(ResourceExt::uid).chain(unreadable);
    Ok(uids.find(|found| found == uid))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

    use std::sync::Arc;

    use portolan_model::Settings;
    use portolan_plan::host::LinkName;
    use portolan_watch::fake::{Answer, FakeApi};

    use super::*;
    use crate::engine::Engine;

    const READ: &str = "/api/v1/namespaces/default/pods/";

    fn pod(name: &str, uid: &str) -> OwnerOfUnit {
        let (unit, name) = (LinkName::new(name, "eth0"), Some(("default".into(), name.into())));
        OwnerOfUnit { unit, kind: OwnerKind::Pod, name, uid: uid.into() }
    }

    fn network_attachment(name: &str, uid: &str) -> OwnerOfUnit {
        let unit = LinkName::of_attachment(uid);
        OwnerOfUnit { unit, kind: OwnerKind::NetworkAttachment, ..pod(name, uid) }
    }

    #[tokio::test(start_paused = true)]
    async fn a_few_pods_are_read_at_a_time_and_all_in_the_end() {
        let api = FakeApi::default();
        // Nobody answers the first ones: they end by the deadline of requests.
        api.script(READ, AT_A_TIME, Answer::Silence);
        let mut confirmations = Confirmations::new(api.client(), "node1");
        confirmations.ask((0..100).map(|number| pod(&format!("pod-{number}"), "uid")));
        let mut answers = vec![confirmations.next().await.1];
        assert_eq!(api.requests(READ).len(), AT_A_TIME, "one answer makes room for the next");
        for _ in 1..100 {
            answers.push(confirmations.next().await.1);
        }
        assert_eq!(api.requests(READ).len(), 100);
        let unanswered = answers.iter().filter(|answer| **answer == Absence::Unknown).count();
        let gone = answers.iter().filter(|answer| **answer == Absence::Confirmed).count();
        assert_eq!((unanswered, gone), (AT_A_TIME, 100 - AT_A_TIME));
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_whose_add_is_under_way_ends_when_it_is_deleted_and_not_because_a_list_lacks_it() {
        const LIST: &str = "GET /api/v1/pods";
        const WATCH: &str = "WATCH /api/v1/pods";
        let api = FakeApi::default();
        let metadata = serde_json::json!({"name": "argo", "namespace": "default", "uid": "1"});
        let spec = serde_json::json!({"nodeName": "node1", "containers": []});
        let (engine, status) = (Arc::new(Engine::new()), Arc::default());
        let (cluster, _followers) =
            Cluster::follow(&api.client(), "node1", Settings::default(), &engine, &status);
        let pod = PodArgs { namespace: "default".into(), name: "argo".into(), uid: Some("1".into()) };
        let mut ended = tokio::spawn({
            let (client, cluster, pod) = (api.client(), Arc::clone(&cluster), pod.clone());
            async move { pod_ends(&client, &cluster, &pod).await }
        });
        api.put_raw::<Pod>(&serde_json::json!({"metadata": metadata, "spec": spec}));
        cluster.wait_for(|known| facts(known, &pod).map(drop)).await;
        // A list lacks it, and so does what a server that is starting answers.
        api.script(WATCH, 1, Answer::ExpiredEvent);
        api.always(WATCH, Answer::Silence);
        api.script(READ, 1, Answer::NamelessNotFound);
        api.script(LIST, 1, Answer::EmptyList);
        api.cut_watches();
        cluster.wait_for(|known| facts(known, &pod).is_none().then_some(())).await;
        let read_again = async {
            api.requested(READ, 2).await;
            tokio::time::sleep(BETWEEN_READS).await;
        };
        tokio::select! {
            _ = &mut ended => panic!("it is there"),
            () = read_again => {}
        }
        api.remove::<Pod>("default", "argo");
        ended.await.unwrap();
    }

    #[tokio::test]
    async fn a_pod_is_gone_if_it_is_absent_or_another_one_and_never_if_it_cannot_be_read() {
        let api = FakeApi::default();
        let metadata =
            |name: &str, uid: &str| serde_json::json!({"name": name, "namespace": "default", "uid": uid});
        api.put_raw::<Pod>(&serde_json::json!({"metadata": metadata("there", "1")}));
        api.put_raw::<Pod>(&serde_json::json!({"metadata": metadata("unreadable", "1"), "spec": 7}));
        let mut confirmations = Confirmations::new(api.client(), "node1");
        for (name, uid, expected) in [
            ("gone", "1", Absence::Confirmed),
            ("there", "1", Absence::Refuted),
            ("there", "2", Absence::Confirmed),
            ("unreadable", "1", Absence::Unknown),
            ("there", "", Absence::Unknown),
        ] {
            confirmations.ask([pod(name, uid)]);
            assert_eq!(confirmations.next().await, (pod(name, uid), expected), "{name} {uid}");
        }
    }

    #[tokio::test]
    async fn whose_name_is_not_known_is_looked_for_among_all_of_the_node() {
        let api = FakeApi::default();
        api.define::<NetworkAttachment>();
        let metadata =
            |name: &str, uid: &str| serde_json::json!({"name": name, "namespace": "default", "uid": uid});
        for (name, uid, node) in [("here", "1", "node1"), ("elsewhere", "2", "node2")] {
            let spec = serde_json::json!({"node": node, "subnet": "sea"});
            api.put_raw::<NetworkAttachment>(
                &serde_json::json!({"metadata": metadata(name, uid), "spec": spec}),
            );
            let spec = serde_json::json!({"nodeName": node, "containers": []});
            api.put_raw::<Pod>(&serde_json::json!({"metadata": metadata(name, uid), "spec": spec}));
        }
        api.put_raw::<Pod>(&serde_json::json!({"metadata": metadata("unreadable", "3"), "spec": {"nodeName": "node1", "containers": 7}}));
        let mut confirmations = Confirmations::new(api.client(), "node1");
        for of in [pod, network_attachment] {
            for (uid, expected) in
                [("1", Absence::Refuted), ("2", Absence::Confirmed), ("", Absence::Unknown)]
            {
                confirmations.ask([OwnerOfUnit { name: None, ..of("x", uid) }]);
                assert_eq!(confirmations.next().await.1, expected, "{uid}");
            }
        }
        confirmations.ask([OwnerOfUnit { name: None, ..pod("x", "3") }]);
        assert_eq!(confirmations.next().await.1, Absence::Refuted, "it exists");
    }

    #[tokio::test]
    async fn a_network_attachment_is_gone_if_it_is_absent_another_one_or_of_another_node() {
        let api = FakeApi::default();
        api.define::<NetworkAttachment>();
        for (name, node) in [("here", "node1"), ("moved", "node2")] {
            api.put_raw::<NetworkAttachment>(&serde_json::json!({
                "metadata": { "name": name, "namespace": "default", "uid": "1" },
                "spec": { "node": node, "subnet": "sea" },
            }));
        }
        let metadata = serde_json::json!({ "name": "unreadable", "namespace": "default", "uid": "1" });
        api.put_raw::<NetworkAttachment>(&serde_json::json!({ "metadata": metadata, "spec": 7 }));
        let mut confirmations = Confirmations::new(api.client(), "node1");
        for (name, uid, expected) in [
            ("gone", "1", Absence::Confirmed),
            ("here", "1", Absence::Refuted),
            ("here", "2", Absence::Confirmed),
            ("moved", "1", Absence::Confirmed),
            ("unreadable", "1", Absence::Unknown),
        ] {
            confirmations.ask([network_attachment(name, uid)]);
            assert_eq!(confirmations.next().await.1, expected, "{name} {uid}");
        }
    }
}
