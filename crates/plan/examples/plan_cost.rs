//! What planning and diffing one new attachment costs while SIZE of them are there.
//! `cargo xtask instructions` counts it.

#[path = "support/large_world.rs"]
mod large_world;

use std::hint::black_box;

use ovsdb_core::Cache;
use portolan_model::{Unit, World};
use portolan_plan::northbound::DATABASE;
use portolan_plan::{Batch, Plan, Settings, batches, plan};

/// The measured step.
#[inline(never)]
fn measured(unit: &Unit, world: &World, cache: &Cache) -> Vec<Batch> {
    match plan(unit, world, &Settings::default()) {
        Plan::Desired(rows) => batches(DATABASE.diff(std::slice::from_ref(&rows), &[], cache).atoms, 1000),
        Plan::Hold { .. } | Plan::Remove => Vec::new(),
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter_map(|argument| argument.parse::<usize>().ok());
    let size = arguments.next().unwrap_or(1000);
    let per_subnet = arguments.next().unwrap_or(1000);
    let mut world = large_world::world(size, per_subnet);
    let cache = large_world::cache(large_world::full_plan(&world));
    let lock = large_world::lock(size, size.saturating_sub(1) / per_subnet);
    let unit = world.apply(&lock).units.pop_first().expect("invariant: a new lock makes an attachment");
    // Whoever counts switches that on now.
    println!("ready");
    std::io::stdin().read_line(&mut String::new()).expect("a line or the end");
    let batches = black_box(measured(black_box(&unit), black_box(&world), black_box(&cache)));
    let operations: usize = batches.iter().map(|batch| batch.transaction().operations().len()).sum();
    assert_eq!(operations, 2, "one row and one mutate: {batches:#?}");
    println!("{size} attachments: {operations} operations for one more");
}
