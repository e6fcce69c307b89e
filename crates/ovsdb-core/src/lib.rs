//! OVSDB (RFC 7047) without IO: everything about the protocol that can be said without a socket, a clock or a runtime.
//!
//! ```text
//!  bytes ─▶ frame::Scanner ─▶ message::Message ─▶ decode ─▶ Updates ─▶ Cache ─▶ Batch of Changes
//!  bytes ◀─ message::write_request ◀─ Transaction of Operations ◀─ typed Columns
//! ```
//!
//! Start at [`Datum`] for values, [`schema`] for their types, [`Transaction`] for writing and [`Cache`] for reading. The
//! crate `ovsdb` puts connections around this one; crates that only plan what a database should hold need this one
//! alone. It must never know an async runtime, nor any particular schema.

pub mod atom;
pub mod cache;
pub mod change;
pub mod column;
pub mod convert;
pub mod datum;
pub mod decode;
pub mod frame;
pub mod index;
pub mod message;
pub mod operation;
pub mod row;
pub mod schema;
pub mod transaction;
mod uuid_hash;

pub use atom::Atom;
pub use cache::{Cache, Table};
pub use change::{Batch, Change};
pub use column::Column;
pub use convert::{AtomValue, ColumnValue, Real};
pub use datum::{Datum, Map, Set};
pub use index::Index;
pub use operation::{Clause, Function, Mutation, Mutator, Operation, Until};
pub use row::{ConvertError, Layout, Row, TypedRow};
pub use schema::DatabaseSchema;
pub use smol_str::SmolStr;
pub use transaction::{Rows, Transaction};
pub use uuid::Uuid;
