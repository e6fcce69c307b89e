//! What can go wrong.

use std::io;

/// A `Result` of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why something could not be done on the host.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel refused.
    #[error("cannot {what}")]
    Kernel {
        /// What was asked of it.
        what: String,
        /// Its answer.
        #[source]
        source: io::Error,
    },
    /// The kernel's answer cannot be understood.
    #[error("cannot understand the kernel's answer to: {what}: {reason}")]
    Answer {
        /// What was asked of it.
        what: String,
        /// What is wrong with the answer.
        reason: String,
    },
    /// There is no such link.
    #[error("there is no link {0}")]
    NoLink(String),
    /// A device of the node cannot be used as it is.
    #[error("PCI device {address} {problem}")]
    Device {
        /// Its PCI address.
        address: String,
        /// What is wrong with it, and what to do.
        problem: String,
    },
    /// A device of the node is used by somebody else, for now.
    #[error("PCI device {address} {by}")]
    DeviceInUse {
        /// Its PCI address.
        address: String,
        /// By whom, as far as is known.
        by: String,
    },
    /// A route cannot be added, as its destination is the network that is directly on another link.
    #[error(
        "cannot add route {route}: {network} is directly on another link of the namespace; choose another destination"
    )]
    RouteConflict {
        /// The route, with its link.
        route: String,
        /// The other link's network.
        network: ipnet::IpNet,
    },
    /// nft refused.
    #[error("nft refused to {what}: {said}")]
    Nft {
        /// What it was asked for.
        what: String,
        /// Its words.
        said: String,
    },
}

impl Error {
    /// The kernel's error, if it was the kernel that refused.
    pub fn os_error(&self) -> Option<i32> {
        match self {
            Error::Kernel { source, .. } => source.raw_os_error(),
            _ => None,
        }
    }
}

pub(crate) trait Trying<T> {
    fn trying(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: Into<io::Error>> Trying<T> for std::result::Result<T, E> {
    fn trying(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| Error::Kernel { what: what(), source: source.into() })
    }
}
