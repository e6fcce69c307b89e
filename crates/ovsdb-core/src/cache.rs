//! An in-memory copy of monitored tables.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use smol_str::SmolStr;
use uuid::Uuid;

use crate::atom::Atom;
use crate::change::{Batch, Change};
use crate::decode::{RowUpdate, Updates};
use crate::index::{Entries, Index};
use crate::row::{ConvertError, Layout, Row, TypedRow};
use crate::uuid_hash::UuidHash;

/// Tables, and a revision that grows with each change of them.
#[derive(Debug, Default)]
pub struct Cache {
    tables: Vec<Table>,
    revision: u64,
}

/// The rows of one table.
#[derive(Debug)]
pub struct Table {
    layout: Arc<Layout>,
    rows: HashMap<Uuid, Arc<Row>, UuidHash>,
    indexes: Vec<Entries>,
}

/// The server's updates do not fit what it sent before: what is cached is not what it thinks we have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server changed row {uuid} of table {table}, {what}")]
pub struct Inconsistent {
    /// The table.
    pub table: SmolStr,
    /// The row.
    pub uuid: Uuid,
    /// What does not fit.
    pub what: &'static str,
}

impl Cache {
    /// An empty cache of these tables.
    pub fn new(tables: impl IntoIterator<Item = (Arc<Layout>, Vec<Index>)>) -> Self {
        let tables = tables.into_iter().map(|(layout, indexes)| Table::new(layout, indexes)).collect();
        Cache { tables, revision: 0 }
    }

    /// Changes the layouts of the tables, in their order, because the server has another schema. The rows keep their old
    /// columns until the next [`Cache::replace`].
    pub fn set_layouts(&mut self, layouts: impl IntoIterator<Item = Arc<Layout>>) {
        for (table, layout) in self.tables.iter_mut().zip(layouts) {
            if table.layout != layout {
                table.layout = layout;
            }
        }
    }

    /// The layouts of the tables, for decoding updates of them.
    pub fn layouts(&self) -> Vec<Arc<Layout>> {
        self.tables.iter().map(|table| table.layout.clone()).collect()
    }

    /// How many updates have changed something.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// A table, if it is monitored.
    pub fn table(&self, name: &str) -> Option<&Table> {
        self.tables.iter().find(|table| table.layout.table() == name)
    }

    /// All the tables.
    pub fn tables(&self) -> &[Table] {
        &self.tables
    }

    /// One row as a struct, if it is there.
    pub fn get<R: TypedRow>(&self, uuid: Uuid) -> Result<Option<R>, ConvertError> {
        self.table(R::TABLE).and_then(|table| table.get(uuid)).map(|row| R::decode(row)).transpose()
    }

    /// The rows of a table as structs.
    pub fn rows<R: TypedRow>(&self) -> impl Iterator<Item = (Uuid, Result<R, ConvertError>)> {
        self.table(R::TABLE).into_iter().flat_map(Table::iter).map(|row| (row.uuid(), R::decode(row)))
    }

    /// The rows that the index `name` has under `key`, as structs. Panics if no such index was declared.
    pub fn find<R: TypedRow>(
        &self,
        name: &str,
        key: &Atom,
    ) -> impl Iterator<Item = (Uuid, Result<R, ConvertError>)> {
        let rows = self.table(R::TABLE).into_iter().flat_map(move |table| table.find(name, key));
        rows.map(|row| (row.uuid(), R::decode(row)))
    }

    /// Everything there is, as changes from an empty cache.
    pub fn snapshot(&self) -> Batch {
        let rows = self.tables.iter().flat_map(Table::iter);
        let changes = rows.map(|row| Change { old: None, new: Some(row.clone()) }).collect();
        Batch { revision: self.revision, changes }
    }

