//! Changes that share a sync.

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_that_wait_share_one_sync_and_nothing_is_shown_before_it() {
    let disk = Disk::default();
    let store = Arc::new(open(&disk, Options::default(), &Time::default()).unwrap());
    disk.close_gate();
    let first = tokio::spawn({
        let store = store.clone();
        async move { put(&store, "first", "value").await }
    });
    disk.wait_for_sync();
    let syncs = disk.syncs();
    // The first is on its way to the disk; these gather behind it.
    let change = |index: u32| Change {
        key: Bytes::from(format!("k/{index}")),
        expect: Expect::Absent,
        value: Some(Bytes::from("value")),
    };
    let changes: Vec<Change> = (0..100).map(change).collect();
    let gathered = tokio::spawn({
        let store = store.clone();
        async move {
            let mut commits = Box::pin(commit_all(&store, &changes));
            let opened = std::future::poll_fn(|context| Poll::Ready(commits.as_mut().poll(context))).await;
            assert!(opened.is_pending());
            assert_eq!(store.revision(), Revision(0));
            assert_eq!(store.get(&Bytes::from("first")).await.unwrap().entry, None);
            disk.open_gate();
            (commits.await, disk)
        }
    });
    assert_eq!(first.await.unwrap(), Revision(1));
    let (outcomes, disk) = gathered.await.unwrap();
    let expected: Vec<Outcome> = (2..=101).map(|revision| Outcome::Done(Revision(revision))).collect();
    assert_eq!(outcomes, expected);
    assert_eq!(disk.syncs() - syncs, 2, "one for the first, one for all others");
    audit(&store);
}

#[tokio::test]
async fn changes_of_the_same_key_in_one_transaction_follow_each_other() {
    let disk = Disk::default();
    let store = open(&disk, Options::default(), &Time::default()).unwrap();
    let change = |expect, value: Option<&'static str>| Change {
        key: Bytes::from("d/k"),
        expect,
        value: value.map(Bytes::from),
    };
    let changes = [
        change(Expect::Absent, Some("one")),
        change(Expect::Absent, Some("other")),
        change(Expect::Modified(Revision(1)), Some("two")),
        change(Expect::Modified(Revision(2)), None),
        change(Expect::Absent, Some("three")),
        change(Expect::Modified(Revision(4)), None),
    ];
    let outcomes = commit_all(&store, &changes).await;
    let done: Vec<Option<u64>> = outcomes
        .iter()
        .map(|outcome| match outcome {
            Outcome::Done(revision) => Some(revision.0),
            Outcome::Mismatch(_) => None,
        })
        .collect();
    assert_eq!(done, [Some(1), None, Some(2), Some(3), Some(4), Some(5)]);
    assert!(matches!(&outcomes[1], Outcome::Mismatch(Some(entry)) if entry.value == "one"));
    assert_eq!(store.snapshot().count(b"d/").unwrap(), Some(0));
    audit(&store);
}
