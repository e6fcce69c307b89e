//! Networks of other plugins that nothing on the node makes: the pod's owner is told.
//!
//! Called by a runtime, alone or chained after another plugin, Portolan makes its own networks and no others'. Those are Multus's business, if there is Multus: it may
//! call Portolan as one of its plugins, make the others afterwards, and write `network-status` in the end. So nothing is said during
//! ADD, but once the kubelet has reported the pod's addresses: by then Multus has written, or there is none.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::PostParams;
use kube::core::ObjectMeta;
use portolan_api::nad::NadConfig;
use portolan_model::doors::pod::{RequestedNetwork, requested_networks};
use portolan_watch::Plain;
use serde_json::Value;

use crate::cluster::Known;
use crate::pods::PodKey;
use crate::server::Agent;

const REASON: &str = "NetworkNotHandled";
/// The longest part of an Event's name that a pod's or a definition's name makes.
const LONGEST_PART: usize = 60;

/// A network of another plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ForeignNetwork {
    namespace: String,
    name: String,
    plugin: Option<String>,
    interfaces: Vec<String>,
}

/// Pods with networks that nobody had made when they were added, by their UIDs.
#[derive(Debug, Default)]
pub(crate) struct Foreign(Mutex<BTreeMap<PodKey, (String, Vec<ForeignNetwork>)>>);

impl Foreign {
    /// Notes what a pod asks for of other plugins and lacks in the result of those before.
    pub(crate) fn note(&self, known: &Known, pod: &PodKey, previous: Option<&Value>) {
        let networks = missing(known, pod, previous);
        let uid = known.pods.get(&pod.0, &pod.1).map(|facts| facts.uid.clone());
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Those of pods that are gone are of no interest any more.
        noted.retain(|(namespace, name), (uid, _)| {
            known.pods.get(namespace, name).is_some_and(|facts| facts.uid == *uid)
        });
        if let Some(uid) = uid.filter(|_| !networks.is_empty()) {
            noted.insert(pod.clone(), (uid, networks));
        }
    }

    fn take(&self, pod: &PodKey) -> Option<(String, Vec<ForeignNetwork>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(pod)
    }

    fn put_back(&self, pod: &PodKey, noted: (String, Vec<ForeignNetwork>)) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(pod.clone(), noted);
    }
}

fn missing(known: &Known, (namespace, name): &PodKey, previous: Option<&Value>) -> Vec<ForeignNetwork> {
    let Some(pod) = known.world.pod(namespace, name) else { return Vec::new() };
    let made = |interface: &str| {
        let interfaces = previous.and_then(|result| result["interfaces"].as_array()).into_iter().flatten();
        interfaces.into_iter().any(|one| one["name"] == interface)
    };
    let asked = requested_networks(pod).interfaces.into_iter().filter(|one| !made(&one.interface));
    // A definition that is named several times is told of once.
    let mut foreign = BTreeMap::<(String, String), ForeignNetwork>::new();
    for one in asked {
        let RequestedNetwork::Nad { namespace, name } = one.network else { continue };
        if let Some(Ok(NadConfig::Foreign { plugin })) =
            known.world.nad(&namespace, &name).map(|nad| &nad.config)
        {
            let network = foreign.entry((namespace.clone(), name.clone())).or_insert_with(|| {
                ForeignNetwork { namespace, name, plugin: plugin.clone(), interfaces: Vec::new() }
            });
            network.interfaces.push(one.interface);
        }
    }
    foreign.into_values().collect()
}

/// Whether it is time to tell a pod.
enum Time {
    /// The kubelet has not reported its addresses.
    Early,
    Now,
    /// Another plugin has made its networks, or it is gone.
    Never,
}

/// Whether there is something left to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    Nothing,
    /// Until the kubelet has reported the pod's addresses. An annotation of the agent's own must not be taken for another's until then.
    Something,
}

/// Tells a pod of networks that nobody made, if it is time.
pub(crate) async fn tell(agent: &Agent, pod: &PodKey) -> Result<Left, String> {
    let Some(noted) = agent.foreign.take(pod) else { return Ok(Left::Nothing) };
    let (uid, networks) = &noted;
    let time = agent.cluster.read(|known| match known.pods.get(&pod.0, &pod.1) {
        Some(facts) if facts.uid != *uid || facts.has_network_status || facts.terminating => Time::Never,
        Some(facts) if facts.ips.is_empty() => Time::Early,
        Some(_) => Time::Now,
        None => Time::Never,
    });
    match time {
        Time::Never => return Ok(Left::Nothing),
        Time::Early => {
            agent.foreign.put_back(pod, noted);
            return Ok(Left::Something);
        }
        Time::Now => {}
    }
    let api = Api::<Event>::namespaced(agent.client.clone(), &pod.0);
    for network in networks {
        let event = event(agent, pod, uid, network);
        match api.create(&PostParams::default(), &event).await {
            Ok(_) => {}
            // It was told before, or its namespace is gone.
            Err(kube::Error::Api(status)) if [404, 409].contains(&status.code) => {}
            // It would be refused again.
            Err(kube::Error::Api(status)) if [400, 403, 422].contains(&status.code) => {
                tracing::warn!(pod = pod.1, error = status.message, "the Event {REASON} is refused");
            }
            Err(error) => {
                let error = Plain(&error).to_string();
                agent.foreign.put_back(pod, noted);
                return Err(error);
            }
        }
    }
    Ok(Left::Nothing)
}

fn event(agent: &Agent, (namespace, name): &PodKey, uid: &str, network: &ForeignNetwork) -> Event {
    let ForeignNetwork { namespace: of, name: nad, plugin, interfaces } = network;
    let part = |text: &str| {
        text.chars().take(LONGEST_PART).collect::<String>().trim_end_matches(['.', '-']).to_owned()
    };
    let plugin = match plugin {
        Some(plugin) => format!("of plugin {plugin}"),
        None => "without a plugin".to_owned(),
    };
    let note = format!(
        "network attachment definition {of}/{nad} is {plugin}, and nothing on node {} has created interface {}: \
         install Multus, or remove it from the annotation k8s.v1.cni.cncf.io/networks",
        agent.config.node,
        interfaces.join(" and "),
    );
    Event {
        metadata: ObjectMeta {
            name: Some(format!("{}.{}.{}.{uid}", part(name), part(of), part(nad))),
            namespace: Some(namespace.clone()),
            ..ObjectMeta::default()
        },
        regarding: Some(ObjectReference {
            api_version: Some("v1".into()),
            kind: Some("Pod".into()),
            namespace: Some(namespace.clone()),
            name: Some(name.clone()),
            uid: Some(uid.to_owned()),
            ..ObjectReference::default()
        }),
        type_: Some("Warning".into()),
        reason: Some(REASON.into()),
        action: Some("Add".into()),
        note: Some(note),
        reporting_controller: Some("portolan-agent".into()),
        reporting_instance: Some(agent.config.node.clone()),
        event_time: Some(MicroTime(Timestamp::now())),
        ..Event::default()
    }
}
