//! How much clients can make the server hold, and for how long.

use std::net::SocketAddr;
use std::time::Duration;

use apiserver::Server;
use apiserver::authz::AlwaysAllow;
use apiserver::server::Limits;
use http::{Method, StatusCode};
use serde_json::json;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinHandle;

use crate::support::{CONFIG_MAPS, Client, TestServer, config_map, resources, revision};

/// A server that ends with the test.
struct Limited {
    // Held for the store's file.
    _directory: TempDir,
    client: Client,
    address: SocketAddr,
    served: JoinHandle<()>,
}

impl Limited {
    async fn start(limits: Limits) -> Limited {
        let directory = TempDir::new().unwrap();
        let store = directory.path().join("store.redb");
        let open = move || apistore::Redb::open(store, apistore::Options::default()).unwrap();
        let server = Server::builder(tokio::task::spawn_blocking(open).await.unwrap())
            .resources(resources())
            .limits(limits)
            .authorizer(AlwaysAllow)
            .build()
            .await
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let served = tokio::spawn(async { server.serve(listener, std::future::pending()).await.unwrap() });
        Limited { _directory: directory, client: Client::new(address), address, served }
    }

    /// Writes objects that no socket buffers.
    async fn fill(&self, mebibytes: usize) {
        let text = "x".repeat(1 << 19);
        for number in 0..2 * mebibytes {
            let mut object = config_map(&format!("large-{number:03}"));
            object["data"]["k"] = text.as_str().into();
            self.client.create(CONFIG_MAPS, &object).await.created();
        }
    }

    /// A connection that takes little at once, on which a request was sent.
    async fn send(&self, path: &str) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        let mut stream = socket.connect(self.address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        self.served.abort();
    }
}

/// How much comes before the end, however the connection ends. It must end.
async fn bytes_until_end(stream: &mut TcpStream) -> usize {
    let mut read = 0;
    let mut buffer = vec![0; 1 << 16];
    loop {
        let part = tokio::time::timeout(Duration::from_secs(60), stream.read(&mut buffer)).await;
        match part.expect("the connection is closed") {
            Ok(0) | Err(_) => return read,
            Ok(count) => read += count,
        }
    }
}

/// The lines of the metrics, without those that grow with each new code of a verb.
async fn metrics(client: &Client) -> usize {
    let reply = client.get("/metrics").await;
    std::str::from_utf8(&reply.text).unwrap().lines().count()
}

