//! What a controller does with plans and diffs, in its simplest form: a World, a database in memory, and what is dirty.

use std::collections::{BTreeMap, BTreeSet};

use ovsdb_core::{Atom, Cache, Datum, SmolStr, Transaction, Uuid};
use portolan_model::{Dirty, Unit, World};
use portolan_plan::memdb::{Columns, Content, Done, MemDb};
use portolan_plan::northbound::DATABASE;
use portolan_plan::table::Part;
use portolan_plan::{Diff, Plan, Rows, Settings, batches, plan, tag};

use crate::support::northbound;

pub(crate) struct Driver {
    pub(crate) world: World,
    pub(crate) database: MemDb,
    cache: Cache,
    dirty: BTreeSet<Unit>,
    /// Rows that others wrote something into.
    marked: BTreeSet<(&'static str, Uuid)>,
}

/// A key that somebody else wrote.
pub(crate) const FOREIGN: &str = "someone/else";

impl Driver {
    pub(crate) fn new(database: MemDb, world: World) -> Self {
        let cache = database.cache(DATABASE.indexes());
        // The primary network is there before any object.
        let (dirty, marked) = (world.units().collect(), BTreeSet::new());
        Driver { world, database, cache, dirty, marked }
    }

    pub(crate) fn note(&mut self, dirty: Dirty) {
        self.dirty.extend(dirty.units);
    }

    /// What is to be done about the dirty units. Nothing is dirty afterwards but units that wait.
    pub(crate) fn plan(&mut self) -> (Vec<Rows>, Vec<SmolStr>) {
        let (mut rows, mut stale) = (Vec::new(), Vec::new());
        for unit in std::mem::take(&mut self.dirty) {
            match plan(&unit, &self.world, &Settings::default()) {
                Plan::Desired(wanted) => rows.push(wanted),
                Plan::Remove => stale.push(unit.to_string().into()),
                Plan::Hold { .. } => {}
            }
        }
        (rows, stale)
    }

    /// One round: plan, diff, and transactions of at most `limit` changes. Dies before the transaction `dies_at`.
    pub(crate) fn round(&mut self, limit: usize, dies_at: Option<usize>) {
        let (rows, stale) = self.plan();
        let change = DATABASE.diff(&rows, &stale, &self.cache);
        self.dirty.extend(change.waiting.iter().map(|waiting| waiting.unit.parse().unwrap()));
        for (at, batch) in batches(change.atoms, limit).into_iter().enumerate() {
            if dies_at == Some(at) {
                self.restart();
                return;
            }
            self.transact(&batch.transaction());
        }
        self.database.refresh(&mut self.cache);
    }

    /// Rounds until nothing is dirty.
    pub(crate) fn settle(&mut self, limit: usize) {
        for _ in 0..4 {
            self.round(limit, None);
        }
        assert!(self.dirty.is_empty(), "these wait for ever: {:?}", self.dirty);
    }

    /// Forgets all but the World and the database: every unit of either is dirty.
    pub(crate) fn restart(&mut self) {
        self.database.refresh(&mut self.cache);
        self.dirty = self.world.units().collect();
        self.dirty.extend(DATABASE.units_in(&self.cache).map(|unit| unit.parse::<Unit>().unwrap()));
    }

    /// A diff of everything, against the database as it is.
    pub(crate) fn diff_of_all(&mut self) -> Diff {
        self.restart();
        let (rows, stale) = self.plan();
        DATABASE.diff(&rows, &stale, &self.cache)
    }

    /// Runs a transaction of ours: it must succeed, touch what it expects to touch, and leave a sound database.
    fn transact(&mut self, transaction: &Transaction) {
        let unsound_before = unsound(self.database.content());
        let done = self
            .database
            .transact(transaction)
            .unwrap_or_else(|refusal| panic!("{refusal}\n{transaction:#?}"));
        for (at, expected) in transaction.expected_counts() {
            assert_eq!(done[*at], Done::Count(*expected), "operation {at} of {transaction:#?}");
        }
        if unsound_before.is_none() {
            assert_eq!(unsound(self.database.content()), None, "{transaction:#?}");
        }
        self.forget_marks();
        for (table, uuid) in &self.marked {
            let ids = &self.database.content()[*table][uuid]["external_ids"];
            assert_eq!(ids.map_get(FOREIGN), Some(&Atom::from("kept")), "{table} {uuid}: {transaction:#?}");
        }
    }

