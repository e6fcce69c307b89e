//! Rows, self-describing and typed.

use std::sync::Arc;

use smol_str::SmolStr;
use uuid::Uuid;

use crate::atom::Atom;
use crate::convert::ColumnValue;
use crate::datum::Datum;
use crate::schema::{ColumnType, TableSchema};

/// How many texts of a row are looked at for equal ones.
const FEW: usize = 8;

/// The columns of a table that a client sees, in ascending order of their names.
#[derive(Debug, PartialEq)]
pub struct Layout {
    table: SmolStr,
    columns: Box<[(SmolStr, ColumnType)]>,
}

/// One row as the cache holds it: its UUID and the values of the columns in its table's [`Layout`].
#[derive(Clone, Debug)]
pub struct Row {
    pub(crate) layout: Arc<Layout>,
    pub(crate) uuid: Uuid,
    pub(crate) values: Box<[Datum]>,
}

/// A struct generated from a schema that stands for the rows of one table.
///
/// Fields of columns that a server does not have keep their defaults when a row is read, and are refused by name when
/// they are written.
pub trait TypedRow: Sized + Default {
    /// The table's name.
    const TABLE: &'static str;
    /// The columns the struct knows, in ascending order.
    const COLUMNS: &'static [&'static str];
    /// The columns that need at least one element. The server fills one in when they are left out, so they never are: an
    /// empty one is refused instead.
    const NON_EMPTY: &'static [&'static str] = &[];
    /// Reads the struct from a row.
    fn decode(row: &Row) -> Result<Self, ConvertError>;
    /// The value of every column, in the order of [`TypedRow::COLUMNS`].
    fn encode(&self) -> Vec<Datum>;
}

/// A row's value is not of the type that the caller expects.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConvertError {
    /// The server's schema or the monitor lacks the column.
    #[error("table {table} has no column {column} here")]
    MissingColumn {
        /// The table.
        table: SmolStr,
        /// The column.
        column: SmolStr,
    },
    /// The column holds something else.
    #[error("column {column} of table {table} holds {value}, expected {expected}")]
    WrongType {
        /// The table.
        table: SmolStr,
        /// The column.
        column: SmolStr,
        /// The offending value.
        value: String,
        /// What was expected.
        expected: &'static str,
    },
}

impl Layout {
    /// The layout of `columns` of `schema`. Columns that the schema lacks are returned by name.
    pub fn new<'a>(
        table: &str,
        schema: &TableSchema,
        columns: impl IntoIterator<Item = &'a str>,
    ) -> (Arc<Self>, Vec<SmolStr>) {
        let mut present = Vec::new();
        let mut missing = Vec::new();
        for name in columns {
            match schema.columns.get_key_value(name) {
                Some((name, column)) => {
                    present.push((name.clone(), column.column_type.without_constraints()));
                }
                None => missing.push(SmolStr::new(name)),
            }
        }
        present.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        present.dedup_by(|(a, _), (b, _)| a == b);
        (Arc::new(Layout { table: SmolStr::new(table), columns: present.into_boxed_slice() }), missing)
    }

    /// The layout of a table that the server does not have.
    pub fn absent(table: &str) -> Arc<Self> {
        Arc::new(Layout { table: SmolStr::new(table), columns: Box::default() })
    }

    /// The table's name.
    pub fn table(&self) -> &SmolStr {
        &self.table
    }

    /// The columns with their types, in ascending order of their names.
    pub fn columns(&self) -> &[(SmolStr, ColumnType)] {
        &self.columns
    }

    /// Where `column` stands in a row.
    pub fn position(&self, column: &str) -> Option<usize> {
        self.columns.binary_search_by(|(name, _)| name.as_str().cmp(column)).ok()
    }

    /// The values of a row in which nothing was set.
    pub fn defaults(&self) -> Box<[Datum]> {
        self.columns.iter().map(|(_, column)| Datum::default_of(column)).collect()
    }
}

impl Row {
    /// Makes a row. Panics unless there is one value per column of the layout.
    pub fn new(layout: Arc<Layout>, uuid: Uuid, values: Box<[Datum]>) -> Self {
        assert_eq!(layout.columns.len(), values.len(), "one value per column of {}", layout.table);
        Row { layout, uuid, values }
    }

    /// Lets equal texts of this row be one in memory. Rows tend to say things twice, and a cache has many rows.
    pub(crate) fn share_texts(&mut self) {
        // Each is compared with those before it, so only where there are few.
        let (mut seen, mut seen_len) = ([const { SmolStr::new_static("") }; FEW], 0);
        for datum in self.values.iter_mut().filter(|datum| datum.len() <= FEW) {
            for atom in datum.values_mut() {
                let Atom::String(text) = atom else { continue };
                if !text.is_heap_allocated() {
                    continue;
                }
                match seen[..seen_len].iter().find(|earlier| *earlier == text) {
                    Some(earlier) => text.clone_from(earlier),
                    None if seen_len < FEW => {
                        seen[seen_len] = text.clone();
                        seen_len += 1;
                    }
                    None => {}
                }
            }
        }
    }

    /// The row's UUID.
    pub fn uuid(&self) -> Uuid {
        self.uuid
    }

    /// The table's name.
    pub fn table(&self) -> &SmolStr {
        &self.layout.table
    }

    /// The columns this row has.
    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// The value of `column`, if the row has that column.
    pub fn datum(&self, column: &str) -> Option<&Datum> {
        Some(&self.values[self.layout.position(column)?])
    }

    /// The value of `column` as a Rust type.
    pub fn get<T: ColumnValue>(&self, column: &str) -> Result<T, ConvertError> {
        let datum = self.datum(column).ok_or_else(|| ConvertError::MissingColumn {
            table: self.layout.table.clone(),
            column: column.into(),
        })?;
        T::from_datum(datum).map_err(|expected| ConvertError::WrongType {
            table: self.layout.table.clone(),
            column: column.into(),
            value: datum.to_string(),
            expected,
        })
    }

    /// Like [`Row::get`], with the type's default for a column that the row lacks; for generated code.
    pub fn get_or_default<T: ColumnValue + Default>(&self, column: &str) -> Result<T, ConvertError> {
        match self.get(column) {
            Err(ConvertError::MissingColumn { .. }) => Ok(T::default()),
            other => other,
        }
    }

    /// The columns and their values, in ascending order of the columns' names.
    pub fn iter(&self) -> impl Iterator<Item = (&SmolStr, &Datum)> {
        self.layout.columns.iter().map(|(name, _)| name).zip(&self.values)
    }
}

impl PartialEq for Row {
    fn eq(&self, other: &Self) -> bool {
        self.uuid == other.uuid
            && self.values == other.values
            && (Arc::ptr_eq(&self.layout, &other.layout) || self.layout == other.layout)
    }
}

impl Eq for Row {}
