//! What starting again costs: a million locks from JSON, into the set of taken addresses, and into the whole World.
//!
//! ```text
//! cargo run --release -p portolan-ipam --example rebuild_cost -- 1000000
//! ```

use std::time::{Duration, Instant};

use portolan_api::portolan::IPLock;
use portolan_ipam::Ipam;
use portolan_model::fixtures::{mk_lock, mk_subnet};
use portolan_model::{Claim, LockChange, World, doors};

fn main() {
    let count: u32 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1_000_000);
    let texts: Vec<String> = (0..count)
        .map(|i| {
            // Not in the order of the addresses.
            let address =
                std::net::Ipv4Addr::from_bits((10 << 24) + 2 + i.wrapping_mul(2_654_435_761) % (1 << 24));
            let pod = format!("pod-{i}");
            let lock = mk_lock("vpc/blue", "web", &address.to_string(), &pod, u64::from(i) + 1);
            serde_json::to_string(&lock).expect("a lock is plain data")
        })
        .collect();
    let bare = best(|| texts.iter().map(|text| parse(text)).collect::<Vec<_>>());
    let locks: Vec<IPLock> = texts.iter().map(|text| parse(text)).collect();
    let ipam = best(|| {
        let mut ipam = Ipam::new();
        for lock in &locks {
            let claim = Claim::of(&doors::portolan::lock(lock).expect("a lock of ours"));
            let lock = claim.lock.clone();
            ipam.apply(&LockChange { lock, before: None, after: Some(claim), exists: true });
        }
        ipam
    });
    let world = best(|| {
        let mut world = World::default();
        let _ = world.apply(&mk_subnet("web", "10.0.0.0/8", "blue"));
        let _ = world.reset(&locks);
        let ipam = Ipam::of(&world);
        (world, ipam)
    });
    let ratio = |time: Duration| (time + bare).as_secs_f64() / bare.as_secs_f64();
    println!("{count} locks, parsed bare: {bare:?}");
    println!("parsed, and taken:          {:?}, {:.2} times as long", bare + ipam, ratio(ipam));
    println!("parsed, taken, and a World: {:?}, {:.2} times as long", bare + world, ratio(world));
}

fn parse(text: &str) -> IPLock {
    serde_json::from_str(text).expect("a lock that was just written")
}

/// The shortest of three runs, without what it takes to drop the result.
fn best<T>(run: impl Fn() -> T) -> Duration {
    let time = || {
        let start = Instant::now();
        let result = run();
        let time = start.elapsed();
        drop(result);
        time
    };
    time().min(time()).min(time())
}
