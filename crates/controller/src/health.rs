//! Health: named checks that can fail, over plain HTTP.
//!
//! `/healthz` asks whether this process works: the loop answers. `/readyz` asks whether what it does is current: the followers
//! are in step with the API server, every kind was listed, and the copy of the northbound database is in step. A controller that
//! is not ready need not be restarted.

use std::net::SocketAddr;

use anyhow::Context as _;
use portolan_health::{ANSWER, Check, Incoming, Method, Page, Pages, Request, StatusCode, probe, probe_of};
use portolan_watch::{ApiServers, Status};
use tokio::net::TcpListener;
use tokio::sync::mpsc::Sender;
use tokio::sync::{oneshot, watch};

use crate::act::events::EventWriter;
use crate::act::finalizers::FinalizerWriter;
use crate::act::status::StatusWriter;
use crate::act::writer::Writer;
use crate::control::Message;
use crate::debug::{Debug, PAGES};
use crate::engine::Engine;
use crate::metrics::Metrics;

pub(crate) use portolan_health::respond;

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
    pub(crate) api_servers: ApiServers,
}

/// Who may see `/debug`, and change what it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Connections from this host see it: its own processes, and `kubectl port-forward`. On the host network these are also the
    /// processes of every other pod there, so nobody changes anything.
    Loopback,
    /// Whoever can connect sees it and may change it: the operator has chosen the address.
    Anyone,
}

/// What a peer may do with `/debug`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DebugRight {
    Nothing,
    See,
    Change,
}

impl Access {
    fn of(self, peer: SocketAddr) -> DebugRight {
        match self {
            Access::Anyone => DebugRight::Change,
            Access::Loopback if peer.ip().to_canonical().is_loopback() => DebugRight::See,
            Access::Loopback => DebugRight::Nothing,
        }
    }
}

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
            ovsdb::Status::Connecting { error: None, .. } => {
                Err("not connected yet: it is the first attempt, or its address is not known".to_owned())
            }
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

    fn metrics(&self) -> Page {
        self.metrics.followers_behind(self.followers.behind().len());
        if let Some(known) = self.api_servers.known() {
            self.metrics.api_servers(&known);
        }
        self.metrics.queue("status_writer", self.status.waiting());
        self.metrics.queue("event_writer", self.events.waiting());
        self.metrics.queue("finalizer_writer", self.finalizers.waiting());
        portolan_health::metrics(self.metrics.encode())
    }

    async fn answer_debug(&self, request: &Request<Incoming>, right: DebugRight) -> Page {
        let reads = matches!(*request.method(), Method::GET | Method::HEAD);
        let refusal = match right {
            DebugRight::Nothing => "only connections from this host may see this; see --debug-address\n",
            DebugRight::See if !reads => {
                "this can be changed only through --debug-address: on the network of a host, others can connect to this address too\n"
            }
            DebugRight::See | DebugRight::Change => "",
        };
        if !refusal.is_empty() {
            return respond(StatusCode::FORBIDDEN, refusal.into());
        }
        let Ok(_place) = self.debug.places.try_acquire() else {
            let message = format!("{PAGES} debug pages are being made already: try again\n");
            return respond(StatusCode::TOO_MANY_REQUESTS, message);
        };
        let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
        self.debug.answer(request.method(), path, query).await
    }

    async fn answer(&self, request: &Request<Incoming>, right: DebugRight) -> Page {
        let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
        if path == "/debug" || path.starts_with("/debug/") {
            return self.answer_debug(request, right).await;
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return respond(StatusCode::METHOD_NOT_ALLOWED, "this can only be read\n".into());
        }
        let (name, one) = probe_of(path);
        let checks = match name {
            "healthz" | "livez" => self.alive().await,
            "readyz" => self.ready().await,
            "metrics" if one.is_none() => return self.metrics(),
            _ => {
                let message = "there are /healthz, /readyz, /metrics and /debug\n";
                return respond(StatusCode::NOT_FOUND, message.into());
            }
        };
        probe(name, one, query, checks)
    }
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

/// Listens at an address.
pub(crate) async fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind(address).await;
    let listener = listener.with_context(|| format!("cannot serve health checks at {address}"))?;
    tracing::info!(address = %listener.local_addr()?, "serving /healthz, /readyz, /metrics and /debug");
    Ok(listener)
}

