//! Certificates that the server makes itself, in its data directory: an authority, the server's own, and an administrator's with a
//! kubeconfig.
//!
//! ```text
//! ca.crt  ca.key  server.crt  server.key  admin.kubeconfig
//! ```
//!
//! The authority's key stays as it is once made; its certificate is valid for ten years, and is signed again with the same key when
//! two are left. The server's certificate is made at every start, so that it names the addresses of that start. The administrator's is
//! used again for as long as a third of its time is left. Both are valid for a year, and [`Renewal`] makes new ones while the server
//! runs.

mod renewal;
mod validity;

use std::io::{self, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};
use serde_json::{Value, json};

pub use renewal::Renewal;

use crate::server::TlsError;

/// The administrator's name, and the group that may do everything.
const ADMINISTRATOR: &str = "kubernetes-admin";
const ADMINISTRATORS: &str = "system:masters";

const ADMIN_KUBECONFIG: &str = "admin.kubeconfig";

const DAY: Duration = Duration::from_secs(24 * 3600);
/// Clocks of clients may be behind.
const CLOCK_SKEW: Duration = Duration::from_secs(300);

/// How long certificates are valid.
#[derive(Clone, Copy, Debug)]
pub struct Lifetimes {
    /// The authority's.
    pub authority: Duration,
    /// All others'.
    pub leaf: Duration,
}

impl Default for Lifetimes {
    fn default() -> Self {
        Lifetimes { authority: 3653 * DAY, leaf: 365 * DAY }
    }
}

impl Lifetimes {
    /// A certificate is replaced when less than this is left.
    fn leaf_margin(&self) -> Duration {
        self.leaf / 3
    }

    fn authority_margin(&self) -> Duration {
        self.authority / 5
    }
}

/// Tells the time.
pub type Clock = Arc<dyn Fn() -> SystemTime + Send + Sync>;

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
    /// A certificate that was made cannot be served with.
    #[error(transparent)]
    Tls(#[from] TlsError),
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
pub struct Pki {
    directory: PathBuf,
    authority: String,
    issuer: Issuer<'static, KeyPair>,
    lifetimes: Lifetimes,
    clock: Clock,
}

impl std::fmt::Debug for Pki {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Pki").field("directory", &self.directory).finish_non_exhaustive()
    }
}

impl Pki {
    /// Reads the authority of a directory, or makes it. Only the owner of the files can read the keys.
    ///
    /// # Errors
    /// When files cannot be read or written, or one of two that belong together is missing.
    pub fn open(directory: &Path) -> Result<Pki, PkiError> {
        Pki::open_with(directory, Lifetimes::default(), Arc::new(SystemTime::now))
    }

    /// The same, with certificates that are valid for as long as given, by another clock.
    ///
    /// # Errors
    /// As [`Pki::open`].
    pub fn open_with(directory: &Path, lifetimes: Lifetimes, clock: Clock) -> Result<Pki, PkiError> {
        let (certificate, key) = (directory.join("ca.crt"), directory.join("ca.key"));
        let (authority, key) = match (read(&certificate)?, read(&key)?) {
            (Some(authority), Some(key)) => (Some(authority), KeyPair::from_pem(&key)?),
            // A key alone is what a crash between the two writes leaves: nothing was signed with it.
            (None, _) => {
                let made = KeyPair::generate()?;
                write(&key, &made.serialize_pem())?;
                (None, made)
            }
            (Some(_), None) => return Err(PkiError::Half { there: certificate, missing: key }),
        };
        let now = clock();
        let authority = match authority.filter(|authority| is_authority_good(authority, &lifetimes, now)) {
            Some(authority) => authority,
            None => {
                let mut params = authority_params();
                set_validity(&mut params, now, now + lifetimes.authority);
                let signed = params.self_signed(&key)?.pem();
                write(&certificate, &signed)?;
                signed
            }
        };
        // Its name and usages are always the same, so that the certificate need not be parsed for them.
        let issuer = Issuer::new(authority_params(), key);
        Ok(Pki { directory: directory.into(), authority, issuer, lifetimes, clock })
    }

