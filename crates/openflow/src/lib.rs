//! OpenFlow 1.3 to 1.5 as a controller of Open vSwitch speaks it, without IO: what can be said about the protocol without a
//! socket, a clock or a runtime. Of the protocol it has what every connection needs (handshake, liveness, barriers, errors) and
//! one of Open vSwitch's extensions, which makes a switch forget connections that it tracks ([`CtFlush`]).
//!
//! ```text
//!            bytes ─▶ frame::Frames ─▶ message::Message ─▶ ┌────────────┐ ─▶ Event
//!                                                          │ Connection │
//!  bytes to write ◀──────── message, ct_flush ◀─────────── └────────────┘ ◀─ requests, probes
//! ```
//!
//! Start at [`Connection`]; whoever drives it reads, writes and has the clock. [`client::flush`] does so on a Unix socket and
//! blocks; nothing else here does IO. This crate must never know an async runtime, nor Portolan.

pub mod client;
pub mod connection;
pub mod ct_flush;
pub mod error_message;
pub mod frame;
pub mod hello;
pub mod message;
mod property;

pub use connection::{Connection, ConnectionError, Event, RequestError};
pub use ct_flush::{CtFlush, Icmp, InvalidFlush, Protocol, Tuple, Zones};
pub use error_message::{ErrorCode, ErrorMessage};
pub use hello::{Version, Versions};
pub use message::Xid;
