//! The loop that makes the node as it should be: it reports to the [`Engine`] what is observed, and applies what the engine answers.
//!
//! It runs a round at start, and whenever a link, Open vSwitch, a pod, a lock or a CNI call changes something. After a restart of Open
//! vSwitch everything is compared.

use std::convert::Infallible;
use std::time::Duration;

use anyhow::Context;
use portolan_host::{Link, LinkChange, LinkMonitor, Rtnetlink, guard};
use portolan_plan::host::{Change, Guard, LinkName, ObservedLink};
use portolan_watch::{Recoveries, Retries};
use tokio::io::unix::AsyncFd;
use tokio::time::Instant;

use crate::confirm::Confirmations;
use crate::engine::Failure;
use crate::links;
use crate::server::Agent;

/// Pauses before a unit that failed is compared again.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// Runs until it fails.
pub(crate) async fn run(agent: &Agent, mut recoveries: Recoveries) -> anyhow::Result<Infallible> {
    let engine = &agent.engine;
    // Before the list: what changes after it is reported.
    #[expect(
        deprecated,
        reason = "its successor is unsafe; the monitor keeps its descriptor open as long as it lives"
    )]
    let monitor = AsyncFd::new(LinkMonitor::open()?).context("watch links")?;
    list_links(agent).await?;
    for link in blocking(guard::guarded).await? {
        if let Some(name) = LinkName::parse(&link) {
            engine.guard_changed(&name, Guard::Present);
        }
    }
    let mut changes = agent.vswitch.changes();
    let mut connected = agent.vswitch.connected();
    let mut confirmations = Confirmations::new(agent.client.clone());
    let mut later = Retries::new(FIRST_PAUSE, LONGEST_PAUSE);
    loop {
        tokio::select! {
            () = engine.woken() => {}
            () = later.wait() => {}
            // The API server is back: what could not be read need not wait any longer.
            () = recoveries.next() => later.hasten(Instant::now()),
            links = next_links(&monitor) => report_links(agent, links.context("watch links")?).await?,
            batch = changes.next() => match batch {
                Some(batch) => agent.vswitch.report(&batch, engine),
                None => anyhow::bail!("the client of Open vSwitch has ended"),
            },
            () = connected.next() => engine.compare_all(),
            (unit, uid, absence) = confirmations.next() => engine.answered(unit, &uid, absence),
        }
        // A round must see the outcome of the one before.
        while let Some(batch) = changes.try_next() {
            agent.vswitch.report(&batch, engine);
        }
        while let Ok(links) = monitor.get_ref().read() {
            report_links(agent, links).await?;
        }
        for unit in later.take_due(Instant::now()) {
            engine.retry(&unit);
        }
        let work = agent.cluster.read(|known| engine.reconcile(known));
        confirmations.ask(work.confirm);
        apply(agent, work.changes).await;
        for unit in engine.round_ended() {
            later.failed(unit, Instant::now());
        }
    }
}

async fn next_links(monitor: &AsyncFd<LinkMonitor>) -> std::io::Result<Vec<LinkChange>> {
    loop {
        let mut ready = monitor.readable().await?;
        match ready.try_io(|monitor| monitor.get_ref().read()) {
            Ok(changes) => return changes,
            Err(_would_block) => {}
        }
    }
}

async fn list_links(agent: &Agent) -> anyhow::Result<()> {
    let links = blocking(|| Rtnetlink::open()?.links()).await?;
    agent.engine.links_listed(&links.iter().filter_map(observed_link).collect());
    Ok(())
}

async fn report_links(agent: &Agent, changes: Vec<LinkChange>) -> anyhow::Result<()> {
    for change in changes {
        // A link without a note is not ours, or not made yet.
        match change {
            LinkChange::Present(link) => {
                if let Some((name, link)) = observed_link(&link) {
                    agent.engine.link_changed(&name, Some(&link));
                }
            }
            LinkChange::Removed(link) => {
                if let Some(name) = LinkName::parse(&link.name) {
                    agent.engine.link_changed(&name, None);
                }
            }
            LinkChange::Lost => list_links(agent).await?,
        }
    }
    Ok(())
}

/// A link as the engine knows it, if it has a note of ours.
fn observed_link(link: &Link) -> Option<(LinkName, ObservedLink)> {
    let (name, note) = (LinkName::parse(&link.name)?, link.alias.as_deref()?.parse().ok()?);
    Some((name, ObservedLink { index: link.index, note }))
}

/// Applies the changes of a round and reports on each.
async fn apply(agent: &Agent, changes: Vec<Change>) {
    if changes.is_empty() {
        return;
    }
    let (vswitch, host): (Vec<_>, Vec<_>) = changes.into_iter().partition(Change::is_of_vswitch);
    let of_vswitch = agent.vswitch.apply(vswitch, &agent.engine);
    let of_host = async {
        if host.is_empty() {
            return;
        }
        let applied = tokio::task::spawn_blocking(move || {
            let outcome = |change: Change| (links::apply(&change), change);
            host.into_iter().map(outcome).collect::<Vec<_>>()
        });
        for (outcome, change) in applied.await.unwrap_or_default() {
            match outcome {
                Ok(()) => agent.engine.applied(&change),
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(link = %change.unit(), error, "cannot change a link");
                    agent.engine.failed(change.unit(), Failure::Refused, error.to_string());
                }
            }
        }
    };
    tokio::join!(of_vswitch, of_host);
}

async fn blocking<T: Send + 'static>(
    body: impl FnOnce() -> portolan_host::Result<T> + Send + 'static,
) -> anyhow::Result<T> {
    Ok(tokio::task::spawn_blocking(body).await??)
}
