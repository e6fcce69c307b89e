//! `k8s.v1.cni.cncf.io/network-status`: shows a pod's networks on the pod, off the critical path.
//!
//! Under Multus, Multus writes it. Without, a call makes interfaces besides the one that it names, and nobody but the agent knows of
//! these: then the agent writes the annotation, once, and never over another's. It goes through the status subresource, as Multus's does.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{Patch, PatchParams};
use portolan_api::Provider;
use portolan_model::Requester;
use portolan_model::doors::pod::FIRST_INTERFACE;
use portolan_model::guest::{Guest, GuestInterface, GuestState, guest};
use portolan_watch::Plain;
use serde_json::{Value, json};

use crate::cluster::Known;
use crate::engine::Engine;
use crate::foreign::{self, Left};
use crate::pending::Checked;
use crate::pods::{NETWORK_STATUS, PodFacts, PodKey};
use crate::server::Agent;

/// Writes the annotations for as long as the agent runs.
pub(crate) async fn run(agent: &Agent) -> std::convert::Infallible {
    let write = async |pod: PodKey, _| {
        let name = format!("{}/{}", pod.0, pod.1);
        match write(agent, pod).await {
            Ok(()) => Ok(Checked::Done),
            Err(error) => {
                tracing::warn!(pod = name, error, "cannot write {NETWORK_STATUS} yet");
                Err(error)
            }
        }
    };
    agent.network_status.serve(write).await
}

/// Writes a pod's annotation, if it needs one. The version that was read is a precondition, so nobody else's is ever overwritten.
async fn write(agent: &Agent, pod: PodKey) -> Result<(), String> {
    // Before the annotation is the agent's own.
    if foreign::tell(agent, &pod).await? == Left::Something {
        // The pod's next event brings it here again.
        return Ok(());
    }
    let Some(patch) = agent.cluster.read(|known| patch(known, &agent.engine, &pod)) else { return Ok(()) };
    let api = Api::<Pod>::namespaced(agent.client.clone(), &pod.0);
    match api.patch_status(&pod.1, &PatchParams::default(), &Patch::Merge(patch)).await {
        Ok(_) => Ok(()),
        // It changed meanwhile or is gone: its next event brings it here again.
        Err(kube::Error::Api(status)) if [404, 409].contains(&status.code) => Ok(()),
        // It would be refused again.
        Err(kube::Error::Api(status)) if [400, 422].contains(&status.code) => {
            let name = format!("{}/{}", pod.0, pod.1);
            tracing::warn!(pod = name, error = status.message, "{NETWORK_STATUS} is refused");
            Ok(())
        }
        Err(error) => Err(Plain(&error).to_string()),
    }
}

/// The patch that shows a pod's networks, if it is the agent that has to and all of them are known.
fn patch(known: &Known, engine: &Engine, (namespace, name): &PodKey) -> Option<Value> {
    let facts = known.pods.get(namespace, name)?;
    if facts.has_network_status || facts.terminating {
        return None;
    }
    let network = engine.observed(|observed| {
        let ports = observed.ports().filter_map(|(_, port)| port.tag.note());
        let own = ports.filter(|note| note.pod_uid.as_ref() == Some(&facts.uid));
        let mut besides = own.filter(|note| note.interface != note.sandbox.call);
        besides.next().map(|note| note.network.clone())
    })?;
    let GuestState::Decided(guest) = guest(&known.world, namespace, name, &[]) else { return None };
    if !guest.missing.is_empty() {
        return None;
    }
    let status = Value::Array(entries(known, facts, &guest, &network, (namespace, name))?);
    Some(json!({ "metadata": {
        "uid": facts.uid,
        "resourceVersion": facts.resource_version,
        "annotations": { NETWORK_STATUS: serde_json::to_string_pretty(&status).ok()? },
    } }))
}

/// One entry per interface, the first interface's first.
fn entries(
    known: &Known,
    facts: &PodFacts,
    guest: &Guest<'_>,
    network: &str,
    (namespace, name): (&str, &str),
) -> Option<Vec<Value>> {
    let requests = known.world.request(&Requester::pod(namespace, name)).map(|request| request.interfaces);
    let requests = requests.unwrap_or_default();
    let provider = |interface: &str| {
        let request = requests.iter().find(|request| request.interface == interface);
        request.and_then(|request| request.provider.clone())
    };
    let mut entries = Vec::new();
    if !known.world.settings().first_interface.is_portolan() {
        if facts.ips.is_empty() {
            // The kubelet reports them soon.
            return None;
        }
        let is_ours = |ip: &IpAddr| guest.interfaces.iter().any(|one| one.attachment.addresses.contains(ip));
        let ips: Vec<_> = facts.ips.iter().filter(|ip| !is_ours(ip)).map(ToString::to_string).collect();
        if !ips.is_empty() {
            let default = guest.default_taken.is_empty();
            entries
                .push(json!({ "name": network, "interface": FIRST_INTERFACE, "ips": ips, "default": default,
                "dns": {} }));
        }
    }
    entries.extend(guest.interfaces.iter().map(|one| entry(one, provider(one.name()).as_ref(), network)));
    Some(entries)
}

fn entry(interface: &GuestInterface<'_>, provider: Option<&Provider>, network: &str) -> Value {
    let name = match provider {
        Some(Provider::Nad { namespace, name }) => format!("{namespace}/{name}"),
        _ if interface.name() == FIRST_INTERFACE => network.to_owned(),
        _ => interface.subnet.name.clone(),
    };
    let ips: Vec<_> = interface.attachment.addresses.iter().map(ToString::to_string).collect();
    let default = interface.routes.iter().any(|route| route.destination.prefix_len() == 0);
    json!({ "name": name, "interface": interface.name(), "ips": ips, "mac": interface.attachment.mac.to_string(),
        "default": default, "dns": {} })
}
