//! What it costs to find the locks on addresses of a subnet while another subnet has SIZE of them: what a controller does when
//! somebody deletes the subnet. `cargo xtask instructions` counts it.

use std::hint::black_box;

use portolan_model::World;
use portolan_model::fixtures::{mk_lock, mk_subnet, mk_vpc};

/// The measured step.
#[inline(never)]
fn measured(world: &World) -> usize {
    let Some(subnet) = world.known_subnet("web") else { return 0 };
    let locks = world.locks_of_subnet(&subnet.name).filter_map(|name| world.lock(name));
    locks.filter(|lock| subnet.is_used_by(lock)).count()
}

fn main() {
    let size: u32 = std::env::args().nth(1).and_then(|size| size.parse().ok()).unwrap_or(1000);
    let mut world = World::default();
    drop(world.apply(&mk_vpc("blue")));
    drop(world.apply(&mk_subnet("web", "10.0.0.0/16", "blue")));
    drop(world.apply(&mk_subnet("other", "11.0.0.0/8", "blue")));
    let mut version = 0;
    let mut lock = |subnet: &str, base: u32, number: u32| {
        version += 1;
        let address = std::net::Ipv4Addr::from_bits(base + number + 2).to_string();
        drop(world.apply(&mk_lock("vpc/blue", subnet, &address, &format!("{subnet}-{number}"), version)));
    };
    for number in 0..10 {
        lock("web", 10 << 24, number);
    }
    for number in 0..size {
        lock("other", 11 << 24, number);
    }
    // Whoever counts switches that on now.
    println!("ready");
    std::io::stdin().read_line(&mut String::new()).expect("a line or the end");
    assert_eq!(measured(black_box(&world)), 10);
    println!("{size} locks of another subnet: 10 are found");
}
