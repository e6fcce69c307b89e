//! What has to change in a database for units to have the rows and memberships that they should.
//!
//! ```text
//!  Rows of the dirty units ─┐
//!  stale units ─────────────┼─▶ diff ─▶ Atoms, in the order in which they must be committed ─▶ Batches ─▶ transactions
//!  Cache ───────────────────┘     └───▶ Waiting: units that cannot be brought about now, and why
//! ```
//!
//! **An atom** is all that changes for one unit, and is never torn apart: a row goes with the reference that keeps it
//! alive and with its memberships, and a rule that replaces another goes with the other's removal. The order of the atoms
//! is such that after each of them the database is sound:
//!
//! 1. Stale units leave, so that their names and elements are free.
//! 2. Desired units come, each after the units whose rows it needs and after those that leave it a name.
//! 3. Rows that others stood on go, when those have moved.
//!
//! A transaction takes any number of consecutive atoms. Units that need each other wait: no order is sound for them.
//!
//! **Rows are found** by UUID first. What else carries a unit's tag is not wanted any more and goes. How memberships are
//! found is said at [`Membership`](crate::Membership).
//!
//! **When a transaction fails**, the cache is not what the database is: wait for it to catch up, and diff again.
//! `duplicate uuid` says just that, and so does a count other than the expected one.

mod atom;
mod members;
mod order;
mod pairs;
mod removal;
mod row_change;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use ovsdb_core::{Atom as Value, Cache, Datum, Row, SmolStr, Uuid};

pub use self::atom::{Atom, Batch, batches};
use self::members::Members;
use crate::database::{Database, rows_of_unit};
use crate::rows::{DesiredRow, Rows};
use crate::table::{ParentColumn, Table};
use crate::tag;

/// What has to change.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Diff {
    /// The changes, in the order in which they must be committed.
    pub atoms: Vec<Atom>,
    /// The units that cannot be brought about now, or not whole. Diff one again when the row that its obstacle names has changed.
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
    /// A row that is not going away has a value that must be unique.
    #[error("another row of table {table} has {name}: {by}")]
    NameTaken {
        /// The table.
        table: &'static str,
        /// The value.
        name: SmolStr,
        /// The row that has it.
        by: Uuid,
    },
    /// The unit needs rows of units that need rows of this one.
    #[error("these units need rows of each other, so none of them can come first: {}", .units.join(", "))]
    Cycle {
        /// The units, each of which needs the next, and the last the first.
        units: Vec<SmolStr>,
        /// The row that this unit needs.
        uuid: Uuid,
    },
}

impl Obstacle {
    /// The row whose change may end the obstacle.
    pub fn row(&self) -> Uuid {
        match self {
            Obstacle::Missing { uuid, .. } | Obstacle::Cycle { uuid, .. } => *uuid,
            Obstacle::NameTaken { by, .. } => *by,
        }
    }
}

impl Database {
    /// What has to change in the database that `cache` is a copy of for the units of `desired` to have exactly those rows
    /// and memberships, and for the units in `stale` to have none. A unit is in one of the two at most. The cache needs
    /// the [indexes](Database::indexes).
    ///
    /// Rows, columns and elements that are not Portolan's are left alone, and so are those of units that are in neither.
    /// The cost follows the number of rows and memberships of these units, not what else the database holds.
    pub fn diff(&self, desired: &[Rows], stale: &[SmolStr], cache: &Cache) -> Diff {
        let mut differ = Differ::new(self, desired, stale, cache);
        let (order, waiting) = differ.order();
        let members = Members::of(&differ, &order);
        let coming = |at: usize| members.is_coming(at);
        let mut diff = Diff { atoms: Vec::new(), waiting };
        for &at in &order {
            let missing = differ.missing_map(at, &coming);
            let unit = || desired[at].unit().clone();
            diff.waiting.extend(missing.map(|obstacle| Waiting { unit: unit(), obstacle }));
        }
        let mut late = Vec::new();
        for (unit, unwanted) in stale.iter().zip(&differ.stale) {
            let mut atom = Atom::new(unit.clone());
            differ.remove_early(unwanted, &mut atom);
            members.leave(&differ, unwanted, &mut atom);
            differ.leave_pairs(unwanted, &mut atom);
            diff.atoms.push(atom);
            late.push(differ.remove_late(unit, unwanted, &members));
        }
        diff.atoms.extend(members.contested(&differ));
        for &at in &order {
            let (rows, unwanted) = (&desired[at], &differ.unwanted[at]);
            let mut atom = Atom::new(rows.unit().clone());
            differ.remove_early(unwanted, &mut atom);
            differ.bring(rows, &mut atom);
            members.change(&differ, at, &mut atom);
            differ.change_pairs(at, &coming, &mut atom);
            diff.atoms.push(atom);
            late.push(differ.remove_late(rows.unit(), unwanted, &members));
        }
        diff.atoms.extend(late);
        diff.atoms.retain(|atom| !atom.is_empty());
        diff
    }
}

