//! What a unit should have in a database: rows, and memberships in sets of other rows.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::marker::PhantomData;

use ovsdb_core::{Atom, Column, Datum, Map, SmolStr, Uuid};

use crate::pair::{self, Pair};
use crate::row_uuid::row_uuid;
use crate::table::{ParentColumn, Part, Planned, Table};
use crate::tag::{self, Tags};

/// What a unit should have, all of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Rows {
    unit: SmolStr,
    owner: SmolStr,
    rows: Vec<DesiredRow>,
    memberships: Vec<Membership>,
    pairs: Vec<Pair>,
}

/// A row that should exist, as far as it is Portolan's.
#[derive(Clone, Debug)]
pub struct DesiredRow {
    pub(crate) table: &'static Table,
    pub(crate) uuid: Uuid,
    /// What holds it, unless its table is a root table.
    pub(crate) parent: Option<Parent>,
    /// The values of the table's owned columns, in their order. Those of member columns are not used.
    pub(crate) values: Box<[Datum]>,
}

/// One element that a unit contributes to a set of a row, usually of another unit.
///
/// **How it is found again.** A UUID refers to a row of the contributing unit: every set of ours that has the row and
/// should not is found by an index over the set's column. A text is listed in the tags of a row of the contributing unit,
/// its carrier: a text of which no row in the database is a carrier is nobody's, and is removed when the unit that the
/// set belongs to is compared. A text that several units contribute stays until the last of them stops.
#[derive(Clone, Debug, PartialEq)]
pub struct Membership {
    pub(crate) table: &'static Table,
    pub(crate) column: &'static str,
    pub(crate) row: Uuid,
    pub(crate) element: Atom,
}

/// A row of the table that `R` stands for, and the unit it is of.
#[derive(Debug)]
pub struct RowRef<R> {
    uuid: Uuid,
    unit: SmolStr,
    marker: PhantomData<fn() -> R>,
}

/// A column of a row that holds other rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parent {
    pub(crate) by: ParentColumn,
    pub(crate) uuid: Uuid,
    unit: SmolStr,
}

impl<R: Planned> RowRef<R> {
    /// The row that `unit` needs as its `key`, for the object with the UID `owner`.
    pub fn new(unit: &impl fmt::Display, owner: &str, key: &str) -> Self {
        let unit = SmolStr::from(unit.to_string());
        RowRef { uuid: row_uuid(R::TABLE, owner, &unit, key), unit, marker: PhantomData }
    }

    /// Its UUID.
    pub fn uuid(&self) -> Uuid {
        self.uuid
    }

    /// One of its columns, as the parent of other rows.
    pub fn column(&self, column: Column<R, BTreeSet<Uuid>>) -> Parent {
        let by = ParentColumn { table: R::TABLE, column: column.name() };
        Parent { by, uuid: self.uuid, unit: self.unit.clone() }
    }
}

impl Parent {
    /// The column.
    pub fn column(&self) -> ParentColumn {
        self.by
    }

    /// The row that has the column.
    pub fn uuid(&self) -> Uuid {
        self.uuid
    }
}

impl Rows {
    /// No rows yet, of a unit that is there for the object with the UID `owner`.
    pub fn new(unit: &impl fmt::Display, owner: impl Into<SmolStr>) -> Self {
        let (rows, memberships, pairs) = (Vec::new(), Vec::new(), Vec::new());
        Rows { unit: unit.to_string().into(), owner: owner.into(), rows, memberships, pairs }
    }

    /// The unit, as its rows are tagged.
    pub fn unit(&self) -> &SmolStr {
        &self.unit
    }

    /// The UID of the object that the unit is there for, as its rows are tagged.
    pub fn owner(&self) -> &SmolStr {
        &self.owner
    }

