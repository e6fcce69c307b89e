//! A database that Portolan writes into: its tables, and what a change in it concerns.

use std::collections::BTreeSet;
use std::fmt;
use std::hash::Hash;
use std::marker::PhantomData;

use ovsdb_core::change::Change;
use ovsdb_core::{Atom as Value, Cache, DatabaseSchema, Datum, Index, Row, SmolStr, Uuid, schema};

use crate::diff::{Atom, Obstacle};
use crate::pair;
use crate::reconciler::{Comparison, Target, Waiting};
use crate::rows::Rows;
use crate::table::{Owned, Part, Strength, Table};
use crate::tag::{self, TextMember};

/// A database that Portolan writes into.
#[derive(Debug)]
pub struct Database {
    /// The tables that Portolan writes.
    pub tables: &'static [&'static Table],
    /// Values that no two rows may have at once, although the schema does not say so.
    pub exclusive: &'static [Exclusive],
}

/// Values that no two rows of a table may have at once. A row that is to get one waits until no other has it, whoever wrote that one.
#[derive(Debug)]
pub struct Exclusive {
    /// The table.
    pub table: &'static str,
    /// The name of the index by these values.
    pub index: &'static str,
    /// The values of a row.
    pub values: for<'a> fn(ColumnsOf<'a>) -> Vec<Value>,
}

/// A way to look at the columns of a row.
pub type ColumnsOf<'a> = &'a dyn Fn(&str) -> Option<&'a Datum>;

/// The units that a change in a database concerns, and the rows that changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Touched {
    /// The units, as rows are tagged.
    pub units: BTreeSet<SmolStr>,
    /// The rows.
    pub rows: Vec<Uuid>,
}

