//! DEL, CHECK, GC and STATUS. None of these needs the API server.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use portolan_cni::{CniError, Code};
use portolan_host::Rtnetlink;
use portolan_plan::host::{Note, ObservedPort, Sandbox};
use serde_json::Value;

use crate::add::host_failed;
use crate::call::{NetworkConfig, Selection, valid_attachments};
use crate::links;
use crate::server::Agent;
use crate::steps::{Reporter, Step};

/// Removes everything that a call made. That nothing is left already is no error. What is not removed within `deadline` is removed by
/// the engine later, unless the agent ends first; then its start-up comparison does.
pub(crate) async fn del(agent: &Agent, sandbox: &Sandbox, deadline: Duration) -> Result<(), CniError> {
    let removal = async {
        let name = sandbox.link(&sandbox.call);
        blocking(move || links::remove_without_note(&name)).await?;
        agent.engine.end(sandbox);
        // Before the copy of the database is in step, a port may be there that was not seen.
        agent.vswitch.ready().await;
        agent.engine.is_removed(sandbox, agent.vswitch.revision()).await;
        Ok(())
    };
    let reporter = Reporter::new(&agent.config.steps, &sandbox.container);
    let removal = reporter.during(Step::Remove, removal);
    let late = |_| {
        let left: Vec<_> = [agent.vswitch.behind(), Some(agent.engine.left_of(sandbox))]
            .into_iter()
            .flatten()
            .filter(|text| !text.is_empty())
            .collect();
        let msg = format!("container {} is not removed after {deadline:?}", sandbox.container);
        Err(CniError::new(Code::TryAgainLater, msg, left.join("; ")))
    };
    tokio::time::timeout(deadline, removal).await.unwrap_or_else(late)
}

/// Whether what a call made is still there and carries traffic. A pod that got nothing, as it asked for nothing, passes.
pub(crate) async fn check(
    agent: &Agent,
    sandbox: &Sandbox,
    config: &NetworkConfig,
    netns: OwnedFd,
) -> Result<(), CniError> {
    let made = made_before(config.previous.as_ref(), sandbox);
    let nothing = config.asks_for_nothing || made.as_ref().is_some_and(BTreeSet::is_empty);
    if config.selection == Selection::Further && nothing {
        return Ok(());
    }
    agent.vswitch.ready().await;
    agent.engine.has_observed(agent.vswitch.revision()).await;
    let ports = ports_of(agent, sandbox);
    let broken =
        |details: String| CniError::new(Code::CheckFailed, "an interface is not as ADD made it", details);
    let expected = made.unwrap_or_else(|| [sandbox.call.clone()].into());
    if let Some(missing) =
        expected.iter().find(|name| !ports.iter().any(|port| port.note.interface == **name))
    {
        return Err(broken(format!("interface {missing} of container {} has no port", sandbox.container)));
    }
    if let Some(port) = ports.iter().find(|port| !agent.vswitch.is_installed(&port.note)) {
        return Err(broken(format!("OVN has not installed the port of {}", port.note.interface)));
    }
    let links = blocking(move || Rtnetlink::open_in(netns.as_fd())?.links()).await?;
    let is_up = |name: &str| links.iter().any(|link| link.name == name && link.up);
    match ports.iter().find(|port| !is_up(&port.note.interface)) {
        Some(port) => {
            Err(broken(format!("link {} is missing or down in the container", port.note.interface)))
        }
        None => Ok(()),
    }
}

/// The interfaces that a call made, as its result shows: each has its host-side link there too. None without a result.
fn made_before(result: Option<&Value>, sandbox: &Sandbox) -> Option<BTreeSet<String>> {
    let interfaces = result?.get("interfaces")?.as_array()?;
    let names: BTreeSet<_> = interfaces.iter().filter_map(|one| one["name"].as_str()).collect();
    let made = names.iter().filter(|name| names.contains(sandbox.link(name).as_str()));
    Some(made.map(|name| (*name).to_owned()).collect())
}

fn ports_of(agent: &Agent, sandbox: &Sandbox) -> Vec<ObservedPort> {
    agent.engine.observed(|observed| {
        let own = observed.ports().filter(|(_, port)| port.note.sandbox == *sandbox);
        own.map(|(_, port)| port.clone()).collect()
    })
}

/// Removes what calls made that the runtime no longer knows, of this network.
pub(crate) async fn gc(
    agent: &Agent,
    config: &NetworkConfig,
    raw: &Value,
    deadline: Duration,
) -> Result<(), CniError> {
    let valid = valid_attachments(raw)?;
    agent.vswitch.ready().await;
    agent.engine.has_observed(agent.vswitch.revision()).await;
    // An agent that was killed between two steps may have left a link without a port. A link's note may lack the network's name.
    let of_network: BTreeSet<Sandbox> = agent.engine.observed(|observed| {
        let of_network = |note: &&Note| note.network == config.name;
        let units = observed.units();
        let notes = units.iter().flat_map(|unit| {
            let (link, port) = (observed.link(unit), observed.port(unit));
            [link.map(|link| &link.note), port.map(|port| &port.note)].into_iter().flatten()
        });
        notes.filter(of_network).map(|note| note.sandbox.clone()).collect()
    });
    let mut outcome = Ok(());
    for sandbox in of_network.difference(&valid) {
        // The runtime knows the attachments of its calls in progress.
        if let Some(_turn) = agent.calls.turn_now(&sandbox.container) {
            outcome = outcome.and(del(agent, sandbox, deadline).await);
        }
    }
    outcome
}

/// Whether an ADD could succeed now. Chained after another plugin, that plugin says whether the node is ready for pods: most need
/// nothing of Portolan, and those that do are tried again.
pub(crate) fn status(agent: &Agent, config: &NetworkConfig) -> Result<(), CniError> {
    if config.selection == Selection::Further && config.declares_annotations {
        return Ok(());
    }
    let mut missing: Vec<String> = agent.vswitch.behind().into_iter().collect();
    missing.extend(agent.cluster.status().behind().iter().map(ToString::to_string));
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
