//! Certificates for `ssl:` endpoints of OVN's databases.

use std::path::PathBuf;

use clap::Args;
use ovsdb::{ServerNames, TlsFiles};

/// The certificates by which this process and OVN's databases know each other. All three, or none.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct OvnTls {
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

impl OvnTls {
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
