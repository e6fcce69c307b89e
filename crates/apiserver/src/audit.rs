//! The audit log: one line per request, in the format that Kubernetes' tools read.
//!
//! ```text
//! request ─► AuditEvent ─► queue of bounded length ─► one thread ─► AuditLog (audit.log, audit.log.1, …)
//! ```
//!
//! Lines are events of `audit.k8s.io/v1` at level `Metadata`: who did what to which object, and the outcome. `user` is whoever
//! authenticated; if they act as somebody else, `impersonatedUser` says as whom. Requests whose credentials are refused are
//! logged without a user. A watch is logged when it begins, everything else when it has been answered.
//!
//! Every request that the server read leaves exactly one line, also one that cannot be parsed, whose client goes away or whose
//! handler panics. A response is sent once the line of its request is in the file. Only while the file cannot be written are
//! requests answered without a line; they are counted, and the next line that is written says how many they were.

mod event;
mod file;
mod queue;

pub(crate) use event::AuditEvent;
pub use file::{AuditLog, Rotation};
pub(crate) use queue::{AuditMetrics, AuditQueue, Recording};
