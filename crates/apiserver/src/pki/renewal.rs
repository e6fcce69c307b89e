//! New certificates for a server that runs.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::{Identity, Pki, PkiError, validity};
use crate::server::ServerCertificate;

/// The longest sleep: the machine may be suspended, and its clock may be set.
const CHECK: Duration = Duration::from_secs(3600);
/// After an attempt. A third of the validity is left for further ones as a rule.
const RETRY: Duration = Duration::from_secs(60);

/// Replaces the certificates of a running server and of its administrator before they expire.
#[derive(Debug)]
pub struct Renewal {
    pki: Pki,
    names: Vec<String>,
    address: SocketAddr,
    serving: Arc<ServerCertificate>,
    renew_at: SystemTime,
}

impl Renewal {
    /// Keeps the certificate that a server with these names and this address serves with.
    pub fn new(
        pki: Pki,
        names: Vec<String>,
        address: SocketAddr,
        identity: &Identity,
        serving: Arc<ServerCertificate>,
    ) -> Renewal {
        let renew_at = renew_at(&pki, identity);
        Renewal { pki, names, address, serving, renew_at }
    }

    /// Renews whenever it is time, for as long as the server runs.
    pub async fn run(mut self) {
        loop {
            let left = self.renew_at.duration_since((self.pki.clock)()).unwrap_or_default();
            if !left.is_zero() {
                tokio::time::sleep(left.min(CHECK)).await;
                continue;
            }
            let (renewal, renewed) = match tokio::task::spawn_blocking(move || {
                let renewed = self.renew();
                (self, renewed)
            })
            .await
            {
                Ok(done) => done,
                Err(error) => return tracing::error!(%error, "certificates are no longer renewed"),
            };
            self = renewal;
            match renewed {
                Ok(()) => tracing::info!("certificates renewed"),
                Err(error) => {
                    tracing::error!(?error, "certificates cannot be renewed; the old ones stay in use");
                }
            }
            // Also after a success, whatever the new certificates say: nothing is signed over and over.
            tokio::time::sleep(RETRY).await;
        }
    }

    fn renew(&mut self) -> Result<(), PkiError> {
        self.pki = Pki::open_with(&self.pki.directory, self.pki.lifetimes, self.pki.clock.clone())?;
        let identity = self.pki.server(&self.names)?;
        self.serving.replace(&identity)?;
        self.pki.admin_kubeconfig(self.address)?;
        self.renew_at = renew_at(&self.pki, &identity);
        Ok(())
    }
}

/// When the server's certificate or the administrator's must be replaced, whichever is first.
fn renew_at(pki: &Pki, identity: &Identity) -> SystemTime {
    let admin = pki.existing_admin().and_then(|admin| validity::not_after(&admin.certificate));
    match (validity::not_after(&identity.certificate), admin) {
        (Some(server), Some(admin)) => server.min(admin) - pki.lifetimes.leaf_margin(),
        _ => (pki.clock)(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use tokio::time::Instant;

    use super::*;
    use crate::pki::Lifetimes;

    #[tokio::test(start_paused = true)]
    async fn a_server_that_runs_for_three_years_always_has_valid_certificates() {
        let directory = tempfile::tempdir().unwrap();
        let start = Instant::now();
        let clock = Arc::new(move || UNIX_EPOCH + Duration::from_secs(1_800_000_000) + start.elapsed());
        let pki = Pki::open_with(directory.path(), Lifetimes::default(), clock.clone()).unwrap();
        let address: SocketAddr = "127.0.0.1:6443".parse().unwrap();
        let names = vec!["localhost".to_owned()];
        let identity = pki.server(&names).unwrap();
        let kubeconfig = pki.admin_kubeconfig(address).unwrap();
        let serving = Arc::new(ServerCertificate::new(&identity).unwrap());
        let authority = pki.authority().to_owned();
        let renewal = tokio::spawn(Renewal::new(pki, names, address, &identity, serving.clone()).run());

        let day = Duration::from_secs(24 * 3600);
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..3 * 365 {
            tokio::time::sleep(day).await;
            let now = clock();
            let served = std::fs::read_to_string(directory.path().join("server.crt")).unwrap();
            assert!(validity::not_after(&served).unwrap() > now + 100 * day);
            let admin = super::super::identity_in(&std::fs::read_to_string(&kubeconfig).unwrap()).unwrap();
            assert!(validity::is_client(&authority, &admin.certificate, now + 100 * day));
            assert_eq!(serving.der(), validity::der(&served).unwrap(), "what is written is served");
            seen.insert(served);
        }
        assert_eq!(seen.len(), 5, "one for each two thirds of a year");
        renewal.abort();
    }
}
