//! The one loop: feeds the engine, and makes happen what it answers.

use std::collections::VecDeque;
use std::future::Future;
use std::time::Duration;

use anyhow::Context as _;
use portolan_watch::Retries;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::act::Actor;
use crate::bindings::BindingWatch;
use crate::chassis::{ChassisCleaner, KnownNodes};
use crate::debug::Debug;
use crate::election::Election;
use crate::engine::{Action, Engine};
use crate::health::{self, Access, Health};
use crate::metrics::Metrics;
use crate::northbound::Northbound;
use crate::readers::Reads;
use crate::southbound::Southbound;
use crate::tasks::Tasks;
use crate::timer::until;
use crate::{Config, follow};

/// How many actions are under way at a time. The API server serves a client about that many requests at once.
const ACTIONS_AT_A_TIME: usize = 64;
/// How many pods may wait for being told what they got. The others are known by their names alone.
const RESULTS_AT_A_TIME: usize = 1000;
/// Pauses before what failed is tried again.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Whoever waits for a row of the northbound database for longer than this, and less than twice this, is told why.
const LONG: Duration = Duration::from_secs(10);
/// How long changes of a status collect that nobody waits for: those of usage, and what usually passes by itself.
const STATUS_DELAY: Duration = Duration::from_secs(1);

/// Something for the engine to take in.
pub(crate) struct Message {
    /// When it came.
    since: Instant,
    take_in: Box<dyn FnOnce(&mut Engine) + Send>,
}

impl Message {
    /// Something that comes now.
    pub(crate) fn new(take_in: impl FnOnce(&mut Engine) + Send + 'static) -> Self {
        Message { since: Instant::now(), take_in: Box::new(take_in) }
    }

    /// Lets the engine take it in.
    pub(crate) fn tell(self, engine: &mut Engine) {
        (self.take_in)(engine);
    }
}

