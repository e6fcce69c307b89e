//! Clients.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use kube::config::{KubeConfigOptions, Kubeconfig};
use portolan_watch::ApiServers;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

#[tokio::test]
async fn a_client_certificate_of_version_1_is_reported_as_such() {
    let file = |name: &str| format!("{}/tests/watch/data/{name}", env!("CARGO_MANIFEST_DIR"));
    let kubeconfig: Kubeconfig = serde_json::from_value(serde_json::json!({
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {
            "client-certificate": file("version-1.crt"), "client-key": file("version-1.key"),
        }}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }))
    .unwrap();
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
    let error = portolan_watch::client(config).err().unwrap().to_string();
    assert!(error.contains("X.509 version 1") && !error.contains("private key"), "{error}");
}

/// A certificate authority.
struct Authority {
    certificate: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "kubernetes");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().der().clone();
        Self { certificate, issuer: Issuer::new(params, key) }
    }

    /// A server that this authority knows by these names.
    async fn server(&self, names: &[&str]) -> Server {
        let key = KeyPair::generate().unwrap();
        let names: Vec<_> = names.iter().copied().map(str::to_owned).collect();
        let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &self.issuer).unwrap();
        let key = PrivatePkcs8KeyDer::from(key.serialize_der());
        let config = ServerConfig::builder_with_provider(aws_lc_rs::default_provider().into());
        let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        let config = config.with_single_cert(vec![certificate.der().clone()], key.into()).unwrap();
        Server::start(config).await
    }
}

/// A server that answers `one` to every request.
struct Server {
    address: SocketAddr,
    /// Of every connection its request, or nothing if it was no connection to a server that the client takes for one.
    got: UnboundedReceiver<Option<String>>,
    _task: JoinSet<()>,
}

impl Server {
    async fn start(config: ServerConfig) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (acceptor, (sender, got)) = (TlsAcceptor::from(Arc::new(config)), unbounded_channel());
        let mut task = JoinSet::new();
        task.spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let Ok(mut stream) = acceptor.accept(stream).await else {
                    let _ = sender.send(None);
                    continue;
                };
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n") {
                    let Ok(byte) = stream.read_u8().await else { break };
                    request.push(byte);
                }
                let _ = sender.send(Some(String::from_utf8(request).unwrap()));
                let _ = stream
                    .write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 3\r\n\r\none")
                    .await;
                let _ = stream.shutdown().await;
            }
        });
        Self { address, got, _task: task }
    }
}

/// Asks any of these, after one that is not there any more.
async fn ask(authority: &Authority, known: &[SocketAddr]) -> Result<String, kube::Error> {
    let gone = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let mut closing = JoinSet::new();
    let mut config = kube::Config::new(format!("https://{}", gone.local_addr().unwrap()).parse().unwrap());
    closing.spawn(async move {
        loop {
            drop(gone.accept().await.unwrap());
        }
    });
    config.root_cert = Some(vec![authority.certificate.to_vec()]);
    config.auth_info.token = Some("secret".to_owned().into());
    let client = ApiServers::followed(config, known).client().unwrap();
    client.request_text(http::Request::get("/version").body(Vec::new()).unwrap()).await
}

#[tokio::test]
async fn a_listed_server_gets_no_request_unless_its_certificate_says_that_it_is_an_api_server_of_this_cluster()
 {
    const NAME: &str = "kubernetes.default.svc";
    let authority = Authority::new();
    // Both authorities have the same name.
    let mut of_another = Authority::new().server(&[NAME, "127.0.0.1"]).await;
    let mut without_the_name = authority.server(&["kubernetes", "127.0.0.1"]).await;
    ask(&authority, &[of_another.address, without_the_name.address]).await.unwrap_err();
    assert_eq!(of_another.got.recv().await, Some(None));
    assert_eq!(without_the_name.got.recv().await, Some(None));
    let mut right = authority.server(&[NAME]).await;
    // In which order they are tried is drawn by lot for each client.
    let mut untried = vec![&mut of_another.got, &mut without_the_name.got];
    let servers = [of_another.address, without_the_name.address, right.address];
    while !untried.is_empty() {
        assert_eq!(ask(&authority, &servers).await.unwrap(), "one");
        let request = right.got.recv().await.unwrap().unwrap();
        assert!(request.starts_with("GET /version ") && request.contains("Bearer secret"), "{request}");
        untried.retain_mut(|got| match got.try_recv() {
            Ok(got) => {
                assert_eq!(got, None);
                false
            }
            Err(_) => true,
        });
    }
}
