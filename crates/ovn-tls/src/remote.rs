//! A Unix socket that leads to a server elsewhere by TLS: what is behind a [`Front`](crate::Front) there can be reached as if it were here.
//!
//! Programs of Open vSwitch know one list of authorities, and members of a cluster know each other by addresses that must never change. So
//! they speak with sockets of their own host, and where these lead to may change.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpStream, UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

use crate::certificate::roots;
use crate::front::keep_alive;
use crate::request::Credentials;

/// How long it may take until a connection is there.
const PATIENCE: Duration = Duration::from_secs(5);
/// How many connections there may be. Who has the socket is root of this host.
const CONNECTIONS: usize = 128;
/// After a failure to accept, which is usually a lack of descriptors.
const PAUSE: Duration = Duration::from_millis(200);

/// Such a socket.
#[derive(Debug)]
pub struct Remote {
    listener: UnixListener,
    target: watch::Receiver<Option<SocketAddr>>,
}

/// What a connection needs.
#[derive(Clone)]
struct Way {
    target: watch::Receiver<Option<SocketAddr>>,
    credentials: Option<Arc<Credentials>>,
}

impl Remote {
    /// Begins to listen at this socket, for who wants to reach the target, wherever that is at the time.
    ///
    /// # Errors
    /// When the socket cannot be made.
    pub fn bind(socket: &Path, target: watch::Receiver<Option<SocketAddr>>) -> io::Result<Self> {
        // One that an earlier process has left.
        match std::fs::remove_file(socket) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        Ok(Self { listener: UnixListener::bind(socket)?, target })
    }

    /// Serves for as long as it is polled. Who connects while there is no way is sent away, and tries again.
    pub async fn serve(self, credentials: watch::Receiver<Option<Arc<Credentials>>>) -> Infallible {
        let mut connections = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                Some(_) = connections.join_next() => continue,
                accepted = self.listener.accept(), if connections.len() < CONNECTIONS => accepted,
            };
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            let way = Way { target: self.target.clone(), credentials: credentials.borrow().clone() };
            connections.spawn(async move {
                if let Err(error) = way.forward(stream).await {
                    tracing::debug!(%error, "a connection to a member elsewhere failed");
                }
            });
        }
    }
}

impl Way {
    async fn forward(mut self, mut local: UnixStream) -> io::Result<()> {
        let (Some(target), Some(credentials)) = (*self.target.borrow_and_update(), self.credentials.take())
        else {
            return Err(io::Error::new(
                io::ErrorKind::NotConnected,
                "its address, or a certificate, is not known yet",
            ));
        };
        let connected = tokio::time::timeout(PATIENCE, connect(target, &credentials)).await;
        let mut remote = connected.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        keep_alive(remote.get_ref().0)?;
        tokio::select! {
            ended = copy_bidirectional(&mut local, &mut remote) => ended.map(drop),
            // What was there is gone, and might not say so.
            Ok(_) = self.target.wait_for(|now| *now != Some(target)) => Ok(()),
        }
    }
}

async fn connect(
    target: SocketAddr,
    credentials: &Credentials,
) -> io::Result<tokio_rustls::client::TlsStream<TcpStream>> {
    let invalid = |error: String| io::Error::new(io::ErrorKind::InvalidData, error);
    let config = config(credentials).map_err(invalid)?;
    let stream = TcpStream::connect(target).await?;
    // It must be the server of that address.
    let name = ServerName::IpAddress(target.ip().into());
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

fn config(credentials: &Credentials) -> Result<ClientConfig, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let roots = roots(&credentials.own).ok_or("there is no authority that could have signed a server's")?;
    let chain: Result<Vec<_>, _> =
        CertificateDer::pem_slice_iter(credentials.certificate.as_bytes()).collect();
    let key = PrivateKeyDer::from_pem_slice(credentials.private_key.as_bytes());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| text(&error))?
        .with_root_certificates(roots)
        .with_client_auth_cert(chain.map_err(|error| text(&error))?, key.map_err(|error| text(&error))?)
        .map_err(|error| text(&error))
}
