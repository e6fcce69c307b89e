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
//! This crate knows nothing of what is served. Start reading at [`Listener`] and [`keep_authority`].

mod authority;
mod ca_bundle;
mod listener;
mod secret;
mod slots;

pub use authority::{Authority, Unusable};
pub use ca_bundle::{HasCaBundle, keep_ca_bundle};
pub use listener::{Listener, Peer, Service};
pub use secret::{AuthoritySecret, keep_authority};

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

/// How long the API server may take for one request.
const ANSWER: std::time::Duration = std::time::Duration::from_secs(30);

/// An API request with a deadline.
async fn in_time<T>(request: impl Future<Output = kube::Result<T>>) -> Result<T, portolan_watch::Error> {
    match tokio::time::timeout(ANSWER, request).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(portolan_watch::Error::Timeout(ANSWER)),
    }
}

/// Between attempts that fail.
#[derive(Debug, Default)]
struct Pauses(u32);

impl Pauses {
    fn reset(&mut self) {
        self.0 = 0;
    }

    /// 1 s, 2 s, … 64 s.
    fn next(&mut self) -> std::time::Duration {
        let pause = std::time::Duration::from_secs(1 << self.0);
        self.0 = (self.0 + 1).min(6);
        pause
    }
}
