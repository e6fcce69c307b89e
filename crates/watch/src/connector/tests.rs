//! Clients of servers that are played in memory, in virtual time. What the connections carry is not encrypted here: who verifies whom is
//! the business of the two connectors.

use std::collections::BTreeMap;
use std::future::pending;
use std::net::SocketAddr;

use http_body_util::BodyExt as _;
use hyper_util::rt::TokioIo;
use kube::Client;
use kube::client::Body;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::*;
use crate::api_servers::{ApiServers, Known};
use crate::client::{ask, assemble};
use crate::deadline::ANSWER;
use crate::judge::{Against, JudgeLayer};

const GIVEN: &str = "api.example.org:6443";

/// What becomes of connections to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    /// It says its name to every request, and to a watch for ever.
    Answer,
    /// Nobody listens.
    Refuse,
    /// Nothing comes back.
    Vanish,
    /// It takes requests and does not answer.
    Hang,
    /// It does not answer what others have a part in.
    Wait,
    /// It answers 503.
    Fail,
}

/// A network, by host and port. Others vanish.
#[derive(Clone, Default)]
struct Net(Arc<Mutex<BTreeMap<String, Does>>>);

/// A connection in memory.
struct Pipe(TokioIo<DuplexStream>);

impl Net {
    fn set(&self, server: &str, does: Does) {
        self.0.lock().expect("no test panics with it").insert(server.to_owned(), does);
    }

    fn get(&self, server: &str) -> Does {
        *self.0.lock().expect("no test panics with it").get(server).unwrap_or(&Does::Vanish)
    }

    async fn connect(self, uri: Uri) -> io::Result<Pipe> {
        let server = uri.authority().expect("it is absolute").to_string();
        match self.get(&server) {
            Does::Refuse => return Err(io::ErrorKind::ConnectionRefused.into()),
            Does::Vanish => return pending().await,
            Does::Answer | Does::Hang | Does::Wait | Does::Fail => {}
        }
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        tokio::spawn(async move { self.serve(&server, theirs).await });
        Ok(Pipe(TokioIo::new(ours)))
    }

    async fn serve(&self, server: &str, mut stream: DuplexStream) -> io::Result<()> {
        let mut request = Vec::new();
        while let Ok(byte) = stream.read_u8().await {
            request.push(byte);
            if !request.ends_with(b"\r\n\r\n") {
                continue;
            }
            let says = |part| String::from_utf8_lossy(&request).contains(part);
            let (is_watch, is_own) = (says("watch=true"), says("/endpointslices?"));
            request.clear();
            let status = match self.get(server) {
                Does::Hang => return pending().await,
                Does::Wait if !is_own => return pending().await,
                Does::Fail => "503 Service Unavailable",
                _ => "200 OK",
            };
            let head = format!("HTTP/1.1 {status}\r\n");
            stream.write_all(head.as_bytes()).await?;
            if is_watch {
                stream.write_all(b"transfer-encoding: chunked\r\n\r\n").await?;
                continue;
            }
            let answer = format!("content-length: {}\r\n\r\n{server}", server.len());
            stream.write_all(answer.as_bytes()).await?;
        }
        Ok(())
    }
}

impl Connection for Pipe {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl Read for Pipe {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl Write for Pipe {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

struct Scene {
    net: Net,
    api: ApiServers,
    servers: Followed,
    client: Client,
}

fn address(last: u8) -> SocketAddr {
    ([192, 0, 2, last], 6443).into()
}

impl Scene {
    fn new(last_known: &[u8], against: Against) -> Self {
        let config = kube::Config::new(format!("https://{GIVEN}").parse().expect("it is a URL"));
        let known: Vec<_> = last_known.iter().copied().map(address).collect();
        let api = ApiServers::followed(config.clone(), &known);
        let servers = api.shared().expect("they are followed");
        let net = Net::default();
        let connect = net.clone();
        let connector = tower::service_fn(move |uri| connect.clone().connect(uri));
        let any = AnyServer { servers: servers.clone(), given: connector.clone(), listed: connector };
        let mut config = config;
        config.connect_timeout = None;
        let judge = JudgeLayer { servers: servers.clone(), against, ask: ask(&config, &any) };
        let client = assemble(&config, any, Some(judge)).expect("the configuration is good");
        Self { net, api, servers, client }
    }

    fn list(&self, lasts: &[u8]) {
        let addresses = lasts.iter().copied().map(address).collect();
        assert!(self.servers.list(addresses).is_some(), "it is another list");
    }

    /// The name of the server that answers, or what went wrong.
    async fn ask(&self) -> String {
        let request = http::Request::get("/version").body(Vec::new()).expect("it is a request");
        self.client.request_text(request).await.unwrap_or_else(|error| crate::Error::from(error).to_string())
    }

