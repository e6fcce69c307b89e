#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;
use portolan_authority::{Authority, Leaf, Usages};
use rcgen::KeyPair;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixListener;
use tokio_rustls::TlsConnector;

use super::*;

fn authority() -> Authority {
    let data = Authority::make("ovn-central-authority", None, Timestamp::now()).unwrap();
    Authority::read(&Secret { data: Some(data), ..Secret::default() }).unwrap()
}

/// A certificate that was signed so many days ago and is valid for one, with its key.
fn signed(authority: &Authority, usages: Usages, days_ago: i64) -> (String, String) {
    named(authority, "somebody", usages, days_ago)
}

fn named(authority: &Authority, name: &str, usages: Usages, days_ago: i64) -> (String, String) {
    let leaf = Leaf {
        common_name: name.into(),
        organization: None,
        dns_names: Vec::new(),
        addresses: vec!["127.0.0.1".parse().unwrap()],
        usages,
        life: SignedDuration::from_hours(24),
    };
    let key = KeyPair::generate().unwrap();
    let now = Timestamp::now() - SignedDuration::from_hours(24 * days_ago);
    (authority.sign(&leaf, &key, now).unwrap().pem, key.serialize_pem())
}

fn credentials(authority: &Authority) -> Arc<Credentials> {
    let (certificate, private_key) = signed(authority, Usages::ServerAndClient, 0);
    Arc::new(Credentials { private_key, certificate, own: authority.bundle().to_owned() })
}

/// A front of something that answers every byte with the next one.
struct Stage {
    address: SocketAddr,
    credentials: watch::Sender<Option<Arc<Credentials>>>,
    _tasks: JoinSet<()>,
    _place: tempfile::TempDir,
}

impl Stage {
    async fn new() -> Self {
        Self::of(Clients::All).await
    }

    async fn of(clients: Clients) -> Self {
        let place = tempfile::tempdir().unwrap();
        let socket = place.path().join("socket");
        let server = UnixListener::bind(&socket).unwrap();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            loop {
                let (mut stream, _) = server.accept().await.unwrap();
                tokio::spawn(async move {
                    while let Ok(byte) = stream.read_u8().await {
                        stream.write_u8(byte + 1).await.unwrap();
                    }
                });
            }
        });
        let front = Front::bind("0.0.0.0:0".parse().unwrap(), socket, clients).await.unwrap();
        let port = front.listener.local_addr().unwrap().port();
        let address = SocketAddr::new("127.0.0.1".parse().unwrap(), port);
        let (sender, receiver) = watch::channel(None);
        tasks.spawn(async move { match front.serve(receiver).await {} });
        Self { address, credentials: sender, _tasks: tasks, _place: place }
    }

    /// Whether somebody is served who trusts this authority and shows this certificate.
    async fn serves(&self, trusted: &Authority, shown: Option<&(String, String)>) -> bool {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots(trusted.bundle()).unwrap());
        let config = match shown {
            None => config.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
                config.with_client_auth_cert(chain, key).unwrap()
            }
        };
        let stream = TcpStream::connect(self.address).await.unwrap();
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let Ok(mut stream) = TlsConnector::from(Arc::new(config)).connect(name, stream).await else {
            return false;
        };
        stream.write_u8(1).await.is_ok() && stream.read_u8().await.is_ok_and(|byte| byte == 2)
    }
}

#[tokio::test]
async fn only_who_shows_a_certificate_of_the_same_authority_gets_through() {
    let (own, foreign) = (authority(), authority());
    let stage = Stage::new().await;
    stage.credentials.send_replace(Some(credentials(&own)));
    assert!(stage.serves(&own, Some(&signed(&own, Usages::Client, 0))).await);
    assert!(!stage.serves(&own, None).await, "without one");
    for (who, shown) in [
        ("another authority's of the same name", signed(&foreign, Usages::Client, 0)),
        ("one that has expired", signed(&own, Usages::Client, 3)),
        ("a server's", signed(&own, Usages::Server, 0)),
    ] {
        assert!(!stage.serves(&own, Some(&shown)).await, "{who}");
    }
    assert!(stage.serves(&own, Some(&signed(&own, Usages::ServerAndClient, 0))).await, "and still serves");
}

