//! What any [`Store`] must do, as test cases.
//!
//! Each case gets an empty store of its own; its revision need not be zero.
//!
//! ```text
//! async fn open() -> (Arc<MyStore>, tempfile::TempDir) { … }
//!
//! apistore::conformance!(open);
//! ```

mod changes;
mod compaction;
mod lists;
mod races;
mod watches;

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;

pub use self::changes::*;
pub use self::compaction::*;
pub use self::lists::*;
pub use self::races::*;
pub use self::watches::*;
use crate::{Change, Entry, Event, Expect, Outcome, Page, Range, Revision, Store, Watch};

/// Makes one test of each case. `$open` is an async function that makes a store: a pair of an `Arc` of it and of what
/// must live as long, such as its directory.
#[macro_export]
macro_rules! conformance {
    ($open:path) => {
        $crate::conformance! { $open;
            a_key_is_created_once
            an_update_needs_the_revision_it_is_based_on
            a_mismatch_shows_what_is_there
            a_deleted_key_is_gone_and_can_be_made_again
            nothing_is_deleted_where_nothing_is
            revisions_grow_with_every_change
            a_mismatch_leaves_no_trace
            what_is_committed_is_read
            values_may_be_empty_large_and_binary
            keys_may_be_binary_and_long
            keys_are_listed_in_order
            a_prefix_ends_where_it_ends
            pages_are_the_list_cut_into_pieces
            parts_of_a_list_have_about_the_bytes_asked_for
            a_page_may_start_at_any_key
            pages_at_a_revision_do_not_see_later_changes
            every_revision_can_be_listed
            the_future_cannot_be_listed
            a_watch_replays_what_happened
            a_watch_goes_on_with_what_happens
            a_watch_can_be_resumed_after_any_event
            a_watch_sees_its_prefix_only
            a_watch_from_now_sees_nothing_old
            a_watch_tells_values_of_long_ago
            the_future_cannot_be_watched
            a_slow_watch_misses_nothing
            a_watch_may_stop_waiting_and_loses_nothing
            a_watch_that_was_left_behind_is_told
            history_before_the_oldest_is_gone
            what_stands_survives_compaction
            the_future_cannot_be_compacted
            compaction_can_be_asked_for_again
            one_of_many_creates_wins
            no_update_is_lost
            watches_see_racing_changes_once_and_in_order
            lists_show_exactly_their_revision
        }
    };
    ($open:path; $($case:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let (store, _kept) = $open().await;
                $crate::conformance::$case(store).await;
            }
        )*
    };
}

/// When to give up waiting for what must come. It is no measure of speed.
const DEADLINE: Duration = Duration::from_secs(60);

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

async fn commit<S: Store>(store: &S, key: &Bytes, expect: Expect, value: Option<Bytes>) -> Outcome {
    let change = Change { key: key.clone(), expect, value };
    store.commit(change).await.expect("a commit is answered")
}

async fn get<S: Store>(store: &S, key: &Bytes) -> Option<Entry> {
    store.get(key).await.expect("a key is read").entry
}

async fn list<S: Store>(store: &S, range: Range) -> Page {
    store.list(range).await.expect("keys are listed")
}

async fn watch<S: Store>(store: &S, prefix: &str, after: Revision) -> S::Watch {
    store.watch(bytes(prefix), after).await.expect("a watch starts")
}

fn all(prefix: &str) -> Range {
    Range { prefix: bytes(prefix), ..Range::default() }
}

fn done(outcome: Outcome) -> Revision {
    match outcome {
        Outcome::Done(revision) => revision,
        Outcome::Mismatch(entry) => panic!("the change must be made, but there is {entry:?}"),
    }
}

async fn create<S: Store>(store: &S, key: &str, value: &str) -> Revision {
    done(commit(store, &bytes(key), Expect::Absent, Some(bytes(value))).await)
}

async fn update<S: Store>(store: &S, key: &str, value: &str) -> Revision {
    let entry = get(store, &bytes(key)).await.expect("what is to be updated");
    done(commit(store, &entry.key, Expect::Modified(entry.modified), Some(bytes(value))).await)
}

async fn delete<S: Store>(store: &S, key: &str) -> Revision {
    let entry = get(store, &bytes(key)).await.expect("what is to be deleted");
    done(commit(store, &entry.key, Expect::Modified(entry.modified), None).await)
}

/// The next events of a watch, at least this many.
async fn events<W: Watch>(watch: &mut W, count: usize) -> Vec<Event> {
    let mut events = Vec::new();
    while events.len() < count {
        let next = tokio::time::timeout(DEADLINE, watch.next()).await;
        let next = next.unwrap_or_else(|_| panic!("waited for {count} events, there are {}", events.len()));
        let next = next.expect("the watch goes on");
        assert!(!next.is_empty(), "an answer of a watch has an event at least");
        events.extend(next);
    }
    events
}

/// The events up to and with a revision, whatever their number.
async fn events_until<W: Watch>(watch: &mut W, revision: Revision) -> Vec<Event> {
    let mut all = Vec::new();
    while all.last().is_none_or(|event: &Event| event.revision < revision) {
        all.extend(events(watch, 1).await);
    }
    all
}

/// A few changes of each kind, under `prefix`, with neighbours. Returns the last revision before them, and theirs.
async fn make_history<S: Store>(store: &S, prefix: &str) -> (Revision, Vec<Revision>) {
    let before = store.revision();
    let key = |name: &str| format!("{prefix}{name}");
    let revisions = vec![
        create(store, &key("a"), "a1").await,
        create(store, &key("b"), "b1").await,
        update(store, &key("a"), "a2").await,
        create(store, &key("c"), "").await,
        delete(store, &key("b")).await,
        update(store, &key("a"), "a3").await,
        create(store, &key("b"), "b2").await,
        delete(store, &key("c")).await,
        update(store, &key("b"), "b2").await,
        create(store, &key("d"), "d1").await,
    ];
    (before, revisions)
}

/// What stands after all events up to a revision, for someone who believes only events. Checks that each fits those
/// before it.
#[derive(Clone, Default)]
struct Replay {
    entries: BTreeMap<Bytes, Entry>,
    revision: Revision,
}

impl Replay {
    fn apply(&mut self, event: &Event) {
        assert!(event.revision > self.revision, "{event:?} comes after {:?}", self.revision);
        self.revision = event.revision;
        let before = self.entries.remove(&event.key);
        let previous = before.as_ref().map(|entry| (entry.value.clone(), entry.modified));
        assert_eq!(event.previous, previous, "what {event:?} found");
        if let Some(value) = &event.value {
            let created = before.map_or(event.revision, |entry| entry.created);
            let (key, value, modified) = (event.key.clone(), value.clone(), event.revision);
            self.entries.insert(key.clone(), Entry { key, value, created, modified });
        } else {
            assert!(before.is_some(), "{event:?} deletes what is not there");
        }
    }

    fn list(&self) -> Vec<Entry> {
        self.entries.values().cloned().collect()
    }
}
