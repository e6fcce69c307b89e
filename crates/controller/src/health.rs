//! Health: named checks that can fail, over plain HTTP.
//!
//! `/healthz` asks whether this process works: the loop answers. `/readyz` asks whether what it does is current: the followers
//! are in step with the API server, every kind was listed, and the copy of the northbound database is in step. A controller that
//! is not ready need not be restarted.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use portolan_watch::Status;
use tokio::net::TcpListener;
use tokio::sync::mpsc::Sender;
use tokio::sync::{Semaphore, oneshot, watch};

use crate::act::events::EventWriter;
use crate::act::finalizers::FinalizerWriter;
use crate::act::status::StatusWriter;
use crate::act::writer::Writer;
use crate::control::Message;
use crate::debug::Debug;
use crate::engine::Engine;
use crate::metrics::Metrics;

/// How long the loop may take to answer.
const ANSWER: Duration = Duration::from_secs(5);
/// The format of metrics.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// How many requests are served at a time.
const AT_A_TIME: usize = 16;

/// What is checked.
#[derive(Clone)]
pub(crate) struct Health {
    pub(crate) engine: Sender<Message>,
    pub(crate) followers: Status,
    pub(crate) northbound: watch::Receiver<ovsdb::Status>,
    pub(crate) metrics: Metrics,
    pub(crate) status: Writer<StatusWriter>,
    pub(crate) events: Writer<EventWriter>,
    pub(crate) finalizers: Writer<FinalizerWriter>,
    pub(crate) debug: Debug,
}

/// Who may see `/debug`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Connections from this host: its own processes, and `kubectl port-forward`.
    Loopback,
    /// Whoever can connect.
    Anyone,
}

impl Access {
    fn allows(self, peer: SocketAddr) -> bool {
        self == Access::Anyone || peer.ip().to_canonical().is_loopback()
    }
}

/// The outcome of a check: its name, and what is wrong.
type Check = (&'static str, Result<(), String>);

impl Health {
    /// Checks that this process works.
    async fn alive(&self) -> Vec<Check> {
        vec![("loop", self.ask_loop().await.map(drop))]
    }

    /// Checks that what it does is current.
    async fn ready(&self) -> Vec<Check> {
        let synced = self.ask_loop().await;
        let listed = match &synced {
            Ok(true) => Ok(()),
            Ok(false) => Err("some kinds were not listed yet".to_owned()),
            Err(error) => Err(error.clone()),
        };
        let behind: Vec<String> = self.followers.behind().iter().map(ToString::to_string).collect();
        let followers = if behind.is_empty() { Ok(()) } else { Err(behind.join("; ")) };
        let northbound = match &*self.northbound.borrow() {
            ovsdb::Status::Ready { .. } => Ok(()),
            ovsdb::Status::Connecting { error: Some(error), .. } => Err(error.to_string()),
            ovsdb::Status::Connecting { error: None, .. } => Err("not connected yet".to_owned()),
            ovsdb::Status::Closed => Err("the session has ended".to_owned()),
        };
        vec![
            ("loop", synced.map(drop)),
            ("listed", listed),
            ("followers", followers),
            ("northbound", northbound),
        ]
    }

    /// Whether the engine knows every kind, as the loop itself says.
    async fn ask_loop(&self) -> Result<bool, String> {
        ask(&self.engine, |engine| engine.is_synced()).await
    }

    fn metrics(&self) -> Response<Full<Bytes>> {
        self.metrics.followers_behind(self.followers.behind().len());
        self.metrics.queue("status_writer", self.status.waiting());
        self.metrics.queue("event_writer", self.events.waiting());
        self.metrics.queue("finalizer_writer", self.finalizers.waiting());
        let mut response = respond(StatusCode::OK, self.metrics.encode());
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(OPENMETRICS));
        response
    }

    async fn answer(&self, request: &Request<Incoming>, debug: bool) -> Response<Full<Bytes>> {
        let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
        if path == "/debug" || path.starts_with("/debug/") {
            if !debug {
                let message = "only connections from this host may see this; see --debug-address\n";
                return respond(StatusCode::FORBIDDEN, message.into());
            }
            return self.debug.answer(request.method(), path, query).await;
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return respond(StatusCode::METHOD_NOT_ALLOWED, "this can only be read\n".into());
        }
        let (probe, one) =
            path[1..].split_once('/').map_or((&path[1..], None), |(probe, one)| (probe, Some(one)));
        let mut checks = match probe {
            "healthz" | "livez" => self.alive().await,
            "readyz" => self.ready().await,
            "metrics" if one.is_none() => return self.metrics(),
            _ => {
                let message = "there are /healthz, /readyz, /metrics and /debug\n";
                return respond(StatusCode::NOT_FOUND, message.into());
            }
        };
        if let Some(one) = one {
            checks.retain(|(name, _)| *name == one);
            if checks.is_empty() {
                return respond(StatusCode::NOT_FOUND, format!("/{probe} has no check {one:?}\n"));
            }
        }
        let verbose = query.split('&').any(|part| part == "verbose" || part.starts_with("verbose="));
        report(probe, &checks, verbose)
    }
}

