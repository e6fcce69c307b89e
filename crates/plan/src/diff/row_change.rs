//! What has to change in a row that is there. Sets and maps are changed element by element, so that a change costs what
//! changed and not what the column holds.

use ovsdb_core::{Atom as Value, Datum, Map, Mutation, Mutator, Row, Set, SmolStr};

use super::atom::Atom;
use crate::rows::DesiredRow;
use crate::table::Part;

/// Makes `present` as `row` wants it, in the columns that are Portolan's and that differ.
pub(super) fn change(row: &DesiredRow, present: &Row, atom: &mut Atom) {
    let (mut assignments, mut mutations) = (Vec::new(), Vec::new());
    for (owned, wanted) in row.table.owned.iter().zip(&row.values) {
        let column = owned.column;
        let Some(is) = present.datum(column).filter(|is| *is != wanted) else { continue };
        let changes = match (owned.part, is, wanted) {
            (Part::Members | Part::Pairs(_), ..) => continue,
            (part, Datum::Map(is), Datum::Map(wanted)) => map_changes(column, part, is, wanted),
            (_, Datum::Set(is), Datum::Set(wanted)) if has_many(present, column) => {
                set_changes(column, is, wanted)
            }
            _ => Vec::new(),
        };
        let changed: usize = changes.iter().map(|change| change.value.keys().count()).sum();
        // What is mostly new is shorter said whole; only a column that is all ours may be.
        if owned.part == Part::Whole && (changes.is_empty() || changed >= wanted.keys().count()) {
            assignments.push((SmolStr::new_static(column), wanted.clone()));
        } else {
            mutations.extend(changes);
        }
    }
    atom.update(row.table.name, row.uuid, assignments, mutations);
}

/// Whether a column may have more than one element.
fn has_many(row: &Row, column: &str) -> bool {
    let layout = row.layout();
    layout.position(column).is_some_and(|at| layout.columns()[at].1.is_composite())
}

/// Gives a set the elements that are wanted and takes the others. New ones come first: some sets may not be empty.
fn set_changes(column: &'static str, is: &Set, wanted: &Set) -> Vec<Mutation> {
    let comes: Set = wanted.iter().filter(|element| !is.contains(element)).cloned().collect();
    let goes: Set = is.iter().filter(|element| !wanted.contains(element)).cloned().collect();
    let changes = [(Mutator::Insert, comes), (Mutator::Delete, goes)].into_iter();
    let changes = changes.filter(|(_, elements)| !elements.is_empty());
    changes.map(|(mutator, elements)| Mutation::new(column, mutator, Datum::Set(elements))).collect()
}

/// Gives a map the pairs that we want and takes those keys of ours that we do not; all other keys stay.
fn map_changes(column: &'static str, part: Part, is: &Map, wanted: &Map) -> Vec<Mutation> {
    let ours = |key: &Value| part == Part::Whole || key.as_str().is_some_and(|key| part.has_key(key));
    // `insert` leaves keys alone that are there, so a pair that changes goes first.
    let goes = is.iter().filter(|(key, value)| ours(key) && wanted.get(key) != Some(value));
    let goes: Set = goes.map(|(key, _)| key.clone()).collect();
    let comes: Map = wanted.iter().filter(|(key, value)| is.get(key) != Some(value)).cloned().collect();
    let mut changes = Vec::new();
    if !goes.is_empty() {
        changes.push(Mutation::new(column, Mutator::Delete, Datum::Set(goes)));
    }
    if !comes.is_empty() {
        changes.push(Mutation::new(column, Mutator::Insert, Datum::Map(comes)));
    }
    changes
}
