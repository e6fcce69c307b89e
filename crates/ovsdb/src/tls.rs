//! TLS as Open vSwitch uses it: both sides show certificates of one private authority.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use crate::error::ConnectionError;

/// The files that an `ssl:` endpoint needs. They are read anew for each connection, so that a rotation takes effect
/// with the next one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificates of the authorities that may have signed the server's, and no others.
    pub ca: PathBuf,
    /// This client's certificate, with its chain.
    pub certificate: PathBuf,
    /// The certificate's private key.
    pub private_key: PathBuf,
    /// Whether the server's certificate has to name the host that was dialled.
    pub names: ServerNames,
}

/// How much a server's certificate has to say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServerNames {
    /// A signature of the authority is enough, as for Open vSwitch's own clients: the authority is private to the
    /// database cluster, and its certificates usually name roles instead of hosts.
    #[default]
    Any,
    /// The certificate also has to be for the endpoint's host.
    Verify,
}

impl TlsFiles {
    /// The client's side of a handshake with these files as they are now.
    pub(crate) fn load(&self) -> Result<Arc<ClientConfig>, ConnectionError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let mut roots = RootCertStore::empty();
        for authority in certificates(&self.ca)? {
            roots.add(authority).map_err(|e| unusable(&self.ca, &e))?;
        }
        let webpki = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
            .build()
            .map_err(|e| unusable(&self.ca, &e))?;
        let verifier = Arc::new(ChainVerifier { webpki, names: self.names });
        let key =
            PrivateKeyDer::from_pem_file(&self.private_key).map_err(|e| unusable(&self.private_key, &e))?;
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|e| unusable(&self.certificate, &e))?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_client_auth_cert(certificates(&self.certificate)?, key)
            .map_err(|e| unusable(&self.certificate, &e))?;
        Ok(Arc::new(config))
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, ConnectionError> {
    let list: Vec<_> = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<_, _>>)
        .map_err(|e| unusable(path, &e))?;
    if list.is_empty() { Err(unusable(path, &"it contains no certificate")) } else { Ok(list) }
}

fn unusable(path: &Path, reason: &dyn std::fmt::Display) -> ConnectionError {
    ConnectionError::Credentials { path: path.to_owned(), reason: reason.to_string() }
}

/// Verifies the chain as ever, and the name only where it is wanted.
#[derive(Debug)]
struct ChainVerifier {
    webpki: Arc<WebPkiServerVerifier>,
    names: ServerNames,
}

impl ServerCertVerifier for ChainVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match self.webpki.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            // The name is looked at after everything else was found good.
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if self.names == ServerNames::Any => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.webpki.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.webpki.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.webpki.supported_verify_schemes()
    }
}
