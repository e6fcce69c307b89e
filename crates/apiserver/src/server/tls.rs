//! TLS, with client certificates for those who have them.

use std::sync::Arc;

use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

/// Why there can be no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The server's certificate or key.
    #[error("the server's certificate cannot be used: {0}")]
    Certificate(#[from] rustls::Error),
    /// The authority of clients' certificates.
    #[error("the clients' certificate authority cannot be used: {0}")]
    ClientAuthority(#[from] rustls::server::VerifierBuilderError),
}

/// TLS with this certificate. Clients may show a certificate of `client_authorities`, and are whom it names.
pub fn server_config(
    certificates: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    client_authorities: Vec<CertificateDer<'static>>,
) -> Result<Arc<ServerConfig>, TlsError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder =
        ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
    let builder = if client_authorities.is_empty() {
        builder.with_no_client_auth()
    } else {
        let mut roots = RootCertStore::empty();
        for authority in client_authorities {
            roots.add(authority)?;
        }
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
            .allow_unauthenticated()
            .build()?;
        builder.with_client_cert_verifier(verifier)
    };
    let mut config = builder.with_single_cert(certificates, key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
