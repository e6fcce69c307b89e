//! Standing by: the World stays warm, and nothing is decided or written until it is this engine's turn.
//!
//! Nothing is carried over. What was decided and not begun when this engine stepped down is dropped ([`Engine::dropped`]), for
//! another one leads by then; and when this one leads, whatever is open is decided, compared and reported anew. So nothing is ever
//! done because of what was true in an earlier term, and what piles up meanwhile is bounded by what the World has.

use kube::ResourceExt as _;
use portolan_plan::{DatabaseTarget, Reconciler};

use super::blocked::Blocked;
use super::reports::Severity;
use super::{Action, Engine, Requester};

/// Whether this engine decides.
#[derive(Debug, Default)]
pub(super) enum Duty {
    /// It does.
    #[default]
    Active,
    /// Another does.
    Standby {
        /// How many requesters are kept before those are dropped that came to nothing.
        room: usize,
    },
}

/// What is kept without asking whether it is still of use.
const LEAST_ROOM: usize = 1024;

impl Action {
    /// Whether a standby does this too: live reads, without which the World would not know what is absent.
    pub fn is_for_standby(&self) -> bool {
        matches!(self, Action::ReadMissing(_))
    }
}

impl Engine {
    /// From now on nothing is decided or planned. Give every action that was not begun to [`Engine::dropped`], but for those that
    /// [are for a standby](Action::is_for_standby); what was begun comes to its end.
    pub fn stand_by(&mut self) {
        self.duty = Duty::Standby { room: LEAST_ROOM };
        self.forget_comparisons();
        self.drop_actions();
        self.end_releases();
        self.reports.forget_decisions();
        self.bindings.clear();
        self.blocked = Blocked::default();
    }

    /// From now on this engine decides. Compare the database with everything ([`Engine::compare_all`]) before the next plan.
    pub fn lead(&mut self) {
        if !self.stands_by() {
            return;
        }
        self.drop_actions();
        self.duty = Duty::Active;
        self.terms += 1;
        self.requesters.extend(self.world.unsatisfied().cloned());
        self.compare_all_status();
        self.subnets.judge_all();
        self.finalizers.begin_anew();
        self.compare_all_results();
        self.compare_all_node_mtus();
        for (subject, uid, (reason, message)) in self.reports.all() {
            let severity = Severity::Warning;
            self.actions.push(Action::Report { subject, uid, severity, reason, message });
        }
    }

    /// The number of the present term; none while this engine does not decide. What was found for one that is over counts for none.
    pub fn term(&self) -> Option<u64> {
        (!self.stands_by()).then_some(self.terms)
    }

    /// This action was not begun and will not be. Whatever it was for is decided anew when this engine leads.
    pub fn dropped(&mut self, action: Action) {
        match action {
            Action::CreateLock(lock) => {
                if let Some(requester) = self.withdraw(&lock.name_any()) {
                    self.requesters.insert(requester);
                }
            }
            Action::MoveLock { moved, requester } => {
                self.moving.remove(&moved.lock);
                self.requesters.insert(requester);
            }
            Action::Confirm(question) => self.end_release(&question.release.lock),
            Action::DeleteLock { lock, .. } => self.end_release(&lock),
            Action::ReadMissing(_) => self.actions.push(action),
            Action::ValidateSubnets(_) => self.subnets.end_judgement(),
            // All units are compared before the next plan, and all statuses and reports when this engine leads.
            Action::ConfirmAbsence { .. } | Action::SetConditions(_) | Action::Report { .. } => {}
            // So are finalizers, and what pods and agents are told.
            Action::SetFinalizer(_) | Action::ConfirmUnused(_) => {}
            Action::ShowResults(_) | Action::TellMtu { .. } | Action::ServePrefixes { .. } => {}
        }
    }

    pub(super) fn stands_by(&self) -> bool {
        matches!(self.duty, Duty::Standby { .. })
    }

    /// What is done while standing by.
    pub(super) fn rest(&mut self) -> Vec<Action> {
        // Whose turn it is stays registered with the waiters.
        self.requesters.extend(std::mem::take(&mut self.woken).into_iter().map(|(_, requester)| requester));
        if self.northbound.urgency().is_some() {
            self.forget_comparisons();
        }
        self.drop_actions();
        // Every object is compared when this engine leads.
        self.to_compare.clear();
        self.finalizers.forget_checks();
        self.results.forget_comparisons();
        self.node_mtus.forget_comparisons();
        if let Duty::Standby { room } = self.duty
            && self.requesters.len() > room
        {
            let mut requesters = std::mem::take(&mut self.requesters);
            requesters.retain(|requester| self.is_of_use(requester));
            self.duty = Duty::Standby { room: requesters.len() * 2 + LEAST_ROOM };
            self.requesters = requesters;
        }
        std::mem::take(&mut self.actions)
    }

    /// Drops all actions but those for a standby.
    fn drop_actions(&mut self) {
        for action in std::mem::take(&mut self.actions) {
            self.dropped(action);
        }
    }

    /// All units are compared before the first plan, and absence is confirmed once more.
    fn forget_comparisons(&mut self) {
        self.northbound = Reconciler::new(DatabaseTarget::new(&portolan_plan::northbound::DATABASE));
    }

    /// Whether deciding for a requester could come to anything.
    fn is_of_use(&self, requester: &Requester) -> bool {
        self.world.request(requester).is_some()
            || !self.world.holdings_of(requester).is_empty()
            || self.waiters.waits_for(requester).next().is_some()
    }
}
