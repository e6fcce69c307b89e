//! Health checks, metrics and debug pages of a process, over plain HTTP.
//!
//! A process implements [`Pages`] and gives it to [`serve`], which bounds connections: such an address is open to whoever can connect.
//! [`probe`] turns named checks into the answer of `/healthz` or `/readyz`. What is checked, and what counts as healthy, this crate
//! does not know. Start reading at [`serve`].

mod process;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

pub use hyper::body::Incoming;
pub use hyper::{Method, Request, Response, StatusCode};

pub use self::process::ProcessCollector;

/// How long a part of the process may take to answer, and a peer to send its request.
pub const ANSWER: Duration = Duration::from_secs(5);
/// How many connections there are at a time. Beyond that, the one that has waited longest for its request makes room: connections
/// that are opened and left alone must not keep a probe out.
pub const CONNECTIONS: usize = 64;
/// How long a connection may last, with a peer that reads slowly.
const CONNECTION: Duration = Duration::from_secs(30);
/// The format of metrics.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// An answer.
pub type Page = Response<Full<Bytes>>;

/// The outcome of a check: its name, and what is wrong.
pub type Check = (&'static str, Result<(), String>);

/// What is served.
pub trait Pages: Clone + Send + Sync + 'static {
    /// The answer to a request of this peer.
    fn answer(&self, request: Request<Incoming>, peer: SocketAddr) -> impl Future<Output = Page> + Send;
}

/// A page of text.
pub fn respond(status: StatusCode, text: String) -> Page {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    response
}

/// The page of metrics, in the text format of OpenMetrics.
pub fn metrics(text: String) -> Page {
    let mut response = respond(StatusCode::OK, text);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(OPENMETRICS));
    response
}

/// `ok` if every check is, or each of them if one is not or if that was asked for; as kube-apiserver has it. `one` names the only
/// check that is asked about, as in `/readyz/<check>`.
pub fn probe(probe: &str, one: Option<&str>, query: &str, mut checks: Vec<Check>) -> Page {
    if let Some(one) = one {
        checks.retain(|(name, _)| *name == one);
        if checks.is_empty() {
            return respond(StatusCode::NOT_FOUND, format!("/{probe} has no check {one:?}\n"));
        }
    }
    let verbose = query.split('&').any(|part| part == "verbose" || part.starts_with("verbose="));
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

/// The probe that a path asks for, and the one check of it that it names, if it does.
pub fn probe_of(path: &str) -> (&str, Option<&str>) {
    let path = path.strip_prefix('/').unwrap_or(path);
    path.split_once('/').map_or((path, None), |(probe, one)| (probe, Some(one)))
}

/// Serves pages, for ever.
pub async fn serve(listener: TcpListener, pages: impl Pages) {
    let mut connections = Connections::default();
    loop {
        let (stream, peer) = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Out of descriptors, for example: others will be closed.
                    tracing::warn!(%error, "cannot accept a health check");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            },
            Some(_) = connections.running.join_next() => continue,
        };
        connections.admit(stream, pages.clone(), peer);
    }
}

/// The connections that are open.
#[derive(Default)]
struct Connections {
    running: JoinSet<()>,
    /// The oldest first; some of them have ended.
    open: VecDeque<Connection>,
}

struct Connection {
    task: AbortHandle,
    /// Its request has come.
    asked: Arc<AtomicBool>,
}

impl Connections {
    /// Serves a connection, for which another one makes room if there are many.
    fn admit(&mut self, stream: TcpStream, pages: impl Pages, peer: SocketAddr) {
        self.open.retain(|connection| !connection.task.is_finished());
        if self.open.len() >= CONNECTIONS {
            let idle = self.open.iter().position(|connection| !connection.asked.load(Ordering::Relaxed));
            // Requests take no longer than the process may take to answer: if all are being answered, the oldest hangs.
            if let Some(oldest) = self.open.remove(idle.unwrap_or_default()) {
                tracing::debug!("too many connections: one that waits makes room");
                oldest.task.abort();
            }
        }
        let asked = Arc::new(AtomicBool::new(false));
        let task = self.running.spawn(serve_one(stream, pages, peer, Arc::clone(&asked)));
        self.open.push_back(Connection { task, asked });
    }
}

async fn serve_one(stream: TcpStream, pages: impl Pages, peer: SocketAddr, asked: Arc<AtomicBool>) {
    let service = service_fn(|request: Request<Incoming>| {
        asked.store(true, Ordering::Relaxed);
        let pages = pages.clone();
        async move { Ok::<_, Infallible>(pages.answer(request, peer).await) }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(ANSWER).keep_alive(false);
    let served = tokio::time::timeout(CONNECTION, http.serve_connection(TokioIo::new(stream), service)).await;
    match served {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "a health check was not served"),
        Err(_) => tracing::debug!("a health check was not read in time"),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[derive(Clone)]
    struct Always;

    impl Pages for Always {
        async fn answer(&self, request: Request<Incoming>, _: SocketAddr) -> Page {
            let (name, one) = probe_of(request.uri().path());
            let checks = vec![("good", Ok(())), ("bad", Err("broken".to_owned()))];
            probe(name, one, request.uri().query().unwrap_or_default(), checks)
        }
    }

    async fn get(address: SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn a_probe_is_answered_however_many_connections_were_left_alone() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(serve(listener, Always));
        let mut idle = Vec::new();
        for _ in 0..CONNECTIONS * 2 {
            idle.push(TcpStream::connect(address).await.unwrap());
        }
        for (path, status, text) in [
            ("/readyz", 503, "[+] good ok\n[-] bad failed: broken\nreadyz check failed\n"),
            ("/readyz/good", 200, "ok"),
            ("/readyz/good?verbose", 200, "[+] good ok\nreadyz check passed\n"),
            ("/readyz/other", 404, "/readyz has no check \"other\"\n"),
        ] {
            let answer = get(address, path).await;
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}")) && answer.ends_with(text), "{answer}");
        }
        // The oldest made room, and the newest did not.
        let mut byte = [0];
        assert_eq!(idle[0].read(&mut byte).await.unwrap_or(0), 0);
        let newest = idle.pop().unwrap();
        assert!(
            newest.try_read(&mut byte).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
        );
        server.abort();
    }
}
