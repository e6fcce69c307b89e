//! What a server needs that a Kubernetes API server calls, as an aggregated API or as a webhook: a certificate that the API server
//! trusts, and a listener that no peer can exhaust.
//!
//! ```text
//!   Secret (the one source of truth) ─ follow ─▶ Authority ─ sign ─▶ Listener ─▶ Service (the caller's)
//!      ▲ create, renew                              │
//!      └── keep_authority                           └─ keep_ca_bundle ─▶ caBundle of an APIService, …
//! ```
//!
//! **Several replicas agree.** All of them follow the Secret. Whoever comes first creates it; the others are refused and use what is
//! there. `caBundle` is written only from a live read of the Secret and only over the version that was compared, so a replica whose
//! watch is behind cannot put back what another has replaced.
//!
//! This crate knows nothing of what is served. Start reading at [`Served`].

mod authority;
mod body;
mod ca_bundle;
mod listener;
mod secret;
mod served;
mod slots;

pub use body::{BodyError, read_body};
pub use ca_bundle::HasCaBundle;
pub use listener::{Peer, Service};
pub use served::{Config, Error, Served};

/// A Service by which the API server reaches a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceReference {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl ServiceReference {
    /// The names by which it is called.
    fn dns_names(&self) -> [String; 2] {
        let Self { namespace, name } = self;
        ["svc", "svc.cluster.local"].map(|suffix| format!("{name}.{namespace}.{suffix}"))
    }
}

/// Pauses between attempts that fail.
fn pauses() -> portolan_watch::Pause {
    portolan_watch::Pause::new(std::time::Duration::from_secs(1), std::time::Duration::from_secs(64))
}
