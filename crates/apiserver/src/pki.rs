//! Certificates that the server makes itself, once, in its data directory: an authority, the server's own, and an
//! administrator's with a kubeconfig.
//!
//! ```text
//! ca.crt  ca.key  server.crt  server.key  admin.kubeconfig
//! ```
//!
//! The authority and the administrator stay as they are once made; the server's certificate is made anew at every start, so that
//! it names the addresses of that start and never runs out on a server that is restarted now and then.

use std::io::{self, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};
use serde_json::json;

/// The group that may do everything.
const ADMINISTRATORS: &str = "system:masters";

/// Why there are no certificates.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    /// A file cannot be read or written.
    #[error("cannot {what} {}", path.display())]
    File {
        /// Read or write.
        what: &'static str,
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A certificate cannot be made, or one that is there cannot be read.
    #[error("cannot make or read a certificate")]
    Certificate(#[from] rcgen::Error),
    /// One of two files that belong together is missing.
    #[error("{} is there and {} is not: restore it, or remove both", there.display(), missing.display())]
    Half {
        /// The one that is there.
        there: PathBuf,
        /// The other.
        missing: PathBuf,
    },
}

/// A certificate and its private key, in PEM.
#[derive(Clone)]
pub struct Identity {
    /// The certificate.
    pub certificate: String,
    /// The private key.
    pub key: String,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Identity").finish_non_exhaustive()
    }
}

/// The certificates of a data directory.
#[derive(Debug)]
pub struct Pki {
    directory: PathBuf,
    authority: Identity,
    issuer: Issuer<'static, KeyPair>,
}

impl Pki {
    /// Reads the authority of a directory, or makes it. Only the owner of the files can read the keys.
    ///
    /// # Errors
    /// When files cannot be read or written, or half of what belongs together is missing.
    pub fn open(directory: &Path) -> Result<Pki, PkiError> {
        let (certificate, key) = (directory.join("ca.crt"), directory.join("ca.key"));
        let (authority, issuer) = match (read(&certificate)?, read(&key)?) {
            (Some(certificate), Some(key)) => {
                // It is always made alike, so that its certificate need not be parsed.
                let issuer = Issuer::new(authority_params(), KeyPair::from_pem(&key)?);
                (Identity { certificate, key }, issuer)
            }
            (None, None) => {
                let (authority, issuer) = make_authority()?;
                // The key first: a certificate without its key would be taken for half of a whole.
                write(&key, &authority.key)?;
                write(&certificate, &authority.certificate)?;
                (authority, issuer)
            }
            // A key alone is what a crash between the two writes leaves: nothing was signed with it.
            (None, Some(_)) => {
                std::fs::remove_file(&key).map_err(|source| PkiError::File {
                    what: "remove",
                    path: key,
                    source,
                })?;
                return Pki::open(directory);
            }
            (Some(_), None) => return Err(PkiError::Half { there: certificate, missing: key }),
        };
        Ok(Pki { directory: directory.into(), authority, issuer })
    }

    /// The authority's certificate, in PEM: for servers and clients alike.
    pub fn authority(&self) -> &str {
        &self.authority.certificate
    }

    /// A new certificate for the server, known by these names and addresses.
    ///
    /// # Errors
    /// When it cannot be made or written.
    pub fn server(&self, names: &[String]) -> Result<Identity, PkiError> {
        let mut params = params("kube-apiserver", None, ExtendedKeyUsagePurpose::ServerAuth);
        for name in names {
            params.subject_alt_names.push(match name.parse::<IpAddr>() {
                Ok(address) => SanType::IpAddress(address),
                Err(_) => SanType::DnsName(name.as_str().try_into()?),
            });
        }
        let identity = self.sign(&params)?;
        write(&self.directory.join("server.key"), &identity.key)?;
        write(&self.directory.join("server.crt"), &identity.certificate)?;
        Ok(identity)
    }

