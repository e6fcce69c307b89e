//! Which addresses are taken, and which one comes next.
//!
//! This crate decides and leaves the doing to others: [`Ipam::decide`] answers which locks to create, to move or to give back,
//! or why that cannot be. It must never know IO, clocks or randomness: two deciders that were told the same propose the same
//! lock, and one that is asked again once the lock is there has nothing to do.
//!
//! ```text
//!  World: requests, subnets, locks ─┐
//!  Ipam: taken addresses by domain ─┴─▶ decide ─▶ Decision { create, moves, releases, refusals }
//! ```
//!
//! Start reading at [`decide`], then [`choice`] for how an address is chosen. [`RangeSet`] is where taken addresses are kept:
//! as ranges, so that its memory follows how many are taken and a search costs the same in a subnet that is almost full.
//! [`waiters`] has who comes next when one becomes free.

mod allocation;
pub mod choice;
pub mod decide;
pub mod domain;
mod gateway;
pub mod ipam;
mod keep;
pub mod pools;
pub mod range_set;
mod ranges;
pub mod refusal;
pub mod release;
pub mod waiters;

pub use decide::{Decision, Move};
pub use domain::Usage;
pub use ipam::Ipam;
pub use pools::PoolUsage;
pub use range_set::RangeSet;
pub use ranges::{Ranges, list_ranges};
pub use refusal::{Refusal, TakenBy};
pub use release::{Release, ReleaseReason};
pub use waiters::{WaitKey, Waiters};
