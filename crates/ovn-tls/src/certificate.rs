//! What is in a certificate.

use std::collections::BTreeSet;
use std::net::IpAddr;

use jiff::Timestamp;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use std::sync::Arc;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// A certificate that this process shows, as far as it decides whether it must be replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Certificate {
    der: CertificateDer<'static>,
    pub(crate) common_name: String,
    pub(crate) addresses: BTreeSet<IpAddr>,
    pub(crate) expires: Timestamp,
    /// The key that it is for, as the certificate has it.
    pub(crate) public_key: Vec<u8>,
}

impl Certificate {
    /// The first one in a text.
    pub(crate) fn from_pem(pem: &[u8]) -> Result<Self, String> {
        let der = CertificateDer::from_pem_slice(pem).map_err(|error| error.to_string())?;
        let (_, parsed) = X509Certificate::from_der(&der).map_err(|error| error.to_string())?;
        let common_name = common_name(&der).ok_or("it has no common name")?;
        let expires = Timestamp::from_second(parsed.validity().not_after.timestamp())
            .map_err(|error| error.to_string())?;
        let alternative = parsed.subject_alternative_name().map_err(|error| error.to_string())?;
        let names = alternative.map(|names| names.value.general_names.as_slice()).unwrap_or_default();
        let addresses = names.iter().filter_map(address).collect();
        let public_key = parsed.public_key().raw.to_vec();
        Ok(Self { common_name, addresses, expires, public_key, der: der.clone() })
    }

    /// Whether it is valid to those who trust these authorities.
    pub(crate) fn is_trusted(&self, bundle: &str, now: Timestamp) -> bool {
        let Some(verifier) = roots(bundle).and_then(|roots| {
            let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().ok()
        }) else {
            return false;
        };
        let now = u64::try_from(now.as_second()).unwrap_or_default();
        let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(now));
        verifier.verify_client_cert(&self.der, &[], now).is_ok()
    }
}

/// Whom a certificate is for.
pub(crate) fn common_name(der: &CertificateDer<'_>) -> Option<String> {
    let (_, parsed) = X509Certificate::from_der(der).ok()?;
    let name = parsed.subject().iter_common_name().next()?;
    name.as_str().ok().map(str::to_owned)
}

fn address(name: &GeneralName<'_>) -> Option<IpAddr> {
    let GeneralName::IPAddress(bytes) = name else { return None };
    <[u8; 4]>::try_from(*bytes)
        .map(IpAddr::from)
        .or_else(|_| <[u8; 16]>::try_from(*bytes).map(IpAddr::from))
        .ok()
}

/// The authorities in a text; none if there is none, or one cannot be read.
pub(crate) fn roots(bundle: &str) -> Option<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(bundle.as_bytes()) {
        roots.add(certificate.ok()?).ok()?;
    }
    (!roots.is_empty()).then_some(roots)
}
