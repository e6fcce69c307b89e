//! The server's certificate, signed by an authority that all controllers of a cluster share in a Secret.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use crate::ServiceReference;

/// The Secret with the authority.
pub(crate) const SECRET: &str = "portolan-trace-ca";
/// How long a server's certificate is valid, and after how long a new one is made.
const VALID_DAYS: i64 = 90;
pub(crate) const RENEWAL: Duration = Duration::from_secs(30 * 24 * 3600);
/// How long the authority is valid.
const AUTHORITY_VALID_DAYS: i64 = 3650;

/// Why there is no certificate to serve with.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// The Secret cannot be read or created.
    #[error(
        "Secret {namespace}/{SECRET} with the authority of trace.portolan.dev cannot be read or created: {source}"
    )]
    Secret {
        /// The Secret's namespace.
        namespace: String,
        /// Why.
        source: Box<kube::Error>,
    },
    /// The Secret has something else.
    #[error(
        "Secret {namespace}/{SECRET} has no usable authority ({problem}); delete it, and a new one is made"
    )]
    Unusable {
        /// The Secret's namespace.
        namespace: String,
        /// What is wrong.
        problem: String,
    },
    /// A certificate cannot be made.
    #[error("a certificate cannot be made: {0}")]
    Make(#[from] rcgen::Error),
    /// TLS cannot use the certificate.
    #[error("the certificate cannot be used: {0}")]
    Use(#[from] rustls::Error),
}

/// The authority that signs the servers' certificates.
pub(crate) struct Authority {
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// The authority of the cluster: the one in the Secret, or a new one that is put there.
    pub(crate) async fn shared(
        client: &Client,
        service: &ServiceReference,
    ) -> Result<Self, CertificateError> {
        let namespace = &service.namespace;
        let secrets = Api::<Secret>::namespaced(client.clone(), namespace);
        let failed =
            |source| CertificateError::Secret { namespace: namespace.clone(), source: Box::new(source) };
        if let Some(secret) = secrets.get_opt(SECRET).await.map_err(failed)? {
            return Self::read(&secret, namespace);
        }
        let (certificate, key) = make_authority()?;
        let data = [("tls.crt".to_owned(), certificate), ("tls.key".to_owned(), key)];
        let data: BTreeMap<_, _> =
            data.into_iter().map(|(key, value)| (key, ByteString(value.into_bytes()))).collect();
        let secret = Secret {
            metadata: ObjectMeta { name: Some(SECRET.into()), ..ObjectMeta::default() },
            data: Some(data),
            type_: Some("kubernetes.io/tls".into()),
            ..Secret::default()
        };
        match secrets.create(&PostParams::default(), &secret).await {
            Ok(created) => Self::read(&created, namespace),
            // Another controller was first.
            Err(kube::Error::Api(status)) if status.code == 409 => {
                Self::read(&secrets.get(SECRET).await.map_err(failed)?, namespace)
            }
            Err(error) => Err(failed(error)),
        }
    }

    fn read(secret: &Secret, namespace: &str) -> Result<Self, CertificateError> {
        let unusable = |problem: &str| CertificateError::Unusable {
            namespace: namespace.to_owned(),
            problem: problem.to_owned(),
        };
        let text = |key: &str| {
            let value = secret.data.as_ref().and_then(|data| data.get(key));
            value.and_then(|value| String::from_utf8(value.0.clone()).ok())
        };
        let certificate = text("tls.crt").ok_or_else(|| unusable("no tls.crt"))?;
        let key = text("tls.key").ok_or_else(|| unusable("no tls.key"))?;
        let key = KeyPair::from_pem(&key).map_err(|error| unusable(&error.to_string()))?;
        // It is always made alike, so its certificate need not be parsed.
        Ok(Self { certificate, issuer: Issuer::new(authority_params(), key) })
    }

    /// The authority's certificate, in PEM.
    pub(crate) fn certificate(&self) -> &str {
        &self.certificate
    }

    /// A new certificate for the server behind a Service.
    pub(crate) fn sign(&self, service: &ServiceReference) -> Result<Arc<CertifiedKey>, CertificateError> {
        let ServiceReference { namespace, name } = service;
        let mut params = valid_for(VALID_DAYS);
        params.distinguished_name.push(DnType::CommonName, "portolan-trace");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        for suffix in ["svc", "svc.cluster.local"] {
            let name = format!("{name}.{namespace}.{suffix}");
            params.subject_alt_names.push(SanType::DnsName(name.as_str().try_into()?));
        }
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        let der = CertificateDer::from(certificate.der().to_vec());
        let unusable = |error: rustls::pki_types::pem::Error| rustls::Error::General(error.to_string());
        let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).map_err(unusable)?;
        let key = rustls::crypto::aws_lc_rs::sign::any_supported_type(&key)?;
        Ok(Arc::new(CertifiedKey::new(vec![der], key)))
    }
}

fn make_authority() -> Result<(String, String), rcgen::Error> {
    let key = KeyPair::generate()?;
    let certificate = authority_params().self_signed(&key)?;
    Ok((certificate.pem(), key.serialize_pem()))
}

fn authority_params() -> CertificateParams {
    let mut params = valid_for(AUTHORITY_VALID_DAYS);
    params.distinguished_name.push(DnType::CommonName, "portolan-trace-ca");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params
}

/// Valid from yesterday on, for clocks that are behind.
fn valid_for(days: i64) -> CertificateParams {
    let day = |offset: i64| {
        let time = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(24 * offset);
        let date = time.to_zoned(jiff::tz::TimeZone::UTC).date();
        rcgen::date_time_ymd(date.year().into(), date.month().unsigned_abs(), date.day().unsigned_abs())
    };
    let mut params = CertificateParams::default();
    (params.not_before, params.not_after) = (day(-1), day(days));
    params
}