/// `ok` if every check is, or each of them if one is not or if that was asked for; as kube-apiserver has it.
fn report(probe: &str, checks: &[Check], verbose: bool) -> Response<Full<Bytes>> {
    let failed = checks.iter().any(|(_, result)| result.is_err());
    if !failed && !verbose {
        return respond(StatusCode::OK, "ok".into());
    }
    let lines = checks.iter().map(|(name, result)| match result {
        Ok(()) => format!("[+] {name} ok\n"),
        Err(why) => format!("[-] {name} failed: {why}\n"),
    });
    let (status, end) = match failed {
        true => (StatusCode::SERVICE_UNAVAILABLE, "failed"),
        false => (StatusCode::OK, "passed"),
    };
    respond(status, lines.chain([format!("{probe} check {end}\n")]).collect())
}

/// What the control loop answers about the engine, within a while.
pub(crate) async fn ask<T: Send + 'static>(
    engine: &Sender<Message>,
    question: impl FnOnce(&mut Engine) -> T + Send + 'static,
) -> Result<T, String> {
    let (sender, receiver) = oneshot::channel();
    let message = Message::new(move |engine| {
        // Who asked may have stopped waiting.
        let _ = sender.send(question(engine));
    });
    let answer = async {
        engine.send(message).await.map_err(|_| "it has ended".to_owned())?;
        receiver.await.map_err(|_| "it has ended".to_owned())
    };
    tokio::time::timeout(ANSWER, answer).await.unwrap_or_else(|_| Err(format!("no answer within {ANSWER:?}")))
}

pub(crate) fn respond(status: StatusCode, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    response
}

/// Listens at an address.
pub(crate) async fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind(address).await;
    let listener = listener.with_context(|| format!("cannot serve health checks at {address}"))?;
    tracing::info!(address = %listener.local_addr()?, "serving /healthz, /readyz, /metrics and /debug");
    Ok(listener)
}

/// Serves health checks, for ever.
pub(crate) async fn serve(listener: TcpListener, health: Health, access: Access) {
    let places = std::sync::Arc::new(Semaphore::new(AT_A_TIME));
    loop {
        let Ok(place) = std::sync::Arc::clone(&places).acquire_owned().await else { return };
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of descriptors, for example: others will be closed.
                tracing::warn!(%error, "cannot accept a health check");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let health = health.clone();
        tokio::spawn(async move {
            let service = service_fn(|request: Request<Incoming>| {
                let health = health.clone();
                async move { Ok::<_, Infallible>(health.answer(&request, access.allows(peer)).await) }
            });
            let mut http = http1::Builder::new();
            http.timer(TokioTimer::new()).header_read_timeout(ANSWER).keep_alive(false);
            let served = http.serve_connection(TokioIo::new(stream), service).await;
            if let Err(error) = served {
                tracing::debug!(%error, "a health check was not served");
            }
            drop(place);
        });
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]
mod tests {
    use portolan_watch::Followers;
    use portolan_watch::fake::{Answer, FakeApi};
    use tokio::sync::mpsc;

    use super::*;

    /// A database that nobody serves.
    fn database() -> ovsdb::Client {
        let endpoints = ovsdb::Endpoint::parse_list("unix:/nonexistent/nb.sock").unwrap();
        ovsdb::Client::builder("OVN_Northbound", endpoints).connect()
    }

    /// The failed checks.
    fn failed(checks: &[Check]) -> Vec<&'static str> {
        checks.iter().filter(|(_, result)| result.is_err()).map(|(name, _)| *name).collect()
    }

    #[test]
    fn debug_pages_are_for_this_host_unless_they_have_an_address_of_their_own() {
        for (peer, loopback) in
            [("127.0.0.1:1", true), ("[::1]:1", true), ("[::ffff:127.0.0.1]:1", true), ("10.0.0.1:1", false)]
        {
            assert_eq!(Access::Loopback.allows(peer.parse().unwrap()), loopback, "{peer}");
            assert!(Access::Anyone.allows(peer.parse().unwrap()));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn every_check_can_fail() {
        let api = FakeApi::default();
        let followers = Followers::new(api.client());
        let (engine, mut messages) = mpsc::channel::<Message>(1);
        let (nb, northbound) = watch::channel(ovsdb::Status::Connecting { endpoint: None, error: None });
        let health = Health {
            engine: engine.clone(),
            followers: followers.status(),
            northbound,
            debug: Debug { engine: engine.clone(), northbound: database(), log: None },
            metrics: Metrics::new(),
            status: Writer::new(StatusWriter(api.client())),
            events: Writer::new(EventWriter(api.client())),
            finalizers: Writer::new(FinalizerWriter(api.client())),
        };
        // A loop that does not answer.
        assert_eq!(failed(&health.alive().await), ["loop"]);
        drop(messages.try_recv());
        // One that does, of a controller that knows nothing yet.
        let task = tokio::spawn(async move {
            let mut engine = Engine::new(Default::default(), Default::default());
            while let Some(message) = messages.recv().await {
                message.tell(&mut engine);
            }
        });
        assert_eq!(failed(&health.alive().await), [""; 0]);
        health.followers.in_step().await;
        assert_eq!(failed(&health.ready().await), ["listed", "northbound"]);
        let mut changes = health.followers.changes();
        api.always("", Answer::Code(503));
        api.cut_watches();
        changes.changed().await.unwrap();
        let checks = health.ready().await;
        assert_eq!(failed(&checks), ["listed", "followers", "northbound"]);
        let text = format!("{checks:?}");
        assert!(text.contains("customresourcedefinitions.apiextensions.k8s.io: not in step"), "{text}");
        drop(nb);
        task.abort();
    }
}
