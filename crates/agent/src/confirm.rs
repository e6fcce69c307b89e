//! Live reads: whether the pods of ports whose links are gone are gone too. A few at a time, in the order in which they were asked for.

use std::collections::VecDeque;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, ResourceExt};
use portolan_plan::host::LinkName;
use portolan_plan::reconciler::Absence;

use crate::engine::PodOfUnit;

/// How many pods are read at a time. After a restart of the node the pods of all its ports may be asked for at once.
const AT_A_TIME: usize = 8;

/// Live reads under way, and those that wait for their turn.
pub(crate) struct Confirmations {
    client: Client,
    waiting: VecDeque<PodOfUnit>,
    running: FuturesUnordered<BoxFuture<'static, (LinkName, String, Absence)>>,
}

impl Confirmations {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, waiting: VecDeque::new(), running: FuturesUnordered::new() }
    }

    /// Reads these too.
    pub(crate) fn ask(&mut self, pods: impl IntoIterator<Item = PodOfUnit>) {
        self.waiting.extend(pods);
        self.start();
    }

    fn start(&mut self) {
        while self.running.len() < AT_A_TIME
            && let Some(pod) = self.waiting.pop_front()
        {
            self.running.push(Box::pin(confirm(self.client.clone(), pod)));
        }
    }

    /// Waits for the next answer: of which unit, the UID of its pod, and whether that is gone for certain. Cancel-safe.
    pub(crate) async fn next(&mut self) -> (LinkName, String, Absence) {
        match self.running.next().await {
            Some(answer) => {
                self.start();
                answer
            }
            None => std::future::pending().await,
        }
    }
}

async fn confirm(client: Client, pod: PodOfUnit) -> (LinkName, String, Absence) {
    let PodOfUnit { unit, pod, uid } = pod;
    let Some((namespace, name)) = pod.split_once('/').filter(|_| !uid.is_empty()) else {
        return (unit, uid, Absence::Unknown);
    };
    let api = Api::<Pod>::namespaced(client.clone(), namespace);
    let absence = match portolan_watch::get(&client, &api, name).await {
        Ok(None) => Absence::Confirmed,
        Ok(Some(found)) if found.uid().as_deref() != Some(&uid) => Absence::Confirmed,
        Ok(Some(_)) => Absence::Refuted,
        Err(error) => {
            let error = portolan_watch::Plain(&error);
            tracing::warn!(pod, uid, link = %unit, %error, "cannot read the pod of a port whose link is gone; trying again");
            Absence::Unknown
        }
    };
    tracing::debug!(pod, uid, link = %unit, ?absence, "read the pod of a port whose link is gone");
    (unit, uid, absence)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

    use portolan_watch::fake::{Answer, FakeApi};

    use super::*;

    const READ: &str = "/api/v1/namespaces/default/pods/";

    fn pod(name: &str, uid: &str) -> PodOfUnit {
        let (unit, pod) = (LinkName::new(name, "eth0"), format!("default/{name}"));
        PodOfUnit { unit, pod, uid: uid.into() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_few_pods_are_read_at_a_time_and_all_in_the_end() {
        let api = FakeApi::default();
        // Nobody answers the first ones: they end by the deadline of requests.
        api.script(READ, AT_A_TIME, Answer::Silence);
        let mut confirmations = Confirmations::new(api.client());
        confirmations.ask((0..100).map(|number| pod(&format!("pod-{number}"), "uid")));
        let mut answers = vec![confirmations.next().await.2];
        assert_eq!(api.requests(READ).len(), AT_A_TIME, "one answer makes room for the next");
        for _ in 1..100 {
            answers.push(confirmations.next().await.2);
        }
        assert_eq!(api.requests(READ).len(), 100);
        let unanswered = answers.iter().filter(|answer| **answer == Absence::Unknown).count();
        let gone = answers.iter().filter(|answer| **answer == Absence::Confirmed).count();
        assert_eq!((unanswered, gone), (AT_A_TIME, 100 - AT_A_TIME));
    }

    #[tokio::test]
    async fn a_pod_is_gone_if_it_is_absent_or_another_one_and_never_if_it_cannot_be_read() {
        let api = FakeApi::default();
        let metadata =
            |name: &str, uid: &str| serde_json::json!({"name": name, "namespace": "default", "uid": uid});
        api.put_raw::<Pod>(&serde_json::json!({"metadata": metadata("there", "1")}));
        api.put_raw::<Pod>(&serde_json::json!({"metadata": metadata("unreadable", "1"), "spec": 7}));
        let mut confirmations = Confirmations::new(api.client());
        for (name, uid, expected) in [
            ("gone", "1", Absence::Confirmed),
            ("there", "1", Absence::Refuted),
            ("there", "2", Absence::Confirmed),
            ("unreadable", "1", Absence::Unknown),
            ("there", "", Absence::Unknown),
        ] {
            confirmations.ask([pod(name, uid)]);
            assert_eq!(
                confirmations.next().await,
                (LinkName::new(name, "eth0"), uid.to_owned(), expected),
                "{name} {uid}"
            );
        }
    }
}
