//! Watches: what happened, then what happens.

use std::sync::Arc;
use std::time::Duration;

use super::{bytes, create, delete, events, events_until, make_history, update, watch};
use crate::{Event, Revision, Store, StoreError, Watch};

fn made(revision: Revision, key: &str, value: &str) -> Event {
    Event { revision, key: bytes(key), value: Some(bytes(value)), previous: None }
}

/// From any revision that is kept.
pub async fn a_watch_replays_what_happened<S: Store>(store: Arc<S>) {
    let (start, revisions) = make_history(&*store, "h/").await;
    let events = events(&mut watch(&*store, "h/", start).await, revisions.len()).await;
    let told: Vec<Revision> = events.iter().map(|event| event.revision).collect();
    assert_eq!(told, revisions);
    assert_eq!(events[0], made(revisions[0], "h/a", "a1"));
    let previous = Some((bytes("a1"), revisions[0]));
    assert_eq!(events[2], Event { previous, ..made(revisions[2], "h/a", "a2") });
    assert_eq!(events[3], made(revisions[3], "h/c", ""));
    let previous = Some((bytes("b1"), revisions[1]));
    assert_eq!(events[4], Event { value: None, previous, ..made(revisions[4], "h/b", "") });
    assert_eq!(events[6], made(revisions[6], "h/b", "b2"));
    let previous = Some((bytes(""), revisions[3]));
    assert_eq!(events[7], Event { value: None, previous, ..made(revisions[7], "h/c", "") });
}

/// Without a gap, and without telling anything twice.
pub async fn a_watch_goes_on_with_what_happens<S: Store>(store: Arc<S>) {
    let start = store.revision();
    let first = create(&*store, "k", "one").await;
    let mut watch = watch(&*store, "", start).await;
    let second = update(&*store, "k", "two").await;
    let told = events(&mut watch, 2).await;
    assert_eq!(told.iter().map(|event| event.revision).collect::<Vec<_>>(), [first, second]);
    // Now it has nothing to tell, and waits.
    let waiting = tokio::spawn(async move { (events(&mut watch, 1).await, watch) });
    let third = delete(&*store, "k").await;
    let (told, mut watch) = waiting.await.expect("the watch goes on");
    let previous = Some((bytes("two"), second));
    assert_eq!(told, [Event { value: None, previous, ..made(third, "k", "") }]);
    let fourth = create(&*store, "k", "three").await;
    assert_eq!(events(&mut watch, 1).await, [made(fourth, "k", "three")]);
}

/// The rest is the same, wherever it is resumed.
pub async fn a_watch_can_be_resumed_after_any_event<S: Store>(store: Arc<S>) {
    let (start, revisions) = make_history(&*store, "h/").await;
    let (_, others) = make_history(&*store, "i/").await;
    let end = *others.last().expect("changes");
    let whole = events_until(&mut watch(&*store, "", start).await, end).await;
    assert_eq!(whole.len(), revisions.len() + others.len());
    for after in start.0..end.0 {
        let rest = events_until(&mut watch(&*store, "", Revision(after)).await, end).await;
        let expected: Vec<&Event> = whole.iter().filter(|event| event.revision.0 > after).collect();
        assert_eq!(rest.iter().collect::<Vec<_>>(), expected, "after {after}");
    }
}

/// And is not woken with nothing to tell.
pub async fn a_watch_sees_its_prefix_only<S: Store>(store: Arc<S>) {
    let (keys, prefixes) = (["a", "a/", "a/b", "a0", "b/a/"], ["a/", "a", "", "a/b", "z"]);
    let start = store.revision();
    let mut made: Vec<(String, Revision)> = Vec::new();
    for key in keys {
        made.push((key.to_owned(), create(&*store, key, "").await));
    }
    let mut watches = Vec::new();
    for prefix in prefixes {
        watches.push(watch(&*store, prefix, start).await);
    }
    for key in keys {
        made.push((key.to_owned(), update(&*store, key, "new").await));
    }
    for (prefix, mut watch) in prefixes.into_iter().zip(watches) {
        let key = format!("{prefix}-last");
        let last = create(&*store, &key, "").await;
        made.push((key, last));
        let told = events_until(&mut watch, last).await;
        let told: Vec<Revision> = told.iter().map(|event| event.revision).collect();
        let expected = made.iter().filter(|(key, _)| key.starts_with(prefix)).map(|(_, revision)| *revision);
        assert_eq!(told, expected.collect::<Vec<_>>(), "with prefix {prefix:?}");
    }
}

