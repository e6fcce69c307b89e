//! Connections: TLS with the server's own certificate, and the front proxy's if the peer shows it.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use portolan_trace::Worlds;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::server::WebPkiClientVerifier;
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, ServerConfig};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::ServiceReference;
use crate::certificate::{Authority, CertificateError, RENEWAL};
use crate::front_proxy::FrontProxy;
use crate::handler::Handler;
use crate::identity::PeerName;

/// How many connections there may be at once.
const CONNECTIONS: usize = 64;
/// How long a handshake, and the head of a request, may take.
const HEAD_DEADLINE: Duration = Duration::from_secs(10);
/// How long one connection may last. kube-apiserver opens another.
const CONNECTION_DEADLINE: Duration = Duration::from_secs(600);
/// After a failure to accept, which is usually a lack of descriptors.
const PAUSE: Duration = Duration::from_millis(200);

/// Accepts connections until it is dropped.
pub(crate) async fn serve<W: Worlds + Send + 'static>(
    listener: TcpListener,
    service: &ServiceReference,
    authority: Authority,
    front_proxy: watch::Receiver<Option<Arc<FrontProxy>>>,
    handler: Arc<Handler<W>>,
) -> Result<(), CertificateError> {
    let mut identity = authority.sign(service)?;
    let mut renewal = tokio::time::interval(RENEWAL);
    renewal.tick().await;
    let slots = Arc::new(Semaphore::new(CONNECTIONS));
    // All connections end with this function.
    let mut connections = JoinSet::new();
    loop {
        let slot = tokio::select! {
            _ = renewal.tick() => {
                identity = authority.sign(service)?;
                continue;
            }
            Some(_) = connections.join_next() => continue,
            slot = Arc::clone(&slots).acquire_owned() => slot.expect("invariant: the semaphore is never closed"),
        };
        let stream = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            },
            _ = renewal.tick() => {
                identity = authority.sign(service)?;
                continue;
            }
        };
        let front_proxy = front_proxy.borrow().clone();
        let connection =
            Connection { identity: Arc::clone(&identity), front_proxy, handler: Arc::clone(&handler) };
        connections.spawn(async move {
            let served = tokio::time::timeout(CONNECTION_DEADLINE, connection.serve(stream, slot)).await;
            if let Ok(Err(error)) = served {
                tracing::debug!(%error, "a connection failed");
            }
        });
    }
}

struct Connection<W> {
    identity: Arc<CertifiedKey>,
    front_proxy: Option<Arc<FrontProxy>>,
    handler: Arc<Handler<W>>,
}

impl<W: Worlds + Send + 'static> Connection<W> {
    async fn serve(
        self,
        stream: TcpStream,
        _slot: OwnedSemaphorePermit,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let config = tls(&self.identity, self.front_proxy.as_deref())?;
        let accepted = TlsAcceptor::from(Arc::new(config)).accept(stream);
        let stream = tokio::time::timeout(HEAD_DEADLINE, accepted).await??;
        let peer = peer_name(stream.get_ref().1.peer_certificates());
        let (front_proxy, handler) = (self.front_proxy, self.handler);
        let service = service_fn(move |request: Request<Incoming>| {
            let (handler, front_proxy, peer) = (Arc::clone(&handler), front_proxy.clone(), peer.clone());
            async move { Ok::<_, Infallible>(handler.handle(request, front_proxy.as_deref(), &peer).await) }
        });
        hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_DEADLINE)
            .max_buf_size(64 * 1024)
            .serve_connection(TokioIo::new(stream), service)
            .await?;
        Ok(())
    }
}

/// TLS with the front proxy's authorities for peers that show a certificate. One that these did not sign ends the handshake.
fn tls(
    identity: &Arc<CertifiedKey>,
    front_proxy: Option<&FrontProxy>,
) -> Result<ServerConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder =
        ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions()?;
    let mut roots = RootCertStore::empty();
    let authorities = front_proxy.map(|proxy| proxy.authorities.as_bytes()).unwrap_or_default();
    for authority in CertificateDer::pem_slice_iter(authorities).flatten() {
        roots.add(authority)?;
    }
    let builder = if roots.is_empty() {
        builder.with_no_client_auth()
    } else {
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        let verifier = verifier.allow_unauthenticated().build();
        builder
            .with_client_cert_verifier(verifier.map_err(|error| rustls::Error::General(error.to_string()))?)
    };
    let mut config =
        builder.with_cert_resolver(Arc::new(rustls::sign::SingleCertAndKey::from(Arc::clone(identity))));
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// The common name of a peer's certificate, which was verified in the handshake.
fn peer_name(certificates: Option<&[CertificateDer<'_>]>) -> PeerName {
    use x509_parser::prelude::{FromDer as _, X509Certificate};
    let (_, certificate) = X509Certificate::from_der(certificates?.first()?).ok()?;
    let name = certificate.subject().iter_common_name().next()?.as_str().ok()?;
    Some(name.to_owned())
}
