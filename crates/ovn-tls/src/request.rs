//! The other side: whoever needs a certificate asks for it, keeps it in files, and asks again in time.
//!
//! The key is made here and never leaves. Nothing is kept of a request that was begun: killed at any point, the next process has the files
//! of the last certificate, whole, or asks anew.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestSpec};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client, ResourceExt as _};
use portolan_watch::{Followers, Observed, Plain};
use rcgen::{CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair, SanType};
use tokio::sync::watch;

use crate::authorities::bundle;
use crate::certificate::Certificate;
use crate::files::{Files, Pair};
use crate::own::until;
use crate::{Role, pauses};

/// For how long an answer is awaited before it is said that there is none.
const SILENCE: Duration = Duration::from_secs(30);
/// After how many of these another request is made: somebody may have removed this one from the view of the signer.
const SILENCES: u32 = 20;
/// The least that is left of a certificate that is used on.
const LEAST: Duration = Duration::from_secs(1);

/// What a certificate is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Whose authority is to sign it.
    pub role: Role,
    /// The name; of an ovn-controller that of its chassis.
    pub common_name: String,
    /// Where a server listens.
    pub addresses: BTreeSet<IpAddr>,
    /// Whose certificates the other side shows.
    pub trusts: Role,
}

impl Wanted {
    /// The certificate of a server at this address, for such clients.
    pub fn server(address: IpAddr, clients: Role) -> Self {
        Self {
            role: Role::Central,
            common_name: crate::judge::SERVER_NAME.into(),
            addresses: [address].into(),
            trusts: clients,
        }
    }

    /// The certificate of the ovn-controller of this chassis.
    pub fn chassis(name: String) -> Self {
        Self { role: Role::Chassis, common_name: name, addresses: BTreeSet::new(), trusts: Role::Central }
    }
}

/// What is in the files, in PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    pub(crate) private_key: String,
    pub(crate) certificate: String,
    /// The authorities of whose certificates this is one: others of this kind are known by them.
    pub(crate) own: String,
}

/// Somebody who needs a certificate.
pub struct Request {
    client: Client,
    namespace: String,
    wanted: Wanted,
    files: Files,
    credentials: watch::Sender<Option<Arc<Credentials>>>,
}

impl Request {
    /// Asks controllers that keep their authorities in this namespace.
    pub fn new(client: Client, namespace: &str, wanted: Wanted, files: Files) -> Self {
        Self { client, namespace: namespace.to_owned(), wanted, files, credentials: watch::channel(None).0 }
    }

    /// What is in the files, once it is there.
    pub fn credentials(&self) -> watch::Receiver<Option<Arc<Credentials>>> {
        self.credentials.subscribe()
    }

