//! Changes of one key after the other.

use std::sync::Arc;

use bytes::Bytes;

use super::{all, bytes, commit, create, delete, done, get, list, update};
use crate::{Entry, Expect, Outcome, Revision, Store};

/// A key is made if it is not there, and only then.
pub async fn a_key_is_created_once<S: Store>(store: Arc<S>) {
    let key = bytes("k");
    assert_eq!(get(&*store, &key).await, None);
    let revision = create(&*store, "k", "one").await;
    let entry = Entry { key: key.clone(), value: bytes("one"), created: revision, modified: revision };
    assert_eq!(get(&*store, &key).await, Some(entry.clone()));
    let outcome = commit(&*store, &key, Expect::Absent, Some(bytes("two"))).await;
    assert_eq!(outcome, Outcome::Mismatch(Some(entry.clone())));
    assert_eq!(get(&*store, &key).await, Some(entry));
}

/// An update that is based on anything but the last change is not made.
pub async fn an_update_needs_the_revision_it_is_based_on<S: Store>(store: Arc<S>) {
    let key = bytes("k");
    let first = create(&*store, "k", "one").await;
    let outcome = commit(&*store, &key, Expect::Modified(first), Some(bytes("two"))).await;
    let second = done(outcome);
    for stale in [Revision(0), first, Revision(second.0 + 1)] {
        for value in [Some(bytes("three")), None] {
            let outcome = commit(&*store, &key, Expect::Modified(stale), value).await;
            assert!(matches!(outcome, Outcome::Mismatch(Some(_))), "based on {stale:?}: {outcome:?}");
        }
    }
    let entry = get(&*store, &key).await.expect("the key is there");
    assert_eq!((entry.value, entry.created, entry.modified), (bytes("two"), first, second));
}

/// Who lost a race can go on without reading.
pub async fn a_mismatch_shows_what_is_there<S: Store>(store: Arc<S>) {
    let key = bytes("k");
    let outcome = commit(&*store, &key, Expect::Modified(Revision(7)), Some(bytes("one"))).await;
    assert_eq!(outcome, Outcome::Mismatch(None));
    create(&*store, "k", "one").await;
    update(&*store, "k", "two").await;
    let outcome = commit(&*store, &key, Expect::Absent, Some(bytes("three"))).await;
    let Outcome::Mismatch(Some(entry)) = outcome else { panic!("expected a mismatch: {outcome:?}") };
    assert_eq!(Some(entry.clone()), get(&*store, &key).await);
    done(commit(&*store, &key, Expect::Modified(entry.modified), Some(bytes("three"))).await);
}

/// A key that is made again has a new life.
pub async fn a_deleted_key_is_gone_and_can_be_made_again<S: Store>(store: Arc<S>) {
    let key = bytes("k");
    let first = create(&*store, "k", "one").await;
    let deleted = delete(&*store, "k").await;
    assert!(deleted > first);
    assert_eq!(get(&*store, &key).await, None);
    assert!(list(&*store, all("k")).await.entries.is_empty());
    let outcome = commit(&*store, &key, Expect::Modified(first), Some(bytes("two"))).await;
    assert_eq!(outcome, Outcome::Mismatch(None));
    let second = create(&*store, "k", "two").await;
    let entry = get(&*store, &key).await.expect("the key is there again");
    assert_eq!((entry.created, entry.modified), (second, second));
}

/// There is no event without something that happened.
pub async fn nothing_is_deleted_where_nothing_is<S: Store>(store: Arc<S>) {
    let before = store.revision();
    let outcome = commit(&*store, &bytes("k"), Expect::Absent, None).await;
    assert_eq!(outcome, Outcome::Mismatch(None));
    assert_eq!(store.revision(), before);
}

/// Each change has its own place in the order.
pub async fn revisions_grow_with_every_change<S: Store>(store: Arc<S>) {
    let mut last = store.revision();
    for round in 0..3 {
        for name in ["a", "b", "c"] {
            let revision = match round {
                0 => create(&*store, name, "one").await,
                1 => update(&*store, name, "one").await,
                _ => delete(&*store, name).await,
            };
            assert!(revision > last, "{revision:?} after {last:?}");
            assert_eq!(store.revision(), revision);
            last = revision;
        }
    }
}

/// What was not made has no revision.
pub async fn a_mismatch_leaves_no_trace<S: Store>(store: Arc<S>) {
    let revision = create(&*store, "k", "one").await;
    for _ in 0..3 {
        commit(&*store, &bytes("k"), Expect::Absent, Some(bytes("two"))).await;
        commit(&*store, &bytes("other"), Expect::Modified(revision), Some(bytes("two"))).await;
    }
    assert_eq!(store.revision(), revision);
    assert_eq!(list(&*store, all("")).await.revision, revision);
}

/// Reads that start after a commit was answered see it.
pub async fn what_is_committed_is_read<S: Store>(store: Arc<S>) {
    for round in 0..50 {
        let (name, value) = (format!("k{round}"), format!("value {round}"));
        let revision = create(&*store, &name, &value).await;
        assert!(store.revision() >= revision);
        let got = store.get(&bytes(&name)).await.expect("a key is read");
        assert!(got.revision >= revision);
        assert_eq!(got.entry.expect("the key is there").value, bytes(&value));
        let page = list(&*store, all(&name)).await;
        assert!(page.revision >= revision);
        assert_eq!(page.entries.len(), 1, "{name}");
    }
}

/// A value is bytes, none or many.
pub async fn values_may_be_empty_large_and_binary<S: Store>(store: Arc<S>) {
    let every_byte = Bytes::from_iter(0..=u8::MAX);
    let large = Bytes::from_iter((0..1_000_000_u32).map(|i| (i / 251) as u8));
    let values = [Bytes::new(), every_byte, large.clone(), Bytes::new(), large.slice(1..4100)];
    let key = bytes("k");
    let mut expect = Expect::Absent;
    for value in values {
        let revision = done(commit(&*store, &key, expect, Some(value.clone())).await);
        let entry = get(&*store, &key).await.expect("the key is there");
        assert_eq!(entry.modified, revision);
        assert!(entry.value == value, "a value of {} bytes reads back", value.len());
        expect = Expect::Modified(revision);
    }
}

/// A key is bytes too.
pub async fn keys_may_be_binary_and_long<S: Store>(store: Arc<S>) {
    let mut keys: Vec<Bytes> = (0..=u8::MAX).map(|byte| Bytes::from(vec![byte])).collect();
    keys.extend([&b"\0\0"[..], b"\0\xff", b"\xff\xff", b"\xff\0"].map(Bytes::from_static));
    keys.push(Bytes::from(vec![b'l'; 4000]));
    for key in &keys {
        done(commit(&*store, key, Expect::Absent, Some(key.clone())).await);
    }
    for key in &keys {
        assert_eq!(get(&*store, key).await.expect("the key is there").value, key);
    }
    keys.sort();
    let listed: Vec<Bytes> =
        list(&*store, all("")).await.entries.into_iter().map(|entry| entry.key).collect();
    assert_eq!(listed, keys);
}
