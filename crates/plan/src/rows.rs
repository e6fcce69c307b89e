//! The rows that a unit should have.

use std::fmt;

use ovsdb_core::{Atom, Datum, SmolStr, Uuid};

use crate::row_uuid::row_uuid;
use crate::table::{Planned, Table};
use crate::tag;

/// The rows that a unit should have, all of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Rows {
    unit: SmolStr,
    owner: SmolStr,
    layer: Layer,
    rows: Vec<DesiredRow>,
}

/// What a unit's rows stand on: a unit of a later layer may refer to rows of an earlier one, never the other way round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Layer {
    /// Routers, which stand on nothing.
    Router,
    /// Switches, and what connects routers.
    Switch,
    /// Ports of switches.
    Port,
}

/// A row that should exist, as far as it is Portolan's.
#[derive(Clone, Debug)]
pub struct DesiredRow {
    pub(crate) table: &'static Table,
    pub(crate) uuid: Uuid,
    /// The row that holds it, where the table says that one must.
    pub(crate) parent: Option<Uuid>,
    /// The values of the table's owned columns, in their order.
    pub(crate) values: Box<[Datum]>,
}

/// A row that holds others, and the unit it is of.
#[derive(Clone, Debug)]
pub(crate) struct Parent {
    pub(crate) uuid: Uuid,
    pub(crate) unit: SmolStr,
}

impl Rows {
    /// No rows yet, of a unit that is there for the object with the UID `owner`.
    pub(crate) fn new(unit: &impl fmt::Display, owner: &str, layer: Layer) -> Self {
        Rows { unit: unit.to_string().into(), owner: owner.into(), layer, rows: Vec::new() }
    }

    /// The unit, as its rows are tagged.
    pub fn unit(&self) -> &SmolStr {
        &self.unit
    }

    /// The UID of the object that the unit is there for, as its rows are tagged.
    pub fn owner(&self) -> &SmolStr {
        &self.owner
    }

    /// What the unit's rows stand on.
    pub fn layer(&self) -> Layer {
        self.layer
    }

    /// The rows.
    pub fn iter(&self) -> std::slice::Iter<'_, DesiredRow> {
        self.rows.iter()
    }

    /// Adds a row of a root table. `key` tells it from the unit's other rows of that table.
    pub(crate) fn root<R: Planned>(&mut self, key: &str, row: R) -> Parent {
        self.add(key, None, row)
    }

    /// Adds a row that `parent` holds.
    pub(crate) fn child<R: Planned>(&mut self, key: &str, parent: &Parent, row: R) {
        self.add(key, Some(parent), row);
    }

    fn add<R: Planned>(&mut self, key: &str, parent: Option<&Parent>, mut row: R) -> Parent {
        debug_assert_eq!(parent.is_some(), R::RULES.parent.is_some(), "{} and its parent", R::TABLE);
        let ids = row.external_ids();
        ids.insert(tag::UNIT.into(), self.unit.to_string());
        ids.insert(tag::OWNER.into(), self.owner.to_string());
        if let Some(parent) = parent.filter(|parent| parent.unit != self.unit) {
            ids.insert(tag::PARENT.into(), parent.unit.to_string());
        }
        let uuid = row_uuid(R::TABLE, &self.owner, &self.unit, key);
        let parent = parent.map(|parent| parent.uuid);
        self.rows.push(DesiredRow { table: R::RULES, uuid, parent, values: owned_values(&row) });
        Parent { uuid, unit: self.unit.clone() }
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

    /// The row that holds it.
    pub fn parent(&self) -> Option<Uuid> {
        self.parent
    }

    /// The columns that are Portolan's, with their values.
    pub fn columns(&self) -> impl Iterator<Item = (&'static str, &Datum)> {
        self.table.owned.iter().map(|owned| owned.column).zip(&self.values)
    }

    /// The row's name, if its table wants it unique.
    pub(crate) fn unique_name(&self) -> Option<&Atom> {
        if !self.table.unique_name {
            return None;
        }
        self.columns().find(|(column, _)| *column == "name").and_then(|(_, name)| name.keys().next())
    }

    /// The rows that must exist for this one to be as it should, with their tables.
    pub(crate) fn needs(&self) -> impl Iterator<Item = (&'static str, Uuid)> {
        let parent = self.table.parent.map(|parent| parent.table).zip(self.parent);
        let weak = self.table.owned.iter().zip(&self.values).filter_map(|(owned, value)| {
            owned.refers_to.map(|table| value.keys().filter_map(Atom::as_uuid).map(move |uuid| (table, uuid)))
        });
        parent.into_iter().chain(weak.flatten())
    }
}

impl PartialEq for DesiredRow {
    fn eq(&self, other: &Self) -> bool {
        (self.table.name, self.uuid, self.parent, &self.values)
            == (other.table.name, other.uuid, other.parent, &other.values)
    }
}

impl<'a> IntoIterator for &'a Rows {
    type Item = &'a DesiredRow;
    type IntoIter = std::slice::Iter<'a, DesiredRow>;
    fn into_iter(self) -> Self::IntoIter {
        self.rows.iter()
    }
}