    /// The rows.
    pub fn iter(&self) -> std::slice::Iter<'_, DesiredRow> {
        self.rows.iter()
    }

    /// What the unit contributes to sets of other rows.
    pub fn memberships(&self) -> &[Membership] {
        &self.memberships
    }

    /// What the unit contributes to maps of other rows.
    pub fn pairs(&self) -> &[Pair] {
        &self.pairs
    }

    /// Adds a row of a root table. `key` tells it from the unit's other rows of that table.
    pub fn root<R: Planned>(&mut self, key: &str, row: R) -> RowRef<R> {
        self.add(key, None, row)
    }

    /// Adds a row that `parent` holds.
    pub fn child<R: Planned>(&mut self, key: &str, parent: Parent, row: R) -> RowRef<R> {
        self.add(key, Some(parent), row)
    }

    /// The UUID that the unit's row with this key has, also before it is added.
    pub fn uuid_of<R: Planned>(&self, key: &str) -> Uuid {
        row_uuid(R::TABLE, &self.owner, &self.unit, key)
    }

    /// Puts a row of this unit into a set of another row.
    pub fn row_member<G: Planned, R: Planned>(
        &mut self,
        element: &RowRef<R>,
        group: &RowRef<G>,
        column: Column<G, BTreeSet<Uuid>>,
    ) {
        debug_assert_eq!(element.unit, self.unit, "a unit contributes its own rows");
        self.membership(group, column.name(), Atom::Uuid(element.uuid));
    }

    /// Puts texts into a set of another row. `carrier`, a row of this unit, lists them in its tags.
    pub fn text_members<G: Planned, R: Planned>(
        &mut self,
        carrier: &RowRef<R>,
        group: &RowRef<G>,
        column: Column<G, BTreeSet<String>>,
        elements: &BTreeSet<String>,
    ) {
        debug_assert!(elements.iter().all(|element| !element.contains(' ')), "{elements:?}");
        if elements.is_empty() {
            return;
        }
        let elements: Vec<SmolStr> = elements.iter().map(SmolStr::new).collect();
        let carrier = self.rows.iter_mut().find(|row| row.uuid == carrier.uuid);
        let carrier = carrier.expect("invariant: a carrier is a row of its unit");
        let tags = carrier.table.owned.iter().position(|owned| owned.column == "external_ids");
        let tags = &mut carrier.values[tags.expect("invariant: a carrier has external_ids")];
        if let Datum::Map(map) = &*tags {
            let tag = tag::member_tag(G::TABLE, group.uuid, &elements);
            *tags = Datum::Map(map.iter().cloned().chain([tag]).collect::<Map>());
        }
        for element in elements {
            self.membership(group, column.name(), Atom::String(element));
        }
    }

    /// Puts a pair into a map of another row. `carrier`, a row of this unit, is what it is for.
    pub fn pair<G: Planned, R: Planned>(
        &mut self,
        carrier: &RowRef<R>,
        suffix: &str,
        map: &RowRef<G>,
        column: Column<G, BTreeMap<String, String>>,
        value: String,
    ) {
        debug_assert_eq!(carrier.unit, self.unit, "a unit contributes pairs for its own rows");
        debug_assert_eq!(
            G::RULES.pairs(),
            Some((column.name(), R::TABLE)),
            "{} takes no such pairs",
            G::TABLE
        );
        let key = pair::key(carrier.uuid, suffix).into();
        let (table, column) = (G::RULES, column.name());
        self.pairs.push(Pair { table, column, row: map.uuid, key, value: value.into() });
    }

    fn membership<G: Planned>(&mut self, group: &RowRef<G>, column: &'static str, element: Atom) {
        debug_assert!(
            G::RULES.member_columns().any(|owned| owned.column == column),
            "{}.{column} takes no members",
            G::TABLE
        );
        self.memberships.push(Membership { table: G::RULES, column, row: group.uuid, element });
    }

    fn add<R: Planned>(&mut self, key: &str, parent: Option<Parent>, mut row: R) -> RowRef<R> {
        debug_assert_eq!(parent.is_none(), R::RULES.is_root(), "{} and its parent", R::TABLE);
        debug_assert!(
            parent.as_ref().is_none_or(|parent| R::RULES.parents.contains(&parent.by)),
            "{} in {parent:?}",
            R::TABLE
        );
        let parent_unit = parent.as_ref().map(|parent| parent.unit.as_str());
        row.tag(&Tags {
            unit: &self.unit,
            owner: &self.owner,
            parent: parent_unit.filter(|unit| *unit != self.unit),
            key,
        });
        let uuid = row_uuid(R::TABLE, &self.owner, &self.unit, key);
        self.rows.push(DesiredRow { table: R::RULES, uuid, parent, values: owned_values(&row) });
        RowRef { uuid, unit: self.unit.clone(), marker: PhantomData }
    }
}

