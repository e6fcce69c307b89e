//! The audit log: every request that reached the server has one line in it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use apiserver::Server;
use apiserver::audit::{AuditLog, Rotation};
use apiserver::authn::{StaticTokens, UserInfo};
use apiserver::authz::{Attributes, Authorizer, Decision};
use apiserver::server::TaskEnded;
use futures::future::{BoxFuture, FutureExt as _};
use http::{Method, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::support::{CONFIG_MAPS, Client, config_map, resources};

/// Nothing in a test takes this long unless it is stuck.
const STUCK: Duration = Duration::from_secs(30);

/// A server with an audit log.
struct Audited {
    directory: TempDir,
    client: Client,
    address: SocketAddr,
    authorizing: mpsc::UnboundedReceiver<Authorizing>,
    stop: oneshot::Sender<()>,
    served: JoinHandle<Result<(), TaskEnded>>,
}

/// What becomes of a request that is never decided about.
#[derive(Debug, PartialEq)]
enum Authorizing {
    Began,
    Dropped,
}

/// Allows everything, except that it panics at `/panic` and decides nothing about `/wait`.
#[derive(Debug)]
struct ByPath(mpsc::UnboundedSender<Authorizing>);

impl Authorizer for ByPath {
    fn authorize<'a>(&'a self, attributes: Attributes<'a>) -> BoxFuture<'a, Decision> {
        struct Waiting<'a>(&'a ByPath);
        impl Drop for Waiting<'_> {
            fn drop(&mut self) {
                let _ = self.0.0.send(Authorizing::Dropped);
            }
        }
        match attributes.path {
            "/panic" => panic!("the test wants this panic"),
            "/wait" => async move {
                let _waiting = Waiting(self);
                let _ = self.0.send(Authorizing::Began);
                std::future::pending().await
            }
            .boxed(),
            _ => std::future::ready(Decision::Allow).boxed(),
        }
    }
}

impl Audited {
    async fn start() -> Audited {
        let directory = TempDir::new().unwrap();
        let (store, log) = (directory.path().join("store.redb"), directory.path().join("audit.log"));
        let open = move || apistore::Redb::open(store, apistore::Options::default()).unwrap();
        let (sender, authorizing) = mpsc::unbounded_channel();
        let ann = UserInfo::new("ann", ["crew".into()]);
        let server = Server::builder(tokio::task::spawn_blocking(open).await.unwrap())
            .resources(resources())
            .authenticator(StaticTokens::new([("secret".into(), ann)]))
            .authorizer(ByPath(sender))
            .audit(Some(AuditLog::open(log, Rotation::default()).unwrap()))
            .build()
            .await
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let served = tokio::spawn(server.serve(listener, async { drop(stopped.await) }));
        Audited { directory, client: Client::new(address), address, authorizing, stop, served }
    }

    fn log(&self) -> PathBuf {
        self.directory.path().join("audit.log")
    }

    fn lines(&self) -> Vec<Value> {
        lines(&self.log())
    }

    async fn next(&mut self) -> Authorizing {
        let next = tokio::time::timeout(STUCK, self.authorizing.recv()).await;
        next.expect("an authorization begins or ends").unwrap()
    }

    /// A connection on which a request for `/wait` is under way.
    async fn waiting_client(&mut self) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let request = "GET /wait HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer secret\r\n\r\n";
        stream.write_all(request.as_bytes()).await.unwrap();
        assert_eq!(self.next().await, Authorizing::Began);
        stream
    }

    /// Ends the server in order, and what is in the log then.
    async fn stop(self) -> Vec<Value> {
        let log = self.log();
        drop((self.client, self.stop));
        tokio::time::timeout(STUCK, self.served).await.expect("the server ends").unwrap().unwrap();
        lines(&log)
    }
}

