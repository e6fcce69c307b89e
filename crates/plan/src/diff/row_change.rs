//! What has to change in a row that is there.

use ovsdb_core::{Atom as Value, Datum, Map, Mutation, Mutator, Row, Set, SmolStr};

use super::atom::Atom;
use crate::rows::DesiredRow;
use crate::table::Part;

/// Makes `present` as `row` wants it, in the columns that are Portolan's and that differ.
pub(super) fn change(row: &DesiredRow, present: &Row, atom: &mut Atom) {
    let (mut assignments, mut mutations) = (Vec::new(), Vec::new());
    for (owned, wanted) in row.table.owned.iter().zip(&row.values) {
        let Some(is) = present.datum(owned.column).filter(|is| *is != wanted) else { continue };
        match (owned.part, is, wanted) {
            (Part::Whole, ..) => assignments.push((SmolStr::new_static(owned.column), wanted.clone())),
            (part, Datum::Map(is), Datum::Map(wanted)) => {
                change_map(owned.column, part, is, wanted, &mut mutations);
            }
            _ => unreachable!("invariant: a column that is shared is a map"),
        }
    }
    atom.update(row.table.name, row.uuid, assignments, mutations);
}

/// Gives a map the pairs that we want and takes those keys of ours that we do not; all other keys stay.
fn change_map(column: &'static str, part: Part, is: &Map, wanted: &Map, mutations: &mut Vec<Mutation>) {
    let ours = |key: &Value| key.as_str().is_some_and(|key| part.has_key(key));
    // `insert` leaves keys alone that are there, so a pair that changes goes first.
    let goes = is.iter().filter(|(key, value)| ours(key) && wanted.get(key) != Some(value));
    let goes: Set = goes.map(|(key, _)| key.clone()).collect();
    let comes: Map = wanted.iter().filter(|(key, value)| is.get(key) != Some(value)).cloned().collect();
    if !goes.is_empty() {
        mutations.push(Mutation::new(column, Mutator::Delete, Datum::Set(goes)));
    }
    if !comes.is_empty() {
        mutations.push(Mutation::new(column, Mutator::Insert, Datum::Map(comes)));
    }
}
