//! For how long, and for whom, a certificate is valid.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::authn::{UserInfo, user_of_certificate};

/// When a certificate expires; absent if it cannot be read.
pub(super) fn not_after(pem: &str) -> Option<SystemTime> {
    let der = der(pem)?;
    let (_, certificate) = X509Certificate::from_der(&der).ok()?;
    let seconds = u64::try_from(certificate.validity().not_after.timestamp()).ok()?;
    UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

/// Whom a certificate names.
pub(super) fn subject(pem: &str) -> Option<UserInfo> {
    user_of_certificate(&der(pem)?)
}

/// Whether the server would accept a client's certificate at a time.
pub(super) fn is_client(authority: &str, pem: &str, at: SystemTime) -> bool {
    let verify = || {
        let mut roots = RootCertStore::empty();
        roots.add(der(authority)?).ok()?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().ok()?;
        let at = UnixTime::since_unix_epoch(at.duration_since(UNIX_EPOCH).ok()?);
        verifier.verify_client_cert(&der(pem)?, &[], at).ok()
    };
    verify().is_some()
}

pub(super) fn der(pem: &str) -> Option<CertificateDer<'static>> {
    CertificateDer::from_pem_slice(pem.as_bytes()).ok()
}