fn lines(log: &std::path::Path) -> Vec<Value> {
    let text = std::fs::read_to_string(log).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn every_request_is_in_the_audit_log_before_it_is_answered() {
    let server = Audited::start().await;
    server.client.create(CONFIG_MAPS, &config_map("a")).await.created();
    let [event] = server.lines().try_into().unwrap();
    assert_eq!((&event["kind"], &event["level"]), (&json!("Event"), &json!("Metadata")));
    assert_eq!((&event["verb"], &event["stage"]), (&json!("create"), &json!("ResponseComplete")));
    assert_eq!(event["responseStatus"]["code"], 201);
    let reference = json!({"resource": "configmaps", "namespace": "default", "apiVersion": "v1"});
    assert_eq!(event["objectRef"], reference);
    assert!(event["user"]["username"].is_string());

    server.client.get(&format!("{CONFIG_MAPS}/none?pretty=true")).await.refused();
    let event = &server.lines()[1];
    assert_eq!((&event["verb"], &event["responseStatus"]["code"]), (&json!("get"), &json!(404)));
    assert_eq!(event["requestURI"], format!("{CONFIG_MAPS}/none?pretty=true"));
    let watch = server.client.watch(&format!("{CONFIG_MAPS}?watch=1")).await;
    assert_eq!(server.lines()[2]["stage"], "ResponseStarted");
    let metrics = server.client.get("/metrics").await.text;
    let metrics = std::str::from_utf8(&metrics).unwrap();
    assert!(metrics.contains("apiserver_audit_event_total 3\n"), "{metrics}");
    assert!(metrics.contains("apiserver_audit_error_total 0\n"), "{metrics}");
    drop(watch);
    server.stop().await;
}

#[tokio::test]
async fn the_audit_log_names_who_authenticated_and_as_whom_they_act() {
    let server = Audited::start().await;
    let get = async |headers: &[(&str, &str)]| {
        server.client.request(Method::GET, CONFIG_MAPS, headers, Vec::new()).await.code
    };
    let token = ("authorization", "Bearer secret");
    assert_eq!(
        get(&[token, ("impersonate-user", "bob"), ("impersonate-group", "guests")]).await,
        StatusCode::OK
    );
    assert_eq!(get(&[token]).await, StatusCode::OK);
    assert_eq!(get(&[("authorization", "Bearer wrong")]).await, StatusCode::UNAUTHORIZED);
    let [impersonated, plain, refused] = server.stop().await.try_into().unwrap();
    assert_eq!(impersonated["user"]["username"], "ann");
    assert_eq!(impersonated["impersonatedUser"]["username"], "bob");
    assert_eq!(impersonated["impersonatedUser"]["groups"], json!(["guests", "system:authenticated"]));
    assert_eq!((&plain["user"]["username"], plain.get("impersonatedUser")), (&json!("ann"), None));
    assert_eq!(refused["user"], json!({}));
    assert_eq!(refused["responseStatus"]["code"], 401);
    assert_eq!(refused["responseStatus"]["message"], "Authentication failed, attempted: bearer");
    assert_eq!(refused["sourceIPs"], json!(["127.0.0.1"]));
}

#[tokio::test]
async fn a_request_that_cannot_be_parsed_is_in_the_audit_log() {
    let server = Audited::start().await;
    let path = format!("{CONFIG_MAPS}?limit=%zz");
    assert_eq!(server.client.get(&path).await.code, StatusCode::BAD_REQUEST);
    let [event] = server.stop().await.try_into().unwrap();
    assert_eq!((&event["verb"], &event["requestURI"]), (&json!("get"), &json!(path)));
    assert_eq!(event["responseStatus"], json!({"metadata": {}, "code": 400}));
}

#[tokio::test]
async fn a_request_whose_handler_panics_is_in_the_audit_log() {
    let server = Audited::start().await;
    let token = [("authorization", "Bearer secret")];
    let reply = server.client.request(Method::GET, "/panic", &token, Vec::new()).await;
    assert_eq!(reply.code, StatusCode::INTERNAL_SERVER_ERROR);
    let [event] = server.stop().await.try_into().unwrap();
    assert_eq!((&event["stage"], &event["requestURI"]), (&json!("Panic"), &json!("/panic")));
    assert_eq!(event["user"]["username"], "ann");
    assert_eq!(
        (&event["responseStatus"]["code"], &event["responseStatus"]["reason"]),
        (&json!(500), &json!("InternalError"))
    );
}

#[tokio::test]
async fn a_request_whose_client_goes_away_is_in_the_audit_log() {
    let mut server = Audited::start().await;
    drop(server.waiting_client().await);
    assert_eq!(server.next().await, Authorizing::Dropped);
    let [event] = server.stop().await.try_into().unwrap();
    assert_eq!((&event["verb"], &event["requestURI"]), (&json!("get"), &json!("/wait")));
    assert_eq!((&event["user"]["username"], &event["sourceIPs"]), (&json!("ann"), &json!(["127.0.0.1"])));
    assert_eq!(event["responseStatus"].get("code"), None);
    let message = event["responseStatus"]["message"].as_str().unwrap();
    assert!(message.starts_with("not answered: the client went away"), "{message}");
}

#[tokio::test]
async fn a_request_that_the_servers_end_cuts_short_is_in_the_audit_log() {
    let mut server = Audited::start().await;
    let mut stream = server.waiting_client().await;
    // What is skipped is the time that requests are given to finish, and nothing else: a clock that stands still does not wait for
    // the thread that writes the log.
    tokio::time::pause();
    drop(std::mem::replace(&mut server.stop, oneshot::channel().0));
    assert_eq!(server.next().await, Authorizing::Dropped);
    tokio::time::resume();
    let [event] = server.stop().await.try_into().unwrap();
    assert_eq!(event["requestURI"], "/wait");
    let message = event["responseStatus"]["message"].as_str().unwrap();
    assert!(message.starts_with("not answered: the server was shut down"), "{message}");
    assert_eq!(stream.read(&mut [0; 16]).await.unwrap_or(0), 0, "nothing was answered");
}

#[tokio::test]
async fn long_headers_and_paths_make_no_long_lines() {
    let server = Audited::start().await;
    let long = "x".repeat(20_000);
    let headers = [
        ("authorization", "Bearer secret"),
        ("user-agent", long.as_str()),
        ("impersonate-user", long.as_str()),
        ("impersonate-group", long.as_str()),
        ("impersonate-extra-scopes", long.as_str()),
    ];
    server.client.request(Method::GET, &format!("{CONFIG_MAPS}/{long}"), &headers, Vec::new()).await;
    let [event] = server.stop().await.try_into().unwrap();
    assert_eq!(event["user"]["username"], "ann");
    let agent = event["userAgent"].as_str().unwrap();
    assert!(agent.len() == 1024 && agent.ends_with("...TRUNCATED"), "{agent}");
    let bytes = event.to_string().len();
    assert!(bytes < 16 << 10, "{bytes}: {event}");
}
