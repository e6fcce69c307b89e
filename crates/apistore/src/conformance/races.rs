//! Many at once.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::{Replay, all, bytes, commit, create, events, events_until, get, list, watch};
use crate::{Event, Expect, Outcome, Page, Range, Revision, Store, Watch};

/// The others learn what the winner made.
pub async fn one_of_many_creates_wins<S: Store>(store: Arc<S>) {
    for round in 0..10 {
        let key = bytes(&format!("k{round}"));
        let mut tries = JoinSet::new();
        for contender in 0..16 {
            let (store, key) = (store.clone(), key.clone());
            tries.spawn(async move {
                commit(&*store, &key, Expect::Absent, Some(bytes(&contender.to_string()))).await
            });
        }
        let outcomes = tries.join_all().await;
        let won: Vec<Revision> = outcomes
            .iter()
            .filter_map(|outcome| match outcome {
                Outcome::Done(revision) => Some(*revision),
                Outcome::Mismatch(_) => None,
            })
            .collect();
        let entry = get(&*store, &key).await.expect("the key is there");
        assert_eq!(won, [entry.modified]);
        for outcome in outcomes {
            if let Outcome::Mismatch(found) = outcome {
                assert_eq!(found, Some(entry.clone()));
            }
        }
    }
}

/// Compare-and-swap makes a counter.
pub async fn no_update_is_lost<S: Store>(store: Arc<S>) {
    const TASKS: u64 = 8;
    const EACH: u64 = 25;
    create(&*store, "counter", "0").await;
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        let store = store.clone();
        tasks.spawn(async move {
            for _ in 0..EACH {
                add_one(&*store).await;
            }
        });
    }
    tasks.join_all().await;
    let entry = get(&*store, &bytes("counter")).await.expect("the counter is there");
    assert_eq!(entry.value, bytes(&(TASKS * EACH).to_string()));
}

async fn add_one<S: Store>(store: &S) {
    let mut entry = get(store, &bytes("counter")).await.expect("the counter is there");
    loop {
        let count: u64 =
            std::str::from_utf8(&entry.value).ok().and_then(|text| text.parse().ok()).expect("a number");
        let value = Some(bytes(&(count + 1).to_string()));
        match commit(store, &entry.key, Expect::Modified(entry.modified), value).await {
            Outcome::Done(_) => return,
            Outcome::Mismatch(found) => entry = found.expect("the counter is there"),
        }
    }
}

/// Creates, updates and deletes at random, on few keys, until as many were made as asked for. Every one that is done
/// is returned.
async fn churn<S: Store>(store: Arc<S>, seed: u64, count: usize) -> Vec<(Revision, String)> {
    let mut random = seed;
    let mut made = Vec::new();
    while made.len() < count {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let name = format!("{}/{}", if random >> 63 == 0 { "even" } else { "odd" }, (random >> 40) % 5);
        let value = format!("{seed}-{}", made.len());
        let (expect, value) = match get(&*store, &bytes(&name)).await {
            None => (Expect::Absent, Some(value)),
            Some(entry) if (random >> 32).is_multiple_of(3) => (Expect::Modified(entry.modified), None),
            Some(entry) => (Expect::Modified(entry.modified), Some(value)),
        };
        let outcome = commit(&*store, &bytes(&name), expect, value.as_deref().map(bytes)).await;
        if let Outcome::Done(revision) = outcome {
            made.push((revision, name));
        }
    }
    made
}

/// Whether they keep up or come late; and what they tell adds up to what stands.
pub async fn watches_see_racing_changes_once_and_in_order<S: Store>(store: Arc<S>) {
    let start = store.revision();
    let mut writers = JoinSet::new();
    for seed in 1..=6 {
        writers.spawn(churn(store.clone(), seed, 60));
    }
    let mut watchers = JoinSet::new();
    let (ended, end) = tokio::sync::watch::channel(false);
    for prefix in ["", "even/", "odd/"] {
        for is_late in [false, true] {
            let (store, mut end) = (store.clone(), end.clone());
            watchers.spawn(async move {
                let mut watch = watch(&*store, prefix, start).await;
                if is_late {
                    end.wait_for(|ended| *ended).await.expect("the writers end");
                }
                (prefix, events_until_end(&mut watch, prefix).await)
            });
        }
    }
    let mut made: Vec<(Revision, String)> = writers.join_all().await.into_iter().flatten().collect();
    made.sort_unstable();
    assert!(made.is_sorted_by(|a, b| a.0 < b.0), "no revision is given twice");
    let standing = list(&*store, all("")).await.entries;
    for name in ["even/end", "odd/end", "end"] {
        create(&*store, name, "").await;
    }
    ended.send_replace(true);
    for (prefix, events) in watchers.join_all().await {
        let name = |event: &Event| String::from_utf8_lossy(&event.key).into_owned();
        let told: Vec<(Revision, String)> =
            events.iter().map(|event| (event.revision, name(event))).collect();
        let expected: Vec<_> = made.iter().filter(|(_, name)| name.starts_with(prefix)).cloned().collect();
        assert_eq!(told, expected, "with prefix {prefix:?}");
        let mut replay = Replay::default();
        events.iter().for_each(|event| replay.apply(event));
        let expected = standing.iter().filter(|entry| entry.key.starts_with(prefix.as_bytes()));
        assert_eq!(replay.list(), expected.cloned().collect::<Vec<_>>());
    }
}

/// The events before the key `end` below a prefix is made.
async fn events_until_end<W: Watch>(watch: &mut W, prefix: &str) -> Vec<Event> {
    let end = bytes(&format!("{prefix}end"));
    let mut all = Vec::new();
    while all.last().is_none_or(|event: &Event| event.key != end) {
        all.extend(events(watch, 1).await);
    }
    all.retain(|event| !event.key.ends_with(b"end"));
    all
}

/// A list that was made in the middle of everything is what the events up to its revision add up to.
pub async fn lists_show_exactly_their_revision<S: Store>(store: Arc<S>) {
    let start = store.revision();
    let mut writers = JoinSet::new();
    for seed in 1..=4 {
        writers.spawn(churn(store.clone(), seed, 60));
    }
    let mut pages: Vec<(&str, Page)> = Vec::new();
    while !writers.is_empty() {
        for prefix in ["", "even/", "odd/"] {
            pages.push((prefix, list(&*store, all(prefix)).await));
            let first = list(&*store, Range { limit: 2, ..all(prefix) }).await;
            let rest = Range {
                after: first.entries.last().map(|entry| entry.key.clone()),
                at: Some(first.revision),
                ..all(prefix)
            };
            let mut rest = list(&*store, rest).await;
            assert_eq!((rest.revision, rest.entries.len()), (first.revision, first.remaining));
            rest.entries.splice(0..0, first.entries);
            pages.push((prefix, rest));
        }
        while let Some(ended) = writers.try_join_next() {
            ended.expect("a writer ends well");
        }
    }
    let end = create(&*store, "zz", "").await;
    let events = events_until(&mut watch(&*store, "", start).await, end).await;
    for (prefix, page) in pages {
        let mut replay = Replay::default();
        let until = events.iter().take_while(|event| event.revision <= page.revision);
        until.filter(|event| event.key.starts_with(prefix.as_bytes())).for_each(|event| replay.apply(event));
        assert_eq!(page.entries, replay.list(), "{prefix:?} at {:?}", page.revision);
    }
}
