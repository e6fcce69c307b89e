//! What a change of the World asks others to do again.

use std::collections::BTreeSet;

use crate::lock::Claim;
use crate::request::Requester;
use crate::unit::Unit;

/// What a change of the World asks others to do again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "a change that no one acts on is lost"]
pub struct Dirty {
    /// Units to be planned again, or to be removed.
    pub units: BTreeSet<Unit>,
    /// Who asks for interfaces and may now be answered otherwise: decide again.
    pub requesters: BTreeSet<Requester>,
    /// Locks that were created, changed or deleted, in order.
    pub locks: Vec<LockChange>,
}

/// A lock was created, changed or deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockChange {
    /// The lock's name.
    pub lock: String,
    /// The address that it took, if it was there and took one.
    pub before: Option<Claim>,
    /// The address that it takes, if it is there and takes one.
    pub after: Option<Claim>,
    /// Whether it is there.
    pub exists: bool,
}

impl Dirty {
    /// True if there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.units.is_empty() && self.requesters.is_empty() && self.locks.is_empty()
    }

    /// Adds what a later change asks for.
    pub fn merge(&mut self, other: Dirty) {
        self.units.extend(other.units);
        self.requesters.extend(other.requesters);
        self.locks.extend(other.locks);
    }
}
