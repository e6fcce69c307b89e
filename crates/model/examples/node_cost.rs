//! What it costs that one Node gets another address, on a primary network of SIZE Nodes that have each a prefix for their pods and an address
//! of their own. `cargo xtask instructions` counts it.

use std::hint::black_box;
use std::net::Ipv4Addr;

use portolan_model::fixtures::{mk_node_with, mk_subnet, mk_vpc};
use portolan_model::{FirstInterface, Node, Settings, Unit, World};

/// The measured step: the change, and what is looked at because of it.
#[inline(never)]
fn measured(world: &mut World, node: &Node) -> usize {
    let dirty = world.apply(node);
    let nodes = dirty.units.iter().filter_map(|unit| match unit {
        Unit::Node(name) => world.node(name),
        _ => None,
    });
    nodes
        .map(|node| {
            let within = node.addresses.iter().flat_map(|address| world.tenants_within((*address).into()));
            let view = world.node_view(&node.name);
            let addresses = view.map_or(0, |view| view.addresses.len());
            addresses + within.count() + world.node_address_problems(node).count()
        })
        .sum()
}

fn node(number: u32) -> Node {
    let prefix = Ipv4Addr::from_bits((10 << 24) + (number << 8));
    let mut node = mk_node_with(&format!("node-{number:06}"), &format!("{prefix}/24"));
    node.addresses = vec![Ipv4Addr::from_bits((172 << 24) + number + 1).into()];
    node
}

fn main() {
    let size: u32 = std::env::args().nth(1).and_then(|size| size.parse().ok()).unwrap_or(1000);
    let mut world = World::new(Settings { first_interface: FirstInterface::Portolan });
    drop(world.apply(&mk_vpc("blue")));
    let mut shop = mk_subnet("shop", "192.168.0.0/16", "blue");
    shop.spec.namespaces = vec!["shop".to_owned()];
    drop(world.apply(&shop));
    for number in 0..size {
        drop(world.apply(&node(number)));
    }
    let mut changed = node(size / 2);
    changed.addresses = vec![Ipv4Addr::new(192, 168, 0, 1).into()];
    // Whoever counts switches that on now.
    println!("ready");
    std::io::stdin().read_line(&mut String::new()).expect("a line or the end");
    assert_eq!(measured(black_box(&mut world), black_box(&changed)), 2, "one address, within one tenant's");
    println!("{size} nodes: one has another address");
}
