//! DEL, CHECK, GC and STATUS. None of these needs the API server.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, OwnedFd};

use portolan_cni::{CniError, Code};
use portolan_host::Rtnetlink;

use crate::add::{failed, host_failed};
use crate::call::{NetworkConfig, Sandbox};
use crate::links;
use crate::server::Agent;

/// Takes everything away that a call made. What is gone already is no error; of several errors the first is returned, after all
/// has been tried.
pub(crate) async fn del(agent: &Agent, sandbox: &Sandbox) -> Result<(), CniError> {
    agent.vswitch.ready().await;
    let unplugged = agent.vswitch.settle().await.map_err(|error| failed(&error));
    let own = agent.vswitch.ports_of(&sandbox.id).into_iter().filter(|port| port.sandbox == *sandbox);
    let (rows, names): (Vec<_>, Vec<_>) = own.map(|port| (port.uuid, port.name)).unzip();
    let unplugged = unplugged.and(agent.vswitch.unplug(&rows).await.map_err(|error| failed(&error)));
    let (sandbox, datapath) = (sandbox.clone(), agent.vswitch.datapath());
    let removed = blocking(move || links::remove(&sandbox, &names, datapath)).await;
    unplugged.and(removed)
}

/// Whether what a call made is still there and carries traffic.
pub(crate) async fn check(agent: &Agent, sandbox: &Sandbox, netns: OwnedFd) -> Result<(), CniError> {
    agent.vswitch.ready().await;
    let ports: Vec<_> =
        agent.vswitch.ports_of(&sandbox.id).into_iter().filter(|port| port.sandbox == *sandbox).collect();
    let broken =
        |details: String| CniError::new(Code::CheckFailed, "an interface is not as it was made", details);
    if ports.is_empty() {
        return Err(broken(format!("container {} has no port for {}", sandbox.id, sandbox.call)));
    }
    if let Some(port) = ports.iter().find(|port| !agent.vswitch.is_installed(sandbox, &port.interface)) {
        return Err(broken(format!("OVN has not installed the port of {}", port.interface)));
    }
    let links = blocking(move || Rtnetlink::open_in(netns.as_fd())?.links()).await?;
    let is_up = |name: &str| links.iter().any(|link| link.name == name && link.up);
    match ports.iter().find(|port| !is_up(&port.interface)) {
        Some(port) => Err(broken(format!("link {} is missing or down in the container", port.interface))),
        None => Ok(()),
    }
}

/// Takes away what calls made that the runtime no longer knows, of this network.
pub(crate) async fn gc(agent: &Agent, config: &NetworkConfig) -> Result<(), CniError> {
    agent.vswitch.ready().await;
    let of_network = agent.vswitch.ports().into_iter().filter(|port| port.network == config.name);
    let calls: BTreeSet<_> = of_network.map(|port| (port.sandbox.id, port.sandbox.call)).collect();
    let mut outcome = Ok(());
    for (id, call) in calls.difference(&config.valid).cloned() {
        let sandbox = Sandbox { id, call };
        let _turn = agent.calls.turn(&sandbox.id).await;
        outcome = outcome.and(del(agent, &sandbox).await);
    }
    outcome
}

/// Whether an ADD could succeed now.
pub(crate) fn status(agent: &Agent) -> Result<(), CniError> {
    let mut missing: Vec<String> = agent.vswitch.behind().into_iter().collect();
    missing.extend(
        agent.cluster.behind().into_iter().map(|kind| format!("{kind} are not in step with the API server")),
    );
    if missing.is_empty() {
        return Ok(());
    }
    Err(CniError::new(Code::NotAvailable, "the node's Portolan agent is not ready", missing.join("; ")))
}

async fn blocking<T: Send + 'static>(
    body: impl FnOnce() -> portolan_host::Result<T> + Send + 'static,
) -> Result<T, CniError> {
    match tokio::task::spawn_blocking(body).await {
        Ok(done) => done.map_err(|error| host_failed(&error)),
        Err(error) => Err(CniError::new(Code::Setup, "the agent is shutting down", error.to_string())),
    }
}
