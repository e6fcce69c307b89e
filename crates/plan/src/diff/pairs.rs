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
        for row in present.map(|row| row.uuid).chain(self.unwanted[at].iter().map(|(_, row)| row.uuid())) {
            self.drop_pairs(row, is_wanted, atom);
        }
        // Pairs in this unit's own maps whose carriers are gone: nobody else would find them.
        for row in rows {
            let Some(column) = row.table.pairs_column() else { continue };
            let Some(present) = self.table(row.table.name).get(row.uuid) else { continue };
            for (carrier, key, _) in pair::pairs_in(row.table, present) {
                if !self.wanted.contains_key(&carrier) && !self.is_anywhere(carrier) {
                    atom.lose(ParentColumn { table: row.table.name, column }, row.uuid, key.clone());
                }
            }
        }
    }

    /// Takes the pairs away that stale rows contributed.
    pub(super) fn leave_pairs(&self, unwanted: &[Present<'_>], atom: &mut Atom) {
        for (_, row) in unwanted {
            self.drop_pairs(row.uuid(), |_, _| false, atom);
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

    /// Takes the pairs of a carrier out of all maps, but for those that are wanted.
    fn drop_pairs(&self, carrier: Uuid, is_wanted: impl Fn(Uuid, &Value) -> bool, atom: &mut Atom) {
        let with_pairs = self.database.tables.iter().filter_map(|table| Some((*table, table.pairs_column()?)));
        for (table, column) in with_pairs {
            let mut maps: Vec<&Row> =
                self.table(table.name).find(pair::BY_CARRIER, &Value::Uuid(carrier)).map(|row| &**row).collect();
            maps.sort_unstable_by_key(|row| row.uuid());
            for map in maps.into_iter().filter(|map| !self.dropped.contains_key(&map.uuid())) {
                self.drop_pairs_in(table, column, map, carrier, &is_wanted, atom);
            }
        }
    }

    fn drop_pairs_in(
        &self,
        table: &'static Table,
        column: &'static str,
        map: &Row,
        carrier: Uuid,
        is_wanted: &impl Fn(Uuid, &Value) -> bool,
        atom: &mut Atom,
    ) {
        let ours = pair::pairs_in(table, map).filter(|(of, ..)| *of == carrier);
        for (_, key, _) in ours.filter(|(_, key, _)| !is_wanted(map.uuid(), key)) {
            atom.lose(ParentColumn { table: table.name, column }, map.uuid(), key.clone());
        }
    }

    fn is_anywhere(&self, row: Uuid) -> bool {
        self.database.tables.iter().any(|table| self.table(table.name).get(row).is_some())
    }
}
