//! Rows that go: some at once, others when what stood on them has moved.

use ovsdb_core::{Atom as Value, Row, SmolStr, Uuid};

use super::atom::Atom;
use super::members::Members;
use super::{Differ, Present};
use crate::rows::DesiredRow;
use crate::table::{Owned, ParentColumn, Strength, Table};

impl<'a> Differ<'a> {
    /// What a unit has and should not have, but for rows that others may stand on.
    pub(super) fn remove_early(&self, unwanted: &[Present<'_>], atom: &mut Atom) {
        for (table, row) in unwanted.iter().filter(|(table, row)| !self.goes_late(table, row)) {
            self.carry_children(table, row, atom);
            if table.is_root() {
                atom.delete(table, row.uuid());
                continue;
            }
            // What hangs on a row that goes in this atom goes with it. Rules are in force until their switch or router
            // goes; a name may be needed earlier.
            let goes_with = |holder: Uuid| {
                unwanted.iter().any(|(by, parent)| {
                    parent.uuid() == holder && (table.unique.is_none() || !self.goes_late(by, parent))
                })
            };
            self.release(table, row, goes_with, atom);
        }
    }

    /// The rows that a unit has and should not have, and that others may have stood on.
    pub(super) fn remove_late(&self, unit: &SmolStr, unwanted: &[Present<'_>], members: &Members) -> Atom {
        let mut atom = Atom::new(unit.clone());
        for (table, row) in unwanted {
            members.leave_with(self, table, row, &mut atom);
            if !self.goes_late(table, row) {
                continue;
            }
            if table.is_root() {
                atom.delete(table, row.uuid());
                continue;
            }
            let goes_with = |holder: Uuid| {
                unwanted.iter().any(|(by, parent)| parent.uuid() == holder && self.goes_late(by, parent))
            };
            self.release(table, row, goes_with, &mut atom);
        }
        atom
    }

    /// Moves rows of other units from a row that goes to the row of the same unit that replaces it. They would go with it
    /// before their own units could move them.
    fn carry_children(&self, table: &Table, row: &Row, atom: &mut Atom) {
        for (_, child) in self.children(table, row) {
            let Some(at) = self.wanted.get(&child) else { continue };
            let child = self.desired[*at].iter().find(|desired| desired.uuid == child);
            let child = child.filter(|child| self.is_carried(child, table, row));
            if let Some((child, parent)) = child.and_then(|child| Some((child, child.parent.as_ref()?))) {
                atom.hold(parent.by, parent.uuid, child.uuid);
            }
        }
    }

    /// Whether a unit that drops `holder` moves a row of another unit from there.
    pub(super) fn is_carried(&self, child: &DesiredRow, table: &Table, holder: &Row) -> bool {
        let Some(Some(dropped_by)) = self.dropped.get(&holder.uuid()) else { return false };
        let replaced = child.parent.as_ref().is_some_and(|to| self.wanted.get(&to.uuid) == Some(dropped_by));
        replaced && self.wanted.get(&child.uuid) != Some(dropped_by) && !self.goes_late(table, holder)
    }

    /// Takes a row from what holds it, unless everything that holds it goes.
    fn release(&self, table: &Table, row: &Row, goes: impl Fn(Uuid) -> bool, atom: &mut Atom) {
        let holders = self.holders(table, row);
        // Another unit may drop the holder before this one has its turn.
        let dropped = |by: &ParentColumn, holder: Uuid| {
            let parent = self.database.table(by.table).zip(self.table(by.table).get(holder));
            let early = || parent.is_some_and(|(table, parent)| !self.goes_late(table, parent));
            self.dropped.contains_key(&holder) && !self.claimed.contains(&row.uuid()) && early()
        };
        if !holders.is_empty() && holders.iter().all(|(by, holder)| goes(*holder) || dropped(by, *holder)) {
            return;
        }
        for (by, holder) in holders {
            atom.release(by, holder, row.uuid());
        }
        // The server counts the references of a row that only vanishes: what it refers to could not go with it.
        let strong = |owned: &&Owned| owned.refers_to.is_some_and(|to| to.strength == Strength::Strong);
        let mut refers = table.owned.iter().filter(strong).filter_map(|owned| row.datum(owned.column));
        if refers.any(|value| !value.is_default()) {
            atom.delete(table, row.uuid());
        }
    }

    /// Whether a row stays until everything desired is there. One whose unique value is needed cannot.
    fn goes_late(&self, table: &Table, row: &Row) -> bool {
        let stood_on = || self.children(table, row).any(|(_, child)| self.wanted.contains_key(&child));
        !self.claimed.contains(&row.uuid()) && (table.is_root() || stood_on())
    }

    /// The rows that a row holds, with their tables.
    pub(super) fn children(
        &self,
        table: &Table,
        row: &'a Row,
    ) -> impl Iterator<Item = (&'static Table, Uuid)> {
        let name = table.name;
        let held = self.database.tables.iter().flat_map(move |child| {
            let columns = child.parents.iter().filter(move |by: &&ParentColumn| by.table == name);
            columns.map(move |by| (*child, by.column))
        });
        held.flat_map(move |(child, column)| {
            let held =
                row.datum(column).into_iter().flat_map(|value| value.keys().filter_map(Value::as_uuid));
            held.map(move |uuid| (child, uuid))
        })
    }
}
