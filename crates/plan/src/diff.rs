//! What has to change in a database for units to have the rows that they should.
//!
//! ```text
//!  Rows of the dirty units ─┐
//!  stale units ─────────────┼─▶ diff ─▶ Atoms, in the order in which they must be committed ─▶ Batches ─▶ transactions
//!  Cache ───────────────────┘     └───▶ Waiting: units that cannot be brought about now, and why
//! ```
//!
//! **An atom** is all that changes for one unit, and is never torn apart: a row goes with the reference that keeps it
//! alive, and a rule that replaces another goes with the other's removal. The order of the atoms is such that after each
//! of them the database is sound: what leaves makes room, parents come before children, and a root row goes only when
//! what stood on it has moved. A transaction takes any number of consecutive atoms.
//!
//! **Rows are found** by UUID first. What else carries a unit's tag is not wanted any more and goes.
//!
//! **When a transaction fails**, the cache is not what the database is: wait for it to catch up, and diff again.
//! `duplicate uuid` says just that, and so does a count other than the expected one.

mod atom;
mod row_change;

use std::collections::HashSet;
use std::sync::Arc;

use ovsdb_core::{Atom as Value, Cache, Datum, Row, SmolStr, Uuid};

pub use self::atom::{Atom, Batch};
use crate::rows::{DesiredRow, Rows};
use crate::table::{TABLES, Table};
use crate::tag;

/// What has to change.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Diff {
    /// The changes, in the order in which they must be committed.
    pub atoms: Vec<Atom>,
    /// The units that cannot be brought about now. Diff them again when the database has changed.
    pub waiting: Vec<Waiting>,
}

/// A unit that cannot be brought about now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The unit.
    pub unit: SmolStr,
    /// Why not.
    pub obstacle: Obstacle,
}

/// Why a unit cannot be brought about now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Obstacle {
    /// A row that another unit brings is not there yet.
    #[error("row {uuid} of table {table} is not there yet")]
    Missing {
        /// The row's table.
        table: &'static str,
        /// The row.
        uuid: Uuid,
    },
    /// A row that is not going away has a name that must be unique.
    #[error("table {table} has a row called {name} already: {by}")]
    NameTaken {
        /// The table.
        table: &'static str,
        /// The name.
        name: SmolStr,
        /// The row that has it.
        by: Uuid,
    },
}

/// What has to change in the database that `cache` is a copy of for the units of `desired` to have exactly those rows,
/// and for the units in `stale` to have none. A unit is in one of the two at most. The cache needs the
/// [indexes](crate::indexes).
///
/// Rows and columns that are not Portolan's are left alone, and so are the rows of units that are in neither. The cost
/// follows the number of rows of these units, not what else the database holds.
pub fn diff(desired: &[Rows], stale: &[SmolStr], cache: &Cache) -> Diff {
    let mut differ = Differ {
        cache,
        wanted: desired.iter().flatten().map(|row| row.uuid).collect(),
        leaving: HashSet::new(),
        coming: HashSet::new(),
    };
    let mut diff = Diff::default();
    let mut root_removals = Vec::new();
    for unit in stale {
        let unwanted = differ.unwanted(unit);
        differ.leaving.extend(unwanted.iter().map(|(_, row)| row.uuid()));
        diff.atoms.push(differ.removals(unit, &unwanted));
        root_removals.push(differ.root_removals(unit, &unwanted));
    }
    let mut by_layer: Vec<&Rows> = desired.iter().collect();
    by_layer.sort_by_key(|rows| rows.layer());
    for rows in by_layer {
        let unwanted = differ.unwanted(rows.unit());
        match differ.unit(rows, &unwanted) {
            Ok(atom) => {
                diff.atoms.push(atom);
                root_removals.push(differ.root_removals(rows.unit(), &unwanted));
            }
            Err(obstacle) => diff.waiting.push(Waiting { unit: rows.unit().clone(), obstacle }),
        }
    }
    diff.atoms.extend(root_removals);
    diff.atoms.retain(|atom| !atom.is_empty());
    diff
}

/// A row in the cache, with the rules of its table.
type Present<'a> = (&'static Table, &'a Arc<Row>);

/// A diff in the making.
struct Differ<'a> {
    cache: &'a Cache,
    /// The rows that some unit should have.
    wanted: HashSet<Uuid>,
    /// The rows of stale units, which go before anything comes.
    leaving: HashSet<Uuid>,
    /// The rows that come in the atoms so far.
    coming: HashSet<Uuid>,
}