/// A row in the cache, with the rules of its table.
type Present<'a> = (&'static Table, &'a Arc<Row>);

/// A diff in the making.
struct Differ<'a> {
    database: &'a Database,
    cache: &'a Cache,
    desired: &'a [Rows],
    /// The units that are compared, with their places in `desired`; none if they are stale.
    compared: HashMap<&'a str, Option<usize>>,
    /// The rows that some unit should have, with the unit's place in `desired`.
    wanted: HashMap<Uuid, usize>,
    /// The rows that each stale unit has.
    stale: Vec<Vec<Present<'a>>>,
    /// The rows that each desired unit has and should not have.
    unwanted: Vec<Vec<Present<'a>>>,
    /// All of these, with the place in `desired` of the unit that drops it; none if the unit is stale.
    dropped: HashMap<Uuid, Option<usize>>,
    /// Rows of the cache whose unique value a desired row needs.
    claimed: HashSet<Uuid>,
    /// The first desired row with each unique value.
    names: HashMap<(&'static str, &'a Value), Uuid>,
    /// The first desired row with each exclusive value.
    exclusive: HashMap<(&'static str, Value), Uuid>,
}

impl<'a> Differ<'a> {
    fn new(database: &'a Database, desired: &'a [Rows], stale: &'a [SmolStr], cache: &'a Cache) -> Self {
        let mut wanted = HashMap::new();
        for (at, rows) in desired.iter().enumerate() {
            wanted.extend(rows.iter().map(|row| (row.uuid, at)));
        }
        let of_desired = desired.iter().enumerate().map(|(at, rows)| (rows.unit().as_str(), Some(at)));
        let compared = of_desired.chain(stale.iter().map(|unit| (unit.as_str(), None))).collect();
        let mut names = HashMap::new();
        for row in desired.iter().flatten() {
            if let Some(name) = row.unique_value() {
                names.entry((row.table.name, name)).or_insert(row.uuid);
            }
        }
        let mut differ = Differ {
            database,
            cache,
            desired,
            compared,
            wanted,
            stale: Vec::new(),
            unwanted: Vec::new(),
            dropped: HashMap::new(),
            claimed: HashSet::new(),
            names,
            exclusive: HashMap::new(),
        };
        for row in desired.iter().flatten() {
            for value in differ.exclusive_values(row) {
                differ.exclusive.entry((row.table.name, value)).or_insert(row.uuid);
            }
        }
        differ.stale = stale.iter().map(|unit| differ.unwanted_of(unit)).collect();
        differ.unwanted = desired.iter().map(|rows| differ.unwanted_of(rows.unit())).collect();
        let of_stale = differ.stale.iter().flatten().map(|(_, row)| (row.uuid(), None));
        let of_desired = differ.unwanted.iter().enumerate();
        let of_desired =
            of_desired.flat_map(|(at, rows)| rows.iter().map(move |(_, row)| (row.uuid(), Some(at))));
        differ.dropped = of_stale.chain(of_desired).collect();
        differ.claimed = desired.iter().flatten().flat_map(|row| differ.rivals(row)).collect();
        differ
    }

    /// The rows that carry a unit's tag and that no unit wants, table by table.
    fn unwanted_of(&self, unit: &SmolStr) -> Vec<Present<'a>> {
        let key = Value::String(unit.clone());
        let mut unwanted = Vec::new();
        for table in self.database.tables {
            let from = unwanted.len();
            let tagged = rows_of_unit(table, &key, self.cache).into_iter();
            unwanted
                .extend(tagged.filter(|row| !self.wanted.contains_key(&row.uuid())).map(|row| (*table, row)));
            unwanted[from..].sort_unstable_by_key(|(_, row): &Present<'_>| row.uuid());
        }
        unwanted
    }

