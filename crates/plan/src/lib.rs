//! What targets should have, given the World, and what has to change for them to have it.
//!
//! ```text
//!  Unit, World ──plan──▶ Rows ──┐
//!                               ├──diff──▶ Atoms ──▶ Batches: transactions for a driver to send
//!  Cache of the database ───────┘
//! ```
//!
//! | module | what it is |
//! |---|---|
//! | [`northbound`] | the plans of OVN's northbound database: VPC, subnet, peering and attachment → rows |
//! | [`reconciler`] | which units of a target are dirty, waiting or stale: the bookkeeping around plan and diff, for any target |
//! | [`database`], [`mod@diff`] | an OVSDB database as a target: desired rows and memberships against a cache |
//! | [`comparison`] | two states of rows side by side, for people to read |
//! | [`rows`], [`table`], [`tag`], [`mod@row_uuid`] | what rows are made of: rules per table, owners, parents, UUIDs |
//!
//! **To add a target** that is an OVSDB database, declare its tables with `planned!`, list them in a [`Database`], and use
//! [`Reconciler`]`<`[`DatabaseTarget`]`<U>>` with your own type of units. For a target of another kind (links, routes,
//! nftables) implement [`Target`]: how to compare, and how owners are found again. Either way the driver's loop is
//!
//! ```text
//!  changed, removed, observed ──▶ reconcile(plan, cache) ──▶ send changes ──▶ committed, outdated or refused
//! ```
//!
//! Everything here is a function of its arguments: no IO, no clock, no randomness, no Kubernetes. Start reading at
//! [`northbound::plan()`] and [`Database::diff`]. `tests/snapshots` shows the rows of every feature.

pub mod comparison;
pub mod database;
pub mod diff;
pub mod host;
#[cfg(any(test, feature = "memdb"))]
pub mod memdb;
pub mod northbound;
pub mod pair;
pub mod reconciler;
pub mod row_uuid;
pub mod rows;
pub mod service_addresses;
pub mod table;
pub mod tag;

pub use database::{Database, DatabaseTarget, Touched};
pub use diff::{Atom, Batch, Diff, Obstacle, Waiting, batches};
pub use northbound::{DEFAULT_MTU, ServiceProxy, Settings, plan};
pub use pair::Pair;
pub use reconciler::{Absence, Confirm, Plan, Reconciler, Round, Target, Urgency};
pub use row_uuid::row_uuid;
pub use rows::{DesiredRow, Membership, Parent, RowRef, Rows};
