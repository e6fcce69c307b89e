//! A certificate authority as a Secret has it: which certificates it vouches for, how long it is good, and what it signs.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData as _, SanType,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::ServiceReference;

/// Keys of the Secret: the authority's certificate and private key, and all certificates that callers should trust.
const CERTIFICATE: &str = "tls.crt";
const PRIVATE_KEY: &str = "tls.key";
const BUNDLE: &str = "ca.crt";

/// How long an authority is valid that is made here.
const AUTHORITY_DAYS: i64 = 3650;
/// An authority is replaced once less than this part of its life is left. Its certificates live much shorter.
const AUTHORITY_LAST_PART: i32 = 5;
/// How long a server's certificate is valid at most, and after which part of that it is replaced.
const CERTIFICATE_DAYS: i64 = 90;
const CERTIFICATE_FIRST_PART: i32 = 3;

/// Why a Secret has no authority that can be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {problem}")]
pub struct Unusable {
    /// The key in the Secret's data.
    pub key: &'static str,
    /// What is wrong.
    pub problem: String,
}

/// A certificate authority.
pub struct Authority {
    certificate: CertificateDer<'static>,
    certificate_pem: String,
    bundle: String,
    issuer: Issuer<'static, KeyPair>,
    not_before: Timestamp,
    not_after: Timestamp,
}

/// A server's certificate, and when to replace it.
pub(crate) struct Identity {
    pub(crate) key: Arc<CertifiedKey>,
    pub(crate) replace_at: Timestamp,
}

impl Authority {
    /// Reads an authority. One that has expired is read too: see [`Authority::is_due`].
    ///
    /// # Errors
    /// When the Secret has something else. The error names the key.
    pub fn read(secret: &Secret) -> Result<Self, Unusable> {
        let unusable = |key: &'static str, problem: &str| Unusable { key, problem: problem.to_owned() };
        let text = |key: &'static str| {
            let value = secret.data.as_ref().and_then(|data| data.get(key))?;
            Some(String::from_utf8(value.0.clone()).map_err(|_| unusable(key, "is not PEM")))
        };
        let certificate_pem = text(CERTIFICATE).ok_or_else(|| unusable(CERTIFICATE, "is missing"))??;
        let key = text(PRIVATE_KEY).ok_or_else(|| unusable(PRIVATE_KEY, "is missing"))??;
        let key = KeyPair::from_pem(&key).map_err(|error| unusable(PRIVATE_KEY, &error.to_string()))?;
        let certificate = CertificateDer::from_pem_slice(certificate_pem.as_bytes())
            .map_err(|error| unusable(CERTIFICATE, &error.to_string()))?;
        let (_, parsed) = X509Certificate::from_der(&certificate)
            .map_err(|error| unusable(CERTIFICATE, &error.to_string()))?;
        if !parsed.is_ca() {
            return Err(unusable(CERTIFICATE, "is not the certificate of an authority"));
        }
        if parsed.public_key().raw != key.subject_public_key_info() {
            return Err(unusable(PRIVATE_KEY, "does not belong to the certificate in tls.crt"));
        }
        let time = |time: x509_parser::time::ASN1Time| {
            Timestamp::from_second(time.timestamp())
                .map_err(|error| unusable(CERTIFICATE, &error.to_string()))
        };
        let (not_before, not_after) =
            (time(parsed.validity().not_before)?, time(parsed.validity().not_after)?);
        let bundle = match text(BUNDLE).transpose()? {
            None => certificate_pem.clone(),
            Some(bundle) => {
                let trusted: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(bundle.as_bytes()).collect();
                let trusted = trusted.map_err(|error| unusable(BUNDLE, &error.to_string()))?;
                // Whoever trusts the bundle must trust what is signed now.
                if trusted.contains(&certificate) { bundle } else { format!("{certificate_pem}{bundle}") }
            }
        };
        let issuer = Issuer::from_ca_cert_der(&certificate, key)
            .map_err(|error| unusable(CERTIFICATE, &error.to_string()))?;
        Ok(Self { certificate, certificate_pem, bundle, issuer, not_before, not_after })
    }

    /// The data of a Secret with a new authority. The certificate of the one that it follows stays trusted, so that servers which
    /// do not know the new one yet are still reached.
    pub(crate) fn make(
        name: &str,
        follows: Option<&Authority>,
        now: Timestamp,
    ) -> Result<BTreeMap<String, ByteString>, rcgen::Error> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        set_validity(&mut params, now, now + days(AUTHORITY_DAYS));
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let certificate = params.self_signed(&key)?.pem();
        let follows = follows.filter(|former| former.not_after > now);
        let former = follows.map_or("", |former| former.certificate_pem.as_str());
        let bundle = format!("{certificate}{former}");
        let data = [(CERTIFICATE, certificate), (PRIVATE_KEY, key.serialize_pem()), (BUNDLE, bundle)];
        Ok(data.map(|(key, value)| (key.to_owned(), ByteString(value.into_bytes()))).into())
    }

    /// The certificates that callers should trust, in PEM.
    pub fn bundle(&self) -> &str {
        &self.bundle
    }

    /// Whether it is time for another authority: this one has expired or soon will.
    pub fn is_due(&self, now: Timestamp) -> bool {
        let life = self.not_after.duration_since(self.not_before);
        now + life / AUTHORITY_LAST_PART >= self.not_after
    }

    /// Whether another is the same authority.
    pub(crate) fn is_same(&self, other: &Authority) -> bool {
        self.certificate == other.certificate
    }

    /// A new certificate for the server behind a Service.
    pub(crate) fn sign(&self, service: &ServiceReference, now: Timestamp) -> Result<Identity, SignError> {
        let mut params = CertificateParams::default();
        let end = self.not_after.min(now + days(CERTIFICATE_DAYS));
        set_validity(&mut params, now, end);
        params.distinguished_name.push(DnType::CommonName, service.name.as_str());
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        for name in service.dns_names() {
            params.subject_alt_names.push(SanType::DnsName(name.as_str().try_into()?));
        }
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        let key = PrivateKeyDer::try_from(key.serialize_der())
            .map_err(|problem| rustls::Error::General(problem.to_owned()))?;
        let key = rustls::crypto::aws_lc_rs::sign::any_supported_type(&key)?;
        let key = Arc::new(CertifiedKey::new(vec![certificate.der().clone()], key));
        let replace_at = now + end.duration_since(now) / CERTIFICATE_FIRST_PART;
        Ok(Identity { key, replace_at })
    }
}

