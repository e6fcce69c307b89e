//! A disk that fails.

use super::*;
use crate::{Range, Watch};

fn is_failed<T: std::fmt::Debug>(result: &Result<T, StoreError>) -> bool {
    matches!(result, Err(StoreError::Failed(_)))
}

fn create(key: &'static str) -> Change {
    Change { key: Bytes::from(key), expect: Expect::Absent, value: Some(Bytes::from("value")) }
}

#[tokio::test]
async fn a_change_that_is_not_synced_is_not_answered_as_done_nor_shown() {
    for fail in [Disk::fail_syncs_after, Disk::fail_writes_after] {
        for count in 0..3 {
            let disk = Disk::default();
            let store = open(&disk, Options::default(), &Time::default()).unwrap();
            put(&store, "before", "value").await;
            let mut watch = store.watch(Bytes::new(), store.revision()).await.unwrap();
            let (mut acknowledged, mut failures) = (1, 0);
            fail(&disk, count);
            for key in ["a", "b", "c", "d", "e", "f"] {
                match store.commit(create(key)).await {
                    Ok(outcome) => acknowledged = done(outcome).0,
                    Err(StoreError::Failed(_)) => failures += 1,
                    Err(error) => panic!("{error}"),
                }
            }
            assert!(failures >= 3, "{failures} failures after {count}");
            disk.mend();
            // The file may or may not have what failed: nothing more is written until it was read anew.
            assert!(is_failed(&store.commit(create("later")).await));
            assert!(is_failed(&store.compact(Revision(1)).await));
            assert_eq!(store.revision(), Revision(acknowledged));
            let page = store.list(Range::default()).await.unwrap();
            assert_eq!((page.entries.len() as u64, page.revision.0), (acknowledged, acknowledged));
            audit(&store);
            drop(store);
            let mut told = 0;
            let end = loop {
                match watch.next().await {
                    Ok(events) => told += events.len() as u64,
                    Err(error) => break error,
                }
            };
            assert_eq!(told + 1, acknowledged);
            assert!(matches!(end, StoreError::Closed), "{end}");

            let store = open(&disk, Options::default(), &Time::default()).unwrap();
            audit(&store);
            assert!(store.revision().0 >= acknowledged);
            assert!(put(&store, "later", "value").await.0 > acknowledged);
        }
    }
}

#[tokio::test]
async fn a_file_of_another_format_is_refused() {
    let disk = Disk::default();
    drop(open(&disk, Options::default(), &Time::default()).unwrap());
    let database = Database::builder().create_with_backend(disk.clone()).unwrap();
    let write = database.begin_write().unwrap();
    write.open_table(crate::redb::layout::META).unwrap().insert("format", 99).unwrap();
    write.commit().unwrap();
    drop(database);
    let error = open(&disk, Options::default(), &Time::default()).unwrap_err();
    assert!(error.to_string().contains("format 99"), "{error}");
}

#[tokio::test]
async fn a_file_is_open_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let store = Redb::open(&path, Options::default()).unwrap();
    put(&store, "k", "v").await;
    assert!(is_failed(&Redb::open(&path, Options::default())));
    drop(store);
    let store = Redb::open(&path, Options::default()).unwrap();
    assert_eq!(store.revision(), Revision(1));
}
