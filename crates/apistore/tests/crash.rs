//! A process that writes is killed a hundred times over the same file.
//!
//! The test starts itself again as the process to be killed. That tells each change that was answered as done, over a
//! pipe.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use apistore::{Change, Entry, Event, Expect, Options, Outcome, Range, Redb, Revision, Store, Watch};
use bytes::Bytes;

const TEST: &str = "what_was_acknowledged_survives_being_killed";
/// Tells the started process its part, and where the file is.
const FILE: &str = "APISTORE_CRASH_FILE";
const KILLS: u64 = 100;
const WRITERS: u64 = 8;

#[test]
fn what_was_acknowledged_survives_being_killed() {
    if let Some(file) = std::env::var_os(FILE) {
        write_until_killed(&PathBuf::from(file));
    }
    let dir = tempfile::tempdir().unwrap();
    let (file, copy) = (dir.path().join("store"), dir.path().join("copy"));
    let mut witness = Witness::default();
    let mut random = Random(7);
    for kill in 0..KILLS {
        let acknowledged = run_and_kill(&file, 1 + random.below(60));
        assert!(!acknowledged.is_empty());
        // A copy is opened, so that the next process finds what this one left, and not what was mended here.
        std::fs::copy(&file, &copy).unwrap();
        witness.check(&copy, &acknowledged, kill);
    }
    assert!(witness.revision.0 > options().history_events, "compaction took part");
}

/// Starts the writing process, kills it after it told of this many changes, and returns all that it told of.
fn run_and_kill(file: &Path, count: u64) -> Vec<Told> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", TEST, "--nocapture"])
        .env(FILE, file)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut told = Vec::new();
    let mut is_killed = false;
    loop {
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        // Without an end it is the last line, cut by the kill.
        let Some(line) = line.strip_suffix('\n') else { break };
        told.extend(Told::parse(line));
        if told.len() as u64 >= count && !is_killed {
            child.kill().unwrap();
            is_killed = true;
        }
    }
    child.wait().unwrap();
    assert!(is_killed, "it ended by itself");
    told
}

/// A change that was answered as done.
struct Told {
    revision: Revision,
    key: String,
    /// What makes the value; absent if it was deleted.
    seed: Option<u64>,
}

impl Told {
    /// The test harness talks too.
    fn parse(line: &str) -> Option<Told> {
        let mut words = line.strip_prefix("done ")?.split(' ');
        let revision = Revision(words.next()?.parse().unwrap());
        let key = words.next()?.to_owned();
        let seed = words.next()?.parse().ok();
        Some(Told { revision, key, seed })
    }
}

/// A value whose every byte follows from its seed, which is at its start.
fn value_of(seed: u64) -> Bytes {
    let mut random = Random(seed);
    let length = if seed.is_multiple_of(16) { random.below(30_000) } else { random.below(1500) };
    let mut value = seed.to_le_bytes().to_vec();
    value.extend((0..length).map(|_| random.below(256) as u8));
    Bytes::from(value)
}

/// What stands, for someone who has seen all events since the beginning.
#[derive(Default)]
struct Witness {
    entries: BTreeMap<Bytes, Entry>,
    revision: Revision,
}

impl Witness {
    fn check(&mut self, file: &Path, told: &[Told], kill: u64) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let store = Redb::open(file, options()).unwrap();
            let mut events = BTreeMap::new();
            let mut watch = store.watch(Bytes::new(), self.revision).await.unwrap();
            while self.revision < store.revision() {
                for event in watch.next().await.unwrap() {
                    self.see(&event);
                    events.insert(event.revision, event);
                }
            }
            for told in told {
                let event = events.get(&told.revision).unwrap_or_else(|| {
                    panic!("kill {kill}: {:?} was acknowledged and is gone", told.revision)
                });
                assert_eq!(event.key, told.key, "kill {kill}");
                assert!(event.value == told.seed.map(value_of), "kill {kill}: {:?}", told.revision);
            }
            let page = store.list(Range::default()).await.unwrap();
            let standing: Vec<Entry> = self.entries.values().cloned().collect();
            assert!(page.entries == standing, "kill {kill}: what is listed is what the log says");
            assert_eq!(page.revision, self.revision);
        });
    }

    fn see(&mut self, event: &Event) {
        assert!(event.revision > self.revision);
        self.revision = event.revision;
        let before = self.entries.remove(&event.key);
        let previous = before.as_ref().map(|entry| (entry.value.clone(), entry.modified));
        assert!(event.previous == previous, "what {:?} found at {:?}", event.revision, event.key);
        if let Some(value) = event.value.clone() {
            let seed = u64::from_le_bytes(value[..8].try_into().unwrap());
            assert!(value == value_of(seed), "a torn value at {:?}", event.revision);
            let created = before.map_or(event.revision, |entry| entry.created);
            let (key, modified) = (event.key.clone(), event.revision);
            self.entries.insert(key.clone(), Entry { key, value, created, modified });
        }
    }
}

/// History is short enough for compaction to be under way at many of the kills, and longer than one life.
fn options() -> Options {
    Options { cache_bytes: 1 << 20, history_events: 1000, ..Options::default() }
}

fn write_until_killed(file: &Path) -> ! {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    runtime.block_on(async {
        let store = Arc::new(Redb::open(file, options()).unwrap());
        let mut writers = tokio::task::JoinSet::new();
        for writer in 0..WRITERS {
            let start = store.revision().0;
            writers.spawn(write(store.clone(), Random((start << 8) + writer)));
        }
        writers.join_next().await.unwrap().unwrap();
    });
    unreachable!("a writer goes on until it is killed");
}

/// Changes few keys, which all writers share.
async fn write(store: Arc<Redb>, mut random: Random) {
    loop {
        let key = format!("k/{}", random.below(50));
        let entry = store.get(&Bytes::from(key.clone())).await.unwrap().entry;
        let expect = entry.as_ref().map_or(Expect::Absent, |entry| Expect::Modified(entry.modified));
        let seed = (entry.is_none() || random.below(4) > 0).then(|| random.below(u64::MAX));
        let change = Change { key: Bytes::from(key.clone()), expect, value: seed.map(value_of) };
        if let Outcome::Done(revision) = store.commit(change).await.unwrap() {
            let seed = seed.map_or_else(|| "-".to_owned(), |seed| seed.to_string());
            let line = format!("done {} {key} {seed}\n", revision.0);
            if std::io::stdout().lock().write_all(line.as_bytes()).is_err() {
                // Whoever would kill it is gone.
                std::process::exit(1);
            }
        }
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mixed = (self.0 ^ (self.0 >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ (mixed >> 32)) % bound
    }
}
