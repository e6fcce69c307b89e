//! Binds pods to nodes, in place of the scheduler: by `nodeSelector`, and spread over the nodes that it leaves. Resources,
//! affinities, taints and priorities are not looked at.

use std::collections::{BTreeMap, HashMap};
use std::pin::pin;
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::join_all;
use futures::stream::select;
use k8s_openapi::api::core::v1 as core;
use kube::api::PostParams;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::events::{Event as Notice, EventType, Recorder, Reporter};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, Resource as _, ResourceExt as _};
use serde_json::{Value, json};

use super::node_object::LAB;

/// The scheduler that pods get when they name none.
const SCHEDULER: &str = "default-scheduler";

/// The pause before a binding that failed is tried again.
const PAUSE: Duration = Duration::from_secs(1);

/// Binds pods to the nodes of a lab for as long as the future lives.
pub(crate) async fn bind(client: Client, lab: String) {
    let nodes = watcher::Config::default().labels(&format!("{LAB}={lab}"));
    let nodes = watcher(Api::<core::Node>::all(client.clone()), nodes).default_backoff();
    let pods = watcher(Api::<core::Pod>::all(client.clone()), watcher::Config::default()).default_backoff();
    let mut changes = pin!(select(nodes.map(Change::Node), pods.map(Change::Pod)));
    let reporter = Reporter { controller: SCHEDULER.into(), instance: Some("portolan-lab".into()) };
    let recorder = Recorder::new(client.clone(), reporter);
    let mut known = Known::default();
    loop {
        let again = async {
            if known.failed { tokio::time::sleep(PAUSE).await } else { std::future::pending().await }
        };
        tokio::select! {
            change = changes.next() => match change {
                Some(change) => known.note(change),
                None => return,
            },
            () = again => known.failed = false,
        }
        let choices = known.choices().into_iter().map(async |(uid, choice)| {
            let outcome = known.carry_out(&client, &recorder, &uid, choice).await;
            (uid, outcome)
        });
        for (uid, outcome) in join_all(choices).await {
            known.note_outcome(uid, outcome);
        }
    }
}

#[expect(clippy::large_enum_variant, reason = "it is handed on once and not kept")]
enum Change {
    Node(Result<Event<core::Node>, watcher::Error>),
    Pod(Result<Event<core::Pod>, watcher::Error>),
}

/// What is known of nodes and pods.
#[derive(Default)]
struct Known {
    nodes: BTreeMap<String, core::Node>,
    pods: HashMap<String, core::Pod>,
    listed: bool,
    /// Pods that were told why they wait.
    told: HashMap<String, String>,
    /// Whether a binding is to be tried again.
    failed: bool,
}

/// What is to happen with a pod.
#[derive(Debug, PartialEq, Eq)]
enum Choice {
    Bind(String),
    Explain(String),
}

/// What came of it.
enum Outcome {
    Bound(String),
    Told(String),
    Failed,
    /// There is nothing to note.
    Settled,
}

