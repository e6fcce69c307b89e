//! Compaction: how history ends.

use std::sync::Arc;

use super::{DEADLINE, all, bytes, create, events_until, list, make_history, update, watch};
use crate::{Range, Revision, Store, StoreError, Watch};

fn assert_compacted(error: &StoreError, asked: Revision, oldest: Revision) {
    assert!(
        matches!(error, StoreError::Compacted { asked: a, oldest: o } if (*a, *o) == (asked, oldest)),
        "{error:?}, expected that {asked:?} is compacted and the oldest is {oldest:?}"
    );
}

/// Everything from the oldest on can be listed and watched as before; nothing before it.
pub async fn history_before_the_oldest_is_gone<S: Store>(store: Arc<S>) {
    let (start, revisions) = make_history(&*store, "h/").await;
    let end = *revisions.last().expect("changes");
    let whole = events_until(&mut watch(&*store, "", start).await, end).await;
    let mut lists = Vec::new();
    for at in start.0..=end.0 {
        lists.push(list(&*store, Range { at: Some(Revision(at)), ..all("h/") }).await);
    }
    for oldest in start.0 + 1..=end.0 {
        let oldest = Revision(oldest);
        store.compact(oldest).await.expect("compaction");
        for at in start.0..=end.0 {
            let asked = Revision(at);
            let listed = store.list(Range { at: Some(asked), ..all("h/") }).await;
            let watched = store.watch(bytes("h/"), asked).await;
            if asked < oldest {
                assert_compacted(&listed.expect_err("too old to list"), asked, oldest);
                assert_compacted(&watched.err().expect("too old to watch"), asked, oldest);
                continue;
            }
            let index = usize::try_from(at - start.0).expect("few lists");
            assert_eq!(listed.expect("recent enough to list"), lists[index]);
            if asked < end {
                let mut watch = watched.expect("recent enough to watch");
                let rest = events_until(&mut watch, end).await;
                assert_eq!(rest, whole[whole.len() - rest.len()..]);
                assert!(rest.iter().all(|event| event.revision > asked));
            }
        }
    }
}

/// What stands stands, however old it is.
pub async fn what_stands_survives_compaction<S: Store>(store: Arc<S>) {
    make_history(&*store, "h/").await;
    let before = list(&*store, all("")).await;
    let mut watch = watch(&*store, "h/", before.revision).await;
    store.compact(before.revision).await.expect("compaction");
    assert_eq!(list(&*store, all("")).await, before);
    // A watch that is not behind goes on, with what was there before.
    let old = before.entries.iter().find(|entry| entry.key == "h/a").expect("h/a stands");
    let revision = update(&*store, "h/a", "new").await;
    let told = events_until(&mut watch, revision).await;
    assert_eq!(told[0].previous, Some((old.value.clone(), old.modified)));
    let then = list(&*store, Range { at: Some(before.revision), ..all("") }).await;
    assert_eq!(then, before);
    assert_eq!(list(&*store, all("")).await.entries.len(), before.entries.len());
}

/// It gets everything, if that is still at hand, or learns that it cannot; it never gets a part.
pub async fn a_watch_that_was_left_behind_is_told<S: Store>(store: Arc<S>) {
    let start = store.revision();
    let mut watch = watch(&*store, "h/", start).await;
    let (_, revisions) = make_history(&*store, "h/").await;
    let end = *revisions.last().expect("changes");
    store.compact(end).await.expect("compaction");
    let mut told = Vec::new();
    while told.len() < revisions.len() {
        match tokio::time::timeout(DEADLINE, watch.next()).await.expect("an answer") {
            Ok(events) => told.extend(events.into_iter().map(|event| event.revision)),
            Err(error) => {
                let last = told.last().copied().unwrap_or(start);
                assert_compacted(&error, last, end);
                break;
            }
        }
    }
    assert_eq!(told, revisions[..told.len()]);
}

/// There is no history to forget that has not happened.
pub async fn the_future_cannot_be_compacted<S: Store>(store: Arc<S>) {
    let current = create(&*store, "k", "v").await;
    let asked = Revision(current.0 + 1);
    let error = store.compact(asked).await.expect_err("the future");
    assert!(
        matches!(error, StoreError::Future { asked: a, current: c } if (a, c) == (asked, current)),
        "{error:?}"
    );
    list(&*store, Range { at: Some(current), ..all("") }).await;
}

/// Asking for what is done changes nothing, and does not bring anything back.
pub async fn compaction_can_be_asked_for_again<S: Store>(store: Arc<S>) {
    let (start, revisions) = make_history(&*store, "h/").await;
    let oldest = revisions[4];
    for asked in [oldest, oldest, revisions[2], start] {
        store.compact(asked).await.expect("compaction");
    }
    let error = store.list(Range { at: Some(revisions[3]), ..all("") }).await.expect_err("too old");
    assert_compacted(&error, revisions[3], oldest);
    list(&*store, Range { at: Some(oldest), ..all("") }).await;
}