    /// Applies what a server says has changed. Applies nothing if that does not fit.
    pub fn apply(&mut self, updates: Updates) -> Result<Batch, Inconsistent> {
        self.check(&updates)?;
        let mut changes = Vec::with_capacity(updates.len());
        for (at, update) in updates {
            let table = &mut self.tables[at];
            let change = match update {
                RowUpdate::Insert(row) => table.put(row),
                RowUpdate::Delete { uuid } => table.take(uuid),
                RowUpdate::Modify { uuid, diff } => {
                    let mut row = Row::clone(table.rows.get(&uuid).expect("invariant: checked above"));
                    for (column, diff) in diff {
                        row.values[column].apply_diff(diff, &row.layout.columns()[column].1);
                    }
                    table.put(row)
                }
            };
            changes.extend(change);
        }
        Ok(self.batch(changes))
    }

    /// Makes the cache equal to what a server says is everything. Only real differences become changes.
    pub fn replace(&mut self, updates: Updates) -> Batch {
        let mut changes = Vec::with_capacity(updates.len());
        // A first load need not remember what it saw: there is nothing that could have gone.
        let mut present: Vec<Option<HashSet<Uuid, UuidHash>>> =
            self.tables.iter().map(|table| (!table.is_empty()).then(HashSet::default)).collect();
        for (at, update) in updates {
            if let RowUpdate::Insert(row) = update {
                if let Some(present) = &mut present[at] {
                    present.insert(row.uuid);
                }
                changes.extend(self.tables[at].put(row));
            }
        }
        for (table, present) in self.tables.iter_mut().zip(present) {
            let Some(present) = present else { continue };
            let gone: Vec<Uuid> =
                table.rows.keys().filter(|uuid| !present.contains(*uuid)).copied().collect();
            changes.extend(gone.into_iter().filter_map(|uuid| table.take(uuid)));
        }
        self.batch(changes)
    }

    fn batch(&mut self, changes: Vec<Change>) -> Batch {
        self.revision += u64::from(!changes.is_empty());
        Batch { revision: self.revision, changes }
    }

    /// Invariant of [`Cache::apply`]: a row that is modified is there, and no row is told of twice.
    fn check(&self, updates: &Updates) -> Result<(), Inconsistent> {
        let mut told = HashSet::with_capacity(updates.len());
        for (at, update) in updates {
            let uuid = update.uuid();
            let unknown = matches!(update, RowUpdate::Modify { .. }) && self.tables[*at].get(uuid).is_none();
            let twice = !told.insert((*at, uuid));
            if unknown || twice {
                let what = if twice { "twice in one update" } else { "which it never sent" };
                return Err(Inconsistent { table: self.tables[*at].layout.table().clone(), uuid, what });
            }
        }
        Ok(())
    }
}

impl Table {
    fn new(layout: Arc<Layout>, indexes: Vec<Index>) -> Self {
        Table { layout, rows: HashMap::default(), indexes: indexes.into_iter().map(Entries::new).collect() }
    }

    /// The columns that the rows have.
    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// A row by its UUID.
    pub fn get(&self, uuid: Uuid) -> Option<&Arc<Row>> {
        self.rows.get(&uuid)
    }

