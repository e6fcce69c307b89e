//! What can go wrong.

use std::fmt;
use std::io;
use std::path::PathBuf;

use ovsdb_core::SmolStr;
use ovsdb_core::cache::Inconsistent;
use ovsdb_core::frame::FrameError;
use ovsdb_core::message::MessageError;

/// Why a connection ended or did not come about. The client goes on trying; [`Status`](crate::Status) shows this.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// The server could not be reached.
    #[error("cannot connect")]
    Connect(#[source] io::Error),
    /// The server did not answer in time.
    #[error("no connection within {0:?}")]
    ConnectTimeout(std::time::Duration),
    /// The connection broke.
    #[error("the connection broke")]
    Io(#[from] io::Error),
    /// The server closed the connection.
    #[error("the server closed the connection")]
    Closed,
    /// The server did not answer a probe.
    #[error("the server was silent for {0:?}")]
    Inactive(std::time::Duration),
    /// The server asks faster than it reads our answers.
    #[error("the server sends requests and does not read the answers")]
    Flooded,
    /// A certificate or key could not be used.
    #[error("cannot use {path}: {reason}")]
    Credentials {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// An `ssl:` endpoint without certificates.
    #[error("an ssl: endpoint needs certificates, and none were given")]
    NoCredentials,
    /// The server sent something that is no JSON-RPC message.
    #[error("the server sent a malformed message")]
    Frame(#[from] FrameError),
    /// The server sent a message that OVSDB does not have.
    #[error("the server sent an unexpected message")]
    Message(#[from] MessageError),
    /// The server sent a value that does not fit the schema.
    #[error("cannot decode {what}")]
    Decode {
        /// The message.
        what: &'static str,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
    /// The server's updates do not fit what it sent before.
    #[error(transparent)]
    Inconsistent(#[from] Inconsistent),
    /// The server refused a request.
    #[error("the server refused {method}: {error}")]
    Refused {
        /// The request.
        method: &'static str,
        /// The server's words.
        error: String,
    },
    /// The server has no such database.
    #[error("the server has no database {0}")]
    NoDatabase(SmolStr),
    /// The server's schema lacks a table that was asked for by name.
    #[error("database {database} has no table {table}")]
    NoTable {
        /// The database.
        database: SmolStr,
        /// The table.
        table: SmolStr,
    },
    /// The server's schema lacks a column that was asked for by name.
    #[error("table {table} of database {database} has no column {column}")]
    NoColumn {
        /// The database.
        database: SmolStr,
        /// The table.
        table: SmolStr,
        /// The column.
        column: SmolStr,
    },
    /// The server is not the leader of its cluster.
    #[error("the server is not the leader of its cluster")]
    NotLeader,
    /// The server has lost its cluster.
    #[error("the server is not connected to its cluster")]
    NotInCluster,
    /// The server is behind of what was seen already.
    #[error("the server is at log index {index}, and {seen} was seen already")]
    Stale {
        /// The server's position.
        index: i64,
        /// The furthest position seen.
        seen: i64,
    },
    /// The server replaced the database, for example by one with another schema.
    #[error("the server cancelled the monitor")]
    MonitorCancelled,
}

/// Why a transaction failed. [`TransactError::outcome`] tells whether it may have been applied.
#[derive(Debug, thiserror::Error)]
pub enum TransactError {
    /// There is no connection, or the cache is not in step yet; nothing was sent.
    #[error("not connected to database {0}; nothing was sent")]
    NotConnected(SmolStr),
    /// The connection broke before the answer came.
    #[error(
        "the connection to database {0} broke before the answer came: the transaction may have been applied"
    )]
    OutcomeUnknown(SmolStr),
    /// The server's schema has no such table; nothing was sent.
    #[error("operation {index} ({operation}): database {database} has no table {table}; nothing was sent")]
    NoTable {
        /// The operation's position.
        index: usize,
        /// The operation's name.
        operation: &'static str,
        /// The database.
        database: SmolStr,
        /// The table.
        table: SmolStr,
    },
    /// The server's schema has no such column; nothing was sent.
    #[error(
        "operation {index} ({operation}): table {table} has no column {column} on this server; nothing was sent"
    )]
    NoColumn {
        /// The operation's position.
        index: usize,
        /// The operation's name.
        operation: &'static str,
        /// The table.
        table: SmolStr,
        /// The column.
        column: SmolStr,
    },
    /// An operation failed, and with it the transaction.
    #[error("operation {index} ({operation}{}): {error}", .table.as_ref().map(|t| format!(" in {t}")).unwrap_or_default())]
    Operation {
        /// The operation's position.
        index: usize,
        /// The operation's name.
        operation: &'static str,
        /// The table it was about.
        table: Option<SmolStr>,
        /// The server's error.
        error: OvsdbError,
    },
    /// The operations succeeded and committing them failed, for example because of a reference or an index.
    #[error("commit: {0}")]
    Commit(OvsdbError),
    /// The server refused the whole request.
    #[error("the server refused the transaction: {0}")]
    Refused(String),
    /// The transaction was applied, and an operation touched another number of rows than the caller expects.
    #[error(
        "operation {index} ({operation} in {table}) touched {actual} rows, expected {expected}; the transaction was applied"
    )]
    Count {
        /// The operation's position.
        index: usize,
        /// The operation's name.
        operation: &'static str,
        /// The table.
        table: SmolStr,
        /// The count the caller stated.
        expected: u64,
        /// The count the server reported.
        actual: u64,
    },
    /// The answer cannot be understood; what became of the transaction is unknown.
    #[error("cannot understand the answer to a transaction: {0}")]
    Malformed(String),
}

