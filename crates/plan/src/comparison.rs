//! Rows side by side, for people to read: of two plans, or of a database and a plan.
//!
//! ```text
//! ~ subnet/web
//!     + Logical_Router_Static_Route "10.9.0.0/24" "10.0.0.7", in static_routes of Logical_Router "vpc:blue"
//!     ~ Logical_Switch "subnet:web"
//!         other_config: {} → {exclude_ips="10.0.0.5"}
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use ovsdb_core::{Cache, Datum, Row, SmolStr, Uuid};

use crate::database::Database;
use crate::rows::{DesiredRow, Rows};
use crate::table::{Owned, Part, Table};
use crate::tag;

/// The columns that name a row to people, in this order.
const NAMING: &[&str] = &["name", "cidr", "ip_prefix", "nexthop", "priority", "match"];
/// Where tags are, which say nothing that people asked for.
const TAGS: &str = "external_ids";

/// A state of rows, as far as they are Portolan's.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Picture(BTreeMap<SmolStr, BTreeMap<Uuid, PicturedRow>>);

#[derive(Clone, Debug, PartialEq)]
struct PicturedRow {
    table: &'static str,
    /// The column that holds it, and the row of that column.
    parent: Option<(&'static str, Uuid)>,
    columns: BTreeMap<&'static str, Datum>,
    members: BTreeMap<(&'static str, Uuid), BTreeSet<String>>,
}

impl Picture {
    /// Adds what a unit should have.
    pub fn add(&mut self, rows: &Rows) {
        let unit = self.0.entry(rows.unit().clone()).or_default();
        unit.extend(rows.iter().map(|row| (row.uuid(), PicturedRow::desired(row))));
        for membership in rows.memberships() {
            let Some(first) = unit.values_mut().next() else { continue };
            let key = (membership.column().column, membership.row());
            first.members.entry(key).or_default().insert(membership.element().to_string());
        }
        for pair in rows.pairs() {
            let Some(first) = unit.values_mut().next() else { continue };
            let members = first.members.entry((pair.column().column, pair.row())).or_default();
            members.insert(format!("{} = {:?}", pair.key(), pair.value()));
        }
    }

    /// What a database has of some units.
    pub fn of_database(database: &Database, cache: &Cache, units: &BTreeSet<SmolStr>) -> Self {
        let mut picture = Picture::default();
        let mut parents = BTreeMap::new();
        for table in database.tables {
            for by in table.parents {
                for row in cache.table(by.table).into_iter().flat_map(ovsdb_core::Table::iter) {
                    let held = row.datum(by.column).into_iter().flat_map(Datum::keys);
                    parents.extend(held.filter_map(|atom| Some((atom.as_uuid()?, (by.column, row.uuid())))));
                }
            }
        }
        for table in database.tables {
            for row in cache.table(table.name).into_iter().flat_map(ovsdb_core::Table::iter) {
                let Some(unit) = tag::unit_of(row).filter(|unit| units.contains(*unit)) else { continue };
                let pictured = PicturedRow::stored(table, row, parents.get(&row.uuid()).copied());
                picture.0.entry(unit.into()).or_default().insert(row.uuid(), pictured);
            }
        }
        picture
    }

    /// How many rows of a unit there are.
    pub fn rows_of(&self, unit: &str) -> usize {
        self.0.get(unit).map_or(0, BTreeMap::len)
    }

    /// What has to change for this to become `after`, unit by unit.
    pub fn compare(&self, after: &Picture) -> Vec<UnitDifference> {
        let rows = self.0.values().chain(after.0.values()).flatten();
        let names: BTreeMap<Uuid, String> = rows.map(|(uuid, row)| (*uuid, row.name())).collect();
        let nothing = BTreeMap::new();
        let units: BTreeSet<&SmolStr> = self.0.keys().chain(after.0.keys()).collect();
        let compared = units.into_iter().filter_map(|unit| {
            let (before, after) =
                (self.0.get(unit).unwrap_or(&nothing), after.0.get(unit).unwrap_or(&nothing));
            let uuids: BTreeSet<&Uuid> = before.keys().chain(after.keys()).collect();
            let mut rows: Vec<RowDifference> = uuids
                .into_iter()
                .filter_map(|uuid| RowDifference::of(before.get(uuid), after.get(uuid), &names))
                .collect();
            rows.sort_by(|a, b| (&a.row, a.change).cmp(&(&b.row, b.change)));
            let change = match (before.is_empty(), after.is_empty()) {
                (true, false) => Change::Added,
                (false, true) => Change::Removed,
                _ => Change::Changed,
            };
            (!rows.is_empty()).then(|| UnitDifference { unit: unit.clone(), change, rows })
        });
        compared.collect()
    }
}

impl PicturedRow {
    fn desired(row: &DesiredRow) -> Self {
        PicturedRow {
            table: row.table().name,
            parent: row.parent().map(|parent| (parent.column().column, parent.uuid())),
            columns: row.columns().map(|(column, value)| (column, value.clone())).collect(),
            members: BTreeMap::new(),
        }
    }

    fn stored(table: &'static Table, row: &Row, parent: Option<(&'static str, Uuid)>) -> Self {
        let columns = table.owned.iter().filter_map(|owned| Some((owned.column, ours(owned, row)?)));
        PicturedRow { table: table.name, parent, columns: columns.collect(), members: BTreeMap::new() }
    }

    fn name(&self) -> String {
        let words = NAMING.iter().filter_map(|column| self.columns.get(column));
        let words = words.filter(|value| !value.is_default()).map(|value| format!(" {value}"));
        format!("{}{}", self.table, words.collect::<String>())
    }
}

/// The part of a stored column that is Portolan's. None if others contribute it, or if the server does not have it.
fn ours(owned: &Owned, row: &Row) -> Option<Datum> {
    let stored = row.datum(owned.column)?;
    match (owned.part, stored) {
        (Part::Members | Part::Pairs(_), _) => None,
        (Part::Whole, stored) => Some(stored.clone()),
        (part, Datum::Map(map)) => {
            let ours = map.iter().filter(|(key, _)| key.as_str().is_some_and(|key| part.has_key(key)));
            Some(Datum::Map(ours.map(|(key, value)| (key.clone(), value.clone())).collect()))
        }
        (_, stored) => Some(stored.clone()),
    }
}

/// What happens to a unit, row or column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// It is there only afterwards.
    Added,
    /// It is there only before.
    Removed,
    /// It is there before and after, and differs.
    Changed,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Change::Added => "+",
            Change::Removed => "-",
            Change::Changed => "~",
        })
    }
}