    /// Somebody else changes the database.
    pub(crate) fn interfere(&mut self, transaction: &Transaction) {
        self.database.transact(transaction).unwrap();
        self.database.refresh(&mut self.cache);
        self.forget_marks();
    }

    /// What others wrote into a row goes with the row.
    fn forget_marks(&mut self) {
        let content = self.database.content();
        self.marked.retain(|(table, uuid)| content[*table].contains_key(uuid));
    }

    /// Somebody else wrote [`FOREIGN`] into a row.
    pub(crate) fn mark(&mut self, table: &'static str, uuid: Uuid) {
        self.marked.insert((table, uuid));
    }

    /// Our rows, in an order of their own.
    pub(crate) fn our_rows(&self) -> Vec<(&'static str, Uuid)> {
        let content = self.database.content();
        let of_table = |table: &'static str| {
            let rows = content[table].iter().filter(|(_, row)| is_ours(row));
            rows.map(move |(uuid, _)| (table, *uuid))
        };
        DATABASE.tables.iter().flat_map(|table| of_table(table.name)).collect()
    }
}

/// Whether a row says that it is ours.
pub(crate) fn is_ours(columns: &Columns) -> bool {
    match columns.get("external_ids") {
        Some(ids) => ids.map_get(tag::UNIT).is_some(),
        None => {
            columns["name"].keys().any(|name| name.as_str().is_some_and(|name| name.starts_with("portolan/")))
        }
    }
}

/// What a database would hold if it had been made for this World at once.
pub(crate) fn made_at_once(world: &World) -> Content {
    let mut driver = Driver::new(northbound(), world.clone());
    driver.settle(usize::MAX);
    driver.database.content().clone()
}

/// What a database holds that is ours: our rows, in them our columns and keys, and references to them only.
pub(crate) fn ours(content: &Content) -> Content {
    let owned: BTreeMap<&str, _> = DATABASE.tables.iter().map(|table| (table.name, table)).collect();
    let mut ours = Content::new();
    for (name, table) in &owned {
        for (uuid, columns) in content[*name].iter().filter(|(_, columns)| is_ours(columns)) {
            let mut kept = Columns::new();
            for column in table.owned {
                kept.insert(column.column.into(), our_part(column.part, &columns[column.column]));
            }
            for (child, parent) in
                DATABASE.tables.iter().flat_map(|child| child.parents.iter().map(|by| (child.name, by)))
            {
                if parent.table != *name {
                    continue;
                }
                let held = columns[parent.column]
                    .keys()
                    .filter(|atom| is_ours(&content[child][&atom.as_uuid().unwrap()]));
                kept.insert(parent.column.into(), Datum::Set(held.cloned().collect()));
            }
            ours.entry(SmolStr::new(name)).or_default().insert(*uuid, kept);
        }
    }
    ours
}

fn our_part(part: Part, value: &Datum) -> Datum {
    match value {
        Datum::Map(map) => {
            Datum::Map(map.iter().filter(|(key, _)| part.has_key(key.as_str().unwrap())).cloned().collect())
        }
        _ => value.clone(),
    }
}

/// Why northd could not make sense of a database, beyond what the schema sees to.
fn unsound(content: &Content) -> Option<String> {
    let names = |table: &str, column: &str| -> BTreeSet<&Atom> {
        content[table].values().flat_map(|row| row[column].keys()).collect()
    };
    let (router_ports, switch_ports) =
        (names("Logical_Router_Port", "name"), names("Logical_Switch_Port", "name"));
    let wanted =
        content["Logical_Switch_Port"].values().filter_map(|port| port["options"].map_get("router-port"));
    if let Some(missing) =
        wanted.chain(names("Logical_Router_Port", "peer")).find(|port| !router_ports.contains(port))
    {
        return Some(format!("router port {missing} is missing"));
    }
    if let Some(name) = router_ports.intersection(&switch_ports).next() {
        return Some(format!("{name} is the name of a router port and of a switch port"));
    }
    for table in DATABASE.tables {
        let mut held = BTreeSet::new();
        let references = table
            .parents
            .iter()
            .flat_map(|parent| content[parent.table].values().flat_map(|row| row[parent.column].keys()));
        if let Some(twice) = references.into_iter().find(|atom| !held.insert(*atom)) {
            return Some(format!("{} {twice} is held twice", table.name));
        }
    }
    None
}