#[tokio::test]
async fn metrics_have_no_labels_that_clients_can_invent() {
    let server = TestServer::start().await;
    let probe = async |number: usize| {
        for path in [
            format!("/apis/group-{number}.io/v1/things"),
            format!("/api/v1/things-{number}"),
            format!("/api/v1/namespaces/default/pods/a/sub-{number}"),
            format!("/page-{number}"),
        ] {
            assert_eq!(server.client.get(&path).await.code, StatusCode::NOT_FOUND, "{path}");
            let method: Method = format!("METHOD{number}").parse().unwrap();
            let reply = server.client.request(method, &path, &[], Vec::new()).await;
            assert!(reply.code.is_client_error(), "{path}: {}", reply.code);
        }
    };
    probe(0).await;
    metrics(&server.client).await;
    let before = metrics(&server.client).await;
    for number in 1..50 {
        probe(number).await;
    }
    assert_eq!(metrics(&server.client).await, before);
    server.client.get(CONFIG_MAPS).await.ok();
    let reply = server.client.get("/metrics").await;
    let text = std::str::from_utf8(&reply.text).unwrap();
    assert!(text.contains(r#"verb="list",group="",resource="configmaps""#), "resources are labelled: {text}");
}

#[tokio::test]
async fn absurd_numbers_in_queries_are_no_internal_errors() {
    let server = TestServer::start().await;
    let client = &server.client;
    client.create(CONFIG_MAPS, &config_map("a")).await.created();
    let numbers = [
        "9223372036854775807",
        "-9223372036854775808",
        "18446744073709551615",
        "99999999999999999999999",
        "-1",
        "1e308",
        "0x7fffffffffffffff",
    ];
    let one = format!("{CONFIG_MAPS}/a");
    for number in numbers {
        for parameter in
            ["limit", "timeoutSeconds", "resourceVersion", "continue", "gracePeriodSeconds", "pretty"]
        {
            for path in [CONFIG_MAPS, one.as_str()] {
                let reply = client.get(&format!("{path}?{parameter}={number}")).await;
                assert!(reply.code != StatusCode::INTERNAL_SERVER_ERROR, "{parameter}={number}: {reply:?}");
            }
            let reply = client.delete(&format!("{one}?dryRun=All&{parameter}={number}")).await;
            assert!(reply.code != StatusCode::INTERNAL_SERVER_ERROR, "{parameter}={number}: {reply:?}");
        }
        let body = format!(r#"{{"gracePeriodSeconds": {number}, "dryRun": ["All"]}}"#);
        let headers = [("content-type", "application/json")];
        let reply = client.request(Method::DELETE, &one, &headers, body.into_bytes()).await;
        assert!(reply.code != StatusCode::INTERNAL_SERVER_ERROR, "gracePeriodSeconds: {number}: {reply:?}");
    }
    for seconds in ["9223372036854775807", "4611686018427387904", "100000000000"] {
        let mut events = client.watch(&format!("{CONFIG_MAPS}?watch=true&timeoutSeconds={seconds}")).await;
        assert_eq!(events.expect().await.1, "a", "timeoutSeconds={seconds}");
    }
}

#[tokio::test]
async fn a_watch_from_a_revision_that_the_store_never_made_expires() {
    let server = TestServer::start().await;
    let since = revision(&server.client.get(CONFIG_MAPS).await.ok());
    for future in [since + 1, since + 1_000_000, u64::MAX] {
        let mut events =
            server.client.watch(&format!("{CONFIG_MAPS}?watch=true&resourceVersion={future}")).await;
        let event = events.next().await.unwrap();
        assert_eq!((&event["type"], &event["object"]["code"]), (&json!("ERROR"), &json!(410)), "{event}");
        assert_eq!(event["object"]["reason"], "Expired", "{event}");
        assert!(events.next().await.is_none(), "the watch is over");
    }
}

#[tokio::test]
async fn a_client_may_take_its_time_for_the_initial_events_and_misses_nothing_after() {
    const OBJECTS: usize = 600;
    const CHANGES: usize = 2500;
    let server = TestServer::start().await;
    // Together more than sockets hold: the server has not written all of them before the client reads.
    let text = "x".repeat(40_000);
    for number in 0..OBJECTS {
        let mut object = config_map(&format!("m{number:04}"));
        object["data"]["k"] = text.as_str().into();
        server.client.create(CONFIG_MAPS, &object).await.created();
    }
    let query =
        "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut events = server.client.watch(&format!("{CONFIG_MAPS}?{query}")).await;
    let (kind, name, _) = events.expect().await;
    assert_eq!((kind.as_str(), name.as_str()), ("ADDED", "m0000"));

    // More than is ever queued for a watcher, before it has read what it began with.
    let changed = Client::new(server.client.address());
    let mut last = 0;
    for number in 0..CHANGES {
        let mut object = config_map("m0599");
        object["data"]["k"] = number.to_string().into();
        last = revision(&changed.update(&format!("{CONFIG_MAPS}/m0599"), &object).await.ok());
    }
    for number in 1..OBJECTS {
        let (kind, name, _) = events.expect().await;
        assert_eq!((kind.as_str(), name), ("ADDED", format!("m{number:04}")));
    }
    let event = events.next().await.unwrap();
    assert_eq!(event["type"], "BOOKMARK");
    assert_eq!(event["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    for number in 0..CHANGES {
        let event = events.next().await.expect("all changes are delivered");
        assert_eq!(
            (&event["type"], &event["object"]["data"]["k"]),
            (&json!("MODIFIED"), &json!(number.to_string()))
        );
        if number == CHANGES - 1 {
            assert_eq!(revision(&event["object"]), last);
        }
    }
}

#[tokio::test]
async fn watches_beyond_the_limit_are_refused_until_others_end() {
    let server = Limited::start(Limits { watches: 2, ..Limits::default() }).await;
    let path = format!("{CONFIG_MAPS}?watch=true&timeoutSeconds=1");
    let mut first = server.client.watch(&path).await;
    let second = server.client.watch(&format!("{CONFIG_MAPS}?watch=true")).await;
    let refused = server.client.get(&path).await;
    assert_eq!(refused.code, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused.headers["retry-after"], "1");
    assert!(first.next().await.is_none(), "it ends by its timeout");
    drop(server.client.watch(&path).await);
    drop(second);
}

#[tokio::test]
async fn a_client_that_does_not_read_its_watch_or_its_list_is_disconnected() {
    const MEBIBYTES: usize = 24;
    let server = Limited::start(Limits::default()).await;
    server.fill(MEBIBYTES).await;
    for path in [format!("{CONFIG_MAPS}?watch=true"), CONFIG_MAPS.to_owned()] {
        let mut stream = server.send(&path).await;
        // The response has begun.
        stream.read_exact(&mut [0; 16]).await.unwrap();
        tokio::time::pause();
        tokio::time::sleep(Limits::default().write + Duration::from_secs(1)).await;
        tokio::time::resume();
        let read = bytes_until_end(&mut stream).await;
        assert!(read < MEBIBYTES << 20, "{path}: {read} bytes came, so nothing was cut");
    }
    let text = server.client.get("/metrics").await.text;
    let text = std::str::from_utf8(&text).unwrap();
    assert!(text.contains(r#"apiserver_connections_closed_total{reason="response not read"} 2"#), "{text}");
}

#[tokio::test]
async fn a_client_that_reads_slowly_is_served() {
    let server = Limited::start(Limits::default()).await;
    server.fill(24).await;
    let mut stream = server.send(CONFIG_MAPS).await;
    stream.read_exact(&mut [0; 16]).await.unwrap();
    let mut read = 0;
    let mut buffer = vec![0; 1 << 20];
    while read < 24 << 20 {
        tokio::time::pause();
        tokio::time::sleep(Limits::default().write / 4).await;
        tokio::time::resume();
        let count = buffer.len().min((24 << 20) - read);
        let part = stream.read_exact(&mut buffer[..count]).await;
        part.unwrap_or_else(|error| panic!("the connection ended after {read} bytes: {error}"));
        read += count;
    }
}

#[tokio::test]
async fn connections_without_a_request_are_closed() {
    let server = Limited::start(Limits::default()).await;
    for begin in ["", "GET /api HTTP/1.1\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"] {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(begin.as_bytes()).await.unwrap();
        tokio::time::pause();
        bytes_until_end(&mut stream).await;
        tokio::time::resume();
    }
}

#[tokio::test]
async fn connections_beyond_the_limit_are_closed_at_once() {
    let server = Limited::start(Limits { connections: 2, ..Limits::default() }).await;
    let mut accepted = Vec::new();
    for _ in 0..2 {
        let mut stream = server.send("/livez").await;
        stream.read_exact(&mut [0; 12]).await.unwrap();
        accepted.push(stream);
    }
    let mut refused = TcpStream::connect(server.address).await.unwrap();
    assert_eq!(bytes_until_end(&mut refused).await, 0);
    drop(refused);
    let mut stream = accepted.pop().unwrap();
    stream.write_all(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    stream.read_exact(&mut [0; 12]).await.unwrap();
}