    /// All the rows, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Row>> {
        self.rows.values()
    }

    /// The rows that the index `name` has under `key`. Panics if no such index was declared.
    pub fn find(&self, name: &str, key: &Atom) -> impl Iterator<Item = &Arc<Row>> {
        let Some(index) = self.indexes.iter().find(|index| index.name() == name) else {
            panic!("table {} has no index {name}; declare it with the monitor", self.layout.table());
        };
        let rows = index.candidates(key).filter_map(|uuid| self.rows.get(&uuid));
        rows.filter(|row| index.has(row, key))
    }

    fn put(&mut self, mut row: Row) -> Option<Change> {
        let old = self.rows.get(&row.uuid);
        if old.is_some_and(|old| **old == row) {
            return None;
        }
        row.share_texts();
        for index in &mut self.indexes {
            index.change(old.map(|old| &**old), Some(&row));
        }
        let new = Arc::new(row);
        let old = self.rows.insert(new.uuid, new.clone());
        Some(Change { old, new: Some(new) })
    }

    fn take(&mut self, uuid: Uuid) -> Option<Change> {
        let old = self.rows.remove(&uuid)?;
        for index in &mut self.indexes {
            index.change(Some(&old), None);
        }
        Some(Change { old: Some(old), new: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::Coalescer;
    use crate::decode::{UpdateFormat, table_updates};
    use crate::schema::DatabaseSchema;

    const SCHEMA: &str = r#"{"name":"D","version":"1.0.0","tables":{"T":{"columns":{
        "name":{"type":"string"},
        "tags":{"type":{"key":"string","min":0,"max":"unlimited"}},
        "ids":{"type":{"key":"string","value":"string","min":0,"max":"unlimited"}}}}}}"#;
    const A: &str = "00000000-0000-0000-0000-00000000000a";
    const B: &str = "00000000-0000-0000-0000-00000000000b";

    fn cache() -> Cache {
        let schema = DatabaseSchema::parse(SCHEMA.as_bytes()).unwrap();
        let (layout, missing) = Layout::new("T", &schema.tables["T"], ["name", "tags", "ids", "newer"]);
        assert_eq!(missing, ["newer"]);
        let indexes = vec![
            Index::column("tags"),
            Index::map_key("ids", "owner"),
            Index::function("length", |row| {
                row.get::<String>("name").map(|n| Atom::from(n.len() as i64)).into_iter().collect()
            }),
        ];
        Cache::new([(layout, indexes)])
    }

    fn updates(cache: &Cache, json: &str) -> Result<Updates, String> {
        let layouts: Vec<_> = cache.tables().iter().map(|t| t.layout().clone()).collect();
        table_updates(json.as_bytes(), UpdateFormat::Diff, &layouts).map_err(|e| e.to_string())
    }

    fn apply(cache: &mut Cache, json: &str) -> Batch {
        let updates = updates(cache, json).unwrap();
        cache.apply(updates).unwrap()
    }

    fn find(cache: &Cache, index: &str, key: impl Into<Atom>) -> Vec<String> {
        let rows = cache.table("T").unwrap();
        let mut found: Vec<_> = rows.find(index, &key.into()).map(|r| r.get("name").unwrap()).collect();
        found.sort();
        found
    }

    #[test]
    fn rows_are_found_by_every_index_while_they_change() {
        let mut cache = cache();
        apply(
            &mut cache,
            &format!(
                r#"{{"T":{{"{A}":{{"initial":{{"name":"one","tags":["set",["x","y"]],"ids":["map",[["owner","me"]]]}}}},
                "{B}":{{"insert":{{"name":"three","tags":"y","unknown":[1,{{}}]}}}}}}}}"#
            ),
        );
        assert_eq!(find(&cache, "tags", "y"), ["one", "three"]);
        assert_eq!(find(&cache, "ids:owner", "me"), ["one"]);
        assert_eq!(find(&cache, "length", 5), ["three"]);

        let batch = apply(
            &mut cache,
            &format!(r#"{{"T":{{"{A}":{{"modify":{{"tags":"y","ids":["map",[["owner","you"]]]}}}}}}}}"#),
        );
        assert_eq!(batch.changes.len(), 1);
        assert_eq!(find(&cache, "tags", "y"), ["three"]);
        assert_eq!(find(&cache, "tags", "x"), ["one"]);
        assert_eq!(find(&cache, "ids:owner", "me"), [""; 0]);
        assert_eq!(find(&cache, "ids:owner", "you"), ["one"]);

        apply(&mut cache, &format!(r#"{{"T":{{"{B}":{{"delete":null}}}}}}"#));
        assert_eq!(find(&cache, "tags", "y"), [""; 0]);
        assert_eq!(cache.table("T").unwrap().len(), 1);
    }

    #[test]
    fn equal_texts_of_a_row_are_one_in_memory() {
        let mut cache = cache();
        let (text, other) =
            ("a text that is too long to be kept in place", "another text, which is as long as that");
        apply(
            &mut cache,
            &format!(
                r#"{{"T":{{"{A}":{{"insert":{{"name":"{text}","tags":["set",["{other}","{text}"]],"ids":["map",[["k","{other}"]]]}}}}}}}}"#
            ),
        );
        let row = cache.table("T").unwrap().iter().next().unwrap();
        let texts: Vec<&str> = ["name", "tags"]
            .into_iter()
            .flat_map(|column| row.datum(column).unwrap().keys())
            .chain(row.datum("ids").unwrap().map_get("k"))
            .filter_map(Atom::as_str)
            .collect();
        assert_eq!(texts, [text, text, other, other]);
        assert_eq!(texts[0].as_ptr(), texts[1].as_ptr());
        assert_eq!(texts[2].as_ptr(), texts[3].as_ptr());
    }

    #[test]
    fn replacing_with_the_same_content_changes_nothing_and_otherwise_only_the_difference() {
        let mut cache = cache();
        let both =
            format!(r#"{{"T":{{"{A}":{{"initial":{{"name":"a"}}}},"{B}":{{"initial":{{"name":"b"}}}}}}}}"#);
        let all = updates(&cache, &both).unwrap();
        assert_eq!(cache.replace(all).changes.len(), 2);
        let same = updates(&cache, &both).unwrap();
        assert_eq!(cache.replace(same).changes, []);
        let one = updates(&cache, &format!(r#"{{"T":{{"{B}":{{"initial":{{"name":"c"}}}}}}}}"#)).unwrap();
        let changes = cache.replace(one).changes;
        assert_eq!(changes.len(), 2);
        assert_eq!(find(&cache, "length", 1), ["c"]);
    }

    #[test]
    fn a_change_of_an_unknown_row_is_refused_whole() {
        let mut cache = cache();
        let bad =
            format!(r#"{{"T":{{"{A}":{{"insert":{{"name":"a"}}}},"{B}":{{"modify":{{"name":"b"}}}}}}}}"#);
        let bad = updates(&cache, &bad).unwrap();
        assert_eq!(
            cache.apply(bad).unwrap_err().to_string(),
            format!("the server changed row {B} of table T, which it never sent")
        );
        let twice =
            format!(r#"{{"T":{{"{A}":{{"insert":{{}}}},"{A}":{{"delete":null}},"{A}":{{"modify":{{}}}}}}}}"#);
        let twice = updates(&cache, &twice).unwrap();
        assert_eq!(
            cache.apply(twice).unwrap_err().to_string(),
            format!("the server changed row {A} of table T, twice in one update")
        );
        assert!(cache.table("T").unwrap().is_empty());
        assert_eq!(cache.revision(), 0);
    }

    #[test]
    fn decoding_errors_name_table_column_and_value() {
        let cache = cache();
        let error =
            |row: &str| updates(&cache, &format!(r#"{{"T":{{"{A}":{{"insert":{row}}}}}}}"#)).unwrap_err();
        let starts = |error: String, with: &str| assert!(error.starts_with(with), "{error}");
        starts(
            error(r#"{"name":5}"#),
            "column name of table T: invalid type: integer `5`, expected a string",
        );
        starts(error(r#"{"tags":["set",[true]]}"#), "column tags of table T: invalid type: boolean `true`");
        starts(error(r#"{"tags":["uuid","x"]}"#), "column tags of table T: invalid type: sequence");
        starts(
            error(r#"{"ids":["map",[["a"]]]}"#),
            "column ids of table T: invalid length 1, expected a pair",
        );
        starts(error("[]"), "invalid type: sequence, expected a row");
        starts(updates(&cache, r#"{"X":{}}"#).unwrap_err(), "an update of table X, not monitored");
        starts(updates(&cache, r#"{"T":{"a":{}}}"#).unwrap_err(), "row \"a\" of table T has no UUID");
        starts(
            updates(&cache, &format!(r#"{{"T":{{"{A}":{{}}}}}}"#)).unwrap_err(),
            &format!("the update of row {A} of table T says nothing"),
        );
    }

    #[test]
    fn batches_coalesce_to_their_sum() {
        let mut cache = cache();
        let mut sum = Coalescer::default();
        for json in [
            format!(r#"{{"T":{{"{A}":{{"insert":{{"name":"a"}}}},"{B}":{{"insert":{{"name":"b"}}}}}}}}"#),
            format!(r#"{{"T":{{"{A}":{{"modify":{{"name":"aa"}}}},"{B}":{{"delete":null}}}}}}"#),
        ] {
            sum.add(&apply(&mut cache, &json));
        }
        let batch = sum.into_batch();
        assert_eq!(batch, cache.snapshot());
    }
}
