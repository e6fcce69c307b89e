//! Byte streams to servers.

use std::future::Future;
use std::io;
use std::pin::Pin;

use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

use crate::endpoint::Endpoint;
use crate::error::ConnectionError;
use crate::tls::TlsFiles;

/// A stream in both directions.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A connection attempt under way.
pub type Connecting = Pin<Box<dyn Future<Output = Result<Box<dyn Stream>, ConnectionError>> + Send>>;

/// Opens streams. The default dials sockets; tests put networks of their own in its place.
pub trait Connector: Send + Sync + 'static {
    /// Starts a connection to `endpoint`.
    fn connect(&self, endpoint: &Endpoint) -> Connecting;
}

/// Dials Unix and TCP sockets, with TLS where the endpoint says so.
#[derive(Debug, Default)]
pub struct Sockets {
    /// The certificates for `ssl:` endpoints.
    pub tls: Option<TlsFiles>,
}

impl Connector for Sockets {
    fn connect(&self, endpoint: &Endpoint) -> Connecting {
        let endpoint = endpoint.clone();
        let tls = self.tls.clone();
        Box::pin(async move {
            let stream: Box<dyn Stream> = match endpoint {
                Endpoint::Unix(path) => {
                    Box::new(UnixStream::connect(path).await.map_err(ConnectionError::Connect)?)
                }
                Endpoint::Tcp { host, port } => Box::new(dial(&host, port).await?),
                Endpoint::Ssl { host, port } => {
                    let config = tls.ok_or(ConnectionError::NoCredentials)?.load()?;
                    let name = ServerName::try_from(host.clone()).map_err(|e| {
                        ConnectionError::Connect(io::Error::new(io::ErrorKind::InvalidInput, e))
                    })?;
                    let tcp = dial(&host, port).await?;
                    let connector = TlsConnector::from(config);
                    Box::new(connector.connect(name, tcp).await.map_err(ConnectionError::Connect)?)
                }
            };
            Ok(stream)
        })
    }
}

async fn dial(host: &str, port: u16) -> Result<TcpStream, ConnectionError> {
    let stream = TcpStream::connect((host, port)).await.map_err(ConnectionError::Connect)?;
    // Requests are written whole; waiting to fill a segment only delays them.
    stream.set_nodelay(true).map_err(ConnectionError::Connect)?;
    Ok(stream)
}
