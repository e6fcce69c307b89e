//! DEL, GC and STATUS. None of these needs the API server.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use portolan_cni::{CniError, Code};
use portolan_plan::host::{Note, Sandbox, Tag};
use serde_json::Value;

use crate::add::host_failed;
use crate::call::{NetworkConfig, Selection, valid_attachments};
use crate::health;
use crate::server::Agent;
use crate::steps::{Reporter, Step};

/// Removes everything that a call made. That nothing is left already is no error. What is not removed within `deadline` is removed by
/// the engine later, unless the agent ends first; then its start-up comparison does.
pub(crate) async fn del(agent: &Agent, sandbox: &Sandbox, deadline: Duration) -> Result<(), CniError> {
    let removal = async {
        bring_back(agent, sandbox).await;
        agent.engine.end(sandbox);
        // Before the copy of the database is in step, a port may be there that was not seen.
        agent.vswitch.ready().await;
        agent.engine.is_removed(sandbox, agent.vswitch.revision()).await;
        Ok(())
    };
    let reporter = Reporter::new(&agent.config.steps, &sandbox.container);
    let began = Instant::now();
    let removal = async {
        let removed = reporter.during(Step::Remove, removal).await;
        agent.metrics.step(Step::Remove, began.elapsed());
        removed
    };
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

/// Brings functions back that an earlier call could not, as it came without the namespace that this one has.
async fn bring_back(agent: &Agent, sandbox: &Sandbox) {
    if !agent.functions.knows_namespace(sandbox) {
        return;
    }
    for note in agent.engine.returning_of(sandbox) {
        let (functions, interface) = (Arc::clone(&agent.functions), note.interface.clone());
        if let Err(error) = blocking(move || functions.release(&note)).await {
            tracing::warn!(sandbox = sandbox.container, interface, %error, "cannot bring a function back");
        }
    }
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
        let notes = units.iter().filter(|unit| !observed.is_returning(unit)).flat_map(|unit| {
            let (link, port) = (observed.link(unit), observed.port(unit));
            let tags = [link.map(|link| &link.tag), port.map(|port| &port.tag)];
            tags.into_iter().flatten().filter_map(Tag::note)
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

/// Whether an ADD could succeed now, which is what `/readyz` says. Chained after another plugin, that plugin says whether the node is ready for pods: most need
/// nothing of Portolan, and those that do are tried again.
pub(crate) async fn status(agent: &Agent, config: &NetworkConfig) -> Result<(), CniError> {
    if config.selection == Selection::Further && config.declares_annotations {
        return Ok(());
    }
    let checks = health::ready(agent).await.into_iter();
    let missing: Vec<String> = checks.filter_map(|(_, outcome)| outcome.err()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(CniError::new(Code::NotAvailable, "the node's Portolan agent is not ready", missing.join("; ")))
}

/// Runs something that blocks, on a thread that may.
pub(crate) async fn blocking<T: Send + 'static>(
    body: impl FnOnce() -> portolan_host::Result<T> + Send + 'static,
) -> Result<T, CniError> {
    match tokio::task::spawn_blocking(body).await {
        Ok(done) => done.map_err(|error| host_failed(&error)),
        Err(error) => Err(CniError::new(Code::Setup, "the agent is shutting down", error.to_string())),
    }
}
