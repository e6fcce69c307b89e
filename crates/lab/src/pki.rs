//! Certificates for tests: an authority and what it signs. All keys are ECDSA P-256, which is quick to make.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};

use crate::error::{Result, Trying};

/// A certificate authority.
#[derive(Debug)]
pub struct Authority {
    certificate: String,
    key: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// A new authority of this common name.
    pub fn new(common_name: &str) -> Result<Self> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, common_name);
        // OpenSSL takes a certificate whose subject is that of its issuer for a self-signed one.
        params.distinguished_name.push(DnType::OrganizationalUnitName, "authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate()?;
        let certificate = params.self_signed(&key)?.pem();
        Ok(Self { certificate, key: key.serialize_pem(), issuer: Issuer::new(params, key) })
    }

    /// An authority that was made before, by these files.
    pub fn read(certificate: &Path, key: &Path) -> Result<Self> {
        let read = |path: &Path| std::fs::read_to_string(path).trying(|| format!("read {}", path.display()));
        let (certificate, key) = (read(certificate)?, read(key)?);
        let issuer = Issuer::from_ca_cert_pem(&certificate, KeyPair::from_pem(&key)?)?;
        Ok(Self { certificate, key, issuer })
    }

    /// The authority's own certificate, in PEM.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// The authority's private key, in PEM.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// A certificate for a server, and for a client too, known by these names or addresses.
    pub fn server(&self, common_name: &str, names: &[&str]) -> Result<Identity> {
        self.sign(
            common_name,
            None,
            names,
            &[ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth],
        )
    }

    /// A certificate for a client. To Kubernetes the organization is the user's group.
    pub fn client(&self, common_name: &str, organization: Option<&str>) -> Result<Identity> {
        self.sign(common_name, organization, &[], &[ExtendedKeyUsagePurpose::ClientAuth])
    }

    fn sign(
        &self,
        common_name: &str,
        organization: Option<&str>,
        names: &[&str],
        usages: &[ExtendedKeyUsagePurpose],
    ) -> Result<Identity> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, common_name);
        if let Some(organization) = organization {
            params.distinguished_name.push(DnType::OrganizationName, organization);
        }
        for name in names {
            params.subject_alt_names.push(match name.parse::<IpAddr>() {
                Ok(address) => SanType::IpAddress(address),
                Err(_) => SanType::DnsName((*name).try_into()?),
            });
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        params.extended_key_usages = usages.to_vec();
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?.pem();
        Ok(Identity { certificate, key: key.serialize_pem() })
    }

    /// Writes the authority's certificate to `<directory>/<name>.crt`.
    pub fn write(&self, directory: &Path, name: &str) -> Result<PathBuf> {
        write(directory, &format!("{name}.crt"), &self.certificate)
    }
}

/// A certificate and its private key, in PEM.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The certificate.
    pub certificate: String,
    /// The private key, PKCS #8.
    pub key: String,
}

/// Where an [`Identity`] was written.
#[derive(Clone, Debug)]
pub struct IdentityFiles {
    /// The certificate.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

impl Identity {
    /// Writes it to `<directory>/<name>.crt` and `<name>.key`.
    pub fn write(&self, directory: &Path, name: &str) -> Result<IdentityFiles> {
        Ok(IdentityFiles {
            certificate: write(directory, &format!("{name}.crt"), &self.certificate)?,
            key: write(directory, &format!("{name}.key"), &self.key)?,
        })
    }
}

/// Writes a pair of bare keys, such as service-account tokens are signed with, to `<name>.key` and `<name>.pub`. In that
/// order.
pub fn write_signing_keys(directory: &Path, name: &str) -> Result<(PathBuf, PathBuf)> {
    let key = KeyPair::generate()?;
    Ok((
        write(directory, &format!("{name}.key"), &key.serialize_pem())?,
        write(directory, &format!("{name}.pub"), &key.public_key_pem())?,
    ))
}

fn write(directory: &Path, file: &str, text: &str) -> Result<PathBuf> {
    let path = directory.join(file);
    std::fs::create_dir_all(directory).trying(|| format!("make {}", directory.display()))?;
    std::fs::write(&path, text).trying(|| format!("write {}", path.display()))?;
    Ok(path)
}