impl Known {
    fn note(&mut self, change: Change) {
        match change {
            Change::Node(Ok(Event::Init)) => self.nodes.clear(),
            Change::Node(Ok(Event::InitApply(node) | Event::Apply(node))) => {
                self.nodes.insert(node.name_any(), node);
            }
            Change::Node(Ok(Event::Delete(node))) => drop(self.nodes.remove(&node.name_any())),
            Change::Pod(Ok(Event::Init)) => {
                self.pods.clear();
                self.listed = false;
            }
            Change::Pod(Ok(Event::InitApply(pod) | Event::Apply(pod))) => {
                self.pods.insert(pod.uid().unwrap_or_default(), pod);
            }
            Change::Pod(Ok(Event::Delete(pod))) => {
                let uid = pod.uid().unwrap_or_default();
                self.pods.remove(&uid);
                self.told.remove(&uid);
            }
            // How pods are spread is known when all were listed.
            Change::Pod(Ok(Event::InitDone)) => self.listed = true,
            Change::Node(Ok(Event::InitDone)) => {}
            Change::Node(Err(error)) | Change::Pod(Err(error)) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "a watch of the binder broke");
            }
        }
    }

    /// What is to happen with pods that have no node, oldest first. Each choice counts for those after it.
    fn choices(&self) -> Vec<(String, Choice)> {
        if !self.listed {
            return Vec::new();
        }
        let mut loads: BTreeMap<&str, usize> = self.nodes.keys().map(|name| (name.as_str(), 0)).collect();
        for load in self.pods.values().filter_map(|pod| node_of(pod).filter(|_| !is_finished(pod))) {
            if let Some(load) = loads.get_mut(load) {
                *load += 1;
            }
        }
        let mut waiting: Vec<_> = self.pods.iter().filter(|(_, pod)| is_ours_to_bind(pod)).collect();
        waiting.sort_by_key(|(_, pod)| (pod.creation_timestamp(), pod.namespace(), pod.name_any()));
        let mut choices = Vec::new();
        for (uid, pod) in waiting {
            let fitting = self.nodes.iter().filter(|(_, node)| fits(pod, node));
            let least = fitting.min_by_key(|(name, _)| loads.get(name.as_str()).copied());
            choices.push((
                uid.clone(),
                match least {
                    Some((name, _)) => {
                        *loads.entry(name).or_default() += 1;
                        Choice::Bind(name.clone())
                    }
                    None => Choice::Explain(self.why_not(pod)),
                },
            ));
        }
        choices
    }

    fn why_not(&self, pod: &core::Pod) -> String {
        let count = self.nodes.len();
        let closed = self.nodes.values().filter(|node| is_closed(node)).count();
        let selector = selector_of(pod).map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>();
        format!(
            "0/{count} nodes are available: {closed} are unschedulable, {} do not have the labels of nodeSelector [{}]",
            count - closed,
            selector.join(", ")
        )
    }

    /// Notes what came of a choice.
    fn note_outcome(&mut self, uid: String, outcome: Outcome) {
        match outcome {
            Outcome::Bound(node) => {
                if let Some(pod) = self.pods.get_mut(&uid) {
                    set_node(pod, node);
                }
            }
            Outcome::Told(why) => drop(self.told.insert(uid, why)),
            Outcome::Failed => self.failed = true,
            Outcome::Settled => {}
        }
    }

    /// Does what was chosen.
    async fn carry_out(&self, client: &Client, recorder: &Recorder, uid: &str, choice: Choice) -> Outcome {
        let Some(pod) = self.pods.get(uid) else { return Outcome::Settled };
        match choice {
            Choice::Bind(node) => bind_to(client, pod, node).await,
            Choice::Explain(why) if self.told.get(uid) == Some(&why) => Outcome::Settled,
            Choice::Explain(why) => {
                let notice = Notice {
                    type_: EventType::Warning,
                    reason: "FailedScheduling".into(),
                    note: Some(why.clone()),
                    action: "Scheduling".into(),
                    secondary: None,
                };
                if let Err(error) = recorder.publish(&notice, &pod.object_ref(&())).await {
                    tracing::debug!(pod = pod.name_any(), %error, "cannot write the Event");
                }
                Outcome::Told(why)
            }
        }
    }
}

async fn bind_to(client: &Client, pod: &core::Pod, node: String) -> Outcome {
    let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
    let binding = json!({"apiVersion": "v1", "kind": "Binding",
        "metadata": {"name": name, "namespace": namespace, "uid": pod.uid()},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node}});
    let api = Api::<core::Pod>::namespaced(client.clone(), &namespace);
    let bound =
        api.create_subresource::<Value, Value>("binding", &name, &PostParams::default(), &binding).await;
    match bound {
        Ok(_) => Outcome::Bound(node),
        // It is gone, or someone else was first: the watch tells.
        Err(kube::Error::Api(answer)) if answer.is_not_found() || answer.is_conflict() => Outcome::Settled,
        Err(error) => {
            tracing::warn!(pod = name, %error, "cannot be bound");
            Outcome::Failed
        }
    }
}

