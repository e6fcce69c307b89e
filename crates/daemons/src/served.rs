//! `/healthz` and `/readyz` of a daemon.
//!
//! `/healthz` succeeds as long as this process answers: when the daemon ends, so does this. A daemon that does not answer for a while, as
//! with a large transaction, need not be restarted; it is only not ready.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use portolan_health::{Incoming, Method, Page, Pages, Request, StatusCode, probe, probe_of, respond};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::daemon::Check;
use crate::error::Error;

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
    state: watch::Receiver<State>,
}

impl Served {
    pub(crate) fn new(checks: Vec<(&'static str, Check)>, state: watch::Receiver<State>) -> Self {
        Self(Arc::new(Inner { checks, state }))
    }

    /// Every check with its outcome.
    pub(crate) async fn ready(&self) -> Vec<(&'static str, Result<(), String>)> {
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
            (name @ ("healthz" | "livez"), one) => probe(name, one, query, vec![("process", Ok(()))]),
            (name @ "readyz", one) => probe(name, one, query, self.ready().await),
            _ => respond(StatusCode::NOT_FOUND, "there are /healthz and /readyz\n".into()),
        }
    }
}
