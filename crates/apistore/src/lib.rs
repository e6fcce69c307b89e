//! A revisioned key-value store: compare-and-swap transactions, lists at a revision, watches from a revision,
//! compaction.
//!
//! It knows nothing of Kubernetes. Start reading at [`Store`]; [`Redb`] is the one that is embedded, in one file.
//! What any implementation must do is in the module `conformance`, behind the feature of that name.

#[cfg(feature = "conformance")]
pub mod conformance;
mod redb;
mod store;

pub use crate::redb::{Options, Redb, RedbWatch};
pub use store::*;
