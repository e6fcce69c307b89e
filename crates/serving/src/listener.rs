//! Connections: TLS with a certificate of the authority, HTTP/1.1, and bounds on everything a peer can make us hold.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use jiff::Timestamp;
use portolan_authority::{Authority, LOOK};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::server::WebPkiClientVerifier;
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, Id, JoinSet};
use tokio_rustls::TlsAcceptor;

use crate::ServiceReference;
use crate::identity::Identity;
use crate::slots::{Room, Slots};

/// How many connections there may be at once.
const CONNECTIONS: usize = 128;
/// How long a handshake, and the head of a request, may take.
const HEAD_DEADLINE: Duration = Duration::from_secs(10);
/// How long one connection takes requests. The API server opens another.
const CONNECTION_DEADLINE: Duration = Duration::from_secs(600);
/// How long the request that is under way then may take. The API server waits no longer for any.
const LAST_REQUEST_DEADLINE: Duration = Duration::from_secs(60);
/// After a failure to accept, which is usually a lack of descriptors.
const PAUSE: Duration = Duration::from_millis(200);

/// What is served.
pub trait Service: Send + Sync + 'static {
    /// What holds for one connection, from its beginning on.
    type Session: Send + Sync + 'static;

    /// A connection begins.
    fn begin(&self) -> Self::Session;

    /// The authorities whose certificates peers may show, in PEM. Empty: none is asked for. A peer may always show none; one that
    /// shows a certificate of another authority does not get through the handshake.
    fn client_authorities<'a>(&self, session: &'a Self::Session) -> &'a str;

    /// Answers a request. The connection ends after an answer with `Connection: close`.
    fn answer(
        &self,
        session: &Self::Session,
        peer: &Peer,
        request: Request<Incoming>,
    ) -> impl Future<Output = Response<Full<Bytes>>> + Send;
}

/// The other end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Where it is.
    pub address: IpAddr,
    /// The common name of its certificate, which one of the client authorities signed.
    pub certified_name: Option<String>,
}

/// A socket that listens.
#[derive(Debug)]
pub(crate) struct Listener(TcpListener);

impl Listener {
    /// Begins to listen. Connections wait until [`Listener::serve`].
    ///
    /// # Errors
    /// When the address cannot be listened at.
    pub(crate) async fn bind(address: SocketAddr) -> std::io::Result<Self> {
        TcpListener::bind(address).await.map(Self)
    }

