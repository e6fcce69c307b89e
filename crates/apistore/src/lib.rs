//! A revisioned key-value store: compare-and-swap transactions, lists at a revision, watches from a revision, compaction.
//!
//! It knows nothing of Kubernetes. Start reading at [`Store`].

mod store;

pub use store::*;
