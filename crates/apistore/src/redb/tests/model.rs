//! Against a store that is too simple to be wrong.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::{Entry, Event, Range, Watch};

/// Keys with all kinds of neighbours.
const KEYS: [&[u8]; 12] =
    [b"", b"a", b"a/", b"a/b", b"a/b/c", b"a0", b"a\xff", b"a\xff\xff", b"b", b"\0", b"\xff", b"\xff\xff"];
const PREFIXES: [&[u8]; 9] = [b"", b"a", b"a/", b"a/b/", b"a\xff", b"\xff", b"\xff\xff", b"b", b"zz"];

#[derive(Clone, Debug)]
enum Step {
    /// Puts a value of this length, or deletes; based on what is there.
    Change {
        key: usize,
        length: Option<usize>,
    },
    /// Is based on something else.
    Stale {
        key: usize,
        off: u64,
    },
    /// Compacts to this many revisions before the last.
    Compact {
        back: u64,
    },
    Reopen,
    /// Several changes at once: of the same key, only one is made.
    Race {
        keys: Vec<usize>,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = 0..KEYS.len();
    let length = prop_oneof![1 => Just(None), 3 => (0..40_usize).prop_map(Some), 1 => Just(Some(5000))];
    let step = prop_oneof![
        12 => (key.clone(), length).prop_map(|(key, length)| Step::Change { key, length }),
        2 => (key.clone(), 1..4_u64).prop_map(|(key, off)| Step::Stale { key, off }),
        1 => (0..30_u64).prop_map(|back| Step::Compact { back }),
        1 => Just(Step::Reopen),
        2 => prop::collection::vec(key, 2..6).prop_map(|keys| Step::Race { keys }),
    ];
    prop::collection::vec(step, 1..60)
}

/// The whole past, in plain maps.
struct Model {
    /// What stood at each revision.
    states: Vec<BTreeMap<Bytes, Entry>>,
    events: Vec<Event>,
    oldest: u64,
}

impl Model {
    fn now(&self) -> &BTreeMap<Bytes, Entry> {
        self.states.last().unwrap()
    }

    fn revision(&self) -> u64 {
        self.states.len() as u64 - 1
    }

    fn apply(&mut self, change: &Change) -> Outcome {
        let before = self.now().get(&change.key).cloned();
        let is_expected = match change.expect {
            Expect::Absent => before.is_none() && change.value.is_some(),
            Expect::Modified(revision) => before.as_ref().is_some_and(|entry| entry.modified == revision),
        };
        if !is_expected {
            return Outcome::Mismatch(before);
        }
        let revision = Revision(self.revision() + 1);
        let mut state = self.now().clone();
        if let Some(value) = &change.value {
            let created = before.as_ref().map_or(revision, |entry| entry.created);
            let (key, value) = (change.key.clone(), value.clone());
            state.insert(key.clone(), Entry { key, value, created, modified: revision });
        } else {
            state.remove(&change.key);
        }
        self.states.push(state);
        self.events.push(Event {
            revision,
            key: change.key.clone(),
            value: change.value.clone(),
            previous: before.map(|entry| (entry.value, entry.modified)),
        });
        Outcome::Done(revision)
    }

    fn change(&self, key: usize, length: Option<usize>) -> Change {
        let key = Bytes::from_static(KEYS[key]);
        let expect = self.now().get(&key).map_or(Expect::Absent, |entry| Expect::Modified(entry.modified));
        let fill = (self.revision() % 251) as u8;
        Change { key, expect, value: length.map(|length| Bytes::from(vec![fill; length])) }
    }