    /// Where it listens.
    ///
    /// # Errors
    /// When the system does not say.
    pub(crate) fn address(&self) -> std::io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// Serves for as long as the future is polled, as soon as there is an authority; all connections end with it.
    pub(crate) async fn serve<S: Service>(
        self,
        reached_by: &ServiceReference,
        mut authority: watch::Receiver<Option<Arc<Authority>>>,
        service: Arc<S>,
    ) -> Infallible {
        let mut identity: Option<Identity> = None;
        let mut sign_at = Timestamp::MIN;
        let mut connections = Connections::new();
        loop {
            let now = Timestamp::now();
            let has_changed = authority.has_changed().unwrap_or(false);
            if has_changed || sign_at <= now {
                let current = authority.borrow_and_update().clone();
                match current.map(|authority| Identity::sign(&authority, reached_by, now)) {
                    Some(Ok(signed)) => {
                        sign_at = signed.replace_at;
                        identity = Some(signed);
                    }
                    // Not for every connection again.
                    Some(Err(error)) => {
                        sign_at = now + LOOK;
                        tracing::error!(%error, "the server keeps its former certificate, if it has one");
                    }
                    None => {}
                }
            }
            let accepted = tokio::select! {
                Ok(()) = authority.changed() => {
                    authority.mark_changed();
                    continue;
                }
                () = tokio::time::sleep(LOOK) => continue,
                () = connections.ended() => continue,
                accepted = self.0.accept(), if identity.is_some() => accepted,
            };
            match (accepted, &identity) {
                (Ok((stream, from)), Some(identity)) => {
                    let connection =
                        Connection { certificate: Arc::clone(&identity.key), service: Arc::clone(&service) };
                    connections.admit(connection, stream, from.ip().to_canonical());
                }
                (Ok(_), None) => {}
                (Err(error), _) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }
}

/// The connections that are open.
struct Connections {
    slots: Slots<Id>,
    handles: HashMap<Id, AbortHandle>,
    tasks: JoinSet<()>,
    /// Those whose peer has shown a certificate.
    certified: (mpsc::UnboundedSender<Id>, mpsc::UnboundedReceiver<Id>),
}

impl Connections {
    fn new() -> Self {
        Self {
            slots: Slots::new(CONNECTIONS),
            handles: HashMap::new(),
            tasks: JoinSet::new(),
            certified: mpsc::unbounded_channel(),
        }
    }

    /// Serves a connection if there is room for it; else it is closed.
    fn admit<S: Service>(&mut self, connection: Connection<S>, stream: TcpStream, peer: IpAddr) {
        while let Ok(connection) = self.certified.1.try_recv() {
            self.slots.certify(connection);
        }
        match self.slots.room_for(peer) {
            Room::Free => {}
            Room::InPlaceOf(other) => {
                tracing::debug!(%peer, "ends the connection that makes room for another: there are {CONNECTIONS}");
                self.forget(other);
            }
            Room::No => {
                tracing::debug!(%peer, "refuses a connection: there are {CONNECTIONS}");
                return;
            }
        }
        let certified = self.certified.0.clone();
        let handle = self.tasks.spawn(async move {
            let tell = move || {
                // Unless the server ends.
                let _ = certified.send(tokio::task::id());
            };
            if let Err(error) = connection.serve(stream, peer, tell).await {
                tracing::debug!(%peer, %error, "a connection failed");
            }
        });
        self.slots.insert(peer, handle.id());
        self.handles.insert(handle.id(), handle);
    }

    /// Waits for the end of a connection.
    async fn ended(&mut self) {
        match self.tasks.join_next_with_id().await {
            Some(Ok((id, ()))) => self.forget(id),
            Some(Err(error)) => self.forget(error.id()),
            None => std::future::pending().await,
        }
    }

    fn forget(&mut self, connection: Id) {
        self.slots.remove(connection);
        if let Some(handle) = self.handles.remove(&connection) {
            handle.abort();
        }
    }
}

struct Connection<S> {
    certificate: Arc<CertifiedKey>,
    service: Arc<S>,
}

impl<S: Service> Connection<S> {
    /// `certified` is called once the peer has shown a certificate.
    async fn serve(
        self,
        stream: impl AsyncRead + AsyncWrite + Unpin,
        address: IpAddr,
        certified: impl FnOnce(),
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let session = Arc::new(self.service.begin());
        let config = tls(&self.certificate, self.service.client_authorities(&session))?;
        let accepted = TlsAcceptor::from(Arc::new(config)).accept(stream);
        let stream = tokio::time::timeout(HEAD_DEADLINE, accepted).await??;
        let certified_name = common_name(stream.get_ref().1.peer_certificates());
        if certified_name.is_some() {
            certified();
        }
        let (service, peer) = (self.service, Arc::new(Peer { address, certified_name }));
        let answer = service_fn(move |request: Request<Incoming>| {
            let (service, session, peer) = (Arc::clone(&service), Arc::clone(&session), Arc::clone(&peer));
            async move { Ok::<_, Infallible>(service.answer(&session, &peer, request).await) }
        });
        let connection = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_DEADLINE)
            .max_buf_size(64 * 1024)
            .serve_connection(TokioIo::new(stream), answer);
        let mut connection = pin!(connection);
        if let Ok(served) = tokio::time::timeout(CONNECTION_DEADLINE, connection.as_mut()).await {
            return Ok(served?);
        }
        connection.as_mut().graceful_shutdown();
        tokio::time::timeout(LAST_REQUEST_DEADLINE, connection).await??;
        Ok(())
    }
}

/// TLS with these authorities for peers that show a certificate. An authority that cannot be read is none.
fn tls(certificate: &Arc<CertifiedKey>, client_authorities: &str) -> Result<ServerConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder =
        ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions()?;
    let mut roots = RootCertStore::empty();
    let authorities = CertificateDer::pem_slice_iter(client_authorities.as_bytes()).flatten();
    roots.add_parsable_certificates(authorities);
    let builder = if roots.is_empty() {
        builder.with_no_client_auth()
    } else {
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        let verifier = verifier.allow_unauthenticated().build();
        builder
            .with_client_cert_verifier(verifier.map_err(|error| rustls::Error::General(error.to_string()))?)
    };
    let mut config =
        builder.with_cert_resolver(Arc::new(rustls::sign::SingleCertAndKey::from(Arc::clone(certificate))));
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// The common name of a certificate that was verified in the handshake.
fn common_name(certificates: Option<&[CertificateDer<'_>]>) -> Option<String> {
    use x509_parser::prelude::{FromDer as _, X509Certificate};
    let (_, certificate) = X509Certificate::from_der(certificates?.first()?).ok()?;
    let name = certificate.subject().iter_common_name().next()?.as_str().ok()?;
    Some(name.to_owned())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Secret;
    use rustls::ClientConfig;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
    use tokio::sync::Notify;
    use tokio::task::JoinHandle;
    use tokio_rustls::TlsConnector;
    use tokio_rustls::client::TlsStream;

    use super::*;

    /// A service that answers when it is told to.
    #[derive(Default)]
    struct Slow {
        asked: Notify,
        told: Notify,
    }

    impl Service for Slow {
        type Session = ();

        fn begin(&self) {}

        fn client_authorities<'a>(&self, (): &'a ()) -> &'a str {
            ""
        }

        async fn answer(&self, (): &(), _: &Peer, _: Request<Incoming>) -> Response<Full<Bytes>> {
            self.asked.notify_one();
            self.told.notified().await;
            Response::new(Full::from("the answer"))
        }
    }

