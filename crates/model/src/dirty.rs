//! What a change of the World asks others to look at again.

use std::collections::BTreeSet;

use crate::request::Requester;
use crate::unit::Unit;

/// What a change of the World asks others to look at again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "a change that no one acts on is lost"]
pub struct Dirty {
    /// Units to be planned again, or to be removed.
    pub units: BTreeSet<Unit>,
    /// Who asks for interfaces and may now be answered otherwise: decide again.
    pub requesters: BTreeSet<Requester>,
}

impl Dirty {
    /// True if nothing is to be looked at.
    pub fn is_empty(&self) -> bool {
        self.units.is_empty() && self.requesters.is_empty()
    }

    /// Adds what another change asks for.
    pub fn merge(&mut self, other: Dirty) {
        self.units.extend(other.units);
        self.requesters.extend(other.requesters);
    }
}
