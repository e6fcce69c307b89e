//! What a store on redb costs: commits per second and CPU time of each, for one writer and many; and memory with many
//! objects.
//!
//! ```text
//! cargo run --release -p apistore --example store_cost -- 100000
//! ```
//!
//! The file is made in `TMPDIR`, or in `/tmp`. Run it on the file system that matters.

use std::sync::Arc;
use std::time::{Duration, Instant};

use apistore::{Change, Expect, Options, Outcome, Range, Redb, Revision, Store, Watch};
use bytes::Bytes;

const VALUE_BYTES: usize = 1024;

#[tokio::main]
async fn main() {
    let objects: usize = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(100_000);
    let dir = tempfile::tempdir().expect("a temporary directory");
    let open = || Redb::open(dir.path().join("store"), Options::default()).expect("a store");
    println!("{objects} objects of {VALUE_BYTES} bytes; file in {}", dir.path().display());

    let store = Arc::new(open());
    let mut made = 0;
    for writers in [1, 8, 64] {
        let count = if writers == 1 { 5_000 } else { 20_000 }.min(objects / 4);
        measure(&format!("create, {writers} writers"), count, create(&store, made, count, writers)).await;
        made += count;
    }
    create(&store, made, objects - made, 64).await;
    for writers in [1, 8, 64] {
        let count = if writers == 1 { 5_000 } else { 20_000 }.min(objects / 4);
        measure(&format!("update, {writers} writers"), count, update(&store, objects, count, writers)).await;
    }
    read(&store, objects).await;
    drop(store);

    let size = std::fs::metadata(dir.path().join("store")).map_or(0, |metadata| metadata.len());
    println!("file: {} MiB", size >> 20);
    let start = Instant::now();
    let store = open();
    println!("opened again in {:?}, at revision {}", start.elapsed(), store.revision().0);
}

fn key(index: usize) -> Bytes {
    // Names are not made in the order of keys.
    let name = (index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    Bytes::from(format!("/registry/pods/namespace-{:03}/pod-{name:016x}", index % 100))
}

fn value(seed: usize) -> Bytes {
    let mut state = seed as u64 | 1;
    let bytes = (0..VALUE_BYTES).map(|_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    });
    Bytes::from_iter(bytes)
}

async fn create(store: &Arc<Redb>, from: usize, count: usize, writers: usize) {
    let store = store.clone();
    spread(count, writers, move |index| {
        let (store, index) = (store.clone(), from + index);
        async move {
            let change = Change { key: key(index), expect: Expect::Absent, value: Some(value(index)) };
            done(store.commit(change).await.expect("a commit"));
        }
    })
    .await;
}

async fn update(store: &Arc<Redb>, objects: usize, count: usize, writers: usize) {
    let (store, stride) = (store.clone(), objects / count);
    spread(count, writers, move |index| {
        let (store, key) = (store.clone(), key(index * stride));
        async move {
            let entry = store.get(&key).await.expect("a read").entry.expect("what was made");
            let expect = Expect::Modified(entry.modified);
            done(
                store.commit(Change { key, expect, value: Some(value(index + 1)) }).await.expect("a commit"),
            );
        }
    })
    .await;
}

fn done(outcome: Outcome) -> Revision {
    match outcome {
        Outcome::Done(revision) => revision,
        Outcome::Mismatch(entry) => panic!("nobody else writes, but there is {entry:?}"),
    }
}

/// Runs the work for each of `count` indices on this many tasks.
async fn spread<F: Future<Output = ()> + Send + 'static>(
    count: usize,
    tasks: usize,
    work: impl Fn(usize) -> F + Clone + Send + 'static,
) {
    let mut set = tokio::task::JoinSet::new();
    for task in 0..tasks {
        let work = work.clone();
        set.spawn(async move {
            for index in (task..count).step_by(tasks) {
                work(index).await;
            }
        });
    }
    set.join_all().await;
}

async fn read(store: &Redb, objects: usize) {
    let gets = objects.min(50_000);
    measure("get", gets, async {
        for index in 0..gets {
            let got = store.get(&key(index)).await.expect("a read");
            assert!(got.entry.is_some());
        }
    })
    .await;
    let prefix = Bytes::from_static(b"/registry/pods/");
    measure("list of all, per object", objects, async {
        let page = store.list(Range { prefix: prefix.clone(), ..Range::default() }).await.expect("a list");
        assert_eq!(page.entries.len(), objects);
    })
    .await;
    measure("list of all by 500, per page", objects / 500, async {
        let mut range = Range { prefix: prefix.clone(), limit: 500, ..Range::default() };
        let mut left = objects;
        while left > 0 {
            let page = store.list(range.clone()).await.expect("a page");
            left -= page.entries.len();
            assert_eq!(page.remaining, left);
            range.at = Some(page.revision);
            range.after = page.entries.last().map(|entry| entry.key.clone());
        }
    })
    .await;
    measure("list of one namespace, per object", objects / 100, async {
        let prefix = Bytes::from_static(b"/registry/pods/namespace-042/");
        let page = store.list(Range { prefix, ..Range::default() }).await.expect("a list");
        assert_eq!(page.entries.len(), objects / 100);
    })
    .await;
    let events = (store.revision().0 - store.oldest().0) as usize;
    measure("replay of the log, per event", events, async {
        let mut watch = store.watch(Bytes::new(), store.oldest()).await.expect("a watch");
        let mut left = events;
        while left > 0 {
            left -= watch.next().await.expect("events").len();
        }
    })
    .await;
}

async fn measure(what: &str, count: usize, work: impl Future<Output = ()>) {
    let (start, cpu) = (Instant::now(), cpu_time());
    work.await;
    let (time, cpu) = (start.elapsed(), cpu_time() - cpu);
    let each = |time: Duration| time.as_secs_f64() * 1e6 / count.max(1) as f64;
    let rate = count as f64 / time.as_secs_f64();
    println!(
        "{what:34} {count:7} × {:7.1} µs, {:6.1} µs of CPU; {rate:7.0} per second; {} MiB resident",
        each(time),
        each(cpu),
        resident_mib()
    );
}

/// The time this process has used, user and system, as the kernel tells it: in hundredths of a second.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("/proc");
    let fields = stat.rsplit(')').next().expect("a process name in parentheses").split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).map(|field| field.parse::<u64>().expect("a number")).sum();
    Duration::from_millis(ticks * 10)
}

fn resident_mib() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("/proc");
    let pages: u64 = statm.split_whitespace().nth(1).and_then(|field| field.parse().ok()).expect("a number");
    (pages * 4096) >> 20
}