    type Served = JoinHandle<Result<(), Box<dyn std::error::Error + Send + Sync>>>;

    /// A connection on which a request has been sent, and the server's end of it.
    async fn ask(service: &Arc<Slow>) -> (TlsStream<DuplexStream>, Served) {
        let data = Authority::make("ca", None, Timestamp::now()).unwrap();
        let authority = Authority::read(&Secret { data: Some(data), ..Secret::default() }).unwrap();
        let reference = ServiceReference { namespace: "system".into(), name: "slow".into() };
        let identity = Identity::sign(&authority, &reference, Timestamp::now()).unwrap();
        let (client, server) = tokio::io::duplex(1 << 16);
        let connection = Connection { certificate: identity.key, service: Arc::clone(service) };
        let served = tokio::spawn(connection.serve(server, [127, 0, 0, 1].into(), || {}));
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(
            CertificateDer::pem_slice_iter(authority.bundle().as_bytes()).map(Result::unwrap),
        );
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = "slow.system.svc".try_into().unwrap();
        let mut stream = TlsConnector::from(Arc::new(config)).connect(name, client).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nHost: slow\r\n\r\n").await.unwrap();
        service.asked.notified().await;
        (stream, served)
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_is_under_way_when_its_connection_is_to_end_is_answered() {
        let service = Arc::new(Slow::default());
        let (mut stream, served) = ask(&service).await;
        tokio::time::sleep(CONNECTION_DEADLINE + Duration::from_secs(1)).await;
        service.told.notify_one();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.ends_with("the answer"), "{answer}");
        assert!(answer.contains("connection: close"), "{answer}");
        served.await.unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_never_ends_does_not_keep_its_connection() {
        let service = Arc::new(Slow::default());
        let (_stream, served) = ask(&service).await;
        let served = tokio::time::timeout(CONNECTION_DEADLINE * 2, served).await;
        assert!(served.expect("it ends").unwrap().is_err());
    }
}
