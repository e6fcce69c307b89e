//! What diffing one port costs that joins a port group and an address set of SIZE members each.
//! `cargo xtask instructions` counts it.

use std::hint::black_box;

use ovn_schema::nb::{AddressSet, LogicalSwitch, LogicalSwitchPort, PortGroup};
use ovsdb_core::decode::{RowUpdate, Updates};
use ovsdb_core::{Atom, Cache, Datum, Layout, Row, Set, SmolStr};
use portolan_plan::northbound::DATABASE;
use portolan_plan::{Batch, RowRef, Rows, batches};

/// The measured step.
#[inline(never)]
fn measured(rows: &Rows, cache: &Cache) -> Vec<Batch> {
    batches(DATABASE.diff(std::slice::from_ref(rows), &[], cache).atoms, 1000)
}

fn groups() -> Rows {
    let mut rows = Rows::new(&"group/web", "uid-group");
    rows.root("", LogicalSwitch::default());
    rows.root("", PortGroup { name: "web".into(), ..PortGroup::default() });
    rows.root("", AddressSet { name: "web".into(), ..AddressSet::default() });
    rows
}

fn port(number: usize) -> Rows {
    let group = |unit| ("group/web", "uid-group", unit);
    let (unit, owner, key) = group("");
    let name = format!("port/{number:07}");
    let mut rows = Rows::new(&name, format!("uid-{number:07}"));
    let address = format!("10.{}.{}.{}", number >> 16 & 255, number >> 8 & 255, number & 255);
    let row = LogicalSwitchPort { name, addresses: [address.clone()].into(), ..Default::default() };
    let switch = RowRef::<LogicalSwitch>::new(&unit, owner, key);
    let row = rows.child("", switch.column(LogicalSwitch::PORTS), row);
    rows.row_member(&row, &RowRef::<PortGroup>::new(&unit, owner, key), PortGroup::PORTS);
    let set = RowRef::<AddressSet>::new(&unit, owner, key);
    rows.text_members(&row, &set, AddressSet::ADDRESSES, &[address].into());
    rows
}

/// The cache of a database that has the groups and so many ports in them.
fn cache(size: usize) -> Cache {
    let schema = ovn_schema::nb::schema();
    let layouts: Vec<_> = DATABASE
        .tables
        .iter()
        .map(|table| {
            let columns = schema.tables[table.name].columns.keys().map(SmolStr::as_str);
            Layout::new(table.name, &schema.tables[table.name], columns).0
        })
        .collect();
    let units: Vec<Rows> = std::iter::once(groups()).chain((0..size).map(port)).collect();
    let mut members: std::collections::HashMap<(&str, &str), Vec<Atom>> = std::collections::HashMap::new();
    for unit in &units {
        for member in unit.memberships() {
            let column = member.column();
            members.entry((column.table, column.column)).or_default().push(member.element().clone());
        }
        for (row, parent) in unit.iter().filter_map(|row| Some((row, row.parent()?))) {
            let column = parent.column();
            members.entry((column.table, column.column)).or_default().push(Atom::Uuid(row.uuid()));
        }
    }
    let mut updates = Updates::new();
    for row in units.iter().flatten() {
        let at = layouts.iter().position(|layout| layout.table() == row.table().name);
        let at = at.expect("invariant: every planned table is monitored");
        let value = |name: &SmolStr| {
            let held = members.get(&(row.table().name, name.as_str()));
            let held = held.map(|elements| Datum::Set(elements.iter().cloned().collect::<Set>()));
            held.or_else(|| row.columns().find(|(column, _)| column == name).map(|(_, value)| value.clone()))
        };
        let columns = layouts[at].columns().iter();
        let values = columns.map(|(name, of)| value(name).unwrap_or_else(|| Datum::default_of(of))).collect();
        updates.push((at, RowUpdate::Insert(Row::new(layouts[at].clone(), row.uuid(), values))));
    }
    let indexes = DATABASE.indexes().into_iter().map(|(_, indexes)| indexes);
    let mut cache = Cache::new(layouts.into_iter().zip(indexes));
    drop(cache.replace(updates));
    cache
}

fn main() {
    let size = std::env::args().nth(1).and_then(|size| size.parse().ok()).unwrap_or(1000);
    let cache = cache(size);
    let new = port(size);
    // What building the cache freed is sorted by the allocator at the next request for memory: that is not the step's.
    drop(black_box(measured(black_box(&new), black_box(&cache))));
    // Whoever counts switches that on now.
    println!("ready");
    std::io::stdin().read_line(&mut String::new()).expect("a line or the end");
    let batches = black_box(measured(black_box(&new), black_box(&cache)));
    let operations: usize = batches.iter().map(|batch| batch.transaction().operations().len()).sum();
    assert_eq!(operations, 4, "one row, its switch and two sets: {batches:#?}");
    println!("{size} members: {operations} operations for one more");
}