    /// A new certificate for a user with groups.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn client(&self, user: &str, groups: &[&str]) -> Result<Identity, PkiError> {
        let mut params = params(user, groups.first().copied(), ExtendedKeyUsagePurpose::ClientAuth);
        for group in groups.iter().skip(1) {
            params.distinguished_name.push(DnType::OrganizationName, *group);
        }
        self.sign(&params)
    }

    /// Writes the administrator's kubeconfig for a server at this address, with a new certificate; returns its path.
    ///
    /// # Errors
    /// When it cannot be made or written.
    pub fn admin_kubeconfig(&self, server: SocketAddr) -> Result<PathBuf, PkiError> {
        let admin = self.client("kubernetes-admin", &[ADMINISTRATORS])?;
        let path = self.directory.join("admin.kubeconfig");
        write(&path, &self.kubeconfig(&format!("https://{server}"), "kubernetes-admin", &admin))?;
        Ok(path)
    }

    /// A kubeconfig, all in one.
    pub fn kubeconfig(&self, url: &str, user: &str, identity: &Identity) -> String {
        let encoded = |text: &str| STANDARD.encode(text);
        let cluster = json!({"server": url, "certificate-authority-data": encoded(self.authority())});
        let credentials = json!({
            "client-certificate-data": encoded(&identity.certificate),
            "client-key-data": encoded(&identity.key),
        });
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "portolan",
            "clusters": [{"name": "portolan", "cluster": cluster}],
            "users": [{"name": user, "user": credentials}],
            "contexts": [{"name": "portolan", "context": {"cluster": "portolan", "user": user}}],
        });
        format!("{config:#}\n")
    }

    fn sign(&self, params: &CertificateParams) -> Result<Identity, PkiError> {
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?.pem();
        Ok(Identity { certificate, key: key.serialize_pem() })
    }
}

fn make_authority() -> Result<(Identity, Issuer<'static, KeyPair>), PkiError> {
    let params = authority_params();
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?.pem();
    let authority = Identity { certificate, key: key.serialize_pem() };
    Ok((authority, Issuer::new(params, key)))
}

fn authority_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "kubernetes");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages =
        vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    params
}

fn params(name: &str, group: Option<&str>, usage: ExtendedKeyUsagePurpose) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    if let Some(group) = group {
        params.distinguished_name.push(DnType::OrganizationName, group);
    }
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
    params.extended_key_usages = vec![usage];
    params.use_authority_key_identifier_extension = true;
    params
}

fn read(path: &Path) -> Result<Option<String>, PkiError> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(PkiError::File { what: "read", path: path.into(), source }),
    }
}

/// Writes a file that is there whole or not at all, and that only its owner can read.
fn write(path: &Path, text: &str) -> Result<(), PkiError> {
    let hidden = path.with_extension("new");
    let written = || -> io::Result<()> {
        let _ = std::fs::remove_file(&hidden);
        let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&hidden)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&hidden, path)
    };
    written().map_err(|source| PkiError::File { what: "write", path: path.into(), source })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_authority_is_made_once_and_keys_are_private() {
        let directory = tempfile::tempdir().unwrap();
        let first = Pki::open(directory.path()).unwrap();
        first.server(&["127.0.0.1".into(), "localhost".into()]).unwrap();
        let kubeconfig = first.admin_kubeconfig("127.0.0.1:6443".parse().unwrap()).unwrap();
        let again = Pki::open(directory.path()).unwrap();
        assert_eq!(first.authority(), again.authority());
        for file in ["ca.key", "server.key", "admin.kubeconfig"] {
            let mode = std::fs::metadata(directory.path().join(file)).unwrap().permissions().mode();
            assert_eq!(mode & 0o077, 0, "{file} can be read by others");
        }
        let config: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(kubeconfig).unwrap()).unwrap();
        assert_eq!(config["clusters"][0]["cluster"]["server"], "https://127.0.0.1:6443");
    }

    #[test]
    fn half_of_an_authority_is_an_error_and_a_lone_key_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        drop(Pki::open(directory.path()).unwrap());
        std::fs::remove_file(directory.path().join("ca.key")).unwrap();
        let error = Pki::open(directory.path()).unwrap_err();
        assert!(error.to_string().contains("ca.key"), "{error}");
        std::fs::remove_file(directory.path().join("ca.crt")).unwrap();
        std::fs::write(directory.path().join("ca.key"), "torn").unwrap();
        Pki::open(directory.path()).unwrap();
    }
}