    fn list(&self, at: u64, prefix: &[u8]) -> Vec<Entry> {
        let state = &self.states[usize::try_from(at).unwrap()];
        state.values().filter(|entry| entry.key.starts_with(prefix)).cloned().collect()
    }
}

async fn run(steps: Vec<Step>, options: Options) {
    let (disk, time) = (Disk::default(), Time::default());
    let mut store = open(&disk, options, &time).unwrap();
    let mut model = Model { states: vec![BTreeMap::new()], events: Vec::new(), oldest: 0 };
    for step in steps {
        match step {
            Step::Change { key, length } => {
                let change = model.change(key, length);
                assert_eq!(store.commit(change.clone()).await.unwrap(), model.apply(&change));
            }
            Step::Stale { key, off } => {
                let mut change = model.change(key, Some(1));
                change.expect = match change.expect {
                    Expect::Absent => Expect::Modified(Revision(off)),
                    Expect::Modified(revision) => Expect::Modified(Revision(revision.0 + off)),
                };
                assert_eq!(store.commit(change.clone()).await.unwrap(), model.apply(&change));
            }
            Step::Compact { back } => {
                let oldest = model.revision().saturating_sub(back);
                store.compact(Revision(oldest)).await.unwrap();
                model.oldest = model.oldest.max(oldest);
            }
            Step::Reopen => {
                drop(store);
                store = open(&disk, options, &time).unwrap();
            }
            Step::Race { keys } => race(&store, &mut model, &keys).await,
        }
        assert_eq!(store.revision().0, model.revision());
        assert!(store.oldest().0 >= model.oldest);
        model.oldest = store.oldest().0;
    }
    audit(&store);
    check_lists(&store, &model).await;
    check_watches(&store, &model).await;
}

async fn race(store: &Redb, model: &mut Model, keys: &[usize]) {
    let changes: Vec<Change> = keys.iter().map(|key| model.change(*key, Some(key * 3))).collect();
    let outcomes = commit_all(store, &changes).await;
    for (change, outcome) in changes.iter().zip(outcomes) {
        assert_eq!(outcome, model.apply(change));
    }
}

async fn check_lists(store: &Redb, model: &Model) {
    for at in 0..=model.revision() + 1 {
        let range = Range { at: Some(Revision(at)), ..Range::default() };
        match store.list(range).await {
            Ok(_) => assert!((model.oldest..=model.revision()).contains(&at)),
            Err(StoreError::Compacted { .. }) => assert!(at < model.oldest),
            Err(StoreError::Future { .. }) => assert!(at > model.revision()),
            Err(error) => panic!("{error}"),
        }
    }
    for at in model.oldest..=model.revision() {
        for prefix in PREFIXES {
            let expected = model.list(at, prefix);
            for limit in [0, 1, 3] {
                let mut range = Range {
                    prefix: Bytes::from_static(prefix),
                    limit,
                    at: Some(Revision(at)),
                    ..Range::default()
                };
                let mut listed: Vec<Entry> = Vec::new();
                loop {
                    let page = store.list(range.clone()).await.unwrap();
                    listed.extend(page.entries);
                    assert_eq!(
                        page.remaining,
                        expected.len() - listed.len(),
                        "{prefix:?} at {at} by {limit}"
                    );
                    range.after = listed.last().map(|entry| entry.key.clone());
                    if page.remaining == 0 {
                        break;
                    }
                }
                assert_eq!(listed, expected, "{prefix:?} at {at} by {limit}");
            }
        }
        for after in KEYS {
            let range = Range {
                prefix: Bytes::from_static(b"a"),
                after: Some(Bytes::from_static(after)),
                limit: 2,
                at: Some(Revision(at)),
            };
            let page = store.list(range).await.unwrap();
            let expected: Vec<Entry> =
                model.list(at, b"a").into_iter().filter(|entry| entry.key > after).collect();
            assert_eq!(page.entries, expected[..expected.len().min(2)], "after {after:?} at {at}");
            assert_eq!(page.remaining, expected.len().saturating_sub(2), "after {after:?} at {at}");
        }
    }
    for key in KEYS {
        let got = store.get(&Bytes::from_static(key)).await.unwrap();
        assert_eq!((got.entry.as_ref(), got.revision.0), (model.now().get(key), model.revision()));
    }
}

async fn check_watches(store: &Redb, model: &Model) {
    for after in 0..=model.revision() {
        for prefix in PREFIXES {
            let watch = store.watch(Bytes::from_static(prefix), Revision(after)).await;
            if after < model.oldest {
                assert!(matches!(watch, Err(StoreError::Compacted { .. })));
                continue;
            }
            let mut watch = watch.unwrap();
            let matches = |event: &&Event| event.revision.0 > after && event.key.starts_with(prefix);
            let expected: Vec<Event> = model.events.iter().filter(matches).cloned().collect();
            let mut told = Vec::new();
            while told.len() < expected.len() {
                told.extend(watch.next().await.unwrap());
            }
            assert_eq!(told, expected, "{prefix:?} after {after}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn it_is_a_map_with_a_past(
        steps in steps(),
        recent_events in prop_oneof![Just(0_usize), Just(5), Just(1000)],
        history_events in prop_oneof![Just(10_u64), Just(1000)],
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(run(steps, Options { recent_events, history_events, ..Options::default() }));
    }
}
