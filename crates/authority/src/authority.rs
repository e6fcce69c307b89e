//! A certificate authority as a Secret has it: which certificates it vouches for, how long it is good, and what it signs.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData, SanType,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// Keys of the Secret: the authority's certificate and private key, and all certificates that callers should trust.
const CERTIFICATE: &str = "tls.crt";
const PRIVATE_KEY: &str = "tls.key";
const BUNDLE: &str = "ca.crt";

/// How long an authority is valid that is made here.
const AUTHORITY_DAYS: i64 = 3650;
/// An authority is replaced once less than this part of its life is left. Its certificates live much shorter.
const AUTHORITY_LAST_PART: i32 = 5;
/// After which part of its life a certificate is replaced.
const CERTIFICATE_FIRST_PART: i32 = 3;
/// A certificate is not replaced earlier than this, also if its authority is about to expire: each takes a new key.
const CERTIFICATE_LEAST: SignedDuration = SignedDuration::from_mins(1);

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
    /// The name in the certificate, written as OpenSSL does.
    subject: String,
    bundle: String,
    issuer: Issuer<'static, KeyPair>,
    not_before: Timestamp,
    not_after: Timestamp,
}

/// What a certificate is to say of whoever shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// Its name.
    pub common_name: String,
    /// What it belongs to. With one, the name of a certificate is never that of an authority, whatever the common names are: OpenSSL takes
    /// such a certificate for a self-signed one.
    pub organization: Option<String>,
    /// The host names of a server.
    pub dns_names: Vec<String>,
    /// The addresses of a server.
    pub addresses: Vec<IpAddr>,
    /// What it is good for.
    pub usages: Usages,
    /// How long it is valid at most.
    pub life: SignedDuration,
}

/// What a certificate is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usages {
    /// Servers.
    Server,
    /// Clients.
    Client,
    /// Both: members of a cluster connect to each other.
    ServerAndClient,
}

/// A certificate that an authority has signed.
#[derive(Clone, Debug)]
pub struct Signed {
    /// The certificate.
    pub certificate: CertificateDer<'static>,
    /// The same in PEM.
    pub pem: String,
    /// Until when it is valid.
    pub expires: Timestamp,
}

