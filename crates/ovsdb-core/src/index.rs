//! Secondary indexes: which rows have a given value.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use smol_str::{SmolStr, format_smolstr};
use uuid::Uuid;

use crate::atom::Atom;
use crate::datum::Datum;
use crate::row::{Layout, Row};
use crate::uuid_hash::UuidHash;

type KeyFunction = dyn Fn(&Row) -> Vec<Atom> + Send + Sync;

/// Declares by what rows of a table can be found besides their UUIDs.
#[derive(Clone)]
pub struct Index {
    name: SmolStr,
    by: By,
}

#[derive(Clone)]
enum By {
    Column(SmolStr),
    MapKey(SmolStr, SmolStr),
    Function(Arc<KeyFunction>),
}

impl Index {
    /// By a column's value; by each element if the column is a set, by each key if it is a map. The index is named like
    /// the column.
    pub fn column(column: impl Into<SmolStr>) -> Self {
        let column = column.into();
        Index { name: column.clone(), by: By::Column(column) }
    }

    /// By the value that a map column has under `key`. The index is named `column:key`, as OVN's tools write it.
    pub fn map_key(column: impl Into<SmolStr>, key: impl Into<SmolStr>) -> Self {
        let (column, key) = (column.into(), key.into());
        Index { name: format_smolstr!("{column}:{key}"), by: By::MapKey(column, key) }
    }

    /// By whatever atoms `keys` computes of a row.
    pub fn function(
        name: impl Into<SmolStr>,
        keys: impl Fn(&Row) -> Vec<Atom> + Send + Sync + 'static,
    ) -> Self {
        Index { name: name.into(), by: By::Function(Arc::new(keys)) }
    }

    /// The name under which rows are looked up.
    pub fn name(&self) -> &SmolStr {
        &self.name
    }

    /// The column that the index needs, if the table's layout lacks it.
    pub fn missing_column(&self, layout: &Layout) -> Option<&SmolStr> {
        match &self.by {
            By::Column(column) | By::MapKey(column, _) => {
                Some(column).filter(|c| layout.position(c).is_none())
            }
            By::Function(_) => None,
        }
    }

    fn each_key(&self, row: &Row, mut each: impl FnMut(&Atom)) {
        match &self.by {
            By::Column(column) => {
                row.datum(column).into_iter().flat_map(Datum::keys).for_each(each);
            }
            By::MapKey(column, key) => {
                row.datum(column).and_then(|datum| datum.map_get(key)).into_iter().for_each(each);
            }
            By::Function(keys) => keys(row).iter().for_each(&mut each),
        }
    }
}

impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Index").field(&self.name).finish()
    }
}

/// An index with its content.
#[derive(Debug)]
pub(crate) struct Entries {
    index: Index,
    rows: HashMap<Atom, Bucket>,
}

/// The rows of one key. Most keys have one row, and must not pay for a set.
#[derive(Debug)]
enum Bucket {
    One(Uuid),
    Many(HashSet<Uuid, UuidHash>),
}

impl Entries {
    pub(crate) fn new(index: Index) -> Self {
        Entries { index, rows: HashMap::new() }
    }

    pub(crate) fn name(&self) -> &SmolStr {
        &self.index.name
    }

    /// Moves a row from the keys of its old version to those of its new one.
    pub(crate) fn change(&mut self, old: Option<&Row>, new: Option<&Row>) {
        let Entries { index, rows } = self;
        if let Some(old) = old {
            index.each_key(old, |key| remove(rows, key, old.uuid));
        }
        if let Some(new) = new {
            index.each_key(new, |key| insert(rows, key, new.uuid));
        }
    }

    pub(crate) fn find(&self, key: &Atom) -> impl Iterator<Item = Uuid> {
        let (one, many) = match self.rows.get(key) {
            None => (None, None),
            Some(Bucket::One(uuid)) => (Some(*uuid), None),
            Some(Bucket::Many(uuids)) => (None, Some(uuids)),
        };
        one.into_iter().chain(many.into_iter().flatten().copied())
    }
}

fn insert(rows: &mut HashMap<Atom, Bucket>, key: &Atom, uuid: Uuid) {
    match rows.get_mut(key) {
        None => drop(rows.insert(key.clone(), Bucket::One(uuid))),
        Some(Bucket::One(present)) if *present == uuid => {}
        Some(bucket @ Bucket::One(_)) => {
            let Bucket::One(present) = *bucket else { return };
            *bucket = Bucket::Many(HashSet::from_iter([present, uuid]));
        }
        Some(Bucket::Many(uuids)) => drop(uuids.insert(uuid)),
    }
}

fn remove(rows: &mut HashMap<Atom, Bucket>, key: &Atom, uuid: Uuid) {
    let now_empty = match rows.get_mut(key) {
        None => false,
        Some(Bucket::One(present)) => *present == uuid,
        Some(Bucket::Many(uuids)) => {
            uuids.remove(&uuid);
            uuids.is_empty()
        }
    };
    if now_empty {
        rows.remove(key);
    }
}
