//! How much memory a full plan takes, beyond its rows.
//!
//! ```text
//! cargo run --release -p portolan-plan --example plan_memory -- 100000 100
//! ```
//! The arguments are the number of attachments, and how many of them are in one subnet.

#[path = "support/large_world.rs"]
mod large_world;

use std::hint::black_box;

use ovsdb_core::{Atom, Datum};
use portolan_plan::Rows;
use portolan_plan::northbound::DATABASE;

fn main() {
    let mut arguments = std::env::args().skip(1).filter_map(|argument| argument.parse::<usize>().ok());
    let size = arguments.next().unwrap_or(100_000);
    let per_subnet = arguments.next().unwrap_or(100);
    let world = large_world::world(size, per_subnet);
    let before = resident();
    let rows: Vec<Rows> = large_world::full_plan(&world).collect();
    let planned = resident();
    let of_rows: usize = rows
        .iter()
        .flatten()
        .map(|row| row.columns().map(|(_, value)| size_of_datum(value)).sum::<usize>())
        .sum();
    let count = rows.iter().flatten().count();
    println!("{size} attachments in {} subnets: {} units, {count} rows", size / per_subnet, rows.len());
    report("the rows' values", of_rows, size);
    report("the plan in all", planned.saturating_sub(before), size);
    report("beyond the values", planned.saturating_sub(before).saturating_sub(of_rows), size);

    let empty = large_world::cache(std::iter::empty::<Rows>());
    let change = DATABASE.diff(&rows, &[], &empty);
    report("the diff from nothing, with copies of all values", resident().saturating_sub(planned), size);
    black_box((world, rows, change));
}

fn report(what: &str, bytes: usize, attachments: usize) {
    println!("{what}: {} KiB, {} bytes per attachment", bytes / 1024, bytes / attachments);
}

/// The resident memory of this process in bytes.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or(0) * 4096
}

/// What a value takes, on the heap too.
fn size_of_datum(value: &Datum) -> usize {
    let atom = |atom: &Atom| match atom {
        // Longer texts are behind a counted pointer.
        Atom::String(text) if text.len() > 23 => text.len() + 16,
        _ => 0,
    };
    let elements = match value {
        Datum::Atom(one) => atom(one),
        Datum::Set(set) => set.iter().map(|element| size_of::<Atom>() + atom(element)).sum(),
        Datum::Map(map) => {
            map.iter().map(|(key, value)| 2 * size_of::<Atom>() + atom(key) + atom(value)).sum()
        }
    };
    size_of::<Datum>() + elements
}
