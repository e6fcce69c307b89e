//! TLS, with client certificates for those who have them.

use std::sync::{Arc, PoisonError, RwLock};

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, ServerConfig};

use crate::pki::Identity;

/// Why there can be no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The server's certificate or key.
    #[error("the server's certificate cannot be used: {0}")]
    Certificate(#[from] rustls::Error),
    /// A certificate or key is not in PEM.
    #[error("a certificate or key cannot be read: {0}")]
    Pem(#[from] rustls::pki_types::pem::Error),
    /// The authority of clients' certificates.
    #[error("the clients' certificate authority cannot be used: {0}")]
    ClientAuthority(#[from] rustls::server::VerifierBuilderError),
}

/// A certificate that a server serves with, and that can be replaced while it does. Connections that are open keep theirs.
#[derive(Debug)]
pub struct ServerCertificate {
    current: RwLock<Arc<CertifiedKey>>,
}

impl ServerCertificate {
    /// Serves with this one.
    ///
    /// # Errors
    /// When the certificate or key cannot be used.
    pub fn new(identity: &Identity) -> Result<ServerCertificate, TlsError> {
        Ok(ServerCertificate { current: RwLock::new(certified(identity)?) })
    }

    /// Serves with this one from now on.
    ///
    /// # Errors
    /// When the certificate or key cannot be used; the former one stays.
    pub fn replace(&self, identity: &Identity) -> Result<(), TlsError> {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = certified(identity)?;
        Ok(())
    }

    /// The certificate now.
    pub fn der(&self) -> CertificateDer<'static> {
        self.key().cert[0].clone()
    }

    fn key(&self) -> Arc<CertifiedKey> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ResolvesServerCert for ServerCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.key())
    }
}

fn certified(identity: &Identity) -> Result<Arc<CertifiedKey>, TlsError> {
    let chain =
        CertificateDer::pem_slice_iter(identity.certificate.as_bytes()).collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes())?;
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    if chain.is_empty() {
        return Err(rustls::Error::NoCertificatesPresented.into());
    }
    Ok(Arc::new(CertifiedKey::from_der(chain, key, &provider)?))
}

/// TLS with this certificate. Clients may show a certificate of `client_authorities`, and are whom it names.
pub fn server_config(
    certificates: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    client_authorities: Vec<CertificateDer<'static>>,
) -> Result<Arc<ServerConfig>, TlsError> {
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    let key = Arc::new(CertifiedKey::from_der(certificates, key, &provider)?);
    let serving = ServerCertificate { current: RwLock::new(key) };
    replaceable_server_config(Arc::new(serving), client_authorities)
}

/// The same with a certificate that may be replaced.
pub fn replaceable_server_config(
    serving: Arc<ServerCertificate>,
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
    let mut config = builder.with_cert_resolver(serving);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
