//! How OVN's databases are spoken to over the network.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// How OVN's databases are spoken to over the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// In the clear: whoever gets there can do everything.
    Tcp,
    /// By TLS, where both sides show certificates.
    Tls,
}

impl Transport {
    /// Where a server is, as its clients and members of its cluster are told.
    pub fn endpoint(self, address: IpAddr, port: u16) -> String {
        format!("{}:{}", self.name(), SocketAddr::new(address, port))
    }

    /// Where a server listens, as it is told.
    pub(crate) fn listen(self, address: IpAddr, port: u16) -> String {
        let address = match address {
            IpAddr::V4(address) => address.to_string(),
            IpAddr::V6(address) => format!("[{address}]"),
        };
        format!("p{}:{port}:{address}", self.name())
    }

    fn name(self) -> &'static str {
        match self {
            Transport::Tcp => "tcp",
            Transport::Tls => "ssl",
        }
    }
}

/// The files of a program that speaks TLS. Programs of Open vSwitch read them again when they change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The private key.
    pub private_key: PathBuf,
    /// Its certificate.
    pub certificate: PathBuf,
    /// The certificates of the authorities that the other side's must be of.
    pub trusted: PathBuf,
}

impl TlsFiles {
    pub(crate) fn arguments(&self) -> [String; 3] {
        [("private-key", &self.private_key), ("certificate", &self.certificate), ("ca-cert", &self.trusted)]
            .map(|(flag, path)| format!("--{flag}={}", path.display()))
    }
}

/// Where one of OVN's databases listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// An address of this host.
    pub address: IpAddr,
    /// The files for TLS; without them, in the clear.
    pub tls: Option<TlsFiles>,
}

impl Listen {
    /// How it is spoken to there.
    pub fn transport(&self) -> Transport {
        if self.tls.is_some() { Transport::Tls } else { Transport::Tcp }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_both_families_are_written_as_open_vswitch_reads_them() {
        let [four, six] = ["192.0.2.1", "fd00::1"].map(|address| address.parse().unwrap());
        assert_eq!(Transport::Tcp.endpoint(four, 6641), "tcp:192.0.2.1:6641");
        assert_eq!(Transport::Tls.endpoint(six, 6641), "ssl:[fd00::1]:6641");
        assert_eq!(Transport::Tcp.listen(four, 6641), "ptcp:6641:192.0.2.1");
        assert_eq!(Transport::Tls.listen(six, 6641), "pssl:6641:[fd00::1]");
    }
}
