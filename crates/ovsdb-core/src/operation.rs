//! The operations of a transaction (RFC 7047 section 5.2), with Open vSwitch's `uuid` member of `insert`.

use serde::ser::{Serialize, SerializeMap, SerializeTuple, Serializer};
use smol_str::SmolStr;
use uuid::Uuid;

use crate::atom::Atom;
use crate::datum::{Datum, Set};

/// One operation of a transaction.
#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    /// Adds a row.
    Insert {
        /// The table.
        table: SmolStr,
        /// The new row's UUID; the server chooses one if there is none.
        uuid: Option<Uuid>,
        /// A name by which other operations of the transaction refer to the row.
        uuid_name: Option<SmolStr>,
        /// The columns that do not have their defaults.
        row: Vec<(SmolStr, Datum)>,
    },
    /// Reads rows.
    Select {
        /// The table.
        table: SmolStr,
        /// Which rows.
        condition: Vec<Clause>,
        /// Which columns; all if there is none.
        columns: Option<Vec<SmolStr>>,
    },
    /// Gives columns new values.
    Update {
        /// The table.
        table: SmolStr,
        /// Which rows.
        condition: Vec<Clause>,
        /// The columns with their new values.
        row: Vec<(SmolStr, Datum)>,
    },
    /// Changes columns relative to their present values.
    Mutate {
        /// The table.
        table: SmolStr,
        /// Which rows.
        condition: Vec<Clause>,
        /// What to change.
        mutations: Vec<Mutation>,
    },
    /// Removes rows.
    Delete {
        /// The table.
        table: SmolStr,
        /// Which rows.
        condition: Vec<Clause>,
    },
    /// Aborts the transaction unless the rows are (or are not) as given.
    Wait {
        /// The table.
        table: SmolStr,
        /// Which rows to look at.
        condition: Vec<Clause>,
        /// Which of their columns to compare.
        columns: Vec<SmolStr>,
        /// Whether the rows have to be equal or different.
        until: Until,
        /// What to compare with.
        rows: Vec<Vec<(SmolStr, Datum)>>,
        /// For how many milliseconds the server may wait; 0 fails at once, none waits for ever.
        timeout_ms: Option<u64>,
    },
    /// Answers only once the transaction is on disk, if `durable`.
    Commit {
        /// Whether to wait for the disk.
        durable: bool,
    },
    /// Aborts the transaction.
    Abort,
    /// A remark for the server's log.
    Comment(String),
    /// Aborts the transaction unless the client holds the lock.
    Assert {
        /// The lock's name.
        lock: SmolStr,
    },
}

/// Whether a `wait` wants equality.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// The rows are equal.
    Equal,
    /// The rows differ.
    NotEqual,
}

/// A test of one column; the clauses of an operation must all hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Clause {
    /// The column, `_uuid` included.
    pub column: SmolStr,
    /// How to compare.
    pub function: Function,
    /// What to compare with.
    pub value: Datum,
}

/// How a clause compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "RFC 7047 section 5.1 defines them")]
pub enum Function {
    Less,
    LessOrEqual,
    Equal,
    NotEqual,
    GreaterOrEqual,
    Greater,
    Includes,
    Excludes,
}

/// A change of one column relative to its present value.
#[derive(Clone, Debug, PartialEq)]
pub struct Mutation {
    /// The column.
    pub column: SmolStr,
    /// How to change it.
    pub mutator: Mutator,
    /// By what.
    pub value: Datum,
}

/// How a mutation changes a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "RFC 7047 section 5.1 defines them")]
pub enum Mutator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Insert,
    Delete,
}

impl Operation {
    /// The operation's name in the protocol.
    pub fn name(&self) -> &'static str {
        match self {
            Operation::Insert { .. } => "insert",
            Operation::Select { .. } => "select",
            Operation::Update { .. } => "update",
            Operation::Mutate { .. } => "mutate",
            Operation::Delete { .. } => "delete",
            Operation::Wait { .. } => "wait",
            Operation::Commit { .. } => "commit",
            Operation::Abort => "abort",
            Operation::Comment(_) => "comment",
            Operation::Assert { .. } => "assert",
        }
    }

    /// The table the operation is about.
    pub fn table(&self) -> Option<&SmolStr> {
        match self {
            Operation::Insert { table, .. }
            | Operation::Select { table, .. }
            | Operation::Update { table, .. }
            | Operation::Mutate { table, .. }
            | Operation::Delete { table, .. }
            | Operation::Wait { table, .. } => Some(table),
            Operation::Commit { .. }
            | Operation::Abort
            | Operation::Comment(_)
            | Operation::Assert { .. } => None,
        }
    }

    /// The columns the operation names.
    pub fn columns(&self) -> Vec<&SmolStr> {
        fn names<T>(pairs: &[(SmolStr, T)]) -> impl Iterator<Item = &SmolStr> {
            pairs.iter().map(|(name, _)| name)
        }
        fn tested(condition: &[Clause]) -> impl Iterator<Item = &SmolStr> {
            condition.iter().map(|clause| &clause.column)
        }
        match self {
            Operation::Insert { row, .. } => names(row).collect(),
            Operation::Select { condition, columns, .. } => {
                tested(condition).chain(columns.iter().flatten()).collect()
            }
            Operation::Update { condition, row, .. } => tested(condition).chain(names(row)).collect(),
            Operation::Mutate { condition, mutations, .. } => {
                tested(condition).chain(mutations.iter().map(|mutation| &mutation.column)).collect()
            }
            Operation::Delete { condition, .. } => tested(condition).collect(),
            Operation::Wait { condition, columns, .. } => tested(condition).chain(columns).collect(),
            Operation::Commit { .. }
            | Operation::Abort
            | Operation::Comment(_)
            | Operation::Assert { .. } => vec![],
        }
    }
}

