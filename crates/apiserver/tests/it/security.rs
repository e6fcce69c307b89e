//! Who asks, whether they may, and what hostile clients get.

use std::sync::Arc;

use apiserver::Server;
use apiserver::authn::{StaticTokens, UserInfo};
use apiserver::authz::{Attributes, Authorizer, Decision};
use apiserver::server::{Limits, server_config};
use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt as _};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Empty};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};

use crate::support::{CONFIG_MAPS, TestServer, config_map};

/// Lets everybody do what starts with their name, and answers with who they are.
#[derive(Debug)]
struct NamesOnly;

impl Authorizer for NamesOnly {
    fn authorize<'a>(&'a self, attributes: Attributes<'a>) -> BoxFuture<'a, Decision> {
        let allowed = attributes.user.groups.iter().any(|group| group == "system:masters");
        let decision = if allowed { Decision::Allow } else { Decision::Deny(String::new()) };
        std::future::ready(decision).boxed()
    }
}

struct Pki {
    authority: rcgen::CertifiedIssuer<'static, rcgen::KeyPair>,
}

impl Pki {
    fn new() -> Pki {
        let mut parameters = rcgen::CertificateParams::default();
        parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let authority =
            rcgen::CertifiedIssuer::self_signed(parameters, rcgen::KeyPair::generate().unwrap()).unwrap();
        Pki { authority }
    }

    fn authority(&self) -> CertificateDer<'static> {
        self.authority.der().clone()
    }

    fn issue(&self, name: &str, group: &str) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        let mut parameters = rcgen::CertificateParams::new(vec!["localhost".into()]).unwrap();
        parameters.distinguished_name.push(rcgen::DnType::CommonName, name);
        parameters.distinguished_name.push(rcgen::DnType::OrganizationName, group);
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = parameters.signed_by(&key, &self.authority).unwrap();
        let key = PrivatePkcs8KeyDer::from(key.serialize_der()).into();
        (vec![certificate.der().clone()], key)
    }
}

