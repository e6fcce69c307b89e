//! What must hold when a transaction ends.

use std::collections::{BTreeMap, BTreeSet};

use ovsdb_core::schema::{ColumnType, Reference, Strength};
use ovsdb_core::{Atom, Datum, SmolStr, Uuid};

use super::constraint::has_room;
use super::{MemDb, Refusal};

impl MemDb {
    pub(super) fn commit(&mut self) -> Result<(), Refusal> {
        self.check_strong_references()?;
        self.collect_garbage();
        self.drop_weak_references()?;
        self.check_indexes()?;
        self.check_numbers_of_rows()
    }

    fn check_strong_references(&self) -> Result<(), Refusal> {
        for (reference, uuid) in self.references(Strength::Strong) {
            if !self.content[&reference.table].contains_key(&uuid) {
                let details = format!("no row {uuid} in table {}", reference.table);
                return Err(Refusal::new("referential integrity violation", details));
            }
        }
        Ok(())
    }

    /// Rows of tables that are no root tables live as long as they are referred to.
    fn collect_garbage(&mut self) {
        loop {
            let strong = self.references(Strength::Strong);
            let alive: BTreeSet<(SmolStr, Uuid)> =
                strong.into_iter().map(|(reference, uuid)| (reference.table, uuid)).collect();
            let mut gone = 0;
            for (table, rows) in &mut self.content {
                if !self.schema.tables[table].is_root {
                    let before = rows.len();
                    rows.retain(|uuid, _| alive.contains(&(table.clone(), *uuid)));
                    gone += before - rows.len();
                }
            }
            if gone == 0 {
                return;
            }
        }
    }

    /// A weak reference to a row that is gone goes too.
    fn drop_weak_references(&mut self) -> Result<(), Refusal> {
        let present: BTreeSet<(SmolStr, Uuid)> = self
            .content
            .iter()
            .flat_map(|(table, rows)| rows.keys().map(|uuid| (table.clone(), *uuid)))
            .collect();
        for (table, rows) in &mut self.content {
            for (name, column) in &self.schema.tables[table].columns {
                let column = &column.column_type;
                if !refers(column, Strength::Weak) {
                    continue;
                }
                for columns in rows.values_mut() {
                    let value = columns.get_mut(name).expect("invariant: rows have all their columns");
                    *value = without_dangling(value, column, &present);
                    if !has_room(column, value) {
                        let details = format!("weak references leave column {name} of {table} empty");
                        return Err(Refusal::new("constraint violation", details));
                    }
                }
            }
        }
        Ok(())
    }

    fn check_indexes(&self) -> Result<(), Refusal> {
        for (table, rows) in &self.content {
            for index in &self.schema.tables[table].indexes {
                let mut seen: BTreeMap<Vec<&Datum>, Uuid> = BTreeMap::new();
                for (uuid, columns) in rows {
                    let key: Vec<&Datum> = index.iter().map(|column| &columns[column]).collect();
                    if let Some(other) = seen.insert(key, *uuid) {
                        let details =
                            format!("rows {other} and {uuid} of table {table} have the same {index:?}");
                        return Err(Refusal::new("constraint violation", details));
                    }
                }
            }
        }
        Ok(())
    }

    fn check_numbers_of_rows(&self) -> Result<(), Refusal> {
        for (table, rows) in &self.content {
            let max = self.schema.tables[table].max_rows;
            if max.is_some_and(|max| rows.len() as u64 > max) {
                return Err(Refusal::new("constraint violation", format!("table {table} has too many rows")));
            }
        }
        Ok(())
    }

    /// All the references of a strength, with what they refer to.
    fn references(&self, strength: Strength) -> Vec<(Reference, Uuid)> {
        let mut references = Vec::new();
        for (table, rows) in &self.content {
            for (name, column) in &self.schema.tables[table].columns {
                if !refers(&column.column_type, strength) {
                    continue;
                }
                for columns in rows.values() {
                    references.extend(of_strength(&columns[name], &column.column_type, strength));
                }
            }
        }
        references
    }
}

fn refers(column: &ColumnType, strength: Strength) -> bool {
    let bases = std::iter::once(&column.key).chain(&column.value);
    bases.filter_map(|base| base.reference.as_ref()).any(|reference| reference.strength == strength)
}

fn of_strength(value: &Datum, column: &ColumnType, strength: Strength) -> Vec<(Reference, Uuid)> {
    let is = |reference: &&Reference| reference.strength == strength;
    let key = column.key.reference.as_ref().filter(is);
    let mapped = column.value.as_ref().and_then(|base| base.reference.as_ref()).filter(is);
    let keys = value.keys().filter_map(|atom| Some((key?.clone(), atom.as_uuid()?)));
    let values = match value {
        Datum::Map(map) => map.iter().map(|(_, value)| value).collect(),
        _ => Vec::new(),
    };
    keys.chain(values.into_iter().filter_map(|atom: &Atom| Some((mapped?.clone(), atom.as_uuid()?))))
        .collect()
}

fn without_dangling(value: &Datum, column: &ColumnType, present: &BTreeSet<(SmolStr, Uuid)>) -> Datum {
    let dangles = |reference: Option<&Reference>, atom: &Atom| match (reference, atom.as_uuid()) {
        (Some(Reference { table, strength: Strength::Weak }), Some(uuid)) => {
            !present.contains(&(table.clone(), uuid))
        }
        _ => false,
    };
    let key = column.key.reference.as_ref();
    let mapped = column.value.as_ref().and_then(|base| base.reference.as_ref());
    match value {
        Datum::Set(set) => Datum::Set(set.iter().filter(|atom| !dangles(key, atom)).cloned().collect()),
        Datum::Map(map) => {
            Datum::Map(map.iter().filter(|(k, v)| !dangles(key, k) && !dangles(mapped, v)).cloned().collect())
        }
        Datum::Atom(_) => value.clone(),
    }
}
