//! What a client wants to see of a database.

use std::sync::Arc;

use ovsdb_core::column::ClauseOf;
use ovsdb_core::schema::TableSchema;
use ovsdb_core::{Clause, DatabaseSchema, Index, Layout, SmolStr, TypedRow};
use serde::ser::{Serialize, SerializeSeq, Serializer};
use serde_json::{Map, Value, json};

use crate::error::ConnectionError;

/// One table to keep a copy of.
#[derive(Clone, Debug)]
pub struct Monitor {
    pub(crate) table: SmolStr,
    columns: Columns,
    pub(crate) condition: Condition,
    pub(crate) indexes: Vec<Index>,
}

#[derive(Clone, Debug)]
enum Columns {
    /// Whatever the server has.
    All,
    /// These, and an error if the server lacks one.
    Exactly(Vec<SmolStr>),
    /// Those of these that the server has.
    Known(Vec<SmolStr>),
}

/// Which rows of a table to keep a copy of. A server too old for conditions sends all rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Condition {
    /// All of them.
    #[default]
    All,
    /// None; only conditions that come later.
    Nothing,
    /// Those for which at least one clause holds.
    AnyOf(Vec<Clause>),
}

impl Condition {
    /// The first column that the condition tests and the table lacks.
    pub(crate) fn missing_column(&self, table: &TableSchema) -> Option<&SmolStr> {
        let Condition::AnyOf(clauses) = self else { return None };
        let mut columns = clauses.iter().map(|clause| &clause.column);
        columns.find(|column| *column != "_uuid" && !table.columns.contains_key(*column))
    }

    /// The rows for which at least one of the clauses holds.
    pub fn any_of<R: TypedRow>(clauses: impl IntoIterator<Item = ClauseOf<R>>) -> Self {
        Condition::AnyOf(clauses.into_iter().map(ClauseOf::into_clause).collect())
    }
}

impl Monitor {
    /// The table that `R` stands for, with those of `R`'s columns that the server has.
    pub fn of<R: TypedRow>() -> Self {
        Monitor::new(
            R::TABLE.into(),
            Columns::Known(R::COLUMNS.iter().map(|column| (*column).into()).collect()),
        )
    }

    /// A table by name, with all the columns that the server has.
    pub fn table(table: impl Into<SmolStr>) -> Self {
        Monitor::new(table.into(), Columns::All)
    }

    fn new(table: SmolStr, columns: Columns) -> Self {
        Monitor { table, columns, condition: Condition::All, indexes: Vec::new() }
    }

    /// Only these columns. A server that lacks one of them is not used.
    pub fn columns<C: Into<SmolStr>>(mut self, columns: impl IntoIterator<Item = C>) -> Self {
        self.columns = Columns::Exactly(columns.into_iter().map(Into::into).collect());
        self
    }

    /// Only those of these columns that the server has.
    pub fn known_columns<C: Into<SmolStr>>(mut self, columns: impl IntoIterator<Item = C>) -> Self {
        self.columns = Columns::Known(columns.into_iter().map(Into::into).collect());
        self
    }

    /// Only rows for which the condition holds.
    pub fn condition(mut self, condition: Condition) -> Self {
        self.condition = condition;
        self
    }

    /// Rows can be found by this index.
    pub fn index(mut self, index: Index) -> Self {
        self.indexes.push(index);
        self
    }

    /// The columns that a server with this schema can give. A table that only typed code knows and the server lacks is
    /// an empty one.
    pub(crate) fn layout(&self, schema: &DatabaseSchema) -> Result<Option<Arc<Layout>>, ConnectionError> {
        let Some(table) = schema.tables.get(&self.table) else {
            return match self.columns {
                Columns::Known(_) => Ok(None),
                _ => {
                    Err(ConnectionError::NoTable { database: schema.name.clone(), table: self.table.clone() })
                }
            };
        };
        let (layout, missing) = match &self.columns {
            Columns::All => Layout::new(&self.table, table, table.columns.keys().map(SmolStr::as_str)),
            Columns::Exactly(columns) | Columns::Known(columns) => {
                Layout::new(&self.table, table, columns.iter().map(SmolStr::as_str))
            }
        };
        let indexed = self.indexes.iter().find_map(|index| index.missing_column(&layout));
        let tested = self.condition.missing_column(table);
        let needed = if matches!(self.columns, Columns::Known(_)) { None } else { missing.first() };
        match needed.or(indexed).or(tested) {
            None => Ok(Some(layout)),
            Some(column) => Err(ConnectionError::NoColumn {
                database: schema.name.clone(),
                table: self.table.clone(),
                column: column.clone(),
            }),
        }
    }

    /// This table's part of a `monitor` request; without a condition for servers that do not know them.
    pub(crate) fn request(&self, layout: &Layout, conditional: Conditional) -> Value {
        let columns: Vec<_> = layout.columns().iter().map(|(name, _)| name.as_str()).collect();
        let mut request = Map::from_iter([("columns".to_owned(), json!(columns))]);
        if conditional == Conditional::Yes {
            request.insert("where".to_owned(), json!(self.condition));
        }
        json!([request])
    }
}

/// Whether a server understands conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conditional {
    Yes,
    No,
}

impl Serialize for Condition {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut clauses = serializer.serialize_seq(None)?;
        match self {
            Condition::All => clauses.serialize_element(&true)?,
            Condition::Nothing => clauses.serialize_element(&false)?,
            Condition::AnyOf(list) if list.is_empty() => clauses.serialize_element(&false)?,
            Condition::AnyOf(list) => list.iter().try_for_each(|clause| clauses.serialize_element(clause))?,
        }
        clauses.end()
    }
}