/// Until the watch shows it: the pod is not to be bound twice.
fn set_node(pod: &mut core::Pod, node: String) {
    if let Some(spec) = &mut pod.spec {
        spec.node_name = Some(node);
    }
}

fn is_ours_to_bind(pod: &core::Pod) -> bool {
    let scheduler = pod.spec.as_ref().and_then(|spec| spec.scheduler_name.as_deref());
    node_of(pod).is_none()
        && scheduler.is_none_or(|name| name == SCHEDULER)
        && pod.metadata.deletion_timestamp.is_none()
        && !is_finished(pod)
}

fn node_of(pod: &core::Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|name| !name.is_empty())
}

fn is_finished(pod: &core::Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

fn selector_of(pod: &core::Pod) -> impl Iterator<Item = (&String, &String)> {
    pod.spec.iter().flat_map(|spec| spec.node_selector.iter().flatten())
}

fn fits(pod: &core::Pod, node: &core::Node) -> bool {
    !is_closed(node) && selector_of(pod).all(|(key, value)| node.labels().get(key) == Some(value))
}

fn is_closed(node: &core::Node) -> bool {
    node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(nodes: &[(&str, Value)], pods: &[(&str, Value)]) -> Known {
        let mut known = Known { listed: true, ..Known::default() };
        for (name, node) in nodes {
            let mut node: core::Node = serde_json::from_value(node.clone()).unwrap();
            node.metadata.name = Some((*name).to_owned());
            known.note(Change::Node(Ok(Event::Apply(node))));
        }
        for (name, spec) in pods {
            let pod = json!({"metadata": {"name": name, "uid": name}, "spec": spec});
            known.note(Change::Pod(Ok(Event::Apply(serde_json::from_value(pod).unwrap()))));
        }
        known
    }

    fn bound(known: &Known) -> Vec<(String, Choice)> {
        known.choices()
    }

    fn spec(more: &Value) -> Value {
        let mut spec = json!({"containers": []});
        for (key, value) in more.as_object().into_iter().flatten() {
            spec[key] = value.clone();
        }
        spec
    }

    #[test]
    fn pods_are_spread() {
        let nodes = [("node1", json!({"metadata": {}})), ("node2", json!({"metadata": {}}))];
        let here = spec(&json!({"nodeName": "node1"}));
        let pods = [("a", here), ("b", spec(&json!({}))), ("c", spec(&json!({}))), ("d", spec(&json!({})))];
        let names: Vec<_> = bound(&known(&nodes, &pods)).into_iter().map(|(_, choice)| choice).collect();
        assert_eq!(names, ["node2", "node1", "node2"].map(|name| Choice::Bind(name.into())));
    }

    #[test]
    fn a_selector_and_a_cordon_are_honoured_and_a_pod_that_fits_nowhere_is_told() {
        let nodes = [
            ("node1", json!({"metadata": {"labels": {"disk": "ssd"}}, "spec": {"unschedulable": true}})),
            ("node2", json!({"metadata": {"labels": {"disk": "tape"}}})),
        ];
        let wants = |disk: &str| spec(&json!({"nodeSelector": {"disk": disk}}));
        let pods = [("a", wants("tape")), ("b", wants("ssd"))];
        let choices = bound(&known(&nodes, &pods));
        assert_eq!(choices[0], ("a".into(), Choice::Bind("node2".into())));
        let Choice::Explain(why) = &choices[1].1 else { panic!("{choices:?}") };
        assert!(why.starts_with("0/2 nodes are available: 1 are unschedulable"), "{why}");
    }

    #[test]
    fn what_is_not_ours_is_left_alone() {
        let nodes = [("node1", json!({"metadata": {}}))];
        let pods =
            [("a", spec(&json!({"schedulerName": "mine"}))), ("b", spec(&json!({"nodeName": "elsewhere"})))];
        assert_eq!(bound(&known(&nodes, &pods)), []);
        let mut unlisted = known(&nodes, &[("c", spec(&json!({})))]);
        unlisted.listed = false;
        assert_eq!(bound(&unlisted), []);
    }
}