/// The last revision is a good place to start.
pub async fn a_watch_from_now_sees_nothing_old<S: Store>(store: Arc<S>) {
    make_history(&*store, "h/").await;
    let mut watch = watch(&*store, "h/", store.revision()).await;
    let revision = create(&*store, "h/new", "v").await;
    assert_eq!(events(&mut watch, 1).await, [made(revision, "h/new", "v")]);
}

/// The value that an event left is told even if it was replaced a hundred times since.
pub async fn a_watch_tells_values_of_long_ago<S: Store>(store: Arc<S>) {
    let start = store.revision();
    create(&*store, "k", "0").await;
    create(&*store, "ka", "neighbour").await;
    for index in 1..100 {
        update(&*store, "k", &index.to_string()).await;
        update(&*store, "ka", "neighbour").await;
    }
    let events = events(&mut watch(&*store, "k", start).await, 200).await;
    let values = events.iter().filter(|event| event.key == "k").map(|event| event.value.clone());
    assert_eq!(values.collect::<Vec<_>>(), (0..100).map(|i| Some(bytes(&i.to_string()))).collect::<Vec<_>>());
}

/// A revision that has not happened is refused, and said to be so.
pub async fn the_future_cannot_be_watched<S: Store>(store: Arc<S>) {
    let current = create(&*store, "k", "v").await;
    let asked = Revision(current.0 + 1);
    let error = store.watch(bytes(""), asked).await.err().expect("the future");
    assert!(
        matches!(error, StoreError::Future { asked: a, current: c } if (a, c) == (asked, current)),
        "{error:?}"
    );
}

/// It falls behind without harm while history is kept.
pub async fn a_slow_watch_misses_nothing<S: Store>(store: Arc<S>) {
    const WRITERS: u64 = 16;
    const EACH: u64 = 100;
    let start = store.revision();
    let mut watch = watch(&*store, "s/", start).await;
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..WRITERS {
        let store = store.clone();
        writers.spawn(async move {
            for index in 0..EACH {
                create(&*store, &format!("s/{writer}-{index}"), &"x".repeat(1000)).await;
                create(&*store, &format!("t/{writer}-{index}"), "").await;
            }
        });
    }
    writers.join_all().await;
    let told = events(&mut watch, (WRITERS * EACH) as usize).await;
    assert_eq!(told.len(), (WRITERS * EACH) as usize);
    assert!(told.is_sorted_by(|a, b| a.revision < b.revision));
    let mut keys: Vec<_> = told.iter().map(|event| event.key.clone()).collect();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), told.len());
    assert!(told.iter().all(|event| event.key.starts_with(b"s/")));
}

/// Waiting can be given up and begun again at any moment.
pub async fn a_watch_may_stop_waiting_and_loses_nothing<S: Store>(store: Arc<S>) {
    let start = store.revision();
    let writing = {
        let store = store.clone();
        tokio::spawn(async move {
            for index in 0..200 {
                create(&*store, &format!("k{index}"), "").await;
            }
        })
    };
    let mut watch = watch(&*store, "", start).await;
    let mut told: Vec<Event> = Vec::new();
    while told.len() < 200 {
        // Each try is given up at another moment, some before they did anything.
        let patience = Duration::from_micros((told.len() as u64 * 37) % 500);
        if let Ok(next) = tokio::time::timeout(patience, watch.next()).await {
            told.extend(next.expect("the watch goes on"));
        } else {
            told.extend(events(&mut watch, 1).await);
        }
    }
    writing.await.expect("the writer ends");
    let revisions: Vec<u64> = told.iter().map(|event| event.revision.0).collect();
    let mut sorted = revisions.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(revisions, sorted);
    assert_eq!(told.len(), 200);
}
