//! Pairs that units contribute to maps of other rows. [`crate::pair`] has the rules.

use ovsdb_core::{Atom as Value, Row, Uuid};

use super::atom::Atom;
use super::{Differ, Obstacle, Present};
use crate::pair::{self, Pair};
use crate::table::{ParentColumn, Table};

impl Differ<'_> {
    /// Makes the pairs of a desired unit as they should be, in maps whose rows are there or in `coming`.
    pub(super) fn change_pairs(&self, at: usize, coming: &dyn Fn(usize) -> bool, atom: &mut Atom) {
        let rows = &self.desired[at];
        for wanted in rows.pairs().iter().filter(|pair| self.has_map(pair, coming)) {
            let key = Value::String(wanted.key.clone());
            let row = self.table(wanted.table.name).get(wanted.row);
            let is = row.and_then(|row| pair::map(row, wanted.column)?.get(&key));
            if is.and_then(Value::as_str) != Some(&wanted.value) {
                // An insertion leaves a key alone that is there.
                if is.is_some() {
                    atom.lose(wanted.column(), wanted.row, key.clone());
                }
                atom.gain_pair(wanted.column(), wanted.row, key, Value::String(wanted.value.clone()));
            }
        }
        let is_wanted = |map: Uuid, key: &Value| {
            rows.pairs().iter().any(|pair| pair.row == map && key.as_str() == Some(&pair.key))
        };
        let present = rows.iter().filter(|row| self.table(row.table.name).get(row.uuid).is_some());
        for row in present {
            self.drop_pairs(row.table, row.uuid, is_wanted, atom);
        }
        for (table, row) in &self.unwanted[at] {
            self.drop_pairs(table, row.uuid(), is_wanted, atom);
        }
        for row in rows {
            self.drop_orphaned_pairs(row.table, row.uuid, atom);
        }
    }

    /// Takes the pairs away that stale rows contributed.
    pub(super) fn leave_pairs(&self, unwanted: &[Present<'_>], atom: &mut Atom) {
        for (table, row) in unwanted {
            self.drop_pairs(table, row.uuid(), |_, _| false, atom);
        }
    }

    /// The first map that a unit contributes to and that is neither there nor coming.
    pub(super) fn missing_map(&self, at: usize, coming: &dyn Fn(usize) -> bool) -> Option<Obstacle> {
        let missing = self.desired[at].pairs().iter().find(|pair| !self.has_map(pair, coming))?;
        Some(Obstacle::Missing { table: missing.table.name, uuid: missing.row })
    }

    fn has_map(&self, pair: &Pair, coming: &dyn Fn(usize) -> bool) -> bool {
        let is_there = self.table(pair.table.name).get(pair.row).is_some();
        match self.wanted.get(&pair.row) {
            Some(by) => is_there || coming(*by),
            None => is_there && !self.dropped.contains_key(&pair.row),
        }
    }

    /// Takes the pairs for a row out of all maps, but for those that are wanted. There are few maps, and others' pairs cost nothing.
    fn drop_pairs(
        &self,
        table: &Table,
        carrier: Uuid,
        is_wanted: impl Fn(Uuid, &Value) -> bool,
        atom: &mut Atom,
    ) {
        for (maps, column) in self.database.tables.iter().filter_map(|maps| {
            let (column, carriers) = maps.pairs()?;
            (carriers == table.name).then_some((maps, column))
        }) {
            let has_some = |row: &&Row| {
                pair::map(row, column).is_some_and(|map| pair::keys_of(carrier, map).next().is_some())
            };
            let mut rows: Vec<&Row> =
                self.table(maps.name).iter().map(|row| &**row).filter(has_some).collect();
            rows.retain(|row| !self.dropped.contains_key(&row.uuid()));
            rows.sort_unstable_by_key(|row| row.uuid());
            for row in rows {
                let ours = pair::map(row, column).into_iter().flat_map(|map| pair::keys_of(carrier, map));
                for key in ours.filter(|key| !is_wanted(row.uuid(), key)) {
                    atom.lose(ParentColumn { table: maps.name, column }, row.uuid(), key.clone());
                }
            }
        }
    }

    /// Takes pairs out of a map of a unit's own whose carriers are gone: nobody else would find them.
    fn drop_orphaned_pairs(&self, table: &'static Table, row: Uuid, atom: &mut Atom) {
        let Some((column, carriers)) = table.pairs() else { return };
        let present = self.table(table.name).get(row);
        for (key, _) in present.and_then(|row| pair::map(row, column)).into_iter().flatten() {
            let is_orphan = |carrier: &Uuid| {
                !self.wanted.contains_key(carrier) && self.table(carriers).get(*carrier).is_none()
            };
            if pair::carrier(key).is_some_and(|carrier| is_orphan(&carrier)) {
                atom.lose(ParentColumn { table: table.name, column }, row, key.clone());
            }
        }
    }
}
