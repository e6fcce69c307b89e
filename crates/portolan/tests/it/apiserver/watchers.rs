//! Many clients that watch many objects from the start, half of which stop reading: the others are served, and the server's memory
//! stays within what docs/apiserver.md says.
//!
//! `PORTOLAN_WATCHERS=full` makes it fewer clients and many more objects, `PORTOLAN_WATCHERS=200x1000` 200 clients and 1,000 objects.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use http::Method;
use memchr::memmem;
use portolan_testbed::Test;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::apiserver::server::{Server, request};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const CHANGES: usize = 20;
/// What the server may need besides: see "Limits" in docs/apiserver.md.
const BASE_BYTES: u64 = 128 << 20;
const BYTES_PER_WATCH: u64 = 128 << 10;

struct Size {
    clients: usize,
    objects: usize,
    deadline: Duration,
}

fn size() -> Size {
    let deadline = Duration::from_secs(1800);
    match std::env::var("PORTOLAN_WATCHERS").as_deref() {
        Ok("full") => Size { clients: 100, objects: 100_000, deadline },
        Ok(other) => {
            let numbers = other.split_once('x').map(|(clients, objects)| (clients.parse(), objects.parse()));
            let Some((Ok(clients), Ok(objects))) = numbers else { panic!("PORTOLAN_WATCHERS={other}") };
            Size { clients, objects, deadline }
        }
        Err(_) => Size { clients: 1000, objects: 5000, deadline: Duration::from_secs(300) },
    }
}

#[test]
fn clients_that_read_are_served_and_memory_is_bounded_when_as_many_others_stop_reading() {
    Test::new().deadline(size().deadline).run(async |lab| {
        let Size { clients, objects, .. } = size();
        let tokens = lab.directory("tokens").unwrap().join("tokens.csv");
        std::fs::write(&tokens, "secret,watcher,1,system:masters\n").unwrap();
        let server = Server::start_with(&lab, &["--token-auth-file", tokens.to_str().unwrap()]);
        let client = server.client().await;
        create(&client, objects).await;
        let before = server.peak_memory();

        let connector = connector(&server);
        let (stop, stopped) = watch::channel(false);
        let (ready, mut is_ready) = mpsc::channel(clients);
        let mut watchers = JoinSet::new();
        // The clients share the processors with the server: all connect, and then all watch at once.
        let handshakes = Arc::new(Semaphore::new(16));
        let start = Arc::new(tokio::sync::Barrier::new(clients));
        for number in 0..clients {
            let (connector, handshakes, start) = (connector.clone(), handshakes.clone(), start.clone());
            let (ready, mut stopped, address) = (ready.clone(), stopped.clone(), server.address);
            watchers.spawn(async move {
                let turn = handshakes.acquire().await.unwrap();
                let stream = connect(address, &connector, number).await;
                drop(turn);
                start.wait().await;
                let mut watcher = Watcher::begin(stream).await;
                if number % 2 == 1 {
                    // This one stops reading, and stays.
                    ready.send(()).await.unwrap();
                    stopped.wait_for(|stopped| *stopped).await.unwrap();
                    return;
                }
                watcher.read_until(memmem::Finder::new(r#""type":"ADDED""#), objects).await;
                ready.send(()).await.unwrap();
                watcher.read_until(memmem::Finder::new(r#""type":"MODIFIED""#), CHANGES).await;
            });
        }
        for _ in 0..clients {
            is_ready.recv().await.expect("every client begins, and those that read get every object");
        }
        for number in 0..CHANGES {
            let patch = json!({"data": {"k": number.to_string()}});
            let path = format!("{CONFIG_MAPS}/m{number:06}");
            let mut patch = request(Method::PATCH, &path, Some(&patch));
            patch.headers_mut().insert("content-type", "application/merge-patch+json".parse().unwrap());
            client.request_text(patch).await.unwrap();
        }
        for _ in 0..clients / 2 {
            // Those that stopped reading end last: they wait to be told.
            watchers.join_next().await.unwrap().expect("those that read get every change");
        }
        let peak = server.peak_memory();
        println!(
            "{clients} clients, {objects} objects: {} MiB before, {} MiB at most",
            before >> 20,
            peak >> 20
        );
        let allowed = before + BASE_BYTES + clients as u64 * BYTES_PER_WATCH;
        assert!(peak <= allowed, "{} MiB are more than {} MiB", peak >> 20, allowed >> 20);
        stop.send(true).unwrap();
        watchers.join_all().await;
    });
}

async fn create(client: &kube::Client, objects: usize) {
    let created = futures::stream::iter(0..objects).map(|number| async move {
        let object = json!({"metadata": {"name": format!("m{number:06}")}, "data": {"k": "v"}});
        client.request_text(request(Method::POST, CONFIG_MAPS, Some(&object))).await.unwrap();
    });
    created.buffer_unordered(64).collect::<()>().await;
}

fn connector(server: &Server) -> TlsConnector {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(server.authority().as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    TlsConnector::from(Arc::new(config))
}

/// A connection. Those that stop reading take little.
async fn connect(
    address: std::net::SocketAddr,
    connector: &TlsConnector,
    number: usize,
) -> TlsStream<TcpStream> {
    let socket = TcpSocket::new_v4().unwrap();
    if number % 2 == 1 {
        socket.set_recv_buffer_size(4096).unwrap();
    }
    let stream = socket.connect(address).await.unwrap();
    connector.connect(ServerName::try_from("127.0.0.1").unwrap(), stream).await.unwrap()
}

/// A client that knows no more than how an event begins, which costs little.
struct Watcher {
    stream: TlsStream<TcpStream>,
    /// What was read and may be the beginning of what is searched for.
    rest: Vec<u8>,
}

impl Watcher {
    async fn begin(mut stream: TlsStream<TcpStream>) -> Watcher {
        let request = format!(
            "GET {CONFIG_MAPS}?watch=true HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer secret\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut begin = [0; 15];
        stream.read_exact(&mut begin).await.unwrap();
        assert_eq!(std::str::from_utf8(&begin).unwrap(), "HTTP/1.1 200 OK");
        Watcher { stream, rest: Vec::new() }
    }

    /// Reads until something came as often as it should. It never comes more often.
    async fn read_until(&mut self, finder: memmem::Finder<'_>, count: usize) {
        let length = finder.needle().len();
        let mut found = 0;
        let mut buffer = vec![0; 1 << 16];
        loop {
            let last = finder.find_iter(&self.rest).inspect(|_| found += 1).last();
            let searched = last.map_or(0, |at| at + length);
            let keep = searched.max(self.rest.len().saturating_sub(length - 1));
            self.rest.drain(..keep);
            assert!(found <= count, "{found} instead of {count}");
            if found == count {
                return;
            }
            let read = self.stream.read(&mut buffer).await.unwrap();
            assert!(read > 0, "the watch ended after {found} of {count}");
            self.rest.extend_from_slice(&buffer[..read]);
        }
    }
}
