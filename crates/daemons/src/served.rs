//! `/healthz` and `/readyz` of a daemon.
//!
//! `/healthz` succeeds as long as this process answers: when the daemon ends, so does this. A daemon that does not answer for a while, as
//! with a large transaction, need not be restarted; it is only not ready. One that says nothing for [`SILENCE`] hangs.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use portolan_health::{Incoming, Method, Page, Pages, Request, StatusCode, probe, probe_of, respond};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::daemon::Check;
use crate::error::Error;
use crate::json_rpc::control;

/// For how long a control socket may be silent before its daemon hangs. Converting or compacting a large database takes seconds.
const SILENCE: Duration = Duration::from_secs(180);
/// What every daemon of Open vSwitch and OVN answers by its control socket.
const QUESTION: &str = "version";

/// How far it is.
#[derive(Clone, Debug)]
pub(crate) enum State {
    /// What it needs is being prepared.
    Preparing,
    /// It runs, and its control socket is there.
    Running(PathBuf),
}

/// What is served of a daemon.
#[derive(Clone)]
pub(crate) struct Served(Arc<Inner>);

struct Inner {
    checks: Vec<(&'static str, Check)>,
    /// What goes on beside the daemon, and how.
    kept: Vec<(&'static str, Kept)>,
    state: watch::Receiver<State>,
    /// Whether there is nothing to do for it yet.
    idle: Option<watch::Receiver<bool>>,
    /// Since when the control socket has not answered.
    silent_since: Mutex<Option<Instant>>,
}

type Kept = watch::Receiver<Result<(), String>>;

impl Served {
    pub(crate) fn new(
        checks: Vec<(&'static str, Check)>,
        kept: Vec<(&'static str, Kept)>,
        idle: Option<watch::Receiver<bool>>,
        state: watch::Receiver<State>,
    ) -> Self {
        Self(Arc::new(Inner { checks, kept, state, idle, silent_since: Mutex::new(None) }))
    }

    /// Every check of the daemon itself, with its outcome.
    pub(crate) async fn serving(&self) -> Vec<(&'static str, Result<(), String>)> {
        let state = self.0.state.borrow().clone();
        let State::Running(control) = state else {
            return vec![("started", Err("what the daemon needs is being prepared".into()))];
        };
        let mut outcomes = Vec::new();
        for (name, check) in &self.0.checks {
            outcomes.push((*name, check(control.clone()).await));
        }
        outcomes
    }

    /// The same, and what goes on beside it.
    async fn ready(&self) -> Vec<(&'static str, Result<(), String>)> {
        let is_idle = self.0.idle.as_ref().is_some_and(|idle| *idle.borrow());
        if is_idle && matches!(*self.0.state.borrow(), State::Preparing) {
            return vec![("idle", Ok(()))];
        }
        let mut outcomes = self.serving().await;
        outcomes.extend(self.0.kept.iter().map(|(name, outcome)| (*name, outcome.borrow().clone())));
        outcomes
    }

    /// Whether it hangs.
    async fn alive(&self) -> Result<(), String> {
        let state = self.0.state.borrow().clone();
        let State::Running(socket) = state else { return Ok(()) };
        let answer = control(&socket, QUESTION, &[]).await;
        let mut silent_since = self.0.silent_since.lock().unwrap_or_else(PoisonError::into_inner);
        match answer {
            Ok(_) => {
                *silent_since = None;
                Ok(())
            }
            Err(error) => {
                let silence = silent_since.get_or_insert_with(Instant::now).elapsed();
                if silence < SILENCE {
                    Ok(())
                } else {
                    Err(format!("silent for {} s: {error}", silence.as_secs()))
                }
            }
        }
    }
}

/// Serves for ever; without an address, nothing.
pub(crate) async fn serve(address: Option<SocketAddr>, served: Served) -> Result<(), Error> {
    let Some(address) = address else { return std::future::pending().await };
    let listener = TcpListener::bind(address).await.map_err(|error| Error::Health { address, error })?;
    portolan_health::serve(listener, served).await;
    Ok(())
}

impl Pages for Served {
    async fn answer(&self, request: Request<Incoming>, _: SocketAddr) -> Page {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return respond(StatusCode::METHOD_NOT_ALLOWED, "this can only be read\n".into());
        }
        let query = request.uri().query().unwrap_or_default();
        match probe_of(request.uri().path()) {
            (name @ ("healthz" | "livez"), one) => {
                probe(name, one, query, vec![("answers", self.alive().await)])
            }
            (name @ "readyz", one) => probe(name, one, query, self.ready().await),
            _ => respond(StatusCode::NOT_FOUND, "there are /healthz and /readyz\n".into()),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::UnixListener;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_daemon_hangs_once_it_has_been_silent_for_long_and_not_before() {
        let place = tempfile::tempdir().unwrap();
        let socket = place.path().join("one.ctl");
        let listener = UnixListener::bind(&socket).unwrap();
        let (state, observed) = watch::channel(State::Preparing);
        let served = Served::new(Vec::new(), Vec::new(), None, observed);
        assert_eq!(served.alive().await, Ok(()), "it is being prepared");
        state.send_replace(State::Running(socket));

        // Nobody accepts.
        let begun = Instant::now();
        while served.alive().await.is_ok() {
            assert!(begun.elapsed() < SILENCE * 2, "it is never said to hang");
            tokio::time::sleep(Duration::from_secs(10)).await;
        }
        assert!(begun.elapsed() >= SILENCE);
        assert!(served.alive().await.unwrap_err().contains("silent for"));

        // It has come back, which was not the end of the first silence only.
        let answers = tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                // Those who asked in vain are gone.
                let _ = stream.read(&mut [0; 512]).await;
                let _ = stream.write_all(br#"{"id": 0, "result": "one 1.0", "error": null}"#).await;
            }
        });
        tokio::time::resume();
        while served.alive().await.is_err() {
            tokio::task::yield_now().await;
        }
        answers.abort();
        assert!(answers.await.unwrap_err().is_cancelled());
        assert_eq!(served.alive().await, Ok(()), "the silence begins anew");
    }
}
