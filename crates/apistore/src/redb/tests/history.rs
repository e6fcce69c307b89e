//! Compaction by age and by size.

use std::time::Duration;

use super::*;
use crate::{Range, Watch};

const MINUTE: u64 = 60_000;

fn options() -> Options {
    Options { history_age: Duration::from_millis(5 * MINUTE), ..Options::default() }
}

async fn can_list(store: &Redb, at: Revision) -> bool {
    match store.list(Range { at: Some(at), ..Range::default() }).await {
        Ok(_) => true,
        Err(StoreError::Compacted { asked, oldest }) => {
            assert_eq!((asked, oldest), (at, store.oldest()));
            false
        }
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn history_is_kept_for_its_age_and_little_longer() {
    let (disk, time) = (Disk::default(), Time::default());
    let store = open(&disk, options(), &time).unwrap();
    let mut made = Vec::new();
    // Ten changes a minute, for an hour.
    for step in 0..600 {
        let now = 1_000_000 + step * MINUTE / 10;
        time.set(now);
        made.push((now, put(&store, &format!("k/{}", step % 7), &step.to_string()).await));
        for (then, revision) in made.iter().rev().take(80) {
            let age = now - then;
            if age < 5 * MINUTE {
                assert!(can_list(&store, *revision).await, "{revision:?} of {age} ms ago");
            } else if age > 5 * MINUTE + 5 * MINUTE / 16 {
                assert!(!can_list(&store, *revision).await, "{revision:?} of {age} ms ago");
            }
        }
    }
    trimmed(&store).await;
}

#[tokio::test]
async fn age_is_remembered_over_a_restart() {
    let (disk, time) = (Disk::default(), Time::default());
    time.set(1_000_000);
    let store = open(&disk, options(), &time).unwrap();
    let old = put(&store, "k", "old").await;
    drop(store);
    time.set(1_000_000 + 4 * MINUTE);
    let store = open(&disk, options(), &time).unwrap();
    let young = put(&store, "k", "young").await;
    assert!(can_list(&store, Revision(0)).await);
    drop(store);
    time.set(1_000_000 + 5 * MINUTE);
    let store = open(&disk, options(), &time).unwrap();
    // No change is needed: it sees by itself that time has passed.
    store.published.clone().wait_for(|snapshot| snapshot.oldest == old.0).await.unwrap();
    assert!(!can_list(&store, Revision(0)).await);
    assert!(can_list(&store, old).await && can_list(&store, young).await);
    audit(&store);
}

#[tokio::test]
async fn an_idle_store_forgets_by_itself() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { history_age: Duration::from_millis(100), ..Options::default() };
    let store = Redb::open(dir.path().join("store"), options).unwrap();
    for index in 0..20 {
        put(&store, "k", &index.to_string()).await;
    }
    let last = store.revision();
    let mut published = store.published.clone();
    published.wait_for(|snapshot| snapshot.oldest == last.0).await.unwrap();
    trimmed(&store).await;
    assert_eq!(store.revision(), last);
    drop(store);
    let store = Redb::open(dir.path().join("store"), options).unwrap();
    assert_eq!((store.revision(), store.oldest()), (last, last));
    assert!(put(&store, "k", "again").await > last);
}

#[tokio::test]
async fn a_clock_that_was_wrong_does_not_keep_history_forever() {
    let (disk, time) = (Disk::default(), Time::default());
    time.set(1_000_000 * MINUTE);
    let store = open(&disk, options(), &time).unwrap();
    put(&store, "k", "1").await;
    time.set(1000 * MINUTE);
    let second = put(&store, "k", "2").await;
    time.set(1003 * MINUTE);
    let third = put(&store, "k", "3").await;
    assert!(can_list(&store, Revision(0)).await);
    time.set(1006 * MINUTE);
    put(&store, "k", "4").await;
    assert_eq!(store.oldest(), second);
    time.set(1009 * MINUTE);
    put(&store, "k", "5").await;
    assert_eq!(store.oldest(), third);
    audit(&store);
}

#[tokio::test]
async fn there_are_no_more_events_than_asked_for() {
    let (disk, time) = (Disk::default(), Time::default());
    let options = Options { history_events: 100, ..options() };
    let store = open(&disk, options, &time).unwrap();
    for index in 0..1000_u64 {
        let revision = put(&store, &format!("k/{}", index % 3), "v").await;
        let kept = revision.0 - store.oldest().0;
        assert!(kept <= 100 && kept >= revision.0.min(80), "{kept} of {revision:?}");
    }
    trimmed(&store).await;
}

#[tokio::test]
async fn there_are_no_more_bytes_than_asked_for() {
    let (disk, time) = (Disk::default(), Time::default());
    let options = Options { history_bytes: 100_000, ..options() };
    let store = open(&disk, options, &time).unwrap();
    let value = "x".repeat(2000);
    let mut most = 0;
    for index in 0..300_u64 {
        let revision = put(&store, &format!("k/{}", index % 3), &value).await;
        most = most.max(revision.0 - store.oldest().0);
    }
    // A record has about 2050 bytes, but those of the three creations.
    assert!((45..=52).contains(&most), "{most}");
    // One that is larger than all of history leaves none, and does no harm.
    let large = put(&store, "k/0", &"x".repeat(200_000)).await;
    let after = put(&store, "k/0", "small").await;
    assert_eq!(store.oldest(), after);
    assert!(large < after);
    trimmed(&store).await;
}

#[tokio::test]
async fn long_history_is_removed_in_steps_that_continue_after_a_restart() {
    let (disk, time) = (Disk::default(), Time::default());
    let store = open(&disk, options(), &time).unwrap();
    for index in 0..3000 {
        put(&store, &format!("k/{}", index % 10), "v").await;
    }
    for index in 0..5 {
        delete(&store, &format!("k/{index}")).await;
    }
    let last = store.revision();
    store.compact(last).await.unwrap();
    assert_eq!(store.oldest(), last);
    // It ends in the middle of the work, which goes on when it is opened again.
    drop(store);
    let store = open(&disk, options(), &time).unwrap();
    assert_eq!((store.revision(), store.oldest()), (last, last));
    trimmed(&store).await;
    assert_eq!(store.list(Range::default()).await.unwrap().entries.len(), 5);
}

#[tokio::test]
async fn a_watch_that_is_too_slow_is_told_so() {
    let (disk, time) = (Disk::default(), Time::default());
    let options = Options { recent_events: 10, history_events: 100, ..options() };
    let store = open(&disk, options, &time).unwrap();
    let mut slow = store.watch(Bytes::new(), Revision(0)).await.unwrap();
    let mut idle = store.watch(Bytes::from("other/"), Revision(0)).await.unwrap();
    for index in 0..50 {
        put(&store, "k", &index.to_string()).await;
    }
    assert_eq!(slow.next().await.unwrap().len(), 50);
    let waiting = tokio::spawn(async move {
        let events = idle.next().await.unwrap();
        (events, idle)
    });
    for index in 0..500 {
        put(&store, "k", &index.to_string()).await;
        // The others have their turn: a watch that reads stays in front, even if nothing concerns it.
        tokio::task::yield_now().await;
    }
    let error = slow.next().await.unwrap_err();
    let oldest = store.oldest();
    assert!(
        matches!(error, StoreError::Compacted { asked: Revision(50), oldest: o } if o == oldest),
        "{error:?}"
    );
    let revision = put(&store, "other/k", "v").await;
    let (events, _) = waiting.await.unwrap();
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].revision, revision);
}
