//! Secondary indexes: which rows have a given value.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::hash::{BuildHasher, RandomState};
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

type First = HashMap<u64, Uuid, UuidHash>;
type Others = HashMap<u64, HashSet<Uuid, UuidHash>, UuidHash>;

/// An index with its content.
///
/// Keys are kept as digests, not as they are: there is an entry for every row of a table, and the rows have the keys. A digest may
/// stand for several keys, so whoever finds a row by one looks at the row. The digests of one row may coincide too; that does no harm,
/// because a row's keys come and go together.
#[derive(Debug)]
pub(crate) struct Entries<S = RandomState> {
    index: Index,
    digests: S,
    /// The rows by the digest of their key, for the first row of each: most have one.
    first: First,
    /// The others.
    others: Others,
}

impl<S: BuildHasher + Default> Entries<S> {
    pub(crate) fn new(index: Index) -> Self {
        Entries { index, digests: S::default(), first: First::default(), others: Others::default() }
    }

    pub(crate) fn name(&self) -> &SmolStr {
        &self.index.name
    }

    /// Moves a row from the keys of its old version to those of its new one.
    pub(crate) fn change(&mut self, old: Option<&Row>, new: Option<&Row>) {
        let Entries { index, digests, first, others } = self;
        if let Some(old) = old {
            index.each_key(old, |key| remove(first, others, digests.hash_one(key), old.uuid));
        }
        if let Some(new) = new {
            index.each_key(new, |key| insert(first, others, digests.hash_one(key), new.uuid));
        }
    }

    /// The rows that may have the key: see [`Entries::has`].
    pub(crate) fn candidates(&self, key: &Atom) -> impl Iterator<Item = Uuid> {
        let digest = self.digests.hash_one(key);
        let first = self.first.get(&digest).copied();
        first.into_iter().chain(self.others.get(&digest).into_iter().flatten().copied())
    }

    /// Whether a row has the key.
    pub(crate) fn has(&self, row: &Row, key: &Atom) -> bool {
        match &self.index.by {
            By::Column(column) => row.datum(column).is_some_and(|datum| datum.has_key(key)),
            By::MapKey(column, name) => row.datum(column).and_then(|datum| datum.map_get(name)) == Some(key),
            By::Function(keys) => keys(row).contains(key),
        }
    }
}

fn insert(first: &mut First, others: &mut Others, digest: u64, uuid: Uuid) {
    if *first.entry(digest).or_insert(uuid) != uuid {
        others.entry(digest).or_default().insert(uuid);
    }
}

fn remove(first: &mut First, others: &mut Others, digest: u64, uuid: Uuid) {
    if first.get(&digest) == Some(&uuid) {
        // Another one takes its place.
        match others.get(&digest).and_then(|rows| rows.iter().next().copied()) {
            Some(next) => {
                first.insert(digest, next);
                remove_other(others, digest, next);
            }
            None => drop(first.remove(&digest)),
        }
    } else {
        remove_other(others, digest, uuid);
    }
}

fn remove_other(others: &mut Others, digest: u64, uuid: Uuid) {
    if let Some(rows) = others.get_mut(&digest) {
        rows.remove(&uuid);
        if rows.is_empty() {
            others.remove(&digest);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::hash::Hasher;

    use proptest::prelude::*;

    use super::*;
    use crate::datum::Set;
    use crate::schema::TableSchema;

    /// Knows two digests only.
    #[derive(Default)]
    struct Weak(u8);

    impl Hasher for Weak {
        fn write(&mut self, bytes: &[u8]) {
            self.0 ^= bytes.iter().fold(0, |sum, byte| sum ^ byte);
        }
        fn finish(&self) -> u64 {
            u64::from(self.0 & 1)
        }
    }

    proptest! {
        #[test]
        fn rows_are_found_by_their_keys_although_digests_coincide(
            changes in proptest::collection::vec((0..4_u128, proptest::option::of(proptest::collection::btree_set(0..6_i64, 0..4))), 0..40)
        ) {
            let schema: TableSchema = serde_json::from_str(
                r#"{"columns":{"keys":{"type":{"key":"integer","min":0,"max":"unlimited"}}}}"#,
            ).unwrap();
            let (layout, _) = Layout::new("T", &schema, ["keys"]);
            let mut entries =
                Entries::<std::hash::BuildHasherDefault<Weak>>::new(Index::column("keys"));
            let mut rows = HashMap::<Uuid, Row>::new();
            for (uuid, keys) in changes {
                let uuid = Uuid::from_u128(uuid);
                let new = keys.map(|keys| {
                    let keys: Set = keys.into_iter().map(Atom::from).collect();
                    Row::new(layout.clone(), uuid, Box::new([Datum::Set(keys)]))
                });
                entries.change(rows.get(&uuid), new.as_ref());
                match new {
                    Some(row) => drop(rows.insert(uuid, row)),
                    None => drop(rows.remove(&uuid)),
                }
                for key in (0..6).map(Atom::from) {
                    let has = |row: &Row| row.datum("keys").unwrap().keys().any(|one| *one == key);
                    let expected: BTreeSet<Uuid> =
                        rows.values().filter(|row| has(row)).map(|row| row.uuid).collect();
                    let found: Vec<Uuid> =
                        entries.candidates(&key).filter(|uuid| entries.has(&rows[uuid], &key)).collect();
                    prop_assert_eq!(found.len(), expected.len(), "each once");
                    prop_assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), expected);
                }
            }
            rows.into_values().for_each(|row| entries.change(Some(&row), None));
            prop_assert!(entries.first.is_empty() && entries.others.is_empty());
        }
    }
}
