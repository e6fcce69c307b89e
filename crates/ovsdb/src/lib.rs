//! A client for OVSDB (RFC 7047) with the extensions of Open vSwitch.
//!
//! A [`Client`] keeps a copy of the tables it is asked to monitor, tells what changes in them, and runs transactions.
//! It reconnects by itself, follows the leader of a cluster if asked to, and continues where it was when the server can.
//!
//! ```text
//!             Client ── transact, lock, condition ──▶ Session ──▶ Link ──▶ Connection ──▶ Stream
//!  Changes ◀─ Cache  ◀──────── updates ─────────────┘ (reconnects)  (one)   (frames)     (unix, tcp, ssl)
//! ```
//!
//! Values, schemas, transactions and the cache itself are in `ovsdb_core`, which knows no IO and is re-exported here.
//! Start reading at [`client`], then `session` and `link`. This crate knows nothing of any particular schema.
//!
//! # Example
//!
//! Prints what changes in the logical switches of OVN (`examples/watch.rs`):
//!
//! ```no_run
#![doc = include_str!("../examples/watch.rs")]
//! ```

pub mod changes;
pub mod client;
mod connection;
pub mod endpoint;
pub mod error;
mod link;
pub mod lock;
pub mod monitor;
pub mod reply;
pub mod server;
mod session;
pub mod tls;
pub mod transport;

pub use changes::Changes;
pub use client::{Builder, Client, Status};
pub use endpoint::{Endpoint, Endpoints};
pub use error::{ConditionError, ConnectionError, ErrorKind, Outcome, TransactError};
pub use lock::{Lock, LockState};
pub use monitor::{Condition, Monitor};
pub use ovsdb_core::*;
pub use reply::{OperationResult, Reply};
pub use server::Members;
pub use tls::{ServerNames, TlsFiles};
