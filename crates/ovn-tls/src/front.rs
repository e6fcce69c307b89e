//! A TLS listener in front of a server's Unix socket, for those whom one authority vouches for.
//!
//! ovsdb-server has one list of authorities for all that it listens at, and what a client may do follows from where it connects. So a port
//! for controllers, which may do everything, cannot be its own: whoever has the certificate of a chassis would get there too.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::net::sockopt;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::certificate::{common_name, roots};
use crate::judge::SERVER_NAME;
use crate::request::Credentials;

/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How many may be under way. Who comes then takes the place of the oldest: it has shown no certificate, and a handshake takes milliseconds.
const HANDSHAKES: usize = 64;
/// How many connections there may be. A controller has a handful.
const CONNECTIONS: usize = 128;
/// How often it is asked whether a silent peer is still there, and how often in vain before its connection ends. A cluster has another leader
/// within seconds, and who waits for the former one cannot go to that.
const KEEPALIVE: Duration = Duration::from_secs(2);
const KEEPALIVES: u32 = 3;
/// How long a peer may leave what was sent unacknowledged: while something is, it is not asked, and the kernel would try for a quarter of an
/// hour.
const UNACKNOWLEDGED: Duration = Duration::from_secs(8);
/// After a failure to accept, which is usually a lack of descriptors.
const PAUSE: Duration = Duration::from_millis(200);

/// Such a listener.
#[derive(Debug)]
pub struct Front {
    listener: TcpListener,
    socket: PathBuf,
    clients: Clients,
}

/// Who may come, of those whom the authority vouches for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clients {
    /// All.
    All,
    /// Servers alone: the members of a cluster among each other.
    Servers,
}

impl Front {
    /// Begins to listen, in front of this socket.
    ///
    /// # Errors
    /// When the address cannot be listened at.
    pub async fn bind(address: SocketAddr, socket: PathBuf, clients: Clients) -> io::Result<Self> {
        Ok(Self { listener: TcpListener::bind(address).await?, socket, clients })
    }

    /// Serves for as long as it is polled, as soon as there are credentials: to those who have a certificate of the same authority.
    pub async fn serve(self, mut credentials: watch::Receiver<Option<Arc<Credentials>>>) -> Infallible {
        let mut tasks = JoinSet::new();
        let mut handshakes: VecDeque<AbortHandle> = VecDeque::new();
        let connections = Arc::new(Semaphore::new(CONNECTIONS));
        let mut acceptor = None;
        loop {
            if credentials.has_changed().unwrap_or(false) || acceptor.is_none() {
                let current = credentials.borrow_and_update().clone();
                match current.map(|current| config(&current)) {
                    Some(Ok(config)) => acceptor = Some(TlsAcceptor::from(Arc::new(config))),
                    Some(Err(error)) => {
                        tracing::error!(error, "a certificate cannot be used to serve others");
                    }
                    None => {}
                }
            }
            let accepted = tokio::select! {
                Ok(()) = credentials.changed() => {
                    credentials.mark_changed();
                    continue;
                }
                Some(_) = tasks.join_next() => continue,
                accepted = self.listener.accept(), if acceptor.is_some() => accepted,
            };
            let (stream, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            let Some(acceptor) = acceptor.clone() else { continue };
            handshakes.retain(|handshake| !handshake.is_finished());
            if handshakes.len() >= HANDSHAKES
                && let Some(oldest) = handshakes.pop_front()
            {
                oldest.abort();
            }
            // A task of its own from the handshake on, so that making room ends none that is past it.
            let (socket, connections) = (self.socket.clone(), Arc::clone(&connections));
            let clients = self.clients;
            let handshake = tasks.spawn(async move {
                let shaken = tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await;
                let stream = match shaken {
                    Ok(Ok(stream)) => stream,
                    Ok(Err(error)) => return tracing::debug!(%peer, %error, "a handshake failed"),
                    Err(_) => return tracing::debug!(%peer, "a handshake took too long"),
                };
                if !clients.has(&stream) {
                    return tracing::warn!(%peer, "refused a connection: the certificate is no server's");
                }
                let Ok(place) = connections.try_acquire_owned() else {
                    return tracing::warn!(%peer, "refused a connection: there are {CONNECTIONS}");
                };
                tokio::spawn(async move {
                    if let Err(error) = forward(stream, &socket).await {
                        tracing::debug!(%peer, %error, "a connection failed");
                    }
                    drop(place);
                });
            });
            handshakes.push_back(handshake);
        }
    }
}

impl Clients {
    fn has(self, stream: &TlsStream<TcpStream>) -> bool {
        match self {
            Clients::All => true,
            Clients::Servers => {
                let shown = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
                shown.and_then(common_name).as_deref() == Some(SERVER_NAME)
            }
        }
    }
}

/// Notices a peer that is gone without a word. A server does not ask whether anybody is there at the other end of its Unix socket.
pub(crate) fn keep_alive(peer: &TcpStream) -> io::Result<()> {
    // Messages are written whole; waiting to fill a segment only delays them.
    peer.set_nodelay(true)?;
    sockopt::set_socket_keepalive(peer, true)?;
    sockopt::set_tcp_keepidle(peer, KEEPALIVE)?;
    sockopt::set_tcp_keepintvl(peer, KEEPALIVE)?;
    sockopt::set_tcp_keepcnt(peer, KEEPALIVES)?;
    sockopt::set_tcp_user_timeout(peer, u32::try_from(UNACKNOWLEDGED.as_millis()).unwrap_or(u32::MAX))?;
    Ok(())
}

async fn forward(mut stream: TlsStream<TcpStream>, socket: &Path) -> io::Result<()> {
    keep_alive(stream.get_ref().0)?;
    let mut server = UnixStream::connect(socket).await?;
    copy_bidirectional(&mut stream, &mut server).await.map(drop)
}

fn config(credentials: &Credentials) -> Result<ServerConfig, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let roots = roots(&credentials.own).ok_or("there is no authority that could have signed a client's")?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
    let verifier = verifier.build().map_err(|error| text(&error))?;
    let chain: Result<Vec<_>, _> =
        CertificateDer::pem_slice_iter(credentials.certificate.as_bytes()).collect();
    let key = PrivateKeyDer::from_pem_slice(credentials.private_key.as_bytes());
    ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| text(&error))?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain.map_err(|error| text(&error))?, key.map_err(|error| text(&error))?)
        .map_err(|error| text(&error))
}

#[cfg(test)]
mod tests;
