//! One HTTPS request, without a runtime: enough to ask a server whether it is ready.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use portolan_lab::pki::{Authority, Identity};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// A client that trusts one authority and shows one certificate.
pub(crate) fn client(authority: &Authority, identity: &Identity) -> io::Result<Arc<ClientConfig>> {
    let certificate = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).map_err(io::Error::other);
    let mut roots = RootCertStore::empty();
    roots.add(certificate(authority.certificate())?).map_err(io::Error::other)?;
    let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).map_err(io::Error::other)?;
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![certificate(&identity.certificate)?], key)
        .map_err(io::Error::other)?;
    Ok(Arc::new(config))
}

/// Gets a path from a server; returns the status and the body.
pub(crate) fn get(
    config: &Arc<ClientConfig>,
    server: SocketAddr,
    path: &str,
    patience: Duration,
) -> io::Result<(u16, String)> {
    let tcp = TcpStream::connect_timeout(&server, patience)?;
    tcp.set_read_timeout(Some(patience))?;
    let tls = ClientConnection::new(Arc::clone(config), server.ip().into()).map_err(io::Error::other)?;
    let mut stream = StreamOwned::new(tls, tcp);
    // HTTP/1.0: the answer is not chunked and ends with the connection.
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {server}\r\nAccept: */*\r\n\r\n")?;
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        // The end of the connection without TLS's own: no matter after a whole answer.
        Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => return Err(error),
        _ => {}
    }
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    status.map(|status| (status, body.to_owned())).ok_or_else(|| io::Error::other("no HTTP answer"))
}
