//! A store that is opened again, and copies of it.

use std::os::unix::fs::PermissionsExt as _;

use super::*;
use crate::{Range, Watch as _};

/// Some day, in milliseconds since 1970.
const DAY_ONE: u64 = 1_800_000_000_000;
const DAY: u64 = 24 * 3600 * 1000;

fn options() -> Options {
    Options { history_age: std::time::Duration::from_secs(1 << 30), ..Options::default() }
}

fn open_at(disk: &Disk, time: u64) -> Redb {
    let clock = Time::default();
    clock.set(time);
    open(disk, options(), &clock).unwrap()
}

fn copy(disk: &Disk) -> Disk {
    disk.after_power_loss(|| true)
}

async fn revisions_after(store: &Redb, after: Revision) -> Result<Vec<Revision>, StoreError> {
    let mut watch = store.watch(Bytes::new(), after).await?;
    let mut revisions = Vec::new();
    while revisions.last() != Some(&store.revision()) {
        revisions.extend(watch.next().await?.iter().map(|event| event.revision));
    }
    Ok(revisions)
}

#[tokio::test]
async fn a_reader_of_the_original_is_noticed_by_a_copy_that_was_restored() {
    let disk = Disk::default();
    let original = open_at(&disk, DAY_ONE);
    let shared = put(&original, "a", "1").await;
    let copied = copy(&disk);
    let mut only_original = Vec::new();
    for number in 0..10 {
        only_original.push(put(&original, "a", &format!("original {number}")).await);
    }
    drop(original);

    let restored = open_at(&copied, DAY_ONE + DAY);
    for revision in &only_original {
        let error = restored.watch(Bytes::new(), *revision).await.unwrap_err();
        assert!(matches!(error, StoreError::Future { .. }), "{error}: nothing was written yet");
    }
    let mut restored_revisions = Vec::new();
    for number in 0..20 {
        restored_revisions.push(put(&restored, "a", &format!("restored {number}")).await);
    }
    for revision in &only_original {
        assert!(!restored_revisions.contains(revision));
        let error = restored.watch(Bytes::new(), *revision).await.unwrap_err();
        assert!(matches!(error, StoreError::Unknown { asked } if asked == *revision), "{error}");
        let error = restored.list(Range { at: Some(*revision), ..Range::default() }).await.unwrap_err();
        assert!(matches!(error, StoreError::Unknown { asked } if asked == *revision), "{error}");
    }
    assert_eq!(revisions_after(&restored, shared).await.unwrap(), restored_revisions, "what both had");
}

#[tokio::test]
async fn a_reader_of_a_store_that_is_opened_again_misses_nothing() {
    let disk = Disk::default();
    let mut expected = Vec::new();
    for life in 0..5 {
        let store = open_at(&disk, DAY_ONE + life * DAY);
        for number in 0..10 {
            expected.push(put(&store, &format!("k{}", number % 3), &number.to_string()).await);
        }
        assert!(expected.is_sorted());
        for (index, revision) in expected.iter().enumerate() {
            if *revision != store.revision() {
                assert_eq!(revisions_after(&store, *revision).await.unwrap(), expected[index + 1..]);
            }
            store.list(Range { at: Some(*revision), ..Range::default() }).await.unwrap();
        }
    }
}

#[tokio::test]
async fn the_length_of_history_counts_changes_not_revisions() {
    let disk = Disk::default();
    let mut made = Vec::new();
    for life in 0..6 {
        let clock = Time::default();
        clock.set(DAY_ONE + life * DAY);
        let options = Options { history_events: 64, ..options() };
        let store = open(&disk, options, &clock).unwrap();
        for number in 0..25 {
            made.push(put(&store, "k", &number.to_string()).await);
            let kept = made.iter().rev().position(|revision| *revision == store.oldest());
            let kept = kept.unwrap_or(made.len());
            assert!(kept <= 64, "{kept} changes are kept");
            assert!(kept >= made.len().min(56), "{kept} of {} changes are kept", made.len());
        }
        trim_all(&store).await;
    }
}

/// Waits until the log begins with the oldest revision.
async fn trim_all(store: &Redb) {
    let mut published = store.published.clone();
    let is_trimmed = |snapshot: &Arc<crate::redb::Snapshot>| {
        use redb::ReadableTable;
        let first = snapshot.log.first().unwrap().map_or(0, |(first, _)| first.value());
        first >= snapshot.oldest
    };
    published.wait_for(is_trimmed).await.unwrap();
}

#[tokio::test]
async fn only_the_owner_can_read_the_file_even_if_an_earlier_version_made_it() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("store.redb");
    let mode = || std::fs::metadata(&file).unwrap().permissions().mode() & 0o777;
    drop(Redb::open(&file, Options::default()).unwrap());
    assert_eq!(mode(), 0o600);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    drop(Redb::open(&file, Options::default()).unwrap());
    assert_eq!(mode(), 0o600);
}