    /// Keeps the files for as long as it is polled. What fails is tried again.
    ///
    /// # Errors
    /// When a part has ended, which is a bug.
    pub async fn keep(self) -> Result<Infallible, portolan_watch::Error> {
        let mut followers = Followers::of_built_in_kinds(self.client.clone());
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), &self.namespace);
        let mut own = followers.follow_one(maps.clone(), self.wanted.role.authority());
        let mut trusted = followers.follow_one(maps, self.wanted.trusts.authority());
        let mut held = self.files.read().and_then(Held::of);
        let mut written: Option<(Pair, String, String)> = None;
        let mut pauses = pauses();
        loop {
            let known = (bundle(&own.borrow_and_update()), bundle(&trusted.borrow_and_update()));
            let next = match (&known, held.as_ref()) {
                ((Some(own), Some(trusted)), Some(held)) if self.is_usable(held, own) => {
                    match self.write(held, own, trusted, &mut written) {
                        Ok(()) => {
                            pauses.reset();
                            held.next()
                        }
                        Err(error) => {
                            tracing::error!(%error, "the files of a certificate cannot be written; trying again");
                            Next::LookIn(pauses.lengthen())
                        }
                    }
                }
                ((Some(_), Some(_)), _) => Next::Ask,
                // Without a word of whom to trust, a certificate is of no use.
                _ => {
                    let [own, trusted] = [self.wanted.role, self.wanted.trusts].map(Role::authority);
                    let namespace = &self.namespace;
                    tracing::info!(
                        namespace,
                        "waiting for ConfigMaps {own} and {trusted}, in which controllers write whom to trust"
                    );
                    Next::Nothing
                }
            };
            let step = async {
                match next {
                    Next::Nothing => std::future::pending().await,
                    Next::LookIn(pause) => {
                        tokio::time::sleep(pause).await;
                        None
                    }
                    Next::Ask => {
                        let asked = self.ask().await;
                        if let Err(error) = &asked {
                            let pause = pauses.lengthen();
                            tracing::warn!(
                                error,
                                ?pause,
                                "no certificate of {} yet; asking again",
                                self.wanted.role
                            );
                            tokio::time::sleep(pause).await;
                        }
                        asked.ok()
                    }
                }
            };
            let asked = tokio::select! {
                Ok(()) = own.changed() => None,
                Ok(()) = trusted.changed() => None,
                asked = step => asked,
                error = followers.ended() => return Err(error),
            };
            let Some(asked) = asked.and_then(Held::of) else { continue };
            let known = bundle(&own.borrow_and_update());
            if !known.is_some_and(|own| self.is_usable(&asked, &own)) {
                // Signed by an authority that this process is yet to hear of, most likely. What it holds is good until then.
                let pause = pauses.lengthen();
                tracing::info!(?pause, "waiting to hear of the authority that signed the certificate");
                // Nothing changes any more once the follower has ended, which is noticed above.
                let _ = tokio::time::timeout(pause, own.changed()).await;
                own.mark_changed();
            }
            held = Some(asked);
        }
    }

    /// Writes the files, if they are not that already.
    fn write(
        &self,
        held: &Held,
        own: &str,
        trusted: &str,
        written: &mut Option<(Pair, String, String)>,
    ) -> std::io::Result<()> {
        let now = (held.pair.clone(), own.to_owned(), trusted.to_owned());
        if written.as_ref() == Some(&now) {
            return Ok(());
        }
        self.files.write(&held.pair, trusted)?;
        let Pair { private_key, certificate } = held.pair.clone();
        self.credentials.send_replace(Some(Arc::new(Credentials {
            private_key,
            certificate,
            own: own.to_owned(),
        })));
        tracing::info!(expires = %held.certificate.expires, "the certificate of {} and whom to trust are written", self.wanted.role);
        *written = Some(now);
        Ok(())
    }

    /// Whether it is what is wanted, belongs to its key, and others believe it.
    fn is_usable(&self, held: &Held, own: &str) -> bool {
        let Held { certificate, .. } = held;
        certificate.common_name == self.wanted.common_name
            && certificate.addresses == self.wanted.addresses
            && until_end(certificate) > LEAST
            && certificate.is_trusted(own, Timestamp::now())
    }

    /// Makes a request and waits for its answer.
    async fn ask(&self) -> Result<Pair, String> {
        let key = KeyPair::generate().map_err(|error| error.to_string())?;
        let request = self.request(&key).map_err(|error| error.to_string())?;
        let api: Api<CertificateSigningRequest> = Api::all(self.client.clone());
        let made = api.create(&PostParams::default(), &request).await;
        let made = made.map_err(|error| format!("a request cannot be made: {}", Plain(&error)))?;
        let name = made.name_any();
        tracing::info!(request = name, "asked for a certificate of {}", self.wanted.role);
        let mut followers = Followers::of_built_in_kinds(self.client.clone());
        let mut observed = followers.follow_one(api, &name);
        let mut silences = 0;
        loop {
            match answer(&observed.borrow_and_update(), &name)? {
                Some(certificate) => {
                    return Ok(Pair { private_key: key.serialize_pem(), certificate });
                }
                None if silences == SILENCES => {
                    return Err(format!("CertificateSigningRequest {name} has no answer"));
                }
                None => {}
            }
            tokio::select! {
                changed = observed.changed() => changed.map_err(|error| error.to_string())?,
                error = followers.ended() => return Err(error.to_string()),
                () = tokio::time::sleep(SILENCE) => {
                    silences += 1;
                    tracing::warn!(
                        request = name,
                        "no controller has answered the request for a certificate of {}: does one run with --ovn-tls?",
                        self.wanted.role
                    );
                }
            }
        }
    }

    fn request(&self, key: &KeyPair) -> Result<CertificateSigningRequest, rcgen::Error> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, self.wanted.common_name.as_str());
        params.subject_alt_names = self.wanted.addresses.iter().copied().map(SanType::IpAddress).collect();
        let mut usages = vec!["digital signature".to_owned(), "client auth".into()];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        if self.wanted.role == Role::Central {
            usages.push("server auth".into());
            params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
        }
        let request = params.serialize_request(key)?.pem()?;
        Ok(CertificateSigningRequest {
            metadata: ObjectMeta {
                generate_name: Some(format!("{}-", self.wanted.role.account())),
                ..ObjectMeta::default()
            },
            spec: CertificateSigningRequestSpec {
                signer_name: self.wanted.role.signer().into(),
                request: ByteString(request.into_bytes()),
                usages: Some(usages),
                ..CertificateSigningRequestSpec::default()
            },
            status: None,
        })
    }
}

