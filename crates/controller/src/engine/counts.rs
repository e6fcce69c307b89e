//! What the engine counts, for metrics.

use std::collections::BTreeMap;

use super::Engine;

/// What was decided.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// How often a requester was decided for.
    pub decisions: u64,
    /// How often a request was refused or had to wait, by reason.
    pub refusals: BTreeMap<&'static str, u64>,
}

/// How much there is to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queues {
    /// Who is to be decided for.
    pub requesters: usize,
    /// Who waits for an address, a MAC address or a subnet with something free.
    pub requesters_waiting: usize,
    /// Units to be planned and compared with the northbound database.
    pub units: usize,
    /// Units that wait for a row there.
    pub units_waiting: usize,
    /// Units whose rows the database refuses.
    pub units_refused: usize,
    /// Objects whose conditions, finalizers or results are to be compared with what they should be.
    pub objects: usize,
    /// Locks whose creation was requested and that no watch has shown yet.
    pub locks_creating: usize,
    /// Locks on their way out.
    pub locks_releasing: usize,
}

impl Engine {
    /// What was decided since this was asked last.
    pub fn take_counts(&mut self) -> Counts {
        std::mem::take(&mut self.counts)
    }

    /// How much there is to do now.
    pub fn queues(&self) -> Queues {
        Queues {
            requesters: self.requesters.len() + self.woken.len(),
            requesters_waiting: self.waiters.len(),
            units: self.northbound.dirty(),
            units_waiting: self.northbound.waiting(),
            units_refused: self.blocked.refused(),
            objects: self.to_compare.len() + self.finalizers.checks() + self.results.comparisons(),
            locks_creating: self.creating.len(),
            locks_releasing: self.releasing.len(),
        }
    }
}