impl Clause {
    /// A test of `column`.
    pub fn new(column: impl Into<SmolStr>, function: Function, value: Datum) -> Self {
        Clause { column: column.into(), function, value }
    }

    /// The row with this UUID.
    pub fn uuid(uuid: Uuid) -> Self {
        Clause::new("_uuid", Function::Equal, Datum::Atom(Atom::Uuid(uuid)))
    }
}

impl Mutation {
    /// A change of `column`.
    pub fn new(column: impl Into<SmolStr>, mutator: Mutator, value: Datum) -> Self {
        Mutation { column: column.into(), mutator, value }
    }

    /// `column`, a set, gets or loses these atoms.
    pub fn elements(
        column: impl Into<SmolStr>,
        mutator: Mutator,
        atoms: impl IntoIterator<Item = Atom>,
    ) -> Self {
        Mutation::new(column, mutator, Datum::Set(atoms.into_iter().collect::<Set>()))
    }
}

impl Function {
    fn symbol(self) -> &'static str {
        match self {
            Function::Less => "<",
            Function::LessOrEqual => "<=",
            Function::Equal => "==",
            Function::NotEqual => "!=",
            Function::GreaterOrEqual => ">=",
            Function::Greater => ">",
            Function::Includes => "includes",
            Function::Excludes => "excludes",
        }
    }
}

impl Mutator {
    fn symbol(self) -> &'static str {
        match self {
            Mutator::Add => "+=",
            Mutator::Subtract => "-=",
            Mutator::Multiply => "*=",
            Mutator::Divide => "/=",
            Mutator::Remainder => "%=",
            Mutator::Insert => "insert",
            Mutator::Delete => "delete",
        }
    }
}

fn triple<S: Serializer>(
    serializer: S,
    column: &str,
    symbol: &str,
    value: &Datum,
) -> Result<S::Ok, S::Error> {
    let mut triple = serializer.serialize_tuple(3)?;
    triple.serialize_element(column)?;
    triple.serialize_element(symbol)?;
    triple.serialize_element(value)?;
    triple.end()
}

impl Serialize for Clause {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        triple(serializer, &self.column, self.function.symbol(), &self.value)
    }
}

impl Serialize for Mutation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        triple(serializer, &self.column, self.mutator.symbol(), &self.value)
    }
}

/// Columns with values, as a JSON object.
struct Columns<'a>(&'a [(SmolStr, Datum)]);

impl Serialize for Columns<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name.as_str(), value)))
    }
}

impl Serialize for Operation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_map(None)?;
        object.serialize_entry("op", self.name())?;
        if let Some(table) = self.table() {
            object.serialize_entry("table", table.as_str())?;
        }
        match self {
            Operation::Insert { uuid, uuid_name, row, .. } => {
                if let Some(uuid) = uuid {
                    object.serialize_entry("uuid", uuid)?;
                }
                if let Some(name) = uuid_name {
                    object.serialize_entry("uuid-name", name.as_str())?;
                }
                object.serialize_entry("row", &Columns(row))?;
            }
            Operation::Select { condition, columns, .. } => {
                object.serialize_entry("where", condition)?;
                if let Some(columns) = columns {
                    object.serialize_entry("columns", columns)?;
                }
            }
            Operation::Update { condition, row, .. } => {
                object.serialize_entry("where", condition)?;
                object.serialize_entry("row", &Columns(row))?;
            }
            Operation::Mutate { condition, mutations, .. } => {
                object.serialize_entry("where", condition)?;
                object.serialize_entry("mutations", mutations)?;
            }
            Operation::Delete { condition, .. } => object.serialize_entry("where", condition)?,
            Operation::Wait { condition, columns, until, rows, timeout_ms, .. } => {
                object.serialize_entry("where", condition)?;
                object.serialize_entry("columns", columns)?;
                object.serialize_entry("until", if *until == Until::Equal { "==" } else { "!=" })?;
                object.serialize_entry("rows", &rows.iter().map(|row| Columns(row)).collect::<Vec<_>>())?;
                if let Some(timeout) = timeout_ms {
                    object.serialize_entry("timeout", timeout)?;
                }
            }
            Operation::Commit { durable } => object.serialize_entry("durable", durable)?,
            Operation::Abort => {}
            Operation::Comment(text) => object.serialize_entry("comment", text)?,
            Operation::Assert { lock } => object.serialize_entry("lock", lock.as_str())?,
        }
        object.end()
    }
}
