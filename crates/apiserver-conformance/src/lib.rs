//! What clients of a Kubernetes API server rely on, as cases that run against any server; the expectations are recorded from
//! kube-apiserver, never written by hand.
//!
//! ```text
//!   cases/<topic>/<name>.yaml ── requests ──▶ a server ── answers ──▶ Transcript ── normalize ──▶ recordings/<topic>/<name>.json
//!                                                                        └── from another server: compared with that file
//! ```
//!
//! A case is a file: its first line says what a client relies on, then come requests and watches ([`Case`]). What it makes
//! lives in a namespace of its own, or bears an id of its own in its name, so cases run side by side and in any order. What
//! differs between two runs on the same server (uids, resource versions, times) is replaced by placeholders that keep how
//! these values relate to each other (`normalize.rs` is the one place that says what and why).
//!
//! A server under test is an [`Endpoint`] and knows the [`USERS`]. [`Suite::record`] writes the recordings, [`Suite::verify`]
//! compares with them. Where a server differs on purpose, `differences.yaml` says so and why.
//!
//! The test `kube_apiserver` verifies that kube-apiserver still answers as recorded. It records instead with
//!
//! ```text
//! PORTOLAN_RECORD=1 cargo test -p apiserver-conformance --test kube_apiserver -- --ignored
//! ```
//!
//! and `CASE=apply/` before any of these commands chooses the cases whose `topic/name` begins so. A test of another server
//! starts it and verifies:
//!
//! ```no_run
//! # async fn start() -> apiserver_conformance::Endpoint { unimplemented!() }
//! # async fn verify() -> apiserver_conformance::Result<()> {
//! let endpoint = start().await;
//! let suite = apiserver_conformance::Suite::load()?;
//! let report = suite.verify(&endpoint, suite.differences()).await?;
//! assert!(report.has_passed(), "{report}");
//! # Ok(())
//! # }
//! ```
//!
//! This crate must not know any server's insides, nor link one: all it has is HTTP.

mod case;
mod client;
mod crd;
mod difference;
mod endpoint;
mod error;
mod normalize;
mod path;
mod pretty;
mod report;
mod run;
mod suite;
mod template;
mod transcript;

pub use case::{Case, Crd, Request, Step, Watch};
pub use difference::{Difference, Mismatch};
pub use endpoint::{ClientCertificate, Endpoint, USERS, User, token_file};
pub use error::{Error, Result};
pub use path::Path;
pub use report::{Outcome, Report};
pub use suite::Suite;
