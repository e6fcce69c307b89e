//! What Portolan writes into `external_ids` of its rows, and how it finds them again by that.

use std::collections::{BTreeMap, BTreeSet};

use ovsdb_core::{Atom, Cache, Index, Row, SmolStr, Table};

use crate::table::TABLES;

/// The unit that a row belongs to, such as `subnet:web`.
pub const UNIT: &str = "portolan/unit";
/// The UID of the Kubernetes object that a row is for.
pub const OWNER: &str = "portolan/owner";
/// The unit that the row's parent belongs to, unless that is the row's own.
pub const PARENT: &str = "portolan/parent";

/// The keys of `external_ids` that are ours; others belong to others.
pub(crate) const PREFIX: &str = "portolan/";

/// The index by which rows are found by their unit.
pub const BY_UNIT: &str = "external_ids:portolan/unit";
/// The index by which rows of tables with unique names are found.
pub(crate) const BY_NAME: &str = "name";

/// The indexes that [`diff()`](crate::diff()) needs in the cache, by table. These are all the tables that it looks at.
pub fn indexes() -> Vec<(&'static str, Vec<Index>)> {
    let of = |named: bool| {
        let by_unit = Index::map_key("external_ids", UNIT);
        if named { vec![by_unit, Index::column("name")] } else { vec![by_unit] }
    };
    TABLES.iter().map(|table| (table.name, of(table.unique_name))).collect()
}

/// The units that have rows, each with the UIDs of the objects that these are for: one, or two while an object that was made
/// again takes over.
pub fn units_in(cache: &Cache) -> BTreeMap<SmolStr, BTreeSet<SmolStr>> {
    let mut units: BTreeMap<SmolStr, BTreeSet<SmolStr>> = BTreeMap::new();
    let tables = TABLES.iter().filter_map(|table| cache.table(table.name));
    for row in tables.flat_map(Table::iter) {
        if let Some(unit) = unit_of(row) {
            units.entry(unit.clone()).or_default().extend(owner_of(row).cloned());
        }
    }
    units
}

/// The unit of a row, if it is one of ours.
pub fn unit_of(row: &Row) -> Option<&SmolStr> {
    value(row, UNIT)
}

/// The UID of the object that a row is for, if it is one of ours.
pub fn owner_of(row: &Row) -> Option<&SmolStr> {
    value(row, OWNER)
}

/// The unit that holds a row, if the row is one of ours.
pub(crate) fn parent_unit_of(row: &Row) -> Option<&SmolStr> {
    value(row, PARENT).or_else(|| unit_of(row))
}

fn value<'a>(row: &'a Row, key: &str) -> Option<&'a SmolStr> {
    match row.datum("external_ids")?.map_get(key)? {
        Atom::String(text) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_indexes_have_the_names_that_lookups_use() {
        for (table, indexes) in indexes() {
            assert_eq!(indexes[0].name(), BY_UNIT, "{table}");
            assert!(indexes.get(1).is_none_or(|index| index.name() == BY_NAME), "{table}");
        }
    }
}