impl Database {
    /// The tables to monitor, each with the indexes that comparing needs.
    pub fn indexes(&self) -> Vec<(&'static str, Vec<Index>)> {
        let carriers = self.has_text_members();
        let of = |table: &&'static Table| {
            let by_unit = tag::unit_index(table.ownership);
            let by_text = carriers.then(tag::text_member_index);
            let by_name = table.unique.map(Index::column);
            let rows = table.member_columns().filter(|owned| owned.refers_to.is_some());
            let by_member = rows.map(|owned| Index::column(owned.column));
            let exclusive = self.exclusive_of(table.name).map(|exclusive| {
                let values = exclusive.values;
                Index::function(exclusive.index, move |row| values(&|column| row.datum(column)))
            });
            let indexes =
                [by_unit].into_iter().chain(by_text).chain(by_name).chain(by_member).chain(exclusive);
            (table.name, indexes.collect())
        };
        self.tables.iter().map(of).collect()
    }

    /// The columns of a table that comparing needs: those that Portolan writes, and those that hold its rows. What is in the others is
    /// nobody's concern here, and `up` of a port changes often.
    pub fn columns(&self, table: &str) -> BTreeSet<&'static str> {
        let parents = self.tables.iter().flat_map(|child| child.parents);
        let holding = parents.filter(|parent| parent.table == table).map(|parent| parent.column);
        let tables = self.tables.iter().filter(|one| one.name == table);
        let written = tables.flat_map(|table| table.owned).map(|owned| owned.column);
        written.chain(holding).collect()
    }

    /// The units that have rows; each as often as it has some.
    pub fn units_in<'c>(&self, cache: &'c Cache) -> impl Iterator<Item = &'c str> {
        let tables = self.tables.iter().filter_map(|table| cache.table(table.name));
        tables.flat_map(ovsdb_core::Table::iter).filter_map(|row| tag::unit_of(row))
    }

    /// The UIDs of the objects that a unit's rows are for. Empty if it has none.
    pub fn owners_of(&self, unit: &str, cache: &Cache) -> BTreeSet<SmolStr> {
        let key = Value::from(unit);
        let rows = self.tables.iter().flat_map(|table| rows_of_unit(table, &key, cache));
        rows.map(|row| tag::owner_of(row).unwrap_or_default().into()).collect()
    }

    /// The rows of a unit.
    pub fn rows_of<'a>(&self, unit: &str, cache: &'a Cache) -> Vec<&'a Row> {
        let key = Value::from(unit);
        let rows = self.tables.iter().flat_map(|table| rows_of_unit(table, &key, cache));
        rows.map(|row| &**row).collect()
    }

    /// What changes of the cache concern. A change of nothing but a set's members concerns the units that contribute the
    /// members in which old and new differ, and not the unit that the set belongs to.
    pub fn touched(&self, changes: &[Change], cache: &Cache) -> Touched {
        let mut touched = Touched::default();
        for change in changes {
            touched.rows.push(change.uuid());
            let Some(table) = self.table(change.table()) else { continue };
            if let (Some(old), Some(new)) = (&change.old, &change.new) {
                self.touch_members(table, old, new, cache, &mut touched);
                self.touch_pairs(table, old, new, cache, &mut touched);
                let pairs = table.pairs().map(|(column, _)| column);
                let members: Vec<&str> =
                    table.member_columns().map(|owned| owned.column).chain(pairs).collect();
                let differs = |(old, new): ((&SmolStr, &Datum), (&SmolStr, &Datum))| {
                    !members.contains(&old.0.as_str()) && old.1 != new.1
                };
                if !members.is_empty() && !old.iter().zip(new.iter()).any(differs) {
                    continue;
                }
            }
            if let (None, Some(row)) | (Some(row), None) = (&change.old, &change.new) {
                touch_all_pairs(table, row, cache, &mut touched);
            }
            let rows = [&change.old, &change.new].into_iter().flatten();
            touched.units.extend(rows.filter_map(|row| tag::unit_of(row)).map(SmolStr::new));
        }
        touched
    }

    /// The units that contribute the members in which two versions of a row differ.
    fn touch_members(&self, table: &Table, old: &Row, new: &Row, cache: &Cache, touched: &mut Touched) {
        for owned in table.member_columns() {
            let (Some(Datum::Set(old)), Some(Datum::Set(set))) =
                (old.datum(owned.column), new.datum(owned.column))
            else {
                continue;
            };
            let gone = old.iter().filter(|element| !set.contains(element));
            let come = set.iter().filter(|element| !old.contains(element));
            for element in gone.chain(come) {
                for contributor in self.contributors(table, owned, new.uuid(), element, cache) {
                    touched.units.extend(tag::unit_of(contributor).map(SmolStr::new));
                }
            }
        }
    }

    /// The units that contribute the pairs in which two versions of a row differ.
    fn touch_pairs(&self, table: &Table, old: &Row, new: &Row, cache: &Cache, touched: &mut Touched) {
        let Some((column, carriers)) = table.pairs() else { return };
        let (Some(before), Some(after)) = (pair::map(old, column), pair::map(new, column)) else { return };
        if before == after {
            return;
        }
        let changed = |(key, _): &&(Value, Value)| before.get(key) != after.get(key);
        let keys = before.iter().chain(after).filter(changed).map(|(key, _)| key);
        touch_carriers(keys, carriers, cache, touched);
    }

    /// The rows of the cache that stand for an element of a set: the row that it is, or the rows that list it.
    fn contributors<'a>(
        &self,
        table: &Table,
        owned: &Owned,
        row: Uuid,
        element: &Value,
        cache: &'a Cache,
    ) -> Vec<&'a Row> {
        match (owned.refers_to, element) {
            (Some(refers_to), Value::Uuid(uuid)) => {
                let row = cache.table(refers_to.table).and_then(|rows| rows.get(*uuid));
                row.into_iter().map(|row| &**row).collect()
            }
            (None, Value::String(element)) => {
                let member = TextMember { table: table.name.into(), row, element: element.clone() };
                self.carriers(&member, cache)
            }
            _ => Vec::new(),
        }
    }

    /// The rows that list a text as theirs.
    pub(crate) fn carriers<'a>(&self, member: &TextMember, cache: &'a Cache) -> Vec<&'a Row> {
        let key = member.index_key();
        let tables = self.tables.iter().filter_map(|table| cache.table(table.name));
        tables.flat_map(|table| table.find(tag::BY_TEXT_MEMBER, &key)).map(|row| &**row).collect()
    }

    pub(crate) fn exclusive_of(&self, table: &str) -> Option<&'static Exclusive> {
        self.exclusive.iter().find(|exclusive| exclusive.table == table)
    }

    pub(crate) fn has_text_members(&self) -> bool {
        let mut members = self.tables.iter().flat_map(|table| table.member_columns());
        members.any(|owned| owned.refers_to.is_none())
    }

    /// The rules for a table, if Portolan writes it.
    pub fn table(&self, name: &str) -> Option<&'static Table> {
        self.tables.iter().find(|table| table.name == name).copied()
    }

    /// Where the rules do not fit a schema; empty if they do.
    pub fn misfits(&self, schema: &DatabaseSchema) -> Vec<String> {
        self.tables.iter().flat_map(|table| misfits_of(table, schema)).collect()
    }
}

/// The units that contribute the pairs of a row that came or went.
fn touch_all_pairs(table: &Table, row: &Row, cache: &Cache, touched: &mut Touched) {
    let Some((column, carriers)) = table.pairs() else { return };
    let keys = pair::map(row, column).into_iter().flatten().map(|(key, _)| key);
    touch_carriers(keys, carriers, cache, touched);
}

