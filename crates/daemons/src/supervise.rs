//! Runs a daemon until it ends or is to be stopped.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::daemon::{Begin, Daemon, Keep, Report, Stop};
use crate::error::Error;
use crate::json_rpc::control;
use crate::served::{Served, State, serve};

/// How long a daemon may take to end. The kubelet gives a pod 30 s unless told otherwise.
const GRACE: Duration = Duration::from_secs(20);
/// The pauses between questions to a daemon that has just been started: none of them gives notice when it is ready.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Runs a daemon until `stop` completes, and stops it then. That it ends by itself is an error. `ready` is called once, when it is ready for
/// the first time.
pub async fn supervise(
    mut daemon: Daemon,
    health: Option<SocketAddr>,
    ready: impl FnOnce(),
    stop: impl Future<Output = ()>,
) -> Result<(), Error> {
    let (state, observed) = watch::channel(State::Preparing);
    let (reports, kept): (Vec<_>, Vec<_>) = daemon
        .keeps
        .iter()
        .map(|(name, _)| {
            let (report, kept) = watch::channel(Err("not begun yet".to_owned()));
            (report, (*name, kept))
        })
        .unzip();
    let served = Served::new(std::mem::take(&mut daemon.checks), kept, daemon.idle.take(), observed);
    let begin = daemon.begin.take();
    let keeps = std::mem::take(&mut daemon.keeps).into_iter().map(|(_, keep)| keep).zip(reports).collect();
    tokio::pin!(stop);
    tokio::select! {
        ended = serve(health, served.clone()) => ended,
        ended = async {
            tokio::select! {
                started = start(&mut daemon) => {
                    let (mut child, control) = started?;
                    state.send_replace(State::Running(control.clone()));
                    tokio::select! {
                        ended = ended(&mut child, &daemon) => ended,
                        failed = first_ready(&served, begin, keeps, &control, ready) => failed,
                        () = &mut stop => halt(child, &daemon, &control).await,
                    }
                }
                // Nothing runs yet.
                () = &mut stop => Ok(()),
            }
        } => ended,
    }
}

/// Does what is to be done before, and starts it. It dies with this process, also when this is killed.
async fn start(daemon: &mut Daemon) -> Result<(Child, PathBuf), Error> {
    if let Some(prepare) = daemon.prepare.take() {
        prepare().await?;
    }
    let program = daemon.name();
    let mut command = Command::new("setpriv");
    command
        .args(["--pdeathsig", "KILL", "--"])
        .arg(&daemon.program)
        .args(&daemon.arguments)
        .envs(daemon.environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let child = command.spawn().map_err(|error| Error::Start { program: program.clone(), error })?;
    let pid = child.id().unwrap_or_default();
    tracing::info!(program, pid, "daemon started");
    let control = daemon.control.path(&program, pid);
    Ok((child, control))
}

async fn ended(child: &mut Child, daemon: &Daemon) -> Result<(), Error> {
    let program = daemon.name();
    match child.wait().await {
        Ok(status) => Err(Error::Ended { program, status }),
        Err(error) => Err(Error::Start { program, error }),
    }
}

/// Does what is to be done once it is ready, says so, and goes on for ever with what goes on beside it; ends only with an error.
async fn first_ready(
    served: &Served,
    begin: Option<Begin>,
    keeps: Vec<(Keep, Report)>,
    control: &Path,
    ready: impl FnOnce(),
) -> Result<(), Error> {
    let mut pause = FIRST_PAUSE;
    while served.serving().await.iter().any(|(_, outcome)| outcome.is_err()) {
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
    if let Some(begin) = begin {
        pause = FIRST_PAUSE;
        // A daemon under load is slow to answer: that is no reason to end it.
        while let Err(error) = begin(control.to_owned()).await {
            tracing::warn!(%error, "what is to be done at the beginning has failed; trying again");
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
    ready();
    // They end with this function.
    let mut tasks: JoinSet<Infallible> = JoinSet::new();
    for (keep, report) in keeps {
        tasks.spawn(keep(control.to_owned(), report));
    }
    match tasks.join_next().await {
        None => std::future::pending().await,
        Some(Ok(never)) => match never {},
        Some(Err(panicked)) => std::panic::resume_unwind(panicked.into_panic()),
    }
}

/// Stops it as it should be stopped, and by force if it does not end.
async fn halt(mut child: Child, daemon: &Daemon, socket: &Path) -> Result<(), Error> {
    let program = daemon.name();
    let asked = match daemon.stop {
        Stop::Signal => false,
        Stop::Command(command, arguments) => match control(socket, command, arguments).await {
            Ok(_) => true,
            Err(error) => {
                tracing::warn!(%error, "the daemon cannot be asked to end; ending it by a signal");
                false
            }
        },
    };
    if !asked && let Some(pid) = child.id().and_then(|id| Pid::from_raw(id.cast_signed())) {
        // It is ours and was not waited for, so nothing else has its id. One that has ended just now needs no signal.
        let _ = kill_process(pid, Signal::TERM);
    }
    match tokio::time::timeout(GRACE, child.wait()).await {
        Ok(Ok(status)) => tracing::info!(program, %status, "daemon stopped"),
        Ok(Err(error)) => return Err(Error::Start { program, error }),
        Err(_) => {
            tracing::warn!(program, "the daemon has not ended within {GRACE:?}; killing it");
            child.kill().await.map_err(|error| Error::Start { program, error })?;
        }
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::sync::oneshot;

    use super::*;
    use crate::daemon::Control;

    #[tokio::test]
    async fn what_fails_at_the_beginning_is_tried_again_and_the_daemon_goes_on() {
        let tries = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&tries);
        let (reported, observed) = oneshot::channel();
        let daemon = Daemon::new("sleep", Control::At("/nonexistent".into()))
            .args(["1000"])
            .begin(move |_| {
                let tried = counted.fetch_add(1, Ordering::Relaxed);
                async move {
                    let busy = || Error::Tool { what: "asking".into(), said: "busy".into() };
                    if tried < 2 { Err(busy()) } else { Ok(()) }
                }
            })
            .keep("beside", move |_, report| async move {
                report.send_replace(Ok(())).unwrap_err();
                let _ = reported.send(());
                std::future::pending().await
            });
        let (ready, is_ready) = oneshot::channel();
        let stop = async {
            is_ready.await.unwrap();
            observed.await.unwrap();
        };
        supervise(daemon, None, || ready.send(()).unwrap(), stop).await.unwrap();
        assert_eq!(tries.load(Ordering::Relaxed), 3);
    }
}
