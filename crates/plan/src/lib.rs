//! Which rows of OVN's northbound database follow from the World, and what has to change for them to be there.
//!
//! ```text
//!  Unit, World ──plan──▶ Rows ──┐
//!                               ├──diff──▶ Atoms ──▶ Batches: transactions for a driver to send
//!  Cache of the database ───────┘
//! ```
//!
//! | unit | rows |
//! |---|---|
//! | VPC | a logical router, its static routes and policy routes |
//! | subnet | a logical switch; its pair of ports with the VPC's router; DHCP options; ACLs if it is private |
//! | peering | a pair of router ports that name each other |
//! | attachment | a port of its subnet's switch |
//!
//! Everything here is a function of its arguments: no IO, no clock, no randomness, no Kubernetes. Start reading at
//! [`plan()`] and [`diff()`]; [`table`] says what of each table is ours, [`row_uuid`](mod@row_uuid) how rows get their
//! UUIDs, [`tag`] how they are found again. `tests/snapshots` shows the rows of every feature.

pub mod diff;
pub mod host;
#[cfg(any(test, feature = "memdb"))]
pub mod memdb;
pub mod plan;
pub mod reconciler;
pub mod row_uuid;
pub mod rows;
pub mod table;
pub mod tag;

pub use diff::{Atom, Batch, Diff, Obstacle, Waiting, diff};
pub use plan::{Plan, Settings, plan};
pub use row_uuid::row_uuid;
pub use rows::{DesiredRow, Layer, Rows};
pub use tag::{indexes, units_in};
