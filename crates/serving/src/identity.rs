//! The certificate of a server behind a Service.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use portolan_authority::{Authority, Leaf, SignError, Usages, replace_at};
use rcgen::KeyPair;
use rustls::pki_types::PrivateKeyDer;
use rustls::sign::CertifiedKey;

use crate::ServiceReference;

/// How long a certificate is valid at most.
const LIFE: SignedDuration = SignedDuration::from_hours(24 * 90);

/// A server's certificate, and when to replace it.
pub(crate) struct Identity {
    pub(crate) key: Arc<CertifiedKey>,
    pub(crate) replace_at: Timestamp,
}

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub(crate) enum IdentityError {
    #[error(transparent)]
    Sign(#[from] SignError),
    #[error("a key cannot be made: {0}")]
    Key(#[from] rcgen::Error),
    #[error("the certificate cannot be used: {0}")]
    Use(#[from] rustls::Error),
}

impl Identity {
    /// A new certificate for the server behind a Service.
    pub(crate) fn sign(
        authority: &Authority,
        service: &ServiceReference,
        now: Timestamp,
    ) -> Result<Self, IdentityError> {
        let key = KeyPair::generate()?;
        let leaf = Leaf {
            common_name: service.name.clone(),
            organization: None,
            dns_names: service.dns_names().into(),
            addresses: Vec::new(),
            usages: Usages::Server,
            life: LIFE,
        };
        let signed = authority.sign(&leaf, &key, now)?;
        let key = PrivateKeyDer::try_from(key.serialize_der())
            .map_err(|problem| rustls::Error::General(problem.to_owned()))?;
        let key = rustls::crypto::aws_lc_rs::sign::any_supported_type(&key)?;
        let key = Arc::new(CertifiedKey::new(vec![signed.certificate], key));
        Ok(Self { key, replace_at: replace_at(now, signed.expires) })
    }
}