    /// The authority's certificate, in PEM: for servers and clients alike.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// A new certificate for the server, with these names and addresses.
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
        let identity = self.sign(params)?;
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
        self.sign(params)
    }

    /// Writes the administrator's kubeconfig for a server at this address, and returns its path. The certificate of an earlier one is
    /// used again if it will be valid for a while.
    ///
    /// # Errors
    /// When it cannot be made or written.
    pub fn admin_kubeconfig(&self, server: SocketAddr) -> Result<PathBuf, PkiError> {
        let path = self.directory.join(ADMIN_KUBECONFIG);
        let existing = read(&path)?;
        let admin = match existing.as_deref().and_then(identity_in).filter(|admin| self.is_good_admin(admin))
        {
            Some(admin) => admin,
            None => self.client(ADMINISTRATOR, &[ADMINISTRATORS])?,
        };
        let config = self.kubeconfig(&format!("https://{server}"), ADMINISTRATOR, &admin);
        if existing.as_ref() != Some(&config) {
            write(&path, &config)?;
        }
        Ok(path)
    }

    /// The certificate and key in the administrator's kubeconfig, if there is one.
    fn existing_admin(&self) -> Option<Identity> {
        identity_in(&read(&self.directory.join(ADMIN_KUBECONFIG)).ok()??)
    }

    fn is_good_admin(&self, admin: &Identity) -> bool {
        // A little more than the margin, so that it is renewed together with the server's.
        let until = (self.clock)() + self.lifetimes.leaf_margin() + DAY;
        validity::is_client(&self.authority, &admin.certificate, until)
            && validity::subject(&admin.certificate).is_some_and(|user| {
                user.name == ADMINISTRATOR && user.groups.iter().any(|group| group == ADMINISTRATORS)
            })
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

    fn sign(&self, mut params: CertificateParams) -> Result<Identity, PkiError> {
        let now = (self.clock)();
        // A certificate is worth nothing after its authority's has expired.
        let authority = validity::not_after(&self.authority).unwrap_or(now + self.lifetimes.authority);
        set_validity(&mut params, now, authority.min(now + self.lifetimes.leaf));
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?.pem();
        Ok(Identity { certificate, key: key.serialize_pem() })
    }
}

/// Whether an authority's certificate can be kept: it is valid for long enough, and not for longer than is made today.
fn is_authority_good(certificate: &str, lifetimes: &Lifetimes, now: SystemTime) -> bool {
    validity::not_after(certificate).is_some_and(|end| {
        end > now + lifetimes.authority_margin() && end <= now + lifetimes.authority + CLOCK_SKEW
    })
}

fn set_validity(params: &mut CertificateParams, now: SystemTime, end: SystemTime) {
    params.not_before = (now - CLOCK_SKEW).into();
    params.not_after = end.into();
}

