//! What it costs to wake the one unit that waits for a row while SIZE others wait for other rows.
//! `cargo xtask instructions` counts it.

use std::hint::black_box;

use ovsdb_core::{Cache, Uuid};
use portolan_model::Unit;
use portolan_plan::northbound::DATABASE;
use portolan_plan::{DatabaseTarget, Plan, Reconciler, RowRef, Rows, Urgency};

use ovn_schema::nb::{LogicalSwitch, LogicalSwitchPort};
use ovsdb_core::{Layout, SmolStr};

/// The measured step.
#[inline(never)]
fn measured(reconciler: &mut Reconciler<DatabaseTarget<Unit>>, row: Uuid) {
    reconciler.observed([], [row]);
}

fn switch(number: &str) -> RowRef<LogicalSwitch> {
    RowRef::new(&"switch", number, "")
}

/// A port of a switch that is not there.
fn plan(unit: &Unit) -> Plan<Rows> {
    let name = unit.to_string();
    let mut rows = Rows::new(&name, &name);
    let row = LogicalSwitchPort { name: name.clone(), ..LogicalSwitchPort::default() };
    rows.child("", switch(&name).column(LogicalSwitch::PORTS), row);
    Plan::Desired(rows)
}

fn main() {
    let size: usize = std::env::args().nth(1).and_then(|size| size.parse().ok()).unwrap_or(1000);
    let schema = ovn_schema::nb::schema();
    let tables = DATABASE.indexes().into_iter().map(|(table, indexes)| {
        let columns = schema.tables[table].columns.keys().map(SmolStr::as_str);
        (Layout::new(table, &schema.tables[table], columns).0, indexes)
    });
    let cache = Cache::new(tables);
    let mut reconciler = Reconciler::new(DatabaseTarget::new(&DATABASE));
    for number in 0..size {
        reconciler.changed(Unit::Subnet(format!("subnet-{number:07}")), Urgency::Immediate);
    }
    drop(reconciler.reconcile(plan, &cache));
    assert_eq!((reconciler.waiting(), reconciler.urgency()), (size, None));
    let row = switch(&format!("subnet/subnet-{:07}", size / 2)).uuid();
    // Whoever counts switches that on now.
    println!("ready");
    std::io::stdin().read_line(&mut String::new()).expect("a line or the end");
    measured(black_box(&mut reconciler), black_box(row));
    assert_eq!(reconciler.waiting(), size - 1);
    println!("{size} units wait: one is woken");
}
