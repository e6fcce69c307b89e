//! Who may speak with OVN's databases: each side shows a certificate, and gets it by Kubernetes' CertificateSigningRequests.
//!
//! ```text
//!                     controllers                                            ovn-central, ovn-controller
//!  Secret  ──▶ Authority ──▶ ConfigMap (its certificates) ──────────────────▶ Request ──▶ Files: key, certificate, whom to trust
//!                 │   └────▶ Own ──▶ Files                                     │  ▲                (ovsdb-server, ovn-controller read them)
//!                 └─ sign ◀── judge ◀── CertificateSigningRequest ◀────────────┘  │
//!                      └───────────────────────────────────▶ status.certificate ──┘
//! ```
//!
//! There are two authorities ([`Role`]). *central* vouches for the servers and for controllers: it opens both databases. *chassis* vouches
//! for the ovn-controller of each node under the name of its chassis, which is what OVN's access control goes by: it opens the southbound
//! database, with the rights that OVN gives a chassis. So nothing that a node holds opens the northbound one.
//!
//! **What is signed is made here.** Of a request only its public key is used; the rest is compared with what the requester may have, which
//! follows from the token that it used (`judge.rs`), and written anew.
//!
//! **Trust comes before use.** Nothing is signed by an authority that the ConfigMap does not have yet.
//!
//! This crate knows neither OVN's databases nor who runs their programs. Start reading at [`sign_requests`] and [`Request`].

mod authorities;
mod certificate;
mod files;
mod front;
mod judge;
mod nodes;
mod own;
mod request;
mod signer;

use std::fmt;

pub use authorities::Authorities;
pub use files::{Files, Paths};
pub use front::Front;
pub use own::Own;
pub use request::{Credentials, Request, Wanted};
pub use signer::sign_requests;

/// What belongs to the holders of these certificates, as they say themselves.
const ORGANIZATION: &str = "portolan.dev";

/// How long a certificate is valid unless less is asked for. It is replaced after a third of that.
pub const LIFE: jiff::SignedDuration = jiff::SignedDuration::from_hours(24 * 30);

/// Whom an authority vouches for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// The servers of OVN's databases, and controllers.
    Central,
    /// The ovn-controller of a node, under the name of its chassis.
    Chassis,
}

impl Role {
    /// Both.
    pub const ALL: [Role; 2] = [Role::Central, Role::Chassis];

    /// The signer in requests.
    pub fn signer(self) -> &'static str {
        match self {
            Role::Central => "portolan.dev/ovn-central",
            Role::Chassis => "portolan.dev/ovn-chassis",
        }
    }

    /// The name of the Secret with the authority, and of the ConfigMap with its certificates.
    pub fn authority(self) -> &'static str {
        match self {
            Role::Central => "ovn-central-authority",
            Role::Chassis => "ovn-chassis-authority",
        }
    }

    /// The service account that may have certificates by requests.
    pub fn account(self) -> &'static str {
        match self {
            Role::Central => "ovn-central",
            Role::Chassis => "ovn-controller",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.signer())
    }
}

/// Pauses between attempts that fail.
fn pauses() -> portolan_watch::Pause {
    portolan_watch::Pause::new(std::time::Duration::from_secs(1), std::time::Duration::from_secs(60))
}