pub(crate) async fn run(
    client: kube::Client,
    config: Config,
    mut reads: Reads,
    shutdown: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    anyhow::ensure!(!config.nb.is_none(), "the northbound database needs an endpoint");
    let services = config.plan.service_proxy();
    let mut engine = Engine::new(config.settings, config.plan);
    engine.set_cluster_networks(config.cluster_networks);
    let metrics = Metrics::with(config.metrics);
    let mut nb = Northbound::connect(config.nb, config.nb_tls.clone(), metrics.clone());
    let mut sb = Southbound::connect(config.sb.clone(), config.nb_tls.clone());
    let mut nodes = KnownNodes::new();
    let term = watch::Sender::new(None);
    let (sender, mut messages) = mpsc::channel::<Message>(1024);
    // Whatever runs ends with this function, however that ends.
    let mut followers = follow::follow_all(client.clone(), services, &sender);
    let mut recoveries = followers.recoveries();
    let following = followers.status();
    let mut following_changes = following.changes();
    let mut election = Election::start(client.clone(), config.election);
    let actor = Actor::new(
        client.clone(),
        sender.clone(),
        metrics.clone(),
        config.settings.first_interface,
        services,
    );
    let mut tasks = Tasks::default();
    if !config.sb.is_none() {
        let bindings = BindingWatch {
            endpoints: config.sb.clone(),
            tls: config.nb_tls.clone(),
            engine: sender.clone(),
            term: term.subscribe(),
            metrics: metrics.clone(),
        };
        tasks.spawn("bindings of guests' ports", bindings.run());
        let cleaner = ChassisCleaner::connect(config.sb, config.nb_tls, client, &nodes, metrics.clone());
        tasks.spawn("chassis of nodes that are gone", cleaner.run());
    }
    tasks.spawn("status writer", actor.status.clone().run(followers.recoveries()));
    tasks.spawn("pod results writer", actor.results.clone().run(followers.recoveries()));
    tasks.spawn("writer of annotations on Nodes", actor.nodes.clone().run(followers.recoveries()));
    tasks.spawn("Event writer", actor.events.clone().run(followers.recoveries()));
    tasks.spawn("finalizer writer", actor.finalizers.clone().run(followers.recoveries()));
    let pages = Health {
        engine: sender.clone(),
        followers: following.clone(),
        northbound: nb.status(),
        metrics: metrics.clone(),
        status: actor.status.clone(),
        events: actor.events.clone(),
        finalizers: actor.finalizers.clone(),
        debug: Debug::new(sender, nb.client(), config.log, config.kube.clone()),
        api_servers: config.kube,
    };
    for (name, address, access) in
        [("health checks", config.health, Access::Loopback), ("debug pages", config.debug, Access::Anyone)]
    {
        if let Some(address) = address {
            tasks.spawn(name, health::serve(health::listen(address).await?, pages.clone(), access));
        }
    }
    drop(pages);
    let mut actions = Actions { actor, waiting: VecDeque::new(), running: JoinSet::new() };
    let mut later = Retries::new(FIRST_PAUSE, LONGEST_PAUSE);
    let mut shutdown = std::pin::pin!(shutdown);
    let mut synced = false;
    // Nobody acts before the election has spoken.
    let mut acts = false;
    engine.stand_by();
    // When it is looked for units that have been waiting for long.
    let mut patience: Option<Instant> = None;
    // When the oldest of the changes came that the engine decides upon now.
    let mut since = Instant::now();
    // When deferred changes of statuses are due.
    let mut status_due: Option<Instant> = None;
    loop {
        let behind = follow::networks_are_behind(&following);
        since = tell_networks(behind, &mut messages, &mut engine).unwrap_or(since);
        if engine.is_synced() && !synced {
            synced = true;
            tracing::info!("everything was listed once");
        }
        election.set_fit(synced && nb.is_ready());
        if election.role().acts() != acts {
            acts = !acts;
            metrics.leader_transition();
            if acts {
                actions.actor.resume();
                engine.lead();
                nb.lead(election.predecessor());
            } else {
                nb.stand_by();
                engine.stand_by();
                actions.stand_by(&mut engine);
            }
        }
        nb.set_elected(election.role().is_elected());
        engine.northbound_role(nb.role());
        engine.set_room_for_results(RESULTS_AT_A_TIME.saturating_sub(actions.actor.results.waiting()));
        actions.take(engine.actions(), since);
        if synced && acts {
            nb.write(&mut engine);
            actions.take(engine.actions(), since);
        }
        nodes.tell(&mut engine, synced && acts);
        let now = engine.term().filter(|_| synced);
        term.send_if_modified(|term| std::mem::replace(term, now) != now);
        if engine.has_deferred_status() || engine.has_results_to_compare() {
            status_due.get_or_insert_with(|| Instant::now() + STATUS_DELAY);
        }
        for retry in engine.take_retries() {
            later.failed(retry, Instant::now());
        }
        metrics.counts(&engine.take_counts());
        let queues = engine.queues();
        metrics.queues(queues);
        match queues.units_waiting {
            0 => patience = None,
            _ => drop(patience.get_or_insert_with(|| Instant::now() + LONG)),
        }
        metrics.queue("actions_waiting", actions.waiting.len());
        metrics.queue("actions_running", actions.running.len());
        metrics.queue("messages", messages.len());
        metrics.leader(acts);
        metrics.writer(nb.is_writer());
        metrics.northbound_connected(nb.is_ready());
        metrics.southbound_connected(sb.is_ready());
        metrics.synced(synced);
        tokio::select! {
            () = &mut shutdown => break,
            Some(message) = messages.recv() => {
                since = message.since;
                message.tell(&mut engine);
                // What has come already is taken in before anything is decided: the larger the batch the better.
                while let Ok(message) = messages.try_recv() {
                    message.tell(&mut engine);
                }
            }
            changed = election.changed() => changed?,
            changed = nb.changed(&mut engine) => changed?,
            news = sb.changed() => news?.tell(&mut engine),
            () = until(status_due) => {
                status_due = None;
                engine.compare_deferred_status();
            }
            Some(read) = reads.next(), if synced => read(engine.world()),
            () = later.wait() => {
                since = Instant::now();
                for retry in later.take_due(Instant::now()) {
                    engine.retry(retry);
                }
            }
            () = until(patience) => {
                patience = None;
                engine.report_waiting();
            }
            // The sender lives as long as the status.
            _ = following_changes.changed() => {}
            // The API server is back: whatever failed meanwhile need not wait any longer.
            () = recoveries.next() => later.hasten(Instant::now()),
            ended = actions.next_end() => ended?,
            error = followers.ended() => return Err(error.into()),
            error = tasks.ended() => return Err(error),
        }
    }
    tracing::info!("stopping");
    actions.actor.pause();
    // The next one needs both, and this lock first.
    nb.stand_by();
    election.release().await;
    Ok(())
}