/// When to replace a certificate that is made now: well before its end, and not all the time if that is near.
pub fn replace_at(now: Timestamp, expires: Timestamp) -> Timestamp {
    now + (expires.duration_since(now) / CERTIFICATE_FIRST_PART).max(CERTIFICATE_LEAST)
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
        let certificates = |key: &'static str| -> Result<Option<Vec<CertificateDer<'static>>>, Unusable> {
            text(key)
                .transpose()?
                .map(|pem| read_certificates(&pem).map_err(|problem| unusable(key, &problem)))
                .transpose()
        };
        let own = certificates(CERTIFICATE)?.ok_or_else(|| unusable(CERTIFICATE, "is missing"))?;
        let certificate = own.first().cloned().ok_or_else(|| unusable(CERTIFICATE, "has no certificate"))?;
        let key = text(PRIVATE_KEY).ok_or_else(|| unusable(PRIVATE_KEY, "is missing"))??;
        let key = KeyPair::from_pem(&key).map_err(|error| unusable(PRIVATE_KEY, &error.to_string()))?;
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
        let mut trusted = certificates(BUNDLE)?.unwrap_or_default();
        // Whoever trusts the bundle must trust what is signed now.
        if !trusted.contains(&certificate) {
            trusted.splice(0..0, own);
        }
        let (bundle, subject) = (trusted.iter().map(to_pem).collect(), parsed.subject().to_string());
        let issuer = Issuer::from_ca_cert_der(&certificate, key)
            .map_err(|error| unusable(CERTIFICATE, &error.to_string()))?;
        Ok(Self { certificate, subject, bundle, issuer, not_before, not_after })
    }

    /// The data of a Secret with a new authority. The certificate of the one that it follows stays trusted, so that servers which
    /// do not know the new one yet are still reached.
    ///
    /// # Errors
    /// When the library that makes keys and certificates fails.
    pub fn make(
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
        let former = follows.map_or_else(String::new, |former| to_pem(&former.certificate));
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

    /// Its own certificate, as it is in a bundle.
    pub fn certificate(&self) -> String {
        to_pem(&self.certificate)
    }

    /// Until when it is valid.
    pub fn expires(&self) -> Timestamp {
        self.not_after
    }

    /// Whether it has the name that [`Authority::make`] gives, and no other.
    pub fn is_named(&self, name: &str) -> bool {
        self.subject == format!("CN={name}")
    }

    /// Whether another is the same authority.
    pub fn is_same(&self, other: &Authority) -> bool {
        self.certificate == other.certificate
    }

    /// Signs a certificate for whoever has this key.
    ///
    /// # Errors
    /// When the authority has expired, or a name cannot be in a certificate.
    pub fn sign(&self, leaf: &Leaf, key: &impl PublicKeyData, now: Timestamp) -> Result<Signed, SignError> {
        if self.not_after <= now {
            return Err(SignError::Expired(self.not_after));
        }
        let mut params = CertificateParams::default();
        let expires = set_validity(&mut params, now, self.not_after.min(now + leaf.life));
        params.distinguished_name.push(DnType::CommonName, leaf.common_name.as_str());
        if let Some(organization) = &leaf.organization {
            params.distinguished_name.push(DnType::OrganizationName, organization.as_str());
        }
        params.extended_key_usages = match leaf.usages {
            Usages::Server => vec![ExtendedKeyUsagePurpose::ServerAuth],
            Usages::Client => vec![ExtendedKeyUsagePurpose::ClientAuth],
            Usages::ServerAndClient => {
                vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth]
            }
        };
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        for name in &leaf.dns_names {
            params.subject_alt_names.push(SanType::DnsName(name.as_str().try_into()?));
        }
        params.subject_alt_names.extend(leaf.addresses.iter().copied().map(SanType::IpAddress));
        let certificate = params.signed_by(key, &self.issuer)?;
        Ok(Signed { certificate: certificate.der().clone(), pem: to_pem(certificate.der()), expires })
    }
}

/// Why a certificate cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum SignError {
    /// Nobody would believe it.
    #[error(
        "the authority expired at {0}: put another into its Secret, or delete the Secret, and a new one is created"
    )]
    Expired(Timestamp),
    /// A name cannot be in a certificate, or the library fails.
    #[error("a certificate cannot be made: {0}")]
    Make(#[from] rcgen::Error),
}

fn days(days: i64) -> SignedDuration {
    SignedDuration::from_hours(24 * days)
}

/// Valid from the day before on, for clocks that are behind, and until the returned time: a certificate has whole seconds.
fn set_validity(params: &mut CertificateParams, begin: Timestamp, end: Timestamp) -> Timestamp {
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    let end = end - SignedDuration::from_nanos(end.subsec_nanosecond().into());
    let date_time = |time: Timestamp| epoch + Duration::from_secs(time.as_second().try_into().unwrap_or(0));
    (params.not_before, params.not_after) = (date_time(begin - days(1)), date_time(end));
    end
}

