//! The loop that makes the node as it should be: it reports to the [`Engine`] what is observed, and applies what the engine answers.
//!
//! It runs a round at start, and whenever a link, a guard, Open vSwitch, a pod, a lock or a CNI call changes something. After a restart
//! of Open vSwitch everything is compared. Changes of links and guards are applied beside it, by [`HostWork`].

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use portolan_host::{Admits, GuardChange, GuardMonitor, LinkMonitor, guard};
use portolan_plan::host::{Change, Guard, LinkName};
use portolan_watch::{Recoveries, Retries};
use tokio::time::Instant;

use crate::blocking::{blocking, until_done};
use crate::confirm::Confirmations;
use crate::engine::Failure;
use crate::guard_news::Serial;
use crate::host_work::{Done, HostWork};
use crate::links;
use crate::monitor::{News, SlowMonitor, next, watched};
use crate::node_links::NodeLinks;
use crate::server::Agent;

/// Pauses before a unit that failed is compared again.
pub(crate) const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// How long guards that cannot be listed are left alone before the next attempt.
const LISTING_PAUSE: Duration = Duration::from_secs(5);

/// Runs until it fails.
pub(crate) async fn run(agent: &Agent, mut recoveries: Recoveries) -> anyhow::Result<Infallible> {
    let engine = &agent.engine;
    // Before the lists: what changes after them is reported.
    let links = watched(LinkMonitor::open()?).context("watch links")?;
    // They are needed, and so watched, only where the kernel has them. Where it has not, making one says so.
    let open = || GuardMonitor::open().map(Arc::new);
    let mut guards = SlowMonitor::new("guards", open, GuardMonitor::read, &agent.metrics);
    let mut node_links = NodeLinks::new(engine, &agent.functions);
    node_links.list().await;
    let mut listings = FuturesUnordered::new();
    if let Some(began) = engine.begin_guard_listing() {
        match blocking(guard::guarded).await {
            Ok(guards) => report_all_guards(agent, began, &guards),
            Err(error) => {
                tracing::warn!(%error, "cannot list the guards of links; every link that needs one is guarded again");
                listings.push(list_guards(began));
            }
        }
    }
    let mut changes = agent.vswitch.changes();
    let mut connected = agent.vswitch.connected();
    let mut confirmations = Confirmations::new(agent.client.clone(), &agent.config.node);
    let hook = agent.config.changes.clone();
    let functions = Arc::clone(&agent.functions);
    let mut host = HostWork::new(move |changes| links::apply_all(changes, &functions, &hook));
    let mut later = Retries::new(FIRST_PAUSE, LONGEST_PAUSE);
    loop {
        let mut guard_changes = Vec::new();
        tokio::select! {
            () = engine.woken() => {}
            () = later.wait() => {}
            // The API server is back: what could not be read need not wait any longer.
            () = recoveries.next() => later.hasten(Instant::now()),
            changes = next(Some(&links), LinkMonitor::read) => node_links.report(changes.context("watch links")?).await,
            news = guards.next() => match news.context("watch guards")? {
                News::Opened => engine.guard_reports_lost(),
                News::Changes(changes) => guard_changes = changes,
            },
            Some((began, guards)) = listings.next(), if !listings.is_empty() => {
                report_all_guards(agent, began, &guards);
            }
            batch = changes.next() => match batch {
                Some(batch) => agent.vswitch.report(&batch, engine),
                None => anyhow::bail!("the client of Open vSwitch has ended"),
            },
            () = connected.next() => {
                engine.compare_all();
                // What could not be sent need not wait any longer.
                later.hasten(Instant::now());
            }
            (owner, absence) = confirmations.next() => engine.answered(owner.unit, &owner.uid, absence),
            done = host.next() => report_done(agent, done),
        }
        // A round must see the outcome of the ones before.
        while let Some(batch) = changes.try_next() {
            agent.vswitch.report(&batch, engine);
        }
        while let Ok(changes) = links.get_ref().read() {
            node_links.report(changes).await;
        }
        // After the links: the guard of a link that is gone need not be missed.
        report_guards(agent, guard_changes);
        listings.extend(engine.begin_guard_listing().map(list_guards));
        for unit in later.take_due(Instant::now()) {
            engine.retry(&unit);
        }
        let work = agent.cluster.read(|known| engine.reconcile(known, agent.config.mtu_of_subnets(known)));
        agent.metrics.planned(work.planned);
        confirmations.ask(work.confirm);
        apply(agent, work.changes, &mut host).await;
        for unit in engine.round_ended() {
            later.failed(unit, Instant::now());
        }
    }
}

/// Lists guards, as often as it takes.
async fn list_guards(began: Serial) -> (Serial, Vec<(String, Admits)>) {
    (began, until_done("list the guards of links", LISTING_PAUSE, guard::guarded).await)
}

fn report_all_guards(agent: &Agent, began: Serial, guards: &[(String, Admits)]) {
    let guard = |(link, admits): &(String, Admits)| Some((LinkName::parse(link)?, links::admitted(*admits)));
    agent.engine.guards_listed(began, &guards.iter().filter_map(guard).collect());
}

fn report_guards(agent: &Agent, changes: Vec<GuardChange>) {
    let engine = &agent.engine;
    for change in changes {
        let (link, guard) = match &change {
            GuardChange::Present(link, admits) => (link, Guard::Present(links::admitted(*admits))),
            GuardChange::Removed(link) => (link, Guard::Absent),
            GuardChange::Lost => {
                engine.guard_reports_lost();
                continue;
            }
        };
        let Some(name) = LinkName::parse(link) else { continue };
        if engine.is_missed(&name, guard) {
            agent.metrics.guard_missed();
            tracing::warn!(link, "somebody removed or changed the guard of a link; it is made again");
        }
        engine.guard_reported(&name, guard);
    }
}

/// Applies the changes of a round: those of Open vSwitch at once, with a report on each; those of the host go on by themselves.
async fn apply(agent: &Agent, changes: Vec<Change>, work: &mut HostWork) {
    if changes.is_empty() {
        return;
    }
    let (vswitch, host): (Vec<_>, Vec<_>) = changes.into_iter().partition(Change::is_of_vswitch);
    let of_host: BTreeSet<_> = host.iter().map(|change| change.unit().clone()).collect();
    let of_vswitch: BTreeSet<_> = vswitch.iter().map(|change| change.unit().clone()).collect();
    work.begin(host);
    agent.vswitch.apply(vswitch, &agent.engine, &agent.metrics, &agent.config.changes).await;
    agent.engine.settled(of_vswitch.difference(&of_host));
}

fn report_done(agent: &Agent, done: Done) {
    for (change, outcome) in done.outcomes {
        match outcome {
            Ok(()) => {
                tracing::debug!(?change, "changed a link");
                agent.metrics.changed(&change);
                agent.engine.applied(&change);
            }
            Err(error) => {
                tracing::warn!(link = %change.unit(), error, "cannot change a link");
                agent.metrics.change_failed(&change);
                agent.engine.failed(change.unit(), Failure::Refused, error);
            }
        }
    }
    agent.engine.settled(&done.units);
}
