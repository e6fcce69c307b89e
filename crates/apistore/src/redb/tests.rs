//! Tests that need what a caller cannot have: another disk, another clock, and a look into the tables.

mod audit;
mod disk;
mod faults;
mod group;
mod history;
mod incarnation;
mod model;
mod power;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use bytes::Bytes;
use redb::Database;

use self::audit::audit;
use self::disk::Disk;
use super::{Options, Redb};
use crate::{Change, Expect, Outcome, Revision, Store, StoreError};

/// A clock that is set by hand.
#[derive(Clone, Default)]
struct Time(Arc<AtomicU64>);

impl Time {
    fn set(&self, milliseconds: u64) {
        self.0.store(milliseconds, Ordering::Relaxed);
    }
}

fn open(disk: &Disk, options: Options, time: &Time) -> Result<Redb, StoreError> {
    let mut builder = Database::builder();
    let database = builder.set_cache_size(options.cache_bytes).create_with_backend(disk.clone());
    let time = time.clone();
    let clock = Box::new(move || time.0.load(Ordering::Relaxed));
    Redb::start(database.map_err(super::failed)?, options, clock)
}

fn done(outcome: Outcome) -> Revision {
    match outcome {
        Outcome::Done(revision) => revision,
        Outcome::Mismatch(entry) => panic!("the change must be made, but there is {entry:?}"),
    }
}

/// Makes all changes at once, asked for in this order.
async fn commit_all(store: &Redb, changes: &[Change]) -> Vec<Outcome> {
    let mut commits: Vec<_> = changes.iter().map(|change| Box::pin(store.commit(change.clone()))).collect();
    let mut outcomes: Vec<Option<Outcome>> = vec![None; changes.len()];
    std::future::poll_fn(|context| {
        for (commit, outcome) in commits.iter_mut().zip(&mut outcomes) {
            if outcome.is_none()
                && let Poll::Ready(result) = commit.as_mut().poll(context)
            {
                *outcome = Some(result.unwrap());
            }
        }
        if outcomes.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    outcomes.into_iter().flatten().collect()
}

/// Puts a value at a key, whatever is there.
async fn put(store: &Redb, key: &str, value: &str) -> Revision {
    let key = Bytes::copy_from_slice(key.as_bytes());
    let entry = store.get(&key).await.unwrap().entry;
    let expect = entry.map_or(Expect::Absent, |entry| Expect::Modified(entry.modified));
    let value = Some(Bytes::copy_from_slice(value.as_bytes()));
    done(store.commit(Change { key, expect, value }).await.unwrap())
}

async fn delete(store: &Redb, key: &str) -> Revision {
    let key = Bytes::copy_from_slice(key.as_bytes());
    let expect = Expect::Modified(store.get(&key).await.unwrap().entry.unwrap().modified);
    done(store.commit(Change { key, expect, value: None }).await.unwrap())
}

/// Waits for the writer to have removed everything that it may.
async fn trimmed(store: &Redb) {
    let mut published = store.published.clone();
    let is_trimmed = |snapshot: &Arc<super::Snapshot>| {
        use redb::ReadableTable;
        let first = snapshot.log.first().unwrap().map_or(0, |(first, _)| first.value());
        first >= snapshot.oldest
    };
    published.wait_for(is_trimmed).await.unwrap();
    audit(store);
}
