//! `k8s.v1.cni.cncf.io/network-status`: shows a pod's networks on the pod, off the critical path.
//!
//! Under Multus, Multus writes it. Without, a call makes interfaces besides the one that it names, and nobody but the agent knows of
//! these: then the agent writes the annotation, once, and never over another's. It goes through the status subresource, as Multus's does.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{Patch, PatchParams};
use portolan_api::Provider;
use portolan_model::doors::pod::FIRST_INTERFACE;
use portolan_model::guest::{Guest, GuestInterface, GuestState, guest};
use portolan_model::{FirstInterface, Requester};
use portolan_watch::{Plain, Retries};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::cluster::Known;
use crate::engine::Engine;
use crate::foreign::{self, Left};
use crate::pods::{NETWORK_STATUS, PodFacts, PodKey};
use crate::server::Agent;

/// How many are written at a time.
const AT_A_TIME: usize = 4;
/// Pauses after a write that failed, of each pod by itself.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Pods to be checked.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    pods: Mutex<BTreeSet<PodKey>>,
    wake: Notify,
}

impl Pending {
    /// A pod may need its annotation.
    pub(crate) fn check(&self, pod: PodKey) {
        self.pods.lock().unwrap_or_else(PoisonError::into_inner).insert(pod);
        self.wake.notify_one();
    }

    fn take(&self, busy: &BTreeSet<PodKey>) -> Option<PodKey> {
        let mut pods = self.pods.lock().unwrap_or_else(PoisonError::into_inner);
        let pod = pods.iter().find(|pod| !busy.contains(pod))?.clone();
        pods.take(&pod)
    }

    /// Writes what pods need, for ever: a few at a time, and whoever fails holds up nobody else.
    async fn serve<W: Future<Output = Result<(), String>>>(
        &self,
        write: impl Fn(PodKey) -> W,
    ) -> std::convert::Infallible {
        let mut writing = FuturesUnordered::new();
        let mut later = Retries::new(FIRST_PAUSE, LONGEST_PAUSE);
        // Those that are being written or pause.
        let mut busy = BTreeSet::new();
        loop {
            while writing.len() < AT_A_TIME
                && let Some(pod) = self.take(&busy)
            {
                busy.insert(pod.clone());
                let written = write(pod.clone());
                writing.push(async move { (pod, written.await) });
            }
            tokio::select! {
                Some((pod, written)) = writing.next(), if !writing.is_empty() => match written {
                    Ok(()) => drop(busy.remove(&pod)),
                    Err(error) => {
                        let name = format!("{}/{}", pod.0, pod.1);
                        tracing::warn!(pod = name, error, "cannot write {NETWORK_STATUS} yet");
                        later.failed(pod, Instant::now());
                    }
                },
                () = later.wait() => {
                    for pod in later.take_due(Instant::now()) {
                        busy.remove(&pod);
                        self.check(pod);
                    }
                }
                () = self.wake.notified() => {}
            }
        }
    }
}

/// Writes the annotations for as long as the agent runs.
pub(crate) async fn run(agent: &Agent) -> std::convert::Infallible {
    agent.network_status.serve(|pod| write(agent, pod)).await
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
        let ports = observed.ports().map(|(_, port)| &port.note);
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
    if known.world.settings().first_interface == FirstInterface::Other {
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

    use std::sync::Arc;

    use tokio::sync::mpsc;

    use super::*;

    fn pod(name: &str) -> PodKey {
        ("default".to_owned(), name.to_owned())
    }

    /// Serves with a writer that fails or hangs by the pod's name, and tells of every attempt.
    fn serve(pending: &Arc<Pending>) -> mpsc::UnboundedReceiver<String> {
        let (sender, attempts) = mpsc::unbounded_channel();
        let pending = Arc::clone(pending);
        tokio::spawn(async move {
            pending
                .serve(|(_, name)| {
                    _ = sender.send(name.clone());
                    async move {
                        match name.as_str() {
                            "fails" => Err("the API server is away".to_owned()),
                            "hangs" => std::future::pending().await,
                            _ => Ok(()),
                        }
                    }
                })
                .await
        });
        attempts
    }

    /// The next attempt. The clock stands still while anything goes on, so this only ends a test that would never end.
    async fn next(attempts: &mut mpsc::UnboundedReceiver<String>) -> String {
        tokio::time::timeout(Duration::from_secs(3600), attempts.recv()).await.unwrap().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_whose_write_fails_or_hangs_holds_up_no_other() {
        let pending = Arc::new(Pending::default());
        let mut attempts = serve(&pending);
        pending.check(pod("fails"));
        pending.check(pod("hangs"));
        assert_eq!(next(&mut attempts).await, "fails");
        assert_eq!(next(&mut attempts).await, "hangs");
        let before = Instant::now();
        pending.check(pod("well"));
        assert_eq!(next(&mut attempts).await, "well");
        assert_eq!(before.elapsed(), Duration::ZERO, "nobody waits for another's pause");
        // The one that failed has pauses of its own, which grow.
        for _ in 0..3 {
            assert_eq!(next(&mut attempts).await, "fails");
        }
        assert_eq!(before.elapsed(), Duration::from_millis(1750));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_said_of_a_pod_that_is_being_written_is_written_after_it() {
        let pending = Arc::new(Pending::default());
        let mut attempts = serve(&pending);
        pending.check(pod("a"));
        assert_eq!(next(&mut attempts).await, "a");
        pending.check(pod("a"));
        assert_eq!(next(&mut attempts).await, "a");
    }
}