/// Why a certificate cannot be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SignError {
    #[error("a certificate cannot be made: {0}")]
    Make(#[from] rcgen::Error),
    #[error("the certificate cannot be used: {0}")]
    Use(#[from] rustls::Error),
}

fn days(days: i64) -> SignedDuration {
    SignedDuration::from_hours(24 * days)
}

/// Valid from the day before on, for clocks that are behind.
fn set_validity(params: &mut CertificateParams, begin: Timestamp, end: Timestamp) {
    let day = |time: Timestamp| {
        let date = time.to_zoned(jiff::tz::TimeZone::UTC).date();
        rcgen::date_time_ymd(date.year().into(), date.month().unsigned_abs(), date.day().unsigned_abs())
    };
    (params.not_before, params.not_after) = (day(begin - days(1)), day(end));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-05-01T12:00:00Z".parse().unwrap()
    }

    fn secret(data: BTreeMap<String, ByteString>) -> Secret {
        Secret { data: Some(data), ..Secret::default() }
    }

    fn made(follows: Option<&Authority>, now: Timestamp) -> (BTreeMap<String, ByteString>, Authority) {
        let data = Authority::make("test-ca", follows, now).unwrap();
        (data.clone(), Authority::read(&secret(data)).unwrap())
    }

    #[test]
    fn an_authority_is_replaced_before_it_expires_and_its_predecessor_stays_trusted() {
        let (_, first) = made(None, now());
        assert!(!first.is_due(now()) && !first.is_due(now() + days(7 * 365)));
        let later = now() + days(9 * 365);
        assert!(first.is_due(later) && first.is_due(now() + days(20 * 365)));
        let (_, second) = made(Some(&first), later);
        assert!(second.bundle().contains(first.bundle()) && !second.is_same(&first));
        let (_, third) = made(Some(&first), now() + days(20 * 365));
        assert!(!third.bundle().contains(first.bundle()), "what has expired is not trusted on");
    }

    #[test]
    fn an_authority_of_short_life_is_left_to_whoever_renews_it() {
        let (_, mut authority) = made(None, now());
        authority.not_after = authority.not_before + days(90);
        assert!(!authority.is_due(authority.not_before + days(60)), "cert-manager renews after two thirds");
        let service = ServiceReference { namespace: "a".into(), name: "b".into() };
        let identity = authority.sign(&service, authority.not_before + days(60)).unwrap();
        assert_eq!(identity.replace_at, authority.not_before + days(70), "it does not outlive its authority");
    }

    #[test]
    fn what_is_wrong_with_a_secret_is_said_of_its_key() {
        let (data, authority) = made(None, now());
        let without = |key: &str| {
            secret(data.iter().filter(|(k, _)| *k != key).map(|(k, v)| (k.clone(), v.clone())).collect())
        };
        let with = |key: &str, value: &[u8]| {
            let mut data = data.clone();
            data.insert(key.into(), ByteString(value.to_vec()));
            secret(data)
        };
        let refused = |secret: &Secret| Authority::read(secret).err().map(|error| (error.key, error.problem));
        assert_eq!(refused(&without("tls.crt")), Some(("tls.crt", "is missing".into())));
        assert_eq!(refused(&without("tls.key")), Some(("tls.key", "is missing".into())));
        assert_eq!(refused(&with("tls.crt", b"\xff")), Some(("tls.crt", "is not PEM".into())));
        assert_eq!(refused(&with("tls.crt", b"text")).map(|(key, _)| key), Some("tls.crt"));
        assert_eq!(refused(&with("tls.key", b"text")).map(|(key, _)| key), Some("tls.key"));
        let (other, _) = made(None, now());
        assert_eq!(
            refused(&with("tls.key", &other["tls.key"].0)),
            Some(("tls.key", "does not belong to the certificate in tls.crt".into()))
        );
        assert_eq!(refused(&without("ca.crt")), None, "a Secret that somebody else made");
        // The bundle of another authority: what is signed now must be trusted all the same.
        let read = Authority::read(&with("ca.crt", &other["ca.crt"].0)).unwrap();
        assert!(
            read.bundle().starts_with(authority.bundle()) && read.bundle().len() > authority.bundle().len()
        );
    }
}
