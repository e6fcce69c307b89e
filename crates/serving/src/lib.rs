//! What a server needs that a Kubernetes API server calls, as an aggregated API or as a webhook: a certificate that the API server
//! trusts, and a listener that no peer can exhaust.
//!
//! ```text
//!   portolan-authority: Secret ─▶ Authority ─▶ caBundle of an APIService, …
//!                                    └─ identity: sign ─▶ Listener ─▶ Service (the caller's)
//! ```
//!
//! This crate knows nothing of what is served. Start reading at [`Served`].

mod body;
mod identity;
mod listener;
mod served;
mod slots;

pub use body::{BodyError, read_body};
pub use listener::{Peer, Service};
pub use portolan_authority::HasCaBundle;
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
