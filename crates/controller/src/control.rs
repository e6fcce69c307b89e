//! The one loop: feeds the engine, and makes happen what it answers.

use std::future::Future;

use anyhow::Context as _;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::act::Actor;
use crate::backoff::Backoff;
use crate::engine::Engine;
use crate::northbound::Northbound;
use crate::{Config, follow};

/// Something to be told to the engine.
pub(crate) type Message = Box<dyn FnOnce(&mut Engine) + Send>;

pub(crate) async fn run(config: Config, shutdown: impl Future<Output = ()>) -> anyhow::Result<()> {
    let client = portolan_watch::client(config.kube).context("cannot make a client of the API server")?;
    anyhow::ensure!(!config.nb.is_empty(), "the northbound database needs an endpoint");
    let mut engine = Engine::new(config.settings, config.plan);
    let mut nb = Northbound::connect(config.nb, config.nb_tls);
    let (sender, mut messages) = mpsc::channel::<Message>(1024);
    // Whatever runs ends with this function, however that ends.
    let mut followers = follow::follow_all(client.clone(), &sender);
    let mut recoveries = followers.recoveries();
    let mut tasks = JoinSet::new();
    let actor = Actor::new(client, sender);
    let mut later = Backoff::default();
    let mut shutdown = std::pin::pin!(shutdown);
    let mut synced = false;
    loop {
        for action in engine.actions() {
            tasks.spawn(actor.clone().perform(action));
        }
        if engine.is_synced() && !synced {
            synced = true;
            nb.compare_all(&mut engine);
            tracing::info!("everything was listed once");
        }
        if synced {
            nb.write(&mut engine);
            for action in engine.actions() {
                tasks.spawn(actor.clone().perform(action));
            }
        }
        for retry in engine.take_retries() {
            later.failed(retry, Instant::now());
        }
        let timer = async {
            match later.next() {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
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
            () = timer => {
                for retry in later.due(Instant::now()) {
                    engine.retry(retry);
                }
            }
            // The API server is back: whatever failed meanwhile need not wait any longer.
            () = recoveries.next() => later.hasten(Instant::now()),
            ended = followers.ended() => return Err(ended.into()),
            Some(ended) = tasks.join_next(), if !tasks.is_empty() => {
                if let Err(error) = ended {
                    // An action that panicked would leave the engine waiting for ever.
                    anyhow::bail!("an action failed: {error}");
                }
            }
        }
    }
    tracing::info!("stopping");
    Ok(())
}
