//! Certificates for `ssl:` endpoints of OVN's databases: those of an installation, which controllers make themselves, or files that
//! somebody else keeps.

use std::convert::Infallible;
use std::path::PathBuf;

use clap::Args;
use jiff::SignedDuration;
use ovsdb::{ServerNames, TlsFiles};
use portolan_daemons::Transport;
use portolan_ovn_tls::{Authorities, Files, LIFE, Own, sign_requests};
use tokio::sync::watch;

/// Files of certificates by which this process and OVN's databases know each other.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ClientTls {
    /// The certificates of the authorities that sign OVN's, for `ssl:` endpoints.
    #[arg(long, value_name = "FILE", requires_all = ["ovn_certificate", "ovn_private_key"])]
    ovn_ca: Option<PathBuf>,
    /// This process's certificate.
    #[arg(long, value_name = "FILE", requires_all = ["ovn_ca", "ovn_private_key"])]
    ovn_certificate: Option<PathBuf>,
    /// The private key of the certificate.
    #[arg(long, value_name = "FILE", requires_all = ["ovn_ca", "ovn_certificate"])]
    ovn_private_key: Option<PathBuf>,
}

/// The same of a controller, which can make its own.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct OvnTls {
    #[command(flatten)]
    given: ClientTls,
    /// Reach the databases at --ovn-addresses by TLS, keep the authorities of their certificates in Secrets of this namespace, and sign
    /// the requests of ovn-central and ovn-controller there.
    #[arg(long, value_name = "NAMESPACE", requires = "ovn_addresses", conflicts_with = "ovn_ca")]
    ovn_tls: Option<String>,
    /// Where this process keeps its own certificate then. It should be in memory.
    #[arg(long, value_name = "DIRECTORY", default_value = "/run/portolan/ovn-tls")]
    ovn_tls_directory: PathBuf,
    /// How long certificates are valid at most.
    #[arg(long, value_name = "SECONDS", hide = true)]
    ovn_certificate_life: Option<u32>,
}

/// What keeps certificates in order.
pub(crate) struct Certification {
    own: Own,
    authorities: Authorities,
    life: SignedDuration,
}

impl ClientTls {
    /// The files, if they were given.
    pub(crate) fn files(&self) -> Option<TlsFiles> {
        Some(TlsFiles {
            ca: self.ovn_ca.clone()?,
            certificate: self.ovn_certificate.clone()?,
            private_key: self.ovn_private_key.clone()?,
            names: ServerNames::default(),
        })
    }
}

impl OvnTls {
    /// How the databases at `--ovn-addresses` are reached.
    pub(crate) fn transport(&self) -> Transport {
        if self.ovn_tls.is_some() { Transport::Tls } else { Transport::Tcp }
    }

    /// The files, if they were given or are made here.
    pub(crate) fn files(&self) -> Option<TlsFiles> {
        if self.ovn_tls.is_some() {
            let paths = self.own_files().paths();
            return Some(TlsFiles {
                ca: paths.trusted,
                certificate: paths.certificate,
                private_key: paths.private_key,
                names: ServerNames::Verify,
            });
        }
        self.given.files()
    }

    /// What is to be kept in order, if certificates are made here.
    pub(crate) fn certification(&self, client: &kube::Client) -> Option<Certification> {
        let namespace = self.ovn_tls.as_ref()?;
        let authorities = Authorities::keep(client, namespace);
        let life =
            self.ovn_certificate_life.map_or(LIFE, |seconds| SignedDuration::from_secs(seconds.into()));
        let own = Own::new(&authorities, self.own_files(), life);
        Some(Certification { own, authorities, life })
    }

    fn own_files(&self) -> Files {
        Files::new(&self.ovn_tls_directory)
    }
}

impl Certification {
    /// Becomes true when this process has its own certificate.
    pub(crate) fn written(&self) -> watch::Receiver<bool> {
        self.own.written()
    }

    /// Does it for as long as it is polled; needs the API server alone.
    pub(crate) async fn keep(self) -> anyhow::Result<Infallible> {
        let Self { own, authorities, life } = self;
        tokio::select! {
            never = own.keep() => match never {},
            ended = sign_requests(authorities, life) => Ok(ended?),
        }
    }
}
