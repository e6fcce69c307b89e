//! Power losses.

use std::collections::BTreeMap;
use std::sync::Mutex;

use tokio::task::JoinSet;

use super::*;
use crate::{Range, Watch};

const WRITERS: u64 = 6;

#[derive(Clone)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }
}

/// What was answered as done: by revision, the key and what it holds since.
type Acknowledged = Arc<Mutex<BTreeMap<u64, (Bytes, Option<Bytes>)>>>;

/// Changes keys of its own and keys that all share, until the store is gone.
async fn write(store: Arc<Redb>, acknowledged: Acknowledged, mut random: Random, count: usize) {
    for _ in 0..count {
        let key = Bytes::from(format!("k/{}", random.next() % 20));
        let entry = store.get(&key).await.unwrap().entry;
        let expect = entry.as_ref().map_or(Expect::Absent, |entry| Expect::Modified(entry.modified));
        let length = if random.next().is_multiple_of(10) { 9000 } else { 300 };
        let value = Bytes::from(vec![random.next() as u8; (random.next() % length) as usize]);
        let value = (entry.is_none() || !random.next().is_multiple_of(4)).then_some(value);
        let change = Change { key: key.clone(), expect, value: value.clone() };
        if let Outcome::Done(revision) = store.commit(change).await.unwrap() {
            acknowledged.lock().unwrap().insert(revision.0, (key, value));
        }
    }
}

/// Everything that was acknowledged before is in the log, and the tables agree.
async fn check(store: &Redb, acknowledged: &BTreeMap<u64, (Bytes, Option<Bytes>)>) {
    audit(store);
    let Some((last, _)) = acknowledged.last_key_value() else { return };
    assert!(store.revision().0 >= *last, "{last} was acknowledged, the store is at {:?}", store.revision());
    let oldest = store.oldest();
    let mut watch = store.watch(Bytes::new(), oldest).await.unwrap();
    let mut events = BTreeMap::new();
    while events.last_key_value().map_or(oldest.0, |(revision, _)| *revision) < store.revision().0 {
        for event in watch.next().await.unwrap() {
            events.insert(event.revision.0, (event.key, event.value));
        }
    }
    for (revision, change) in acknowledged.range(oldest.0 + 1..) {
        assert_eq!(events.get(revision), Some(change), "at {revision}");
    }
    store.list(Range::default()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_survives_a_power_loss_at_any_moment() {
    let mut random = Random(0x5eed);
    let options = Options { cache_bytes: 1 << 20, history_events: 300, ..Options::default() };
    let mut disk = Disk::default();
    for _life in 0..6 {
        let store = Arc::new(open(&disk, options, &Time::default()).unwrap());
        let acknowledged = Acknowledged::default();
        let mut writers = JoinSet::new();
        for _ in 0..WRITERS {
            let random = Random(random.next());
            writers.spawn(write(store.clone(), acknowledged.clone(), random, 60));
        }
        let mut lost = None;
        while !writers.is_empty() {
            // What is acknowledged before the power goes must be there after it.
            let before = acknowledged.lock().unwrap().clone();
            let odds = random.next() % 4;
            let after = disk.after_power_loss(|| random.next() % 4 >= odds);
            let found = open(&after.after_power_loss(|| true), options, &Time::default()).unwrap();
            check(&found, &before).await;
            lost = Some(after);
            while let Some(ended) = writers.try_join_next() {
                ended.unwrap();
            }
        }
        drop(store);
        // The next life goes on with a disk that lost its power.
        disk = lost.unwrap();
    }
}