/// What changes in a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitDifference {
    /// The unit, as rows are tagged.
    pub unit: SmolStr,
    /// What happens to it.
    pub change: Change,
    /// Its rows that change.
    pub rows: Vec<RowDifference>,
}

/// What changes in a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowDifference {
    /// The table, what people call the row, and what holds it.
    pub row: String,
    /// What happens to it.
    pub change: Change,
    /// Its columns: all that say something of a row that is added, those that differ of one that changes.
    pub columns: Vec<String>,
}

impl RowDifference {
    fn of(
        before: Option<&PicturedRow>,
        after: Option<&PicturedRow>,
        names: &BTreeMap<Uuid, String>,
    ) -> Option<Self> {
        let (shown, change) = match (before, after) {
            (None, None) => return None,
            (None, Some(after)) => (after, Change::Added),
            (Some(before), None) => (before, Change::Removed),
            (Some(before), Some(after)) if before == after => return None,
            (Some(_), Some(after)) => (after, Change::Changed),
        };
        let text = |value: &Datum| readable(value, names);
        let holder = |row: &PicturedRow| {
            row.parent.map(|(column, of)| {
                let of = names.get(&of).cloned().unwrap_or_else(|| of.to_string());
                format!(", in {column} of {of}")
            })
        };
        let mut columns = Vec::new();
        match (before, after) {
            (Some(before), Some(after)) => {
                for column in before.columns.keys().chain(after.columns.keys()).collect::<BTreeSet<_>>() {
                    let (old, new) = (before.columns.get(column), after.columns.get(column));
                    // A server that lacks a column has nothing to compare.
                    if let (Some(old), Some(new)) = (old, new)
                        && old != new
                    {
                        columns.push(format!("{column}: {} → {}", text(old), text(new)));
                    }
                }
                if before.parent != after.parent {
                    let place =
                        |row| holder(row).map_or_else(|| "nowhere".to_owned(), |text| text[2..].to_owned());
                    columns.push(format!("{} → {}", place(before), place(after)));
                }
            }
            (None, Some(row)) => {
                let said =
                    row.columns.iter().filter(|(column, value)| **column != TAGS && !value.is_default());
                columns.extend(said.map(|(column, value)| format!("{column}: {}", text(value))));
            }
            _ => {}
        }
        columns.extend(members(before, after, names));
        let row = format!("{}{}", shown.name(), holder(shown).unwrap_or_default());
        (change != Change::Changed || !columns.is_empty()).then_some(RowDifference { row, change, columns })
    }
}

/// What changes in the sets that a unit contributes to.
fn members(
    before: Option<&PicturedRow>,
    after: Option<&PicturedRow>,
    names: &BTreeMap<Uuid, String>,
) -> Vec<String> {
    let all = |row: Option<&PicturedRow>| -> BTreeSet<(&'static str, Uuid, String)> {
        let sets = row.into_iter().flat_map(|row| &row.members);
        sets.flat_map(|((column, of), elements)| elements.iter().map(|one| (*column, *of, one.clone())))
            .collect()
    };
    // A picture of a database has none.
    let (before, after) = (all(before), all(after));
    let line = |sign: Change, (column, of, element): &(&'static str, Uuid, String)| {
        let of = names.get(of).cloned().unwrap_or_else(|| of.to_string());
        format!("{sign} {element} in {column} of {of}")
    };
    let added = after.difference(&before).map(|one| line(Change::Added, one));
    added.chain(before.difference(&after).map(|one| line(Change::Removed, one))).collect()
}

/// A value, with the names of the rows that it refers to.
fn readable(value: &Datum, names: &BTreeMap<Uuid, String>) -> String {
    let mut text = value.to_string();
    for uuid in value.keys().filter_map(ovsdb_core::Atom::as_uuid) {
        if let Some(name) = names.get(&uuid) {
            text = text.replace(&uuid.to_string(), name);
        }
    }
    text
}

impl fmt::Display for UnitDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} {}", self.change, self.unit)?;
        for row in &self.rows {
            writeln!(f, "    {} {}", row.change, row.row)?;
            for column in &row.columns {
                writeln!(f, "        {column}")?;
            }
        }
        Ok(())
    }
}