/// The certificates in a text, which may have other things as well.
fn read_certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let certificates = CertificateDer::pem_slice_iter(pem.as_bytes()).map(|certificate| {
        let certificate = certificate.map_err(|error| error.to_string())?;
        match X509Certificate::from_der(&certificate) {
            Ok(([], _)) => Ok(certificate),
            Ok(_) => Err("has something after the end of a certificate".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    });
    certificates.collect()
}

/// As it is in a bundle, whatever the text looked like that it was read from.
fn to_pem(certificate: &CertificateDer<'_>) -> String {
    const LINE: usize = 64;
    let text = BASE64_STANDARD.encode(certificate);
    let mut pem = "-----BEGIN CERTIFICATE-----\n".to_owned();
    for (at, character) in text.chars().enumerate() {
        if at > 0 && at % LINE == 0 {
            pem.push('\n');
        }
        pem.push(character);
    }
    pem.push_str("\n-----END CERTIFICATE-----\n");
    pem
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
        let signed_at = authority.not_before + days(60);
        let signed = sign(&authority, signed_at).unwrap();
        let replaced = replace_at(signed_at, signed.expires);
        assert_eq!(replaced, authority.not_before + days(70), "it does not outlive its authority");
    }

    fn sign(authority: &Authority, now: Timestamp) -> Result<Signed, SignError> {
        let leaf = Leaf {
            common_name: "b".into(),
            organization: None,
            dns_names: vec!["b.a.svc".into()],
            addresses: Vec::new(),
            usages: Usages::Server,
            life: days(90),
        };
        authority.sign(&leaf, &KeyPair::generate().unwrap(), now)
    }

    /// The times between which a certificate is valid.
    fn validity(signed: &Signed) -> (Timestamp, Timestamp) {
        let (_, certificate) = X509Certificate::from_der(&signed.certificate).unwrap();
        let time = |time: x509_parser::time::ASN1Time| Timestamp::from_second(time.timestamp()).unwrap();
        (time(certificate.validity().not_before), time(certificate.validity().not_after))
    }

    #[test]
    fn a_certificate_is_valid_until_its_authority_expires_and_replaced_before() {
        let (_, mut authority) = made(None, now());
        for minutes in [3, 60, 11 * 60, 13 * 60, 40 * 60] {
            authority.not_after = now() + SignedDuration::from_mins(minutes);
            let signed = sign(&authority, now()).unwrap();
            let (not_before, not_after) = validity(&signed);
            assert!(not_before < now(), "{minutes}");
            assert_eq!(not_after, authority.not_after, "{minutes}");
            let replaced = replace_at(now(), signed.expires);
            assert_eq!(replaced, now() + SignedDuration::from_mins(minutes) / 3, "{minutes}");
        }
    }

    #[test]
    fn an_authority_that_has_expired_signs_nothing_and_one_about_to_not_all_the_time() {
        let (_, mut authority) = made(None, now());
        authority.not_after = now();
        assert!(sign(&authority, now()).is_err());
        authority.not_after = now() + SignedDuration::from_secs(3);
        let signed = sign(&authority, now()).unwrap();
        assert_eq!(replace_at(now(), signed.expires), now() + SignedDuration::from_mins(1));
    }

    #[test]
    fn the_bundle_has_certificates_and_nothing_else() {
        let (data, authority) = made(None, now());
        let (other, other_authority) = made(None, now());
        let text =
            |data: &BTreeMap<String, ByteString>, key: &str| String::from_utf8(data[key].0.clone()).unwrap();
        let (certificate, key) = (text(&data, "tls.crt"), text(&data, "tls.key"));
        let read = |certificate: &str, bundle: Option<&str>| {
            let mut data = data.clone();
            data.insert("tls.crt".into(), ByteString(certificate.into()));
            data.remove("ca.crt");
            data.extend(bundle.map(|bundle| ("ca.crt".into(), ByteString(bundle.into()))));
            Authority::read(&secret(data)).map(|authority| authority.bundle)
        };
        assert_eq!(read(&format!("{key}{certificate}"), None).unwrap(), authority.bundle);
        assert_eq!(read(&certificate, Some(&format!("{key}{certificate}"))).unwrap(), authority.bundle);
        let both = format!("{}{}", authority.bundle, other_authority.bundle);
        let (unended, other) = (certificate.trim_end(), text(&other, "ca.crt"));
        assert_eq!(read(unended, Some(&other)).unwrap(), both);
        let described = format!("A CA\r\n{}", certificate.replace('\n', "\r\n"));
        assert_eq!(read(&certificate, Some(&described)).unwrap(), authority.bundle);
        let broken = "-----BEGIN CERTIFICATE-----\nTWFuaWZlc3Q=\n-----END CERTIFICATE-----\n";
        assert_eq!(read(&certificate, Some(&format!("{certificate}{broken}"))).unwrap_err().key, "ca.crt");
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
