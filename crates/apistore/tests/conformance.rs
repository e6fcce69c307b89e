//! The store on redb does what any store must do: with all in memory, and with as little memory as there can be.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

use std::sync::Arc;

use apistore::{Options, Redb};
use tempfile::TempDir;

async fn open() -> (Arc<Redb>, TempDir) {
    open_with(Options::default())
}

/// Events come from the log, and pages from the file.
async fn open_small() -> (Arc<Redb>, TempDir) {
    open_with(Options { cache_bytes: 0, recent_events: 3, ..Options::default() })
}

fn open_with(options: Options) -> (Arc<Redb>, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let store = Redb::open(dir.path().join("store"), options).unwrap();
    (Arc::new(store), dir)
}

apistore::conformance!(open);

mod with_little_memory {
    use super::open_small;

    apistore::conformance!(open_small);
}