/// The values of the columns that are Portolan's.
fn owned_values<R: Planned>(row: &R) -> Box<[Datum]> {
    let mut all: Vec<Option<Datum>> = row.encode().into_iter().map(Some).collect();
    let owned = R::RULES.owned.iter().map(|owned| {
        let at = R::COLUMNS.binary_search(&owned.column).ok();
        let value = at.and_then(|at| all[at].take());
        value.expect("invariant: the rules name each column once, and the schema has it")
    });
    owned.collect()
}

impl DesiredRow {
    /// The row's table.
    pub fn table(&self) -> &'static Table {
        self.table
    }

    /// The row's UUID.
    pub fn uuid(&self) -> Uuid {
        self.uuid
    }

    /// What holds it.
    pub fn parent(&self) -> Option<&Parent> {
        self.parent.as_ref()
    }

    /// The columns that the row's unit writes, with their values.
    pub fn columns(&self) -> impl Iterator<Item = (&'static str, &Datum)> {
        let all = self.table.owned.iter().zip(&self.values);
        all.filter(|(owned, _)| !matches!(owned.part, Part::Members | Part::Pairs(_)))
            .map(|(owned, value)| (owned.column, value))
    }

    /// The value of a column that the row's unit writes.
    pub(crate) fn datum(&self, column: &str) -> Option<&Datum> {
        self.columns().find(|(name, _)| *name == column).map(|(_, value)| value)
    }

    /// The value that no other row may have, if the table wants one unique.
    pub(crate) fn unique_value(&self) -> Option<&Atom> {
        let unique = self.table.unique?;
        self.columns().find(|(column, _)| *column == unique).and_then(|(_, value)| value.keys().next())
    }

    /// The rows that must exist for this one to be as it should, with their tables.
    pub(crate) fn needs(&self) -> impl Iterator<Item = (&'static str, Uuid)> {
        let parent = self.parent.as_ref().map(|parent| (parent.by.table, parent.uuid));
        let referred = self.table.owned.iter().zip(&self.values).filter_map(|(owned, value)| {
            let refers_to = owned.refers_to.filter(|_| owned.part == Part::Whole)?;
            Some(value.keys().filter_map(Atom::as_uuid).map(move |uuid| (refers_to.table, uuid)))
        });
        parent.into_iter().chain(referred.flatten())
    }
}

impl Membership {
    /// The table and the column of the set.
    pub fn column(&self) -> ParentColumn {
        ParentColumn { table: self.table.name, column: self.column }
    }

    /// The row that has the set.
    pub fn row(&self) -> Uuid {
        self.row
    }

    /// The element.
    pub fn element(&self) -> &Atom {
        &self.element
    }
}

impl<R> Clone for RowRef<R> {
    fn clone(&self) -> Self {
        RowRef { uuid: self.uuid, unit: self.unit.clone(), marker: PhantomData }
    }
}

impl PartialEq for Table {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl PartialEq for DesiredRow {
    fn eq(&self, other: &Self) -> bool {
        (self.table.name, self.uuid, &self.parent, &self.values)
            == (other.table.name, other.uuid, &other.parent, &other.values)
    }
}

impl<'a> IntoIterator for &'a Rows {
    type Item = &'a DesiredRow;
    type IntoIter = std::slice::Iter<'a, DesiredRow>;
    fn into_iter(self) -> Self::IntoIter {
        self.rows.iter()
    }
}
