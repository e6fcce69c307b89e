//! The one loop: feeds the engine, and makes happen what it answers.

use std::collections::VecDeque;
use std::future::Future;
use std::time::Duration;

use anyhow::Context as _;
use portolan_watch::Retries;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::act::Actor;
use crate::engine::{Action, Engine};
use crate::health::{self, Health};
use crate::northbound::Northbound;
use crate::readers::Reads;
use crate::tasks::Tasks;
use crate::{Config, follow};

/// How many actions are under way at a time. The API server serves a client about that many requests at once.
const ACTIONS_AT_A_TIME: usize = 64;
/// Pauses before what failed is tried again.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Something for the engine to take in.
pub(crate) type Message = Box<dyn FnOnce(&mut Engine) + Send>;

pub(crate) async fn run(
    client: kube::Client,
    config: Config,
    mut reads: Reads,
    shutdown: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    anyhow::ensure!(!config.nb.is_empty(), "the northbound database needs an endpoint");
    let mut engine = Engine::new(config.settings, config.plan);
    let mut nb = Northbound::connect(config.nb, config.nb_tls);
    let (sender, mut messages) = mpsc::channel::<Message>(1024);
    // Whatever runs ends with this function, however that ends.
    let mut followers = follow::follow_all(client.clone(), &sender);
    let mut recoveries = followers.recoveries();
    let actor = Actor::new(client, sender.clone());
    let mut tasks = Tasks::default();
    tasks.spawn("status writer", actor.status.clone().run(followers.recoveries()));
    tasks.spawn("Event writer", actor.events.clone().run(followers.recoveries()));
    if let Some(address) = config.health {
        let health = Health { engine: sender, followers: followers.status(), northbound: nb.status() };
        tasks.spawn("health checks", health::serve(health::listen(address).await?, health));
    }
    let mut actions = Actions { actor, waiting: VecDeque::new(), running: JoinSet::new() };
    let mut later = Retries::new(FIRST_PAUSE, LONGEST_PAUSE);
    let mut shutdown = std::pin::pin!(shutdown);
    let mut synced = false;
    loop {
        actions.take(engine.actions());
        if engine.is_synced() && !synced {
            synced = true;
            nb.compare_all(&mut engine);
            tracing::info!("everything was listed once");
        }
        if synced {
            nb.write(&mut engine);
            actions.take(engine.actions());
        }
        for retry in engine.take_retries() {
            later.failed(retry, Instant::now());
        }
        tokio::select! {
            () = &mut shutdown => break,
            Some(message) = messages.recv() => {
                message(&mut engine);
                // What has come already is taken in before anything is decided: the larger the batch the better.
                while let Ok(message) = messages.try_recv() {
                    message(&mut engine);
                }
            }
            changed = nb.changed(&mut engine) => changed?,
            Some(read) = reads.next(), if synced => read(engine.world()),
            () = later.wait() => {
                for retry in later.take_due(Instant::now()) {
                    engine.retry(retry);
                }
            }
            // The API server is back: whatever failed meanwhile need not wait any longer.
            () = recoveries.next() => later.hasten(Instant::now()),
            ended = actions.next_end() => ended?,
            error = followers.ended() => return Err(error.into()),
            error = tasks.ended() => return Err(error),
        }
    }
    tracing::info!("stopping");
    Ok(())
}

/// Actions under way, and those that wait for their turn.
struct Actions {
    actor: Actor,
    waiting: VecDeque<Action>,
    running: JoinSet<()>,
}

impl Actions {
    fn take(&mut self, actions: Vec<Action>) {
        self.waiting.extend(actions);
        while self.running.len() < ACTIONS_AT_A_TIME
            && let Some(action) = self.waiting.pop_front()
        {
            self.running.spawn(self.actor.clone().perform(action));
        }
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