/// The certificate in the answer, if there is one already; an error if there will be none.
fn answer(observed: &Observed<CertificateSigningRequest>, name: &str) -> Result<Option<String>, String> {
    let request = match observed {
        Observed::NotRead => return Ok(None),
        Observed::Absent => return Err(format!("CertificateSigningRequest {name} was deleted")),
        Observed::Present(request) => request,
    };
    let Some(status) = &request.status else { return Ok(None) };
    for condition in status.conditions.iter().flatten() {
        if matches!(&*condition.type_, "Denied" | "Failed") {
            let message = condition.message.as_deref().unwrap_or_default();
            return Err(format!("CertificateSigningRequest {name} was denied: {message}"));
        }
    }
    let certificate = status.certificate.as_ref().filter(|pem| !pem.0.is_empty());
    certificate.map(|pem| String::from_utf8(pem.0.clone()).map_err(|error| error.to_string())).transpose()
}

/// What there is, and when the next one is asked for.
struct Held {
    pair: Pair,
    certificate: Certificate,
    replace_at: Timestamp,
}

/// What is done next, unless something changes before.
enum Next {
    Ask,
    LookIn(Duration),
    Nothing,
}

impl Held {
    /// A key and the certificate of that key; none if they are something else.
    fn of(pair: Pair) -> Option<Self> {
        use rcgen::PublicKeyData as _;
        let certificate = Certificate::from_pem(pair.certificate.as_bytes()).ok()?;
        let key = KeyPair::from_pem(&pair.private_key).ok()?;
        if certificate.public_key != key.subject_public_key_info() {
            return None;
        }
        // A process that lives for a third of what is left asks in time. With jitter: the nodes of a cluster began together.
        let wait = until_end(&certificate).mul_f64((0.8 + fastrand::f64() * 0.4) / 3.0);
        let replace_at = Timestamp::now() + SignedDuration::try_from(wait).unwrap_or_default();
        Some(Self { pair, certificate, replace_at })
    }

    fn next(&self) -> Next {
        match until(self.replace_at) {
            Duration::ZERO => Next::Ask,
            wait => Next::LookIn(wait),
        }
    }
}

/// What is left of a certificate.
fn until_end(certificate: &Certificate) -> Duration {
    let left = certificate.expires.duration_since(Timestamp::now());
    Duration::try_from(left).unwrap_or_default()
}
