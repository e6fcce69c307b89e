//! A server, and a client that knows no more than HTTP and JSON.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use apiserver::Server;
use apiserver::registry::Resource;
use apiserver::server::TaskEnded;
use apiserver::watch::HubLimits;
use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Nothing in a test takes this long unless it is stuck.
const STUCK: Duration = Duration::from_secs(30);

/// A running server. It can be stopped and started again on the same data.
pub(crate) struct TestServer {
    directory: TempDir,
    pub(crate) client: Client,
    pub(crate) api: apiserver::api::Api,
    stop: Option<oneshot::Sender<()>>,
    served: JoinHandle<Result<(), TaskEnded>>,
}

/// What a test's server serves.
pub(crate) fn resources() -> Vec<Resource> {
    apiserver_builtin::resources()
}

impl TestServer {
    pub(crate) async fn start() -> TestServer {
        TestServer::start_with(resources(), HubLimits::default()).await
    }

    pub(crate) async fn start_with(resources: Vec<Resource>, limits: HubLimits) -> TestServer {
        let directory = TempDir::new().unwrap();
        let server = TestServer::run(directory, resources, limits).await;
        server.client.create("/api/v1/namespaces", &json!({"metadata": {"name": "default"}})).await.created();
        server
    }

    async fn run(directory: TempDir, resources: Vec<Resource>, limits: HubLimits) -> TestServer {
        let (address, api, stop, served) = serve(directory.path(), resources, limits).await;
        TestServer { directory, client: Client::new(address), api, stop: Some(stop), served }
    }

    /// Stops the server in order, and starts another on the same data and another port.
    pub(crate) async fn restart(self) -> TestServer {
        let TestServer { directory, client, api, stop, served } = self;
        drop((client, api));
        stop.unwrap().send(()).unwrap();
        tokio::time::timeout(STUCK, served).await.expect("the server ends").unwrap().unwrap();
        TestServer::run(directory, resources(), HubLimits::default()).await
    }
}

async fn serve(
    directory: &Path,
    resources: Vec<Resource>,
    limits: HubLimits,
) -> (SocketAddr, apiserver::api::Api, oneshot::Sender<()>, JoinHandle<Result<(), TaskEnded>>) {
    let file = directory.join("store.redb");
    let store = tokio::task::spawn_blocking(move || {
        apistore::Redb::open(file, apistore::Options::default()).unwrap()
    })
    .await
    .unwrap();
    let server = Server::builder(store)
        .resources(resources)
        .admission(apiserver::admission::NamespaceLifecycle)
        .authorizer(apiserver::authz::AlwaysAllow)
        .watch_limits(limits)
        .build()
        .await
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let api = server.api().clone();
    let (stop, stopped) = oneshot::channel();
    let served = tokio::spawn(server.serve(listener, async {
        let _ = stopped.await;
    }));
    (address, api, stop, served)
}

/// A client of one server.
#[derive(Clone)]
pub(crate) struct Client {
    http: HttpClient<HttpConnector, Full<Bytes>>,
    address: SocketAddr,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) code: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: Bytes,
}

impl Client {
    pub(crate) fn new(address: SocketAddr) -> Client {
        Client { http: HttpClient::builder(TokioExecutor::new()).build_http(), address }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> http::Response<Incoming> {
        let mut request = Request::builder().method(method).uri(format!("http://{}{path}", self.address));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(Bytes::from(body))).unwrap();
        tokio::time::timeout(STUCK, self.http.request(request)).await.expect("an answer").unwrap()
    }

    pub(crate) async fn request(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> Reply {
        let response = self.send(method, path, headers, body).await;
        let (parts, body) = response.into_parts();
        let text = tokio::time::timeout(STUCK, body.collect()).await.expect("a body").unwrap().to_bytes();
        Reply { code: parts.status, headers: parts.headers, text }
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.request(Method::GET, path, &[], Vec::new()).await
    }

    pub(crate) async fn create(&self, path: &str, object: &Value) -> Reply {
        self.request(Method::POST, path, &[("content-type", "application/json")], object.to_string().into())
            .await
    }

    pub(crate) async fn update(&self, path: &str, object: &Value) -> Reply {
        self.request(Method::PUT, path, &[("content-type", "application/json")], object.to_string().into())
            .await
    }

    pub(crate) async fn delete(&self, path: &str) -> Reply {
        self.request(Method::DELETE, path, &[], Vec::new()).await
    }

    pub(crate) async fn watch(&self, path: &str) -> Events {
        let response = self.send(Method::GET, path, &[], Vec::new()).await;
        assert_eq!(response.status(), StatusCode::OK, "{path}");
        Events::of(response)
    }
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.text)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&self.text)))
    }

    #[track_caller]
    pub(crate) fn ok(&self) -> Value {
        assert_eq!(self.code, StatusCode::OK, "{}", String::from_utf8_lossy(&self.text));
        self.json()
    }

    #[track_caller]
    pub(crate) fn created(&self) -> Value {
        assert_eq!(self.code, StatusCode::CREATED, "{}", String::from_utf8_lossy(&self.text));
        self.json()
    }

    /// The code, the reason and the message of a Status.
    #[track_caller]
    pub(crate) fn refused(&self) -> (u16, String, String) {
        let status = self.json();
        assert_eq!(status["kind"], "Status", "{status}");
        let text = |name: &str| status[name].as_str().unwrap_or_default().to_owned();
        assert_eq!(u64::from(self.code.as_u16()), status["code"], "the code is said twice");
        (self.code.as_u16(), text("reason"), text("message"))
    }
}

/// The events of a watch.
pub(crate) struct Events {
    body: Incoming,
    read: Vec<u8>,
}

impl Events {
    pub(crate) fn of(response: http::Response<Incoming>) -> Events {
        Events { body: response.into_body(), read: Vec::new() }
    }

    /// The next event; absent when the watch is over.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.read.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            let frame = tokio::time::timeout(STUCK, self.body.frame()).await.expect("an event or the end");
            match frame {
                Some(Ok(frame)) => self.read.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data)),
                Some(Err(_)) | None => return None,
            }
        }
    }

    /// The kind, name and resourceVersion of the next event.
    pub(crate) async fn expect(&mut self) -> (String, String, u64) {
        let event = self.next().await.expect("an event");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let metadata = &event["object"]["metadata"];
        (text(&event["type"]), text(&metadata["name"]), revision(&event["object"]))
    }
}

/// The resourceVersion of an object or list.
#[track_caller]
pub(crate) fn revision(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap_or_else(|| panic!("{object}")).parse().unwrap()
}

/// A ConfigMap.
pub(crate) fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": "v"}})
}

pub(crate) const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