async fn get(
    address: std::net::SocketAddr,
    config: rustls::ClientConfig,
    path: &str,
    token: Option<&str>,
) -> (StatusCode, http::Version, Value) {
    let stream = TcpStream::connect(address).await.unwrap();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let stream = connector.connect(ServerName::try_from("localhost").unwrap(), stream).await.unwrap();
    let h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let mut request = Request::builder().method(Method::GET).uri(format!("https://localhost{path}"));
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let request = request.header("host", "localhost").body(Empty::<Bytes>::new()).unwrap();
    let response = if h2 {
        let (mut sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        sender.send_request(request).await.unwrap()
    } else {
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        sender.send_request(request).await.unwrap()
    };
    let (parts, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    (parts.status, parts.version, serde_json::from_slice(&body).unwrap_or_default())
}

#[tokio::test]
async fn certificates_and_tokens_are_authorized_over_tls() {
    let pki = Pki::new();
    let (certificates, key) = pki.issue("apiserver", "servers");
    let tls = server_config(certificates, key, vec![pki.authority()]).unwrap();
    let directory = TempDir::new().unwrap();
    let store =
        apistore::Redb::open(directory.path().join("store.redb"), apistore::Options::default()).unwrap();
    let root = UserInfo::new("root", ["system:masters".into()]);
    let server = Server::builder(store)
        .resources(apiserver_builtin::resources())
        .authenticator(StaticTokens::new([("secret".into(), root)]))
        .authorizer(NamesOnly)
        .tls(tls)
        .build()
        .await
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let served = tokio::spawn(server.serve(listener, std::future::pending()));

    let client = |identity: Option<(&str, &str)>, alpn: &[&[u8]]| {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(pki.authority()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match identity {
            None => builder.with_no_client_auth(),
            Some((name, group)) => {
                let (certificates, key) = pki.issue(name, group);
                builder.with_client_auth_cert(certificates, key).unwrap()
            }
        };
        config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
        config
    };
    let path = "/api/v1/namespaces";
    let admin = Some(("admin", "system:masters"));
    let (code, version, _) = get(address, client(admin, &[b"h2"]), path, None).await;
    assert_eq!((code, version), (StatusCode::OK, http::Version::HTTP_2));
    let (code, version, _) = get(address, client(admin, &[b"http/1.1"]), path, None).await;
    assert_eq!((code, version), (StatusCode::OK, http::Version::HTTP_11));
    assert_eq!(get(address, client(None, &[]), path, Some("secret")).await.0, StatusCode::OK);
    assert_eq!(get(address, client(None, &[]), path, Some("wrong")).await.0, StatusCode::UNAUTHORIZED);

    let (code, _, status) = get(address, client(Some(("jane", "users")), &[b"h2"]), path, None).await;
    assert_eq!(code, StatusCode::FORBIDDEN);
    assert_eq!(
        status["message"],
        "namespaces is forbidden: User \"jane\" cannot list resource \"namespaces\" in API group \"\" at the cluster scope"
    );
    let (code, _, status) = get(address, client(None, &[]), "/metrics", None).await;
    assert_eq!(code, StatusCode::FORBIDDEN);
    assert_eq!(status["message"], "forbidden: User \"system:anonymous\" cannot get path \"/metrics\"");
    served.abort();
}

#[tokio::test]
async fn malformed_requests_get_4xx_and_affect_nobody_else() {
    let server = TestServer::start().await;
    let client = &server.client;
    client.create(CONFIG_MAPS, &config_map("a")).await.created();
    let mut random = fastrand::Rng::with_seed(7);
    let parts = [
        "api",
        "apis",
        "v1",
        "namespaces",
        "default",
        "configmaps",
        "a",
        "watch",
        "status",
        "%2f",
        "%00",
        "..",
        "",
        "example.com",
        "%F0%9F%98%80",
        "proxy",
        "scale",
    ];
    let queries = [
        "",
        "watch=true&resourceVersion=x",
        "limit=x",
        "limit=-1",
        "continue=%FF",
        "continue=e30",
        "labelSelector=%28%28",
        "fieldSelector==",
        "timeoutSeconds=x",
        "dryRun=x",
        "resourceVersionMatch=x",
        "%",
        "sendInitialEvents=true",
        "watch=true&sendInitialEvents=true",
        "fieldManager=%07",
        "propagationPolicy=x",
        "gracePeriodSeconds=x",
    ];
    let bodies = [
        "",
        "{",
        "[]",
        "null",
        "1",
        "\"\"",
        "{\"metadata\":1}",
        "{\"metadata\":{\"name\":[]}}",
        "{\"kind\":7}",
        "\u{0}",
        "[{\"op\":\"remove\",\"path\":\"\"}]",
        "{\"metadata\":{\"name\":\"../x\"}}",
        "a: &a [*a]",
        "{\"kind\":\"Pod\"}",
    ];
    let types = [
        "application/json",
        "application/yaml",
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/strategic-merge-patch+json",
        "application/apply-patch+yaml",
        "text/html",
        "",
    ];
    let methods = [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::OPTIONS];
    for _ in 0..2000 {
        let path: String =
            (0..random.usize(1..7)).map(|_| format!("/{}", parts[random.usize(..parts.len())])).collect();
        let uri = format!("{path}?{}", queries[random.usize(..queries.len())]);
        let method = methods[random.usize(..methods.len())].clone();
        let headers = [("content-type", types[random.usize(..types.len())]), ("accept", "application/json")];
        let body = bodies[random.usize(..bodies.len())].as_bytes().to_vec();
        // A watch that begins may go on; its head is answer enough.
        let response = client.send(method.clone(), &uri, &headers, body).await;
        assert!(response.status().as_u16() < 500, "{method} {uri}: {}", response.status());
    }
    let listed = client.get("/api/v1/namespaces").await.ok();
    assert_eq!(listed["kind"], "NamespaceList");
}

#[tokio::test]
async fn too_many_requests_at_once_are_answered_with_429() {
    let directory = TempDir::new().unwrap();
    let store =
        apistore::Redb::open(directory.path().join("store.redb"), apistore::Options::default()).unwrap();
    let limits = Limits { mutating: 0, ..Limits::default() };
    let server = Server::builder(store)
        .resources(apiserver_builtin::resources())
        .authorizer(apiserver::authz::AlwaysAllow)
        .limits(limits)
        .build()
        .await
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = crate::support::Client::new(listener.local_addr().unwrap());
    let served = tokio::spawn(server.serve(listener, std::future::pending()));
    let reply = client.create("/api/v1/namespaces", &json!({"metadata": {"name": "a"}})).await;
    assert_eq!(reply.refused().0, 429);
    assert_eq!(reply.headers["retry-after"], "1");
    client.get("/api/v1/namespaces").await.ok();
    served.abort();
}