/// The units of the rows that pairs with these keys are for.
fn touch_carriers<'a>(
    keys: impl Iterator<Item = &'a Value>,
    carriers: &str,
    cache: &Cache,
    touched: &mut Touched,
) {
    let rows = keys.filter_map(|key| cache.table(carriers)?.get(pair::carrier(key)?));
    touched.units.extend(rows.filter_map(|row| tag::unit_of(row)).map(SmolStr::new));
}

/// The rows that carry a unit's tag.
pub(crate) fn rows_of_unit<'a>(
    table: &Table,
    unit: &Value,
    cache: &'a Cache,
) -> Vec<&'a std::sync::Arc<Row>> {
    let rows = cache.table(table.name).into_iter();
    rows.flat_map(|rows| rows.find(tag::unit_index_name(table.ownership), unit)).collect()
}

fn misfits_of(table: &Table, database: &DatabaseSchema) -> Vec<String> {
    let Some(schema) = database.tables.get(table.name) else {
        return vec![format!("no table {}", table.name)];
    };
    let mut misfits = Vec::new();
    let mut check = |fits: bool, what: &str| {
        if !fits {
            misfits.push(format!("{}: {what}", table.name));
        }
    };
    check(schema.is_root == table.is_root(), "whether it is a root table");
    let unique = table.unique.map(|column| vec![SmolStr::new(column)]);
    check(unique.is_none_or(|unique| schema.indexes.contains(&unique)), "its unique column");
    check(schema.indexes.is_empty() || table.unique.is_some(), "its unique column");
    for parent in table.parents {
        let column = database.tables.get(parent.table).and_then(|of| of.columns.get(parent.column));
        let reference = column.and_then(|column| column.column_type.key.reference.as_ref());
        check(
            reference.is_some_and(|to| to.table == table.name && to.strength == schema::Strength::Strong),
            parent.column,
        );
    }
    for owned in table.owned {
        let Some(column) = schema.columns.get(owned.column) else {
            check(false, owned.column);
            continue;
        };
        let column = &column.column_type;
        check(matches!(owned.part, Part::Whole | Part::Members) || column.is_map(), owned.column);
        let strength = |strength| match strength {
            Strength::Weak => schema::Strength::Weak,
            Strength::Strong => schema::Strength::Strong,
        };
        let expected = owned.refers_to.map(|to| (to.table, strength(to.strength)));
        let actual = column.key.reference.as_ref().map(|to| (to.table.as_str(), to.strength));
        check(expected == actual, owned.column);
    }
    misfits
}

/// A database as the target of a [`Reconciler`](crate::Reconciler), for units of type `U`.
#[derive(Debug)]
pub struct DatabaseTarget<U> {
    database: &'static Database,
    marker: PhantomData<fn() -> U>,
}

impl<U> DatabaseTarget<U> {
    /// The database as a target.
    pub fn new(database: &'static Database) -> Self {
        DatabaseTarget { database, marker: PhantomData }
    }

    /// The database.
    pub fn database(&self) -> &'static Database {
        self.database
    }
}

impl<U: Clone + Ord + Hash + fmt::Debug + fmt::Display + std::str::FromStr> Target for DatabaseTarget<U> {
    type Unit = U;
    type Desired = Rows;
    type Observed = Cache;
    type Change = Atom;
    /// A row.
    type Key = Uuid;
    type Obstacle = Obstacle;

    fn owners(&self, unit: &U, cache: &Cache) -> BTreeSet<SmolStr> {
        self.database.owners_of(&unit.to_string(), cache)
    }

    fn compare(&self, desired: Vec<(U, Rows)>, stale: Vec<U>, cache: &Cache) -> Comparison<Self> {
        let desired: Vec<Rows> = desired.into_iter().map(|(_, rows)| rows).collect();
        let stale: Vec<SmolStr> = stale.iter().map(|unit| unit.to_string().into()).collect();
        let diff = self.database.diff(&desired, &stale, cache);
        let waiting = diff.waiting.into_iter().filter_map(|waiting| {
            let unit = waiting.unit.parse().ok()?;
            Some(Waiting { unit, until: waiting.obstacle.row(), obstacle: waiting.obstacle })
        });
        Comparison { changes: diff.atoms, waiting: waiting.collect() }
    }

    fn is_met(&self, _: &U, desired: &Rows, cache: &Cache) -> bool {
        let diff = self.database.diff(std::slice::from_ref(desired), &[], cache);
        diff.atoms.is_empty() && diff.waiting.is_empty()
    }

    fn keys_of(&self, unit: &U, cache: &Cache) -> Vec<Uuid> {
        self.database.rows_of(&unit.to_string(), cache).into_iter().map(Row::uuid).collect()
    }

    fn unit_of(&self, change: &Atom) -> Option<U> {
        change.unit().parse().ok()
    }
}
