//! What should be on the node and what is: the state that the reconcile loop works on. No IO and no clock.
//!
//! CNI calls, link notifications, Open vSwitch and the watches of the cluster all report here; [`Engine::reconcile`] answers what has to
//! change. See [`portolan_plan::host`] for the rules.
//!
//! ```text
//!  observations, guards   what the node has          ─┐
//!  owners                 who asks for something     ─┼──▶ State ──▶ rounds: what has to change, and what became of it
//!  sandboxes              calls of the runtime       ─┘
//! ```

mod dump;
mod guards;
mod observations;
mod owners;
mod rounds;
mod sandboxes;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use portolan_plan::host::{LinkName, Node, Observed, ObservedLink, Sandbox, Tag};
use portolan_plan::reconciler::{Reconciler, Urgency};
use tokio::sync::{Notify, watch};

use self::rounds::Applying;
pub(crate) use self::rounds::{Failure, OwnerKind, OwnerOfUnit};
use self::sandboxes::Making;
use crate::guard_news::GuardNews;
use crate::pending::Pending;

/// The engine, shared by CNI calls, watches and the reconcile loop.
pub(crate) struct Engine {
    state: Mutex<State>,
    /// Something is to be compared.
    wake: Notify,
    /// Changes with every round of the loop and everything that is observed.
    revision: watch::Sender<u64>,
    /// Ports of the node itself of which there is news: what they say about themselves may have changed.
    news: Arc<Pending<LinkName>>,
}

struct State {
    observed: Observed,
    guard_news: GuardNews,
    reconciler: Reconciler<Node>,
    /// Sandboxes that the container runtime has ended, until nothing of them is left.
    ended: BTreeSet<Sandbox>,
    /// Links that calls are making, until they are seen. A link is guarded before it has its note: its guard is no leftover meanwhile.
    making: BTreeMap<LinkName, Making>,
    /// UIDs of pods, and of holders of ports of the node itself, that an event reported as deleted, as long as something of them is left.
    deleted: BTreeSet<String>,
    /// Units whose changes are being applied: what is observed of them may be behind.
    applying: BTreeMap<LinkName, Applying>,
    /// How many of these belonged to a sandbox.
    applying_of: BTreeMap<Sandbox, usize>,
    /// Those of them that are to be compared again afterwards.
    held: BTreeSet<LinkName>,
    /// Links were listed.
    listed: bool,
    /// The revision of the copy of Open vSwitch's database up to which ports were observed.
    revision: u64,
    /// Why the last change of a unit failed.
    failures: BTreeMap<LinkName, String>,
    /// How many rounds the loop has made.
    rounds: u64,
    news: Arc<Pending<LinkName>>,
}

impl Engine {
    pub(crate) fn new() -> Self {
        let news = Arc::<Pending<LinkName>>::default();
        let state = State {
            observed: Observed::default(),
            guard_news: GuardNews::default(),
            reconciler: Reconciler::new(Node),
            ended: BTreeSet::new(),
            making: BTreeMap::new(),
            deleted: BTreeSet::new(),
            applying: BTreeMap::new(),
            applying_of: BTreeMap::new(),
            held: BTreeSet::new(),
            listed: false,
            revision: 0,
            failures: BTreeMap::new(),
            rounds: 0,
            news: Arc::clone(&news),
        };
        Self { state: Mutex::new(state), wake: Notify::new(), revision: watch::Sender::new(0), news }
    }

    /// Ports of the node itself of which there is news.
    pub(crate) fn news(&self) -> &Arc<Pending<LinkName>> {
        &self.news
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self) {
        self.wake.notify_one();
        self.revision.send_modify(|revision| *revision += 1);
    }

    /// Waits until something may be to do.
    pub(crate) async fn woken(&self) {
        self.wake.notified().await;
    }

    async fn wait_for<T>(&self, mut find: impl FnMut(&mut State) -> Option<T>) -> T {
        let mut revision = self.revision.subscribe();
        loop {
            revision.borrow_and_update();
            if let Some(found) = find(&mut self.state()) {
                return found;
            }
            revision.changed().await.expect("invariant: the engine keeps the sender alive");
        }
    }

    /// Reads what is observed.
    pub(crate) fn observed<T>(&self, read: impl FnOnce(&Observed) -> T) -> T {
        read(&self.state().observed)
    }
}

impl State {
    /// A unit is to be compared again, with the evidence there is that it may be removed.
    fn touch(&mut self, unit: &LinkName) {
        if self.making.contains_key(unit) {
            // It is compared once it is made, or not.
            return;
        }
        self.tell(unit);
        let tag = self.observed.tag(unit);
        let ended = tag.and_then(Tag::note).is_some_and(|note| self.ended.contains(&note.sandbox));
        let deleted = tag.and_then(Tag::owner).is_some_and(|uid| self.deleted.contains(uid));
        // The namespace of a sandbox that lives keeps the link; those of the node itself have none.
        let lives = self.observed.has_sandbox(unit) && !unit.is_of_holder();
        // Its sandbox was ended before, says its note. All that is left to do may be to wait for the function.
        let is_returning = self.observed.link(unit).is_some_and(ObservedLink::is_returning);
        let returned = is_returning && (!lives || self.observed.port(unit).is_some());
        // No call goes on with it: its agent has ended, or it could not finish it. Nor was it prepared for a port of the node itself.
        // Whose one of the node itself is, its port says.
        let is_known = !unit.is_of_holder() || self.revision > 0;
        let abandoned = self.observed.is_unnoted(unit) && tag.is_none() && is_known;
        if ended || abandoned || returned || (deleted && !lives) {
            self.reconciler.removed(unit.clone());
        } else {
            self.reconciler.changed(unit.clone(), Urgency::Immediate);
        }
    }

    /// What a port of the node itself says about itself may have changed.
    fn tell(&self, unit: &LinkName) {
        if unit.is_of_holder() {
            self.news.check(unit.clone());
        }
    }

    fn compare_all(&mut self) {
        for unit in self.observed.units() {
            self.touch(&unit);
        }
    }
}

#[cfg(test)]
mod tests;
