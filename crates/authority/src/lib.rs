//! A certificate authority that several replicas of a program share: in a Secret, made by whoever comes first, replaced in time, its
//! certificates published where others look for them.
//!
//! ```text
//!   Secret (the one source of truth) ─ follow ─▶ Authority ─ sign ─▶ certificates
//!      ▲ create, renew                              │
//!      └── keep_authority                           └─ keep_ca_bundle ─▶ caBundle of an APIService, a ConfigMap, …
//! ```
//!
//! **Several replicas agree.** All of them follow the Secret. Whoever comes first creates it; the others are refused and use what is
//! there. What is published is written only from a live read of the Secret and only over the version that was compared, so a replica
//! whose watch is behind cannot put back what another has replaced.
//!
//! **Nothing breaks when an authority is replaced.** Its successor's bundle has both, and what the first has signed stays good.
//!
//! This crate knows nothing of who gets a certificate. Start reading at [`keep_authority`].

mod authority;
mod ca_bundle;
mod secret;

pub use authority::{Authority, Leaf, SignError, Signed, Unusable, Usages, replace_at};
pub use ca_bundle::{BUNDLE, HasCaBundle, keep_ca_bundle};
pub use secret::{AuthoritySecret, LOOK, keep_authority};

/// Pauses between attempts that fail.
fn pauses() -> portolan_watch::Pause {
    portolan_watch::Pause::new(std::time::Duration::from_secs(1), std::time::Duration::from_secs(64))
}
