//! Tracing: what becomes of a packet from a pod to another pod or to an address, and why.
//!
//! ```text
//!  Trace.spec ─▶ Question ─▶ start: addresses, the pod's own routes ─▶ Packet
//!                                                        │
//!  northbound, southbound ◀─ observed: bindings, flows ──┼─ ovn_trace: what the logical flows do
//!                                                        ▼
//!  World ─▶ desired rows ─────────────────────▶ explain: path, cause, differences ─▶ verdict ─▶ Trace.status
//! ```
//!
//! OVN decides: no rule of `ovn-northd` is repeated here. The explanation is read from provenance (logical flow → `stage-hint` →
//! northbound row → `portolan/unit` → object), and the northbound rows of everything on the path are compared with what the
//! objects ask for: a path that looks right by a rule that nobody asked for is a disagreement.
//!
//! `portolan trace` uses this crate in a lab, and the controller answers `trace.portolan.dev` with it. It never sees a client of
//! Kubernetes: whoever uses it lends it a [`World`](portolan_model::World) through [`Worlds`]. Start reading at [`Tracer::answer`].

pub mod api;
mod database;
mod desired;
pub mod error;
mod explain;
mod guest;
mod observed;
pub mod ovn_trace;
pub mod packet;
pub mod question;
mod rule;
mod start;
mod tracer;

pub use error::Error;
pub use guest::Guest;
pub use question::{Destination, PodName, Question};
pub use tracer::{Databases, NotAvailable, Tracer, Worlds};