    /// The same for somebody who does not wait as long as a connection may take.
    async fn ask_in_a_hurry(&self) -> Option<String> {
        timeout(Duration::from_millis(2500), self.ask()).await.ok()
    }

    /// Lets what goes on come to its end.
    async fn settle(&self) {
        sleep(Duration::from_secs(6)).await;
    }

    /// When a watch ends that is opened now, or nothing if it stays.
    fn watch(&self) -> JoinHandle<Option<Instant>> {
        let client = self.client.clone();
        let watch = async move {
            let request = http::Request::get("/api/v1/pods?watch=true").body(Body::empty());
            let mut response = client.send(request.expect("it is a request")).await.expect("it is opened");
            let frame = response.body_mut().frame().await;
            assert!(frame.is_none_or(|frame| frame.is_err()), "it brings nothing but its end");
            Instant::now()
        };
        tokio::spawn(async move { timeout(Duration::from_secs(3600), watch).await.ok() })
    }

    fn known(&self) -> Known {
        self.api.known().expect("they are followed")
    }
}

fn at(last: u8) -> String {
    address(last).to_string()
}

#[tokio::test(start_paused = true)]
async fn what_was_given_is_used_until_it_does_not_answer_and_then_the_others() {
    let scene = Scene::new(&[1, 2], Against::Doubts);
    for server in [GIVEN, &at(1), &at(2)] {
        scene.net.set(server, Does::Answer);
    }
    assert_eq!(scene.ask().await, GIVEN);
    scene.list(&[1, 2, 3]);
    assert_eq!(scene.ask().await, GIVEN, "no list says anything about it");
    let gone = Scene::new(&[1, 2], Against::Doubts);
    // In which order the others are tried nobody knows.
    gone.net.set(&at(1), Does::Refuse);
    gone.net.set(&at(2), Does::Answer);
    let begun = Instant::now();
    assert_eq!(gone.ask().await, at(2));
    assert_eq!(begun.elapsed(), CONNECT, "the first vanished");
    assert_eq!((gone.ask().await, begun.elapsed()), (at(2), CONNECT));
    assert_eq!(gone.known().current, Some(at(2)));
}

#[tokio::test(start_paused = true)]
async fn when_nobody_answers_every_server_is_named_with_its_reason() {
    let scene = Scene::new(&[1], Against::Doubts);
    scene.net.set(GIVEN, Does::Refuse);
    let said = scene.ask().await;
    for part in [GIVEN, "connection refused", &at(1), "no connection came about within 5s"] {
        assert!(said.contains(part), "{said}");
    }
    scene.net.set(GIVEN, Does::Answer);
    assert_eq!(scene.ask().await, GIVEN);
    let alone = Scene::new(&[], Against::Doubts);
    alone.net.set(GIVEN, Does::Refuse);
    assert!(!alone.ask().await.contains("no API server"), "it is as it was without the others");
}

#[tokio::test(start_paused = true)]
async fn a_connection_to_a_server_that_left_the_list_takes_no_request_and_ends() {
    let scene = Scene::new(&[1], Against::Doubts);
    scene.net.set(GIVEN, Does::Refuse);
    for last in [1, 2] {
        scene.net.set(&at(last), Does::Answer);
    }
    let watch = scene.watch();
    assert_eq!(scene.ask().await, at(1));
    // An answer that was read leaves its connection to the next request.
    assert_eq!(scene.ask().await, at(1));
    let left = Instant::now();
    scene.list(&[2]);
    // Whoever has the connections learns it now.
    tokio::task::yield_now().await;
    assert_eq!((scene.ask().await, left.elapsed()), (at(2), Duration::ZERO));
    let ended = watch.await.expect("it is a watch").expect("it ends");
    assert_eq!(ended - left, DRAIN);
    assert_eq!(scene.known().changes, 1);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_takes_requests_and_answers_none_is_left() {
    let scene = Scene::new(&[1], Against::Failures);
    scene.net.set(GIVEN, Does::Answer);
    scene.net.set(&at(1), Does::Answer);
    let watch = scene.watch();
    assert_eq!(scene.ask().await, GIVEN);
    scene.net.set(GIVEN, Does::Hang);
    let begun = Instant::now();
    assert!(scene.ask().await.contains("did not answer within 30s"));
    assert_eq!((scene.ask().await, begun.elapsed()), (at(1), ANSWER));
    let ended = watch.await.expect("it is a watch").expect("it ends");
    assert_eq!(ended - begun, ANSWER + DRAIN, "its watches go elsewhere too");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_cannot_be_connected_with_is_left_also_by_those_who_do_not_wait_that_long() {
    let scene = Scene::new(&[1], Against::Doubts);
    scene.net.set(GIVEN, Does::Answer);
    let watch = scene.watch();
    scene.settle().await;
    for (server, does) in [(GIVEN, Does::Vanish), (&at(1), Does::Answer)] {
        scene.net.set(server, does);
    }
    assert_eq!(scene.ask_in_a_hurry().await, None);
    let begun = Instant::now();
    assert_eq!(scene.ask_in_a_hurry().await, Some(at(1)));
    let ended = watch.await.expect("it is a watch").expect("it ends");
    assert_eq!(ended - begun, DRAIN, "its watches, which bring nothing, go elsewhere too");
}

#[tokio::test(start_paused = true)]
async fn who_does_not_wait_for_an_answer_has_the_server_asked_and_it_is_left_if_it_does_not_answer_that() {
    let scene = Scene::new(&[1], Against::Doubts);
    for server in [GIVEN, &at(1)] {
        scene.net.set(server, Does::Answer);
    }
    let watch = scene.watch();
    assert_eq!(scene.ask_in_a_hurry().await, Some(GIVEN.to_owned()));
    scene.net.set(GIVEN, Does::Hang);
    let begun = Instant::now();
    assert_eq!(scene.ask_in_a_hurry().await, None);
    scene.settle().await;
    assert_eq!(scene.ask_in_a_hurry().await, Some(at(1)));
    let ended = watch.await.expect("it is a watch").expect("it ends");
    assert!(ended - begun < ANSWER, "{:?}", ended - begun);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_waits_for_others_stays_in_use() {
    let scene = Scene::new(&[1], Against::Doubts);
    for server in [GIVEN, &at(1)] {
        scene.net.set(server, Does::Answer);
    }
    let watch = scene.watch();
    assert_eq!(scene.ask().await, GIVEN);
    for _ in 0..3 {
        scene.net.set(GIVEN, Does::Wait);
        assert!(scene.ask().await.contains("did not answer within 30s"));
        assert_eq!(scene.ask_in_a_hurry().await, None);
        scene.settle().await;
        scene.net.set(GIVEN, Does::Answer);
        assert_eq!(scene.ask().await, GIVEN);
    }
    assert!(!watch.is_finished());
    assert_eq!(scene.known().changes, 0);
}

#[tokio::test(start_paused = true)]
async fn a_server_is_asked_once_whoever_doubts_it() {
    let scene = Scene::new(&[1], Against::Doubts);
    for server in [GIVEN, &at(1)] {
        scene.net.set(server, Does::Answer);
    }
    scene.ask().await;
    let (_, begun) = scene.servers.order();
    let ticket = scene.servers.connected(Server::Given, begun);
    let turn = scene.servers.turn_to_ask(ticket).expect("nobody asks");
    assert!(scene.servers.turn_to_ask(ticket).is_none());
    drop(turn);
    assert!(scene.servers.turn_to_ask(ticket).is_some());
    let alone = Scene::new(&[], Against::Doubts);
    let ticket = alone.servers.connected(Server::Given, 0);
    assert!(alone.servers.turn_to_ask(ticket).is_none(), "nothing would come of it");
}

#[tokio::test(start_paused = true)]
async fn a_failure_counts_against_a_server_only_where_nobody_else_has_a_part_in_it() {
    for (against, later, next) in [
        (Against::Failures, Does::Answer, at(1)),
        (Against::Doubts, Does::Answer, GIVEN.to_owned()),
        // A read of its own list fails as well.
        (Against::Doubts, Does::Fail, at(1)),
    ] {
        let scene = Scene::new(&[1], against);
        scene.net.set(GIVEN, Does::Fail);
        scene.net.set(&at(1), Does::Answer);
        scene.ask().await;
        scene.net.set(GIVEN, later);
        scene.settle().await;
        assert_eq!(scene.ask().await, next, "{against:?} {later:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_log_names_a_server_that_is_given_up_and_the_cause() {
    for (against, does, cause) in [
        (Against::Failures, Does::Hang, "the API server did not answer within 30s"),
        (Against::Failures, Does::Fail, "it answered 503 Service Unavailable"),
    ] {
        let (mut log, writer) = io::pipe().expect("a pipe");
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(Arc::new(writer)).finish();
        let guard = tracing::subscriber::set_default(subscriber);
        let scene = Scene::new(&[1], against);
        scene.net.set(GIVEN, does);
        scene.ask().await;
        drop(guard);
        let mut text = String::new();
        io::Read::read_to_string(&mut log, &mut text).expect("it is text");
        let said = format!("API server is given up; trying the others address={GIVEN:?} cause={cause:?}");
        assert!(text.contains("WARN") && text.contains(&said), "{text}");
    }
}