impl<'a> Differ<'a> {
    /// All that changes for a live unit, but for root rows that go.
    fn unit(&mut self, rows: &Rows, unwanted: &[Present<'_>]) -> Result<Atom, Obstacle> {
        for row in rows {
            self.check_needs(row, rows)?;
            self.check_name(row, unwanted)?;
        }
        let mut atom = self.removals(rows.unit(), unwanted);
        for row in rows {
            match self.table(row.table.name).get(row.uuid) {
                None => {
                    atom.insert(row);
                    self.coming.insert(row.uuid);
                }
                Some(present) => {
                    row_change::change(row, present, &mut atom);
                    self.move_to_parent(row, present, &mut atom);
                }
            }
        }
        Ok(atom)
    }

    /// The rows that `row` refers to are there, or come in this atom or an earlier one.
    fn check_needs(&self, row: &DesiredRow, unit: &Rows) -> Result<(), Obstacle> {
        let missing = |&(table, uuid): &(&str, Uuid)| {
            let comes = self.coming.contains(&uuid) || unit.iter().any(|own| own.uuid == uuid);
            !comes && self.table(table).get(uuid).is_none()
        };
        match row.needs().find(missing) {
            Some((table, uuid)) => Err(Obstacle::Missing { table, uuid }),
            None => Ok(()),
        }
    }

    /// No row that stays has the name that `row` needs.
    fn check_name(&self, row: &DesiredRow, unwanted: &[Present<'_>]) -> Result<(), Obstacle> {
        let Some(name) = row.unique_name() else { return Ok(()) };
        let goes_in_time =
            |uuid: Uuid| self.leaving.contains(&uuid) || unwanted.iter().any(|(_, own)| own.uuid() == uuid);
        let others = self.table(row.table.name).find(tag::BY_NAME, name).map(|other| other.uuid());
        match others.into_iter().find(|other| *other != row.uuid && !goes_in_time(*other)) {
            Some(by) => {
                let name = name.as_str().unwrap_or_default().into();
                Err(Obstacle::NameTaken { table: row.table.name, name, by })
            }
            None => Ok(()),
        }
    }

    /// The rows that carry a unit's tag and that no unit wants, table by table.
    fn unwanted(&self, unit: &SmolStr) -> Vec<Present<'a>> {
        let key = Value::String(unit.clone());
        let mut unwanted = Vec::new();
        for table in TABLES {
            let from = unwanted.len();
            let tagged = self.table(table.name).find(tag::BY_UNIT, &key);
            unwanted.extend(tagged.filter(|row| !self.wanted.contains(&row.uuid())).map(|row| (*table, row)));
            unwanted[from..].sort_unstable_by_key(|(_, row)| row.uuid());
        }
        unwanted
    }

    /// What a unit has and should not have, but for root rows: those go when nothing stands on them any more.
    fn removals(&self, unit: &SmolStr, unwanted: &[Present<'_>]) -> Atom {
        let mut atom = Atom::new(unit.clone());
        let roots = unwanted.iter().filter(|(table, _)| table.parent.is_none());
        let roots: Vec<Uuid> = roots.map(|(_, row)| row.uuid()).collect();
        for (table, row) in unwanted {
            let Some(held_by) = table.parent else { continue };
            let holders = self.holders(table, row);
            // Rules are in force until their switch or router goes. A name may be needed earlier.
            if !table.unique_name
                && !holders.is_empty()
                && holders.iter().all(|holder| roots.contains(holder))
            {
                continue;
            }
            for holder in holders {
                atom.release(held_by, holder, row.uuid());
            }
        }
        atom
    }

    /// The root rows that a unit has and should not have.
    fn root_removals(&self, unit: &SmolStr, unwanted: &[Present<'_>]) -> Atom {
        let mut atom = Atom::new(unit.clone());
        for (table, row) in unwanted.iter().filter(|(table, _)| table.parent.is_none()) {
            atom.delete(table, row.uuid());
        }
        atom
    }

    /// Puts a row that another parent holds where it belongs.
    fn move_to_parent(&self, row: &DesiredRow, present: &Row, atom: &mut Atom) {
        let (Some(held_by), Some(parent)) = (row.table.parent, row.parent) else { return };
        let parent_row = self.table(held_by.table).get(parent);
        if parent_row.is_some_and(|parent| holds(parent, held_by.column, row.uuid)) {
            return;
        }
        for holder in self.holders(row.table, present) {
            atom.release(held_by, holder, row.uuid);
        }
        // Without this, a row whose new parent is gone meanwhile would be lost with its old one.
        if parent_row.is_some() {
            atom.require(held_by.table, parent);
        }
        atom.hold(held_by, parent, row.uuid);
    }

    /// The rows that hold one of our rows. Its tag says where to look.
    fn holders(&self, table: &Table, row: &Row) -> Vec<Uuid> {
        let Some(held_by) = table.parent else { return Vec::new() };
        let parents = self.table(held_by.table);
        let holder = |parent: &Arc<Row>| holds(parent, held_by.column, row.uuid()).then_some(parent.uuid());
        let unit = tag::parent_unit_of(row).map(|unit| Value::String(unit.clone()));
        let tagged = unit.iter().flat_map(|unit| parents.find(tag::BY_UNIT, unit));
        let mut holders: Vec<Uuid> = tagged.filter_map(holder).collect();
        if holders.is_empty() {
            // Somebody moved it, or changed its tags. That is rare, so it may cost a look at every parent.
            holders = parents.iter().filter_map(holder).collect();
        }
        holders.sort_unstable();
        holders
    }

    fn table(&self, name: &str) -> &'a ovsdb_core::Table {
        let table = self.cache.table(name);
        table.unwrap_or_else(|| panic!("table {name} is not monitored; see portolan_plan::indexes"))
    }
}

/// Whether `parent` has a reference to `row` in `column`.
fn holds(parent: &Row, column: &str, row: Uuid) -> bool {
    match parent.datum(column) {
        Some(Datum::Set(set)) => set.contains(&Value::Uuid(row)),
        _ => false,
    }
}
