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
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use portolan_watch::Status;
use tokio::net::TcpListener;
use tokio::sync::mpsc::Sender;
use tokio::sync::{Semaphore, oneshot, watch};

use crate::control::Message;

/// How long the loop may take to answer.
const ANSWER: Duration = Duration::from_secs(5);
/// How many requests are served at a time.
const AT_A_TIME: usize = 16;

/// What is checked.
#[derive(Clone)]
pub(crate) struct Health {
    pub(crate) engine: Sender<Message>,
    pub(crate) followers: Status,
    pub(crate) northbound: watch::Receiver<ovsdb::Status>,
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
            other => Err(format!("{other:?}")),
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
        let (sender, receiver) = oneshot::channel();
        let message: Message = Box::new(move |engine| {
            // Who asked may have stopped waiting.
            let _ = sender.send(engine.is_synced());
        });
        let answer = async {
            self.engine.send(message).await.map_err(|_| "it has ended".to_owned())?;
            receiver.await.map_err(|_| "it has ended".to_owned())
        };
        tokio::time::timeout(ANSWER, answer)
            .await
            .unwrap_or_else(|_| Err(format!("no answer within {ANSWER:?}")))
    }

    async fn answer(&self, path: &str) -> Response<Full<Bytes>> {
        let checks = match path {
            "/healthz" | "/livez" => self.alive().await,
            "/readyz" => self.ready().await,
            _ => return respond(StatusCode::NOT_FOUND, "there are /healthz and /readyz\n".into()),
        };
        let failed = checks.iter().any(|(_, result)| result.is_err());
        let lines = checks.iter().map(|(name, result)| match result {
            Ok(()) => format!("[+] {name} ok\n"),
            Err(why) => format!("[-] {name} failed: {why}\n"),
        });
        let status = if failed { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
        respond(status, lines.collect())
    }
}

fn respond(status: StatusCode, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    response
}

/// Listens at an address.
pub(crate) async fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind(address).await;
    let listener = listener.with_context(|| format!("cannot listen for health checks at {address}"))?;
    tracing::info!(address = %listener.local_addr()?, "serving /healthz and /readyz");
    Ok(listener)
}

/// Serves health checks, for ever.
pub(crate) async fn serve(listener: TcpListener, health: Health) {
    let places = std::sync::Arc::new(Semaphore::new(AT_A_TIME));
    loop {
        let Ok(place) = std::sync::Arc::clone(&places).acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
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
                async move { Ok::<_, Infallible>(health.answer(request.uri().path()).await) }
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
