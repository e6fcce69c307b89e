//! A database in memory that enforces its schema as ovsdb-server does, for tests of what is written to one.
//!
//! It knows types, permitted values and ranges, numbers of elements, strong and weak references, rows that vanish because
//! nothing refers to them, unique indexes, `duplicate uuid`, `wait` and `assert`. It does not know `select` and
//! `uuid-name`, which refuse a transaction as `not supported`, nor reals in arithmetic. `tests/it/memdb.rs` holds it
//! against a real server.

mod commit;
mod constraint;
mod execute;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ovsdb_core::change::Change;
use ovsdb_core::decode::{RowUpdate, Updates};
use ovsdb_core::schema::TableSchema;
use ovsdb_core::{Cache, DatabaseSchema, Datum, Index, Layout, Row, SmolStr, Transaction, Uuid};

use self::constraint::Limits;

/// A database in memory.
#[derive(Clone, Debug)]
pub struct MemDb {
    schema: Arc<DatabaseSchema>,
    limits: Arc<Limits>,
    content: Content,
    locks: BTreeSet<SmolStr>,
}

/// The rows of a database by table.
pub type Content = BTreeMap<SmolStr, BTreeMap<Uuid, Columns>>;
/// A row's columns, every one of its table's.
pub type Columns = BTreeMap<SmolStr, Datum>;

/// What an operation did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// `insert` made this row.
    Inserted(Uuid),
    /// `update`, `mutate` or `delete` matched this many rows.
    Count(u64),
    /// Other operations have nothing to say.
    Nothing,
}

/// Why a transaction changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{error}: {details}", .operation.map(|at| format!("operation {at}: ")).unwrap_or_default())]
pub struct Refusal {
    /// The operation that failed; none if it was the commit.
    pub operation: Option<usize>,
    /// The error, as ovsdb-server calls it.
    pub error: &'static str,
    /// What is wrong.
    pub details: String,
}

impl MemDb {
    /// An empty database of this schema.
    pub fn new(schema_json: &str) -> Result<Self, serde_json::Error> {
        let schema = DatabaseSchema::parse(schema_json.as_bytes())?;
        let content = schema.tables.keys().map(|table| (table.clone(), BTreeMap::new())).collect();
        let limits = Arc::new(Limits::parse(schema_json)?);
        Ok(MemDb { schema: Arc::new(schema), limits, content, locks: BTreeSet::new() })
    }

    /// Whoever calls [`MemDb::transact`] holds this lock from now on.
    pub fn lock(&mut self, name: impl Into<SmolStr>) {
        self.locks.insert(name.into());
    }

    /// The rows that there are.
    pub fn content(&self) -> &Content {
        &self.content
    }

    /// Whether no table has a row.
    pub fn is_empty(&self) -> bool {
        self.content.values().all(BTreeMap::is_empty)
    }

    /// Applies a transaction whole, or not at all. What the caller expects of counts is the caller's to check.
    pub fn transact(&mut self, transaction: &Transaction) -> Result<Vec<Done>, Refusal> {
        let mut next = self.clone();
        let mut deleted = BTreeSet::new();
        let mut done = Vec::with_capacity(transaction.operations().len());
        for (at, operation) in transaction.operations().iter().enumerate() {
            let result = next.execute(operation, &mut deleted);
            done.push(result.map_err(|refusal| Refusal { operation: Some(at), ..refusal })?);
        }
        next.commit()?;
        *self = next;
        Ok(done)
    }

    /// A cache of whole tables, in step with this database.
    pub fn cache(&self, tables: impl IntoIterator<Item = (&'static str, Vec<Index>)>) -> Cache {
        let layout = |name: &str| {
            let columns = self.schema.tables[name].columns.keys().map(SmolStr::as_str);
            Layout::new(name, &self.schema.tables[name], columns).0
        };
        let mut cache = Cache::new(tables.into_iter().map(|(name, indexes)| (layout(name), indexes)));
        self.refresh(&mut cache);
        cache
    }

    /// Brings a cache that [`MemDb::cache`] made back in step. Answers what changed.
    pub fn refresh(&self, cache: &mut Cache) -> Vec<Change> {
        let mut updates = Updates::new();
        for (at, layout) in cache.layouts().into_iter().enumerate() {
            for (uuid, columns) in &self.content[layout.table()] {
                let values = layout.columns().iter().map(|(name, _)| columns[name].clone()).collect();
                updates.push((at, RowUpdate::Insert(Row::new(layout.clone(), *uuid, values))));
            }
        }
        cache.replace(updates).changes
    }

    fn table_schema(&self, table: &SmolStr) -> Result<&TableSchema, Refusal> {
        let found = self.schema.tables.get(table);
        found.ok_or_else(|| Refusal::new("syntax error", format!("no table {table}")))
    }
}

impl Refusal {
    fn new(error: &'static str, details: impl Into<String>) -> Self {
        Refusal { operation: None, error, details: details.into() }
    }
}
