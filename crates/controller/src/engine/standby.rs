//! Standing by: the World stays warm, and nothing is decided or written until it is this engine's turn.
//!
//! What piles up meanwhile is bounded by what the World has, not by how much happens in it.

use portolan_plan::{DatabaseTarget, Reconciler};

use super::reports::Topic;
use super::{Action, Engine, Requester};

/// Whether this engine decides.
#[derive(Debug, Default)]
pub(super) enum Duty {
    /// It does.
    #[default]
    Active,
    /// Another does.
    Standby {
        /// How many requesters and actions are kept before those are dropped that came to nothing.
        room: Room,
    },
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    requesters: usize,
    actions: usize,
}

/// What is kept without asking whether it is still of use.
const LEAST_ROOM: usize = 1024;

impl Engine {
    /// From now on nothing is decided or planned. What was begun comes to its end.
    pub fn stand_by(&mut self) {
        self.duty = Duty::Standby { room: Room { requesters: LEAST_ROOM, actions: LEAST_ROOM } };
    }

    /// From now on this engine decides. Compare the database with everything ([`Engine::compare_all`]) before the next plan.
    pub fn lead(&mut self) {
        self.duty = Duty::Active;
    }

    pub(super) fn stands_by(&self) -> bool {
        matches!(self.duty, Duty::Standby { .. })
    }

    /// What is done while standing by: live reads, without which the World would not know what is absent.
    pub(super) fn rest(&mut self) -> Vec<Action> {
        // Whose turn it is stays registered with the waiters.
        self.requesters.extend(std::mem::take(&mut self.woken).into_iter().map(|(_, requester)| requester));
        // All units are compared before the first plan, and absence is confirmed once more.
        if self.northbound.urgency().is_some() {
            self.northbound = Reconciler::new(DatabaseTarget::new(&portolan_plan::northbound::DATABASE));
        }
        let is_read =
            |action: &mut Action| matches!(action, Action::ConfirmAbsence { .. } | Action::ReadMissing(_));
        let reads = self.actions.extract_if(.., is_read).collect();
        let Duty::Standby { mut room } = self.duty else { return reads };
        if self.requesters.len() > room.requesters {
            let mut requesters = std::mem::take(&mut self.requesters);
            requesters.retain(|requester| self.is_of_use(requester));
            room.requesters = requesters.len() * 2 + LEAST_ROOM;
            self.requesters = requesters;
        }
        if self.actions.len() > room.actions {
            let mut actions = std::mem::take(&mut self.actions);
            actions.retain(|action| self.is_still_wanted(action));
            actions.dedup();
            room.actions = actions.len() * 2 + LEAST_ROOM;
            self.actions = actions;
        }
        self.duty = Duty::Standby { room };
        reads
    }

    /// Whether deciding for a requester could come to anything.
    fn is_of_use(&self, requester: &Requester) -> bool {
        self.world.request(requester).is_some()
            || !self.world.holdings_of(requester).is_empty()
            || self.waiters.waits_for(requester).next().is_some()
    }

    /// Whether what a report says is still so.
    fn is_still_wanted(&self, action: &Action) -> bool {
        let Action::Report { subject, uid, reason, message, .. } = action else { return true };
        let topics = [Topic::Object, Topic::Conditions, Topic::Request];
        topics.into_iter().any(|topic| self.reports.says(subject, topic, uid, reason, message))
    }
}