#[tokio::test]
async fn new_credentials_hold_from_the_next_connection_on() {
    let (former, successor) = (authority(), authority());
    let stage = Stage::new().await;
    let client = signed(&former, Usages::Client, 0);
    stage.credentials.send_replace(Some(credentials(&former)));
    assert!(stage.serves(&former, Some(&client)).await);
    stage.credentials.send_replace(Some(credentials(&successor)));
    assert!(!stage.serves(&former, Some(&client)).await);
    assert!(stage.serves(&successor, Some(&signed(&successor, Usages::Client, 0))).await);
}

#[tokio::test]
async fn those_who_connect_and_say_nothing_keep_nobody_out() {
    let own = authority();
    let stage = Stage::new().await;
    stage.credentials.send_replace(Some(credentials(&own)));
    let mut silent = Vec::new();
    for _ in 0..HANDSHAKES * 3 {
        silent.push(TcpStream::connect(stage.address).await.unwrap());
    }
    assert!(stage.serves(&own, Some(&signed(&own, Usages::Client, 0))).await);
}

#[tokio::test]
async fn servers_among_themselves_let_in_no_controller_of_the_same_authority() {
    let own = authority();
    let stage = Stage::of(Clients::Servers).await;
    stage.credentials.send_replace(Some(credentials(&own)));
    assert!(stage.serves(&own, Some(&named(&own, SERVER_NAME, Usages::ServerAndClient, 0))).await);
    let controller = named(&own, "portolan-controller", Usages::Client, 0);
    assert!(!stage.serves(&own, Some(&controller)).await);
}

/// Whether a byte that is written to this socket is answered by the next one.
async fn answers(socket: &Path) -> bool {
    let mut stream = UnixStream::connect(socket).await.unwrap();
    stream.write_u8(1).await.is_ok() && stream.read_u8().await.is_ok_and(|byte| byte == 2)
}

#[tokio::test]
async fn a_socket_leads_to_a_server_of_the_same_authority_at_its_own_address_and_follows_it() {
    let (own, foreign) = (authority(), authority());
    let [there, impostor] = [Stage::of(Clients::All).await, Stage::of(Clients::All).await];
    there.credentials.send_replace(Some(credentials(&own)));
    impostor.credentials.send_replace(Some(credentials(&foreign)));
    let place = tempfile::tempdir().unwrap();
    let socket = place.path().join("remote");
    std::fs::write(&socket, "left behind").unwrap();
    let (target, targets) = watch::channel(None);
    let (credential, known) = watch::channel(None);
    let remote = crate::Remote::bind(&socket, targets).unwrap();
    let serving = tokio::spawn(async move { match remote.serve(known).await {} });
    target.send_replace(Some(there.address));
    assert!(!answers(&socket).await, "without a certificate");
    credential.send_replace(Some(credentials(&own)));
    assert!(answers(&socket).await);
    target.send_replace(Some(impostor.address));
    assert!(!answers(&socket).await, "another authority's server");
    // The certificate is for 127.0.0.1.
    target.send_replace(Some(SocketAddr::new("127.0.0.2".parse().unwrap(), there.address.port())));
    assert!(!answers(&socket).await, "at an address that is not its own");
    target.send_replace(Some(there.address));
    let mut open = UnixStream::connect(&socket).await.unwrap();
    open.write_u8(1).await.unwrap();
    assert_eq!(open.read_u8().await.unwrap(), 2);
    // The member has moved: what is open would hang.
    target.send_replace(None);
    assert!(open.read_u8().await.is_err());
    serving.abort();
}

#[tokio::test]
async fn a_peer_whose_host_has_died_is_given_up_within_seconds() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let peer = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    keep_alive(&peer).unwrap();
    let silent = sockopt::tcp_keepidle(&peer).unwrap()
        + sockopt::tcp_keepintvl(&peer).unwrap() * sockopt::tcp_keepcnt(&peer).unwrap();
    assert!(sockopt::socket_keepalive(&peer).unwrap() && silent <= Duration::from_secs(10), "{silent:?}");
    // Without this, zero, only silence is noticed.
    assert!((1..=10_000).contains(&sockopt::tcp_user_timeout(&peer).unwrap()));
}