/// Why a condition was not taken over.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConditionError {
    /// The client does not monitor the table.
    #[error("table {0} is not monitored")]
    NotMonitored(SmolStr),
    /// The server's schema has no such column.
    #[error("table {table} has no column {column} on this server")]
    NoColumn {
        /// The table.
        table: SmolStr,
        /// The column.
        column: SmolStr,
    },
    /// The server refused; the condition before stays in effect.
    #[error("the server refused the condition: {0}")]
    Refused(String),
    /// The session has ended.
    #[error("the session has ended")]
    Closed,
}

/// What became of a transaction that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It changed nothing.
    NotApplied,
    /// It was applied.
    Applied,
    /// It may have been applied.
    Unknown,
}

impl TransactError {
    /// What became of this try. A cluster whose leader changes may try a transaction again by itself, so even the first
    /// answer may be [`ErrorKind::DuplicateUuid`] about the caller's own row.
    pub fn outcome(&self) -> Outcome {
        match self {
            TransactError::OutcomeUnknown(_) | TransactError::Malformed(_) => Outcome::Unknown,
            TransactError::Count { .. } => Outcome::Applied,
            _ => Outcome::NotApplied,
        }
    }

    /// The server's error, if it was one of an operation or of the commit.
    pub fn kind(&self) -> Option<ErrorKind> {
        match self {
            TransactError::Operation { error, .. } | TransactError::Commit(error) => Some(error.kind),
            _ => None,
        }
    }
}

/// An error as a server reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OvsdbError {
    /// Which error, for programs.
    pub kind: ErrorKind,
    /// The server's name for it.
    pub error: String,
    /// The server's explanation.
    pub details: String,
}

impl fmt::Display for OvsdbError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.error)?;
        if self.details.is_empty() { Ok(()) } else { write!(f, ": {}", self.details) }
    }
}

macro_rules! error_kinds {
    ($($(#[$doc:meta])* $kind:ident = $text:literal),* $(,)?) => {
        /// The errors that servers report by name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ErrorKind {
            $($(#[$doc])* $kind,)*
            /// A name that this client does not know.
            Other,
        }

        impl ErrorKind {
            /// The kind that a server calls `name`.
            pub fn from_name(name: &str) -> Self {
                match name {
                    $($text => ErrorKind::$kind,)*
                    _ => ErrorKind::Other,
                }
            }
        }
    };
}

error_kinds! {
    /// A unique index, a number of elements or a permitted value is violated.
    ConstraintViolation = "constraint violation",
    /// A row with the inserted UUID exists already.
    DuplicateUuid = "duplicate uuid",
    /// Two inserts of a transaction have the same `uuid-name`.
    DuplicateUuidName = "duplicate uuid-name",
    /// A strong reference would point to nothing.
    ReferentialIntegrityViolation = "referential integrity violation",
    /// The transaction needs more than the server has.
    ResourcesExhausted = "resources exhausted",
    /// The server could not write its file.
    IoError = "I/O error",
    /// A `wait` did not come true.
    TimedOut = "timed out",
    /// An `assert` failed: somebody else holds the lock.
    NotOwner = "not owner",
    /// An `abort` operation.
    Aborted = "aborted",
    /// The server cannot do this.
    NotSupported = "not supported",
    /// A mutation left the column's domain.
    DomainError = "domain error",
    /// A mutation left the range of integers.
    RangeError = "range error",
    /// The server is not the leader, or lost leadership meanwhile.
    NotLeader = "not leader",
    /// The cluster could not commit.
    ClusterError = "cluster error",
    /// Role-based access control refused.
    PermissionError = "permission error",
    /// The request does not follow the protocol.
    SyntaxError = "syntax error",
    /// The database is gone or not there yet.
    UnknownDatabase = "unknown database",
}
