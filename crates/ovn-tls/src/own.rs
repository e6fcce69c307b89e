//! The certificate of a controller itself, which needs no request: it has the authority.

use std::convert::Infallible;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use portolan_authority::{Authority, Leaf, SignError, Usages};
use rcgen::KeyPair;
use tokio::sync::watch;

use crate::authorities::{Authorities, Known};
use crate::files::{Files, Pair};
use crate::{ORGANIZATION, Role, pauses};

/// The name of controllers.
const NAME: &str = "portolan-controller";

/// A certificate is not replaced sooner: each takes a new key.
const LEAST_WAIT: SignedDuration = SignedDuration::from_secs(1);

/// A controller's certificate in files.
pub struct Own {
    authority: Known,
    files: Files,
    life: SignedDuration,
    written: watch::Sender<bool>,
}

/// Why there are no files.
#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error(transparent)]
    Sign(#[from] SignError),
    #[error("a key cannot be made: {0}")]
    Key(#[from] rcgen::Error),
    #[error("a file cannot be written: {0}")]
    Write(#[from] std::io::Error),
}

impl Own {
    /// A certificate that is to be in these files, and valid for so long.
    pub fn new(authorities: &Authorities, files: Files, life: SignedDuration) -> Self {
        Self { authority: authorities.of(Role::Central), files, life, written: watch::channel(false).0 }
    }

    /// Becomes true when the files are there.
    pub fn written(&self) -> watch::Receiver<bool> {
        self.written.subscribe()
    }

    /// Keeps the files for as long as it is polled. What fails is tried again.
    pub async fn keep(mut self) -> Infallible {
        let mut pauses = pauses();
        // The authorities that are trusted in the files, and when the certificate is replaced.
        let mut done: Option<(String, Timestamp)> = None;
        loop {
            let wait = match (self.authority.usable(), &done) {
                (None, _) => None,
                (Some(authority), Some((of, replace_at)))
                    if of == authority.bundle() && Timestamp::now() < *replace_at =>
                {
                    Some(until(*replace_at))
                }
                (Some(authority), _) => match self.write(&authority) {
                    Ok(replace_at) => {
                        pauses.reset();
                        done = Some((authority.bundle().to_owned(), replace_at));
                        self.written.send_replace(true);
                        Some(until(replace_at))
                    }
                    Err(error) => {
                        tracing::error!(%error, "there is no new certificate to connect to OVN's databases; trying again");
                        Some(pauses.lengthen())
                    }
                },
            };
            tokio::select! {
                () = self.authority.changed() => {}
                () = tokio::time::sleep(wait.unwrap_or_default()), if wait.is_some() => {}
            }
        }
    }

    fn write(&self, authority: &Arc<Authority>) -> Result<Timestamp, Failed> {
        let now = Timestamp::now();
        let key = KeyPair::generate()?;
        let leaf = Leaf {
            common_name: NAME.into(),
            organization: Some(ORGANIZATION.into()),
            dns_names: Vec::new(),
            addresses: Vec::new(),
            usages: Usages::Client,
            life: self.life,
        };
        let signed = authority.sign(&leaf, &key, now)?;
        let pair = Pair { private_key: key.serialize_pem(), certificate: signed.pem };
        self.files.write(&pair, authority.bundle())?;
        Ok(now + (signed.expires.duration_since(now) / 3).max(LEAST_WAIT))
    }
}

/// How long until then, but no longer than an hour: a sleep does not count the time that a machine was suspended.
pub(crate) fn until(time: Timestamp) -> std::time::Duration {
    let left = time.duration_since(Timestamp::now());
    std::time::Duration::try_from(left).unwrap_or_default().min(portolan_authority::LOOK)
}
