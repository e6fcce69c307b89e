//! What one decision costs beside SIZE taken addresses. `cargo xtask instructions` counts it.
//!
//! `spread` scatters them over a /8, `packed` puts them into the smallest prefix that has room for them.

use std::hint::black_box;

use portolan_ipam::{Decision, Ipam};
use portolan_model::fixtures::{mk_lock, mk_nad, mk_pod, mk_subnet, mk_vpc};
use portolan_model::{Requester, World};

/// The one thing that is measured. Not inlined, so that it has a name to be found by.
#[inline(never)]
fn measured(ipam: &Ipam, world: &World, requester: &Requester) -> Decision {
    black_box(ipam.decide(black_box(world), black_box(requester)))
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let taken: u32 = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(1_000);
    let packed = arguments.next().is_some_and(|text| text == "packed");
    // Room for the network, the gateway, the broadcast address, all that is taken, and one more.
    let length = if packed { (taken + 4).next_power_of_two().leading_zeros() + 1 } else { 8 };
    let step = if packed { 1 } else { ((1 << 24) - 8) / taken.max(1) };
    let (world, ipam) = world(taken, length, step);
    // Whoever counts switches that on now.
    println!("ready");
    std::io::stdin().read_line(&mut String::new()).expect("a line or the end");
    let decision = measured(&ipam, &world, &Requester::pod("default", "new"));
    assert_eq!((decision.create.len(), decision.refusals.len()), (1, 0), "{decision:?}");
    println!("{taken} taken of a /{length}: {}", decision.create[0].spec.address);
}

fn world(taken: u32, length: u32, step: u32) -> (World, Ipam) {
    let mut world = World::default();
    let _ = world.apply(&mk_vpc("blue"));
    let mut subnet = mk_subnet("web", &format!("10.0.0.0/{length}"), "blue");
    subnet.spec.provider = Some("net.default.ovn".to_owned());
    let _ = world.apply(&subnet);
    let _ = world.apply(&mk_nad("default", "net"));
    for i in 0..taken {
        let address = std::net::Ipv4Addr::from_bits((10 << 24) + 2 + i * step);
        let lock = mk_lock("vpc/blue", "web", &address.to_string(), &format!("pod-{i}"), u64::from(i) + 1);
        let _ = world.apply(&lock);
    }
    let _ = world.apply(&mk_pod("default", "new", &[("k8s.v1.cni.cncf.io/networks", "net")]));
    let ipam = Ipam::of(&world);
    (world, ipam)
}
