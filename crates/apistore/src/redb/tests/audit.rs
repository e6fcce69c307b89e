//! Whether the tables agree.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use redb::ReadableTable;

use super::Redb;
use crate::redb::counts::directories;
use crate::redb::layout::{Held, Logged, What};

/// What a key holds: created, modified, value.
type Owned = (u64, u64, Vec<u8>);

fn owned(held: Held<'_>) -> Owned {
    (held.created, held.modified, held.value.to_vec())
}

/// Panics if any two tables contradict each other.
pub(super) fn audit(store: &Redb) {
    let snapshot = store.snapshot();
    let mut current: BTreeMap<Vec<u8>, Owned> = BTreeMap::new();
    let mut counts: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
    for item in ReadableTable::iter(&snapshot.current).unwrap() {
        let (key, value) = item.unwrap();
        for directory in directories(&Bytes::copy_from_slice(key.value())) {
            *counts.entry(directory.to_vec()).or_default() += 1;
        }
        current.insert(key.value().to_vec(), owned(Held::decode(value.value()).unwrap()));
    }
    let stored = ReadableTable::iter(&snapshot.counts).unwrap().map(|item| {
        let (directory, count) = item.unwrap();
        (directory.value().to_vec(), count.value())
    });
    assert_eq!(stored.collect::<BTreeMap<_, _>>(), counts, "counts");

    // From now backwards, each change must have left what stands, and its undoing leaves what stood.
    let mut ended = BTreeSet::new();
    let mut expected = snapshot.revision;
    let mut later_total = None;
    for item in ReadableTable::iter(&snapshot.log).unwrap().rev() {
        let (revision, record) = item.unwrap();
        let revision = revision.value();
        assert_eq!(revision, expected, "the log is dense and ends with the last revision");
        expected -= 1;
        let logged = Logged::decode(record.value()).unwrap();
        if let Some((total, length)) = later_total {
            assert_eq!(logged.total, total - length, "the total at {revision}");
        }
        later_total = Some((logged.total, record.value().len() as u64));
        let left = current.remove(logged.key);
        match logged.what {
            What::Created => {
                let (created, modified, _) = left.expect("what was created is there");
                assert_eq!((created, modified), (revision, revision));
            }
            What::Updated(before) => {
                let (created, modified, _) = left.expect("what was updated is there");
                assert_eq!((created, modified), (before.created, revision));
            }
            What::Deleted(_) => assert_eq!(left, None, "what was deleted at {revision} is gone"),
        }
        if let Some(before) = logged.what.before() {
            assert!(before.created <= before.modified && before.modified < revision);
            current.insert(logged.key.to_vec(), owned(before));
            ended.insert((logged.key.to_vec(), revision));
        }
    }
    assert!(
        expected <= snapshot.oldest,
        "the log goes back to {expected}, the oldest is {}",
        snapshot.oldest
    );
    assert!(current.values().all(|(created, modified, _)| created <= modified && *modified <= expected));
    let stored = ReadableTable::iter(&snapshot.ended).unwrap().map(|item| {
        let (guard, _) = item.unwrap();
        let (key, revision) = guard.value();
        (key.to_vec(), revision)
    });
    assert_eq!(stored.collect::<BTreeSet<_>>(), ended, "changes that ended something");
}