/// Tells the engine whether VPCs and Subnets may be there that it does not know. Once none may be, what there is of them may still be on its
/// way: it is taken in before. Answers when the first of that came.
fn tell_networks(
    behind: bool,
    messages: &mut mpsc::Receiver<Message>,
    engine: &mut Engine,
) -> Option<Instant> {
    let mut since = None;
    if !behind && engine.world().networks_are_behind() {
        while let Ok(message) = messages.try_recv() {
            since.get_or_insert(message.since);
            message.tell(engine);
        }
    }
    engine.set_networks_behind(behind);
    since
}

/// Actions under way, and those that wait for their turn.
struct Actions {
    actor: Actor,
    waiting: VecDeque<Action>,
    running: JoinSet<()>,
}

impl Actions {
    /// Performs actions that were decided upon because of what came in then.
    fn take(&mut self, actions: Vec<Action>, since: Instant) {
        for action in &actions {
            if let Action::CreateLock(lock) = action {
                self.actor.metrics.stopwatch().start(lock, since);
            }
        }
        // What has a queue of its own never waits, and comes there in the order in which it was decided.
        self.waiting.extend(actions.into_iter().filter_map(|action| self.actor.queue(action)));
        while self.running.len() < ACTIONS_AT_A_TIME
            && let Some(action) = self.waiting.pop_front()
        {
            self.running.spawn(self.actor.clone().perform(action));
        }
        self.actor.urgent.set(self.running.len());
    }

    /// What was not begun is dropped, but for what a standby does too; what was begun comes to its end. Whatever is still wanted
    /// is decided anew when this controller leads.
    fn stand_by(&mut self, engine: &mut Engine) {
        let (kept, dropped): (VecDeque<_>, VecDeque<_>) =
            self.waiting.drain(..).partition(Action::is_for_standby);
        self.waiting = kept;
        for action in dropped {
            engine.dropped(action);
        }
        self.actor.pause();
    }

    /// Waits for the end of an action, which makes room for another. Cancel-safe.
    ///
    /// # Errors
    /// When it panicked: the engine would wait for its answer for ever.
    async fn next_end(&mut self) -> anyhow::Result<()> {
        match self.running.join_next().await {
            Some(ended) => ended.context("an action failed"),
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use portolan_model::Settings;

    use super::*;

    #[test]
    fn networks_are_known_once_what_was_on_its_way_is_taken_in() {
        let mut engine = Engine::new(Settings::default(), portolan_plan::Settings::default());
        let (sender, mut messages) = mpsc::channel(8);
        let (seen, mut all_seen) = mpsc::unbounded_channel();
        let sends = || {
            let seen = seen.clone();
            let look = move |engine: &mut Engine| seen.send(engine.world().networks_are_behind()).unwrap();
            assert!(sender.try_send(Message::new(look)).is_ok());
        };
        assert_eq!(tell_networks(true, &mut messages, &mut engine), None);
        // A list of Subnets, say, which came before the status that says that they are in step.
        sends();
        assert!(tell_networks(false, &mut messages, &mut engine).is_some());
        assert_eq!(all_seen.try_recv(), Ok(true));
        assert!(!engine.world().networks_are_behind());
        // That they are behind must not wait for anything.
        sends();
        assert_eq!(tell_networks(true, &mut messages, &mut engine), None);
        assert!(engine.world().networks_are_behind() && all_seen.try_recv().is_err());
    }
}