/// The certificate and key in a kubeconfig that this module wrote.
fn identity_in(kubeconfig: &str) -> Option<Identity> {
    let config: Value = serde_json::from_str(kubeconfig).ok()?;
    let user = &config["users"][0]["user"];
    let decoded = |field: &str| String::from_utf8(STANDARD.decode(user[field].as_str()?).ok()?).ok();
    Some(Identity { certificate: decoded("client-certificate-data")?, key: decoded("client-key-data")? })
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
    use std::time::UNIX_EPOCH;

    use super::*;

    const ADDRESS: &str = "127.0.0.1:6443";
    const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

    /// The certificates of a directory, opened `years` after some day.
    fn open(directory: &Path, years: f64) -> Pki {
        let now = UNIX_EPOCH + Duration::from_secs(1_800_000_000) + YEAR.mul_f64(years);
        Pki::open_with(directory, Lifetimes::default(), Arc::new(move || now)).unwrap()
    }

    fn years_left(pki: &Pki, certificate: &str) -> f64 {
        let left = validity::not_after(certificate).unwrap().duration_since((pki.clock)());
        left.unwrap_or_default().as_secs_f64() / YEAR.as_secs_f64()
    }

    fn admin(pki: &Pki) -> Identity {
        let path = pki.admin_kubeconfig(ADDRESS.parse().unwrap()).unwrap();
        identity_in(&std::fs::read_to_string(path).unwrap()).unwrap()
    }

    #[test]
    fn the_authority_is_made_once_and_keys_are_private() {
        let directory = tempfile::tempdir().unwrap();
        let first = Pki::open(directory.path()).unwrap();
        first.server(&["127.0.0.1".into(), "localhost".into()]).unwrap();
        let kubeconfig = first.admin_kubeconfig(ADDRESS.parse().unwrap()).unwrap();
        let again = Pki::open(directory.path()).unwrap();
        assert_eq!(first.authority(), again.authority());
        for file in ["ca.key", "server.key", "admin.kubeconfig"] {
            let mode = std::fs::metadata(directory.path().join(file)).unwrap().permissions().mode();
            assert_eq!(mode & 0o077, 0, "{file} can be read by others");
        }
        let config: Value = serde_json::from_str(&std::fs::read_to_string(kubeconfig).unwrap()).unwrap();
        assert_eq!(config["clusters"][0]["cluster"]["server"], "https://127.0.0.1:6443");
    }

    #[test]
    fn a_certificate_without_its_key_is_an_error_and_a_key_alone_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        drop(Pki::open(directory.path()).unwrap());
        std::fs::remove_file(directory.path().join("ca.key")).unwrap();
        let error = Pki::open(directory.path()).unwrap_err();
        assert!(error.to_string().contains("ca.key"), "{error}");
        std::fs::remove_file(directory.path().join("ca.crt")).unwrap();
        std::fs::write(directory.path().join("ca.key"), "torn").unwrap();
        Pki::open(directory.path()).unwrap();
    }

    #[test]
    fn the_authority_is_valid_for_ten_years_and_all_others_for_one() {
        let directory = tempfile::tempdir().unwrap();
        let pki = open(directory.path(), 0.0);
        assert!((9.9..10.1).contains(&years_left(&pki, pki.authority())));
        let server = pki.server(&["localhost".into()]).unwrap();
        assert!((0.99..1.01).contains(&years_left(&pki, &server.certificate)));
        assert!((0.99..1.01).contains(&years_left(&pki, &admin(&pki).certificate)));
    }

    #[test]
    fn the_administrators_certificate_is_used_again_until_a_third_of_its_time_is_left() {
        let directory = tempfile::tempdir().unwrap();
        let first = admin(&open(directory.path(), 0.0));
        assert_eq!(admin(&open(directory.path(), 0.5)).certificate, first.certificate);
        let pki = open(directory.path(), 0.7);
        let renewed = admin(&pki);
        assert_ne!(renewed.certificate, first.certificate);
        assert!((0.99..1.01).contains(&years_left(&pki, &renewed.certificate)));
        let expired = open(directory.path(), 3.0);
        assert_ne!(admin(&expired).certificate, renewed.certificate);
    }

    #[test]
    fn a_kubeconfig_of_another_authority_or_user_is_replaced() {
        let (directory, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let foreign = admin(&open(other.path(), 0.0));
        let pki = open(directory.path(), 0.0);
        let path = directory.path().join("admin.kubeconfig");
        let jane = pki.client("jane", &["users"]).unwrap();
        for wrong in [&foreign, &jane] {
            std::fs::write(&path, pki.kubeconfig("https://127.0.0.1:1", ADMINISTRATOR, wrong)).unwrap();
            assert_ne!(admin(&pki).certificate, wrong.certificate);
        }
        for garbage in ["", "{}", "no JSON"] {
            std::fs::write(&path, garbage).unwrap();
            admin(&pki);
        }
    }

    #[test]
    fn an_authority_that_expires_soon_or_in_two_thousand_years_is_signed_again_with_its_key() {
        let directory = tempfile::tempdir().unwrap();
        let first = open(directory.path(), 0.0);
        let client = first.client("jane", &[]).unwrap();
        assert_eq!(open(directory.path(), 7.0).authority(), first.authority());
        let renewed = open(directory.path(), 9.0);
        assert_ne!(renewed.authority(), first.authority());
        assert!((9.9..10.1).contains(&years_left(&renewed, renewed.authority())));
        let soon = UNIX_EPOCH + Duration::from_secs(1_800_000_000) + YEAR / 2;
        assert!(validity::is_client(renewed.authority(), &client.certificate, soon), "the key is the same");

        // As earlier versions made it.
        let key =
            KeyPair::from_pem(&std::fs::read_to_string(directory.path().join("ca.key")).unwrap()).unwrap();
        let forever = authority_params().self_signed(&key).unwrap().pem();
        std::fs::write(directory.path().join("ca.crt"), &forever).unwrap();
        let repaired = open(directory.path(), 0.0);
        assert!((9.9..10.1).contains(&years_left(&repaired, repaired.authority())));
    }
}
