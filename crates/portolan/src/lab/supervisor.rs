//! `portolan lab run`: the process that keeps a lab up. It holds every namespace and is the parent of every process of the lab, so
//! that the kernel ends them all, whatever becomes of it.

use std::io::{self, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use clap::Args;
use portolan_lab::Lab;
use portolan_lab::cluster::{Api, Cluster, Forward, Progress};
use serde_json::json;

use super::control;
use super::place::{Labs, Place, State};
use super::protocol::Event;

/// How a lab shall be.
#[derive(Clone, Debug, Args)]
pub(super) struct Shape {
    /// How many nodes it has, called node1, node2 and so on.
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=100))]
    nodes: u8,
    /// OVN's databases as raft clusters of three members each, in place of one server.
    #[arg(long)]
    ovn_raft: bool,
    /// Use the API server of this kubeconfig's current context, and raise none. It should be the lab's alone: the lab binds pods
    /// that have no node, and makes Nodes.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

impl Shape {
    /// The arguments that give this shape.
    pub(super) fn arguments(&self) -> Vec<std::ffi::OsString> {
        let mut arguments = vec![format!("--nodes={}", self.nodes).into()];
        if self.ovn_raft {
            arguments.push("--ovn-raft".into());
        }
        if let Some(file) = &self.kubeconfig {
            // The process that keeps the lab up works elsewhere.
            let file = std::path::absolute(file).unwrap_or_else(|_| file.clone());
            arguments.extend(["--kubeconfig".into(), file.into()]);
        }
        arguments
    }

    fn raise(&self, name: &str, lab: &Lab) -> portolan_lab::Result<Cluster> {
        let mut builder = Cluster::builder().name(name).nodes(self.nodes.into()).progress(tell_progress);
        if self.ovn_raft {
            builder = builder.ovn_raft();
        }
        if let Some(file) = &self.kubeconfig {
            builder = builder.api(Api::Other(file.clone()));
        }
        builder.start(lab)
    }
}

/// Raises a lab and keeps it up until it is told to end.
pub(super) async fn run(
    labs: &Labs,
    name: &str,
    shape: Shape,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    // A session of its own: neither a terminal's interrupt nor its end reaches it. Fails only for who has one.
    let _ = rustix::process::setsid();
    std::env::set_current_dir("/")?;
    let place = labs.place(name)?;
    if let Err(error) = keep_up(&place, shape, stop).await {
        // The parent says it to whom it concerns.
        let _ = tell(&Event::Failed { why: format!("{error:#}") });
        std::process::exit(1);
    }
    Ok(())
}

async fn keep_up(place: &Place, shape: Shape, stop: impl Future<Output = ()>) -> anyhow::Result<()> {
    let Some(lock) = place.take()? else {
        let who = place.state().map(|state| format!(", kept by process {}", state.pid)).unwrap_or_default();
        let name = place.name();
        bail!(
            "there is a lab called {name:?} already{who}; `portolan lab down {name}` ends it, `--name` gives another name"
        );
    };
    place.clear(&lock)?;
    let kept = keep_up_in(place, shape, stop).await;
    place.remove(&lock).and(kept)
}

async fn keep_up_in(place: &Place, shape: Shape, stop: impl Future<Output = ()>) -> anyhow::Result<()> {
    log_to(place)?;
    let lab = Lab::new()?;
    place.note(&State::of_this_process(lab.remains(), shape.nodes.into()))?;
    let kept = serve(place, shape, &lab, stop).await;
    match &kept {
        Ok(()) => tracing::info!("ending the lab"),
        Err(error) => tracing::error!(error = format!("{error:#}"), "ending the lab"),
    }
    tokio::task::spawn_blocking(move || lab.close()).await?;
    kept
}

/// Raises the cluster and answers for it.
async fn serve(place: &Place, shape: Shape, lab: &Lab, stop: impl Future<Output = ()>) -> anyhow::Result<()> {
    let (name, in_lab) = (place.name().to_owned(), lab.clone());
    let raise = tokio::task::spawn_blocking(move || shape.raise(&name, &in_lab));
    let mut stop = std::pin::pin!(stop);
    let cluster = tokio::select! {
        raised = raise => Arc::new(raised??),
        // Whatever waits for a part of the lab fails when the lab ends.
        () = &mut stop => return Ok(()),
    };
    let _forward = reach_from_outside(place, lab, &cluster)?;
    let control = control::listen(place)?;
    let nodes = cluster.nodes().iter().map(|node| (node.name().to_owned(), node.address().to_string()));
    tell(&Event::Ready { nodes: nodes.collect(), kubeconfig: place.kubeconfig() })?;
    // From now on nobody listens.
    rustix::stdio::dup2_stdout(std::fs::OpenOptions::new().write(true).open("/dev/null")?)?;
    tracing::info!(name = place.name(), "the lab is up");
    let ended = tokio::select! {
        ended = control::serve(control, Arc::clone(&cluster), place) => ended,
        () = &mut stop => Ok(()),
    };
    tokio::task::spawn_blocking(move || cluster.leave()).await?.map_err(Into::into).and(ended)
}

/// Lets users of the machine reach the API server: at a port of the machine's own loopback.
fn reach_from_outside(place: &Place, lab: &Lab, cluster: &Cluster) -> anyhow::Result<Option<Forward>> {
    let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    let address = listener.local_addr()?;
    let forward = cluster.api().forward(listener, lab)?;
    cluster.api().write_kubeconfig(address, &place.kubeconfig())?;
    Ok(forward)
}

/// What is said to standard error goes to the lab's own log from now on.
fn log_to(place: &Place) -> anyhow::Result<()> {
    let path = place.log();
    let log = std::fs::OpenOptions::new().create(true).append(true).open(&path);
    let log = log.with_context(|| format!("cannot write {}", path.display()))?;
    Ok(rustix::stdio::dup2_stderr(log)?)
}

fn tell_progress(progress: &Progress) -> portolan_lab::Result<()> {
    let seconds = progress.took.map(|took| took.as_secs_f64());
    tracing::info!(step = progress.step, seconds, "raising");
    let event = Event::Step { step: progress.step.clone(), seconds, steps: progress.steps };
    // Whoever asked for the lab has gone away, and with it the wish.
    tell(&event)
        .map_err(|source| portolan_lab::Error::System { what: "say how far the lab is".into(), source })
}

fn tell(event: &Event) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{}", json!(event))?;
    stdout.flush()
}