/// Serves health checks, for ever.
pub(crate) async fn serve(listener: TcpListener, health: Health, access: Access) {
    portolan_health::serve(listener, Served { health, access }).await;
}

#[derive(Clone)]
struct Served {
    health: Health,
    access: Access,
}

impl Pages for Served {
    async fn answer(&self, request: Request<Incoming>, peer: SocketAddr) -> Page {
        self.health.answer(&request, self.access.of(peer)).await
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]
mod tests {
    use std::net::Ipv4Addr;

    use portolan_watch::Followers;
    use portolan_watch::fake::{Answer, FakeApi};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;
    use tokio::sync::mpsc;
    use tokio::task::JoinSet;

    use super::*;
    use crate::act::Actor;

    /// A database that nobody serves.
    fn database() -> ovsdb::Client {
        let endpoints = ovsdb::Endpoint::parse_list("unix:/nonexistent/nb.sock").unwrap();
        ovsdb::Client::builder("OVN_Northbound", endpoints).connect()
    }

    /// The pages of a controller that is not connected with its database.
    fn health(api: &FakeApi, engine: &Sender<Message>) -> Health {
        let northbound = watch::channel(ovsdb::Status::Connecting { endpoint: None, error: None }).1;
        let actor = Actor::new(
            api.client(),
            engine.clone(),
            Metrics::new(),
            portolan_model::FirstInterface::Other,
            portolan_plan::ServiceProxy::Other,
        );
        let config = kube::Config::new("https://192.0.2.1".parse().unwrap());
        let api_servers = ApiServers::followed(config, &["192.0.2.2:6443".parse().unwrap()]);
        Health {
            engine: engine.clone(),
            followers: Followers::new(api.client()).status(),
            northbound,
            debug: Debug::new(engine.clone(), database(), None, api_servers.clone()),
            api_servers,
            metrics: Metrics::new(),
            status: actor.status,
            events: actor.events,
            finalizers: actor.finalizers,
        }
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
            let expected = if loopback { DebugRight::See } else { DebugRight::Nothing };
            assert_eq!(Access::Loopback.of(peer.parse().unwrap()), expected, "{peer}");
            assert_eq!(Access::Anyone.of(peer.parse().unwrap()), DebugRight::Change);
        }
    }

    /// A page of what `serve` serves at an address of its own, whoever else is connected.
    async fn get(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(format!("{request} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    /// Serves the pages of a controller whose loop answers.
    async fn served(access: Access) -> (SocketAddr, JoinSet<()>) {
        let (engine, mut messages) = mpsc::channel::<Message>(16);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut engine = Engine::new(Default::default(), Default::default());
            while let Some(message) = messages.recv().await {
                message.tell(&mut engine);
            }
        });
        let listener = listen((Ipv4Addr::LOCALHOST, 0).into()).await.unwrap();
        let address = listener.local_addr().unwrap();
        tasks.spawn(serve(listener, health(&FakeApi::default(), &engine), access));
        (address, tasks)
    }

    #[tokio::test]
    async fn the_log_is_changed_only_through_an_address_that_was_chosen_for_it() {
        let (shared, _tasks) = served(Access::Loopback).await;
        let (own, _tasks) = served(Access::Anyone).await;
        let refused = get(shared, "PUT /debug/log?filter=debug").await;
        assert!(refused.starts_with("HTTP/1.1 403") && refused.contains("--debug-address"), "{refused}");
        let answer = get(shared, "GET /debug/world").await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        // There is no filter here to be changed.
        let answer = get(own, "PUT /debug/log?filter=debug").await;
        assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
    }

    #[tokio::test]
    async fn api_servers_that_are_known_are_told_from_those_that_are_followed() {
        let (address, _tasks) = served(Access::Loopback).await;
        let metrics = get(address, "GET /metrics").await;
        for line in ["portolan_controller_api_servers 1\n", "portolan_controller_api_servers_followed 0\n"] {
            assert!(metrics.contains(line), "{line}: {metrics}");
        }
        let page = get(address, "GET /debug/api-servers").await;
        assert!(page.contains("\"behind\": \"following was not begun yet\""), "{page}");
    }

    #[tokio::test(start_paused = true)]
    async fn every_check_can_fail() {
        let api = FakeApi::default();
        let followers = Followers::new(api.client());
        let (engine, mut messages) = mpsc::channel::<Message>(1);
        let health = Health { followers: followers.status(), ..health(&api, &engine) };
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
        task.abort();
    }
}