    /// The rows of the cache that have the value which must be unique in `row`.
    fn rivals(&self, row: &DesiredRow) -> Vec<Uuid> {
        let Some((column, value)) = row.table.unique.zip(row.unique_value()) else { return Vec::new() };
        let found = self.table(row.table.name).find(column, value).map(|other| other.uuid());
        found.filter(|other| *other != row.uuid).collect()
    }

    /// The values of a row that no other may have at the same time.
    fn exclusive_values(&self, row: &DesiredRow) -> Vec<Value> {
        let exclusive = self.database.exclusive_of(row.table.name);
        exclusive.map(|exclusive| (exclusive.values)(&|column| row.datum(column))).unwrap_or_default()
    }

    /// The rows of the cache that have an exclusive value.
    fn holders_of(&self, table: &'static Table, value: &Value) -> Vec<Uuid> {
        let Some(exclusive) = self.database.exclusive_of(table.name) else { return Vec::new() };
        self.table(table.name).find(exclusive.index, value).map(|row| row.uuid()).collect()
    }

    /// Makes the rows of a unit as they should be.
    fn bring(&self, rows: &Rows, atom: &mut Atom) {
        for row in rows {
            match self.table(row.table.name).get(row.uuid) {
                None => atom.insert(row),
                Some(present) => {
                    row_change::change(row, present, atom);
                    self.move_to_parent(row, present, atom);
                }
            }
        }
    }

    /// Puts a row that another parent holds where it belongs.
    fn move_to_parent(&self, row: &DesiredRow, present: &Row, atom: &mut Atom) {
        let Some(parent) = &row.parent else { return };
        let parent_row = self.table(parent.by.table).get(parent.uuid);
        if parent_row.is_some_and(|parent_row| holds(parent_row, parent.by.column, row.uuid)) {
            return;
        }
        let holders = self.holders(row.table, present);
        let carried = |(by, holder): &(ParentColumn, Uuid)| {
            let table = self.database.table(by.table);
            let holder = self.table(by.table).get(*holder);
            table.zip(holder).is_some_and(|(table, holder)| self.is_carried(row, table, holder))
        };
        if holders.iter().any(carried) {
            return;
        }
        for (by, holder) in holders {
            atom.release(by, holder, row.uuid);
        }
        // Without this, a row whose new parent is gone meanwhile would be lost with its old one.
        if parent_row.is_some() {
            atom.require(parent.by.table, parent.uuid);
        }
        atom.hold(parent.by, parent.uuid, row.uuid);
    }

    /// The columns that hold one of our rows. Its tag says where to look.
    fn holders(&self, table: &Table, row: &Row) -> Vec<(ParentColumn, Uuid)> {
        let unit = tag::parent_unit_of(row).map(Value::from);
        let mut holders = Vec::new();
        for by in table.parents {
            let Some(parents) = self.database.table(by.table) else { continue };
            let tagged = unit.iter().flat_map(|unit| rows_of_unit(parents, unit, self.cache));
            let holding = tagged.filter(|parent| holds(parent, by.column, row.uuid()));
            holders.extend(holding.map(|parent| (*by, parent.uuid())));
        }
        if holders.is_empty() {
            // Somebody moved it, or changed its tags. That is rare, so it may cost a look at every parent.
            for by in table.parents {
                let holding =
                    self.table(by.table).iter().filter(|parent| holds(parent, by.column, row.uuid()));
                holders.extend(holding.map(|parent| (*by, parent.uuid())));
            }
        }
        holders.sort_unstable();
        holders
    }

    fn table(&self, name: &str) -> &'a ovsdb_core::Table {
        let table = self.cache.table(name);
        table.unwrap_or_else(|| panic!("table {name} is not monitored; see Database::indexes"))
    }
}

/// Whether `parent` has a reference to `row` in `column`.
fn holds(parent: &Row, column: &str, row: Uuid) -> bool {
    match parent.datum(column) {
        Some(Datum::Set(set)) => set.contains(&Value::Uuid(row)),
        _ => false,
    }
}
