//! Rounds of the reconcile loop: what has to change, and what became of it.

use std::collections::BTreeSet;

use portolan_plan::host::{Change, Facts, Guard, LinkName, Observed, Preparation, Sandbox, Tag, plan};
use portolan_plan::reconciler::{Absence, Plan};

use super::{Engine, State};
use crate::cluster::Known;
use crate::guard_news::Serial;

/// A unit whose changes are being applied.
pub(super) struct Applying {
    /// The sandbox that it belonged to.
    pub(super) sandbox: Option<Sandbox>,
    pub(super) since: Serial,
}

/// What one round of the loop has to do.
#[derive(Debug, Default)]
pub(crate) struct Work {
    pub(crate) changes: Vec<Change>,
    /// Objects to be read live, each with the unit that depends on it.
    pub(crate) confirm: Vec<OwnerOfUnit>,
    /// How many units were planned.
    pub(crate) planned: u64,
}

/// The object that a unit belongs to, as the unit's tags have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnerOfUnit {
    pub(crate) unit: LinkName,
    pub(crate) kind: OwnerKind,
    /// Namespace and name, if they are known.
    pub(crate) name: Option<(String, String)>,
    pub(crate) uid: String,
}

/// What kind of object a unit belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnerKind {
    Pod,
    NetworkAttachment,
}

/// Why a change was not applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// What was observed was behind.
    Outdated,
    /// It was refused, or could not be sent.
    Refused,
}

impl Engine {
    /// Everything is compared again.
    pub(crate) fn compare_all(&self) {
        self.state().compare_all();
        self.changed();
    }

    /// Compares what is dirty, but for units whose changes are being applied. The changes are to be applied and reported with
    /// [`Engine::applied`] and [`Engine::failed`], and then [`Engine::settled`]; [`Engine::round_ended`] ends the round.
    ///
    /// `mtu` is that of subnets that name none.
    pub(crate) fn reconcile(&self, known: &Known, mtu: Option<u16>) -> Work {
        let mut state = self.state();
        let State {
            observed,
            guard_news,
            reconciler,
            ended,
            making,
            applying,
            applying_of,
            held,
            failures,
            ..
        } = &mut *state;
        // Of one that is asked for, the first thing may be what cannot be made.
        failures.retain(|unit, _| observed.has(unit) || known.holders.get(unit).is_some());
        let (world, pods, holders) = (&known.world, known.pods.by_uid(), known.holders.listed());
        let facts = Facts { observed, world, pods, ended, holders, mtu };
        let mut planned = 0;
        let plan_of = |unit: &LinkName| {
            planned += 1;
            if applying.contains_key(unit) {
                held.insert(unit.clone());
                return Plan::Hold { owner: None };
            }
            // Whatever made it dirty: what there is of it is no leftover.
            if making.contains_key(unit) {
                return Plan::Hold { owner: None };
            }
            plan(unit, &facts)
        };
        let round = reconciler.reconcile(plan_of, observed);
        for unit in round.changes.iter().map(Change::unit) {
            if applying.contains_key(unit) {
                continue;
            }
            let sandbox = observed.note(unit).map(|note| note.sandbox.clone());
            if let Some(sandbox) = &sandbox {
                *applying_of.entry(sandbox.clone()).or_default() += 1;
            }
            applying.insert(unit.clone(), Applying { sandbox, since: guard_news.now() });
        }
        let confirm = round.confirm.into_iter().map(|confirm| {
            let (unit, uid) = (confirm.unit, confirm.owners.first().map(ToString::to_string));
            let (kind, name) = owner_of(observed, &unit);
            OwnerOfUnit { unit, kind, name, uid: uid.unwrap_or_default() }
        });
        Work { confirm: confirm.collect(), changes: round.changes, planned }
    }

    /// A change was applied.
    pub(crate) fn applied(&self, change: &Change) {
        let mut state = self.state();
        let unit = change.unit();
        if state.failures.remove(unit).is_some() {
            state.tell(unit);
        }
        state.reconciler.committed([unit.clone()]);
        let guard = match change {
            Change::Guard(_, admits) | Change::Prepare(_, Preparation { guard: Some(admits), .. }) => {
                Guard::Present(*admits)
            }
            Change::RemoveGuard(_) => Guard::Absent,
            // The others are reported by Open vSwitch and the kernel.
            _ => return,
        };
        let State { observed, guard_news, applying, .. } = &mut *state;
        if applying.get(unit).is_some_and(|applying| guard_news.is_newest(unit, applying.since)) {
            observed.set_guard(unit, guard);
        }
    }

    /// A change was not applied, or nobody knows.
    pub(crate) fn failed(&self, unit: &LinkName, failure: Failure, error: String) {
        let mut state = self.state();
        state.failures.insert(unit.clone(), error);
        state.tell(unit);
        match failure {
            Failure::Outdated => state.reconciler.outdated([unit.clone()]),
            Failure::Refused => state.reconciler.refused(unit.clone()),
        }
    }

    /// Why the last change of a unit failed, if it did.
    pub(crate) fn failure(&self, unit: &LinkName) -> Option<String> {
        self.state().failures.get(unit).cloned()
    }

    /// Every change of these units that was handed out was reported.
    pub(crate) fn settled<'a>(&self, units: impl IntoIterator<Item = &'a LinkName>) {
        let mut state = self.state();
        for unit in units {
            state.end_applying(unit);
            if state.held.remove(unit) {
                state.touch(unit);
            }
        }
        drop(state);
        self.changed();
    }

    /// Ends a round. Answers the units to be compared again after a pause.
    pub(crate) fn round_ended(&self) -> BTreeSet<LinkName> {
        let mut state = self.state();
        state.rounds += 1;
        let State { observed, guard_news, making, applying, deleted, .. } = &mut *state;
        guard_news
            .retain(|unit| observed.has(unit) || making.contains_key(unit) || applying.contains_key(unit));
        deleted.retain(|uid| {
            !observed.units_of_pod(uid).is_empty() || observed.has(&LinkName::of_attachment(uid))
        });
        let retries = state.reconciler.take_retries();
        drop(state);
        self.revision.send_modify(|revision| *revision += 1);
        retries
    }

    /// Waits until the loop has made a round.
    pub(crate) async fn next_round(&self) {
        let rounds = self.state().rounds;
        self.changed();
        self.wait_for(|state| (state.rounds > rounds).then_some(())).await;
    }

    /// The pause of a unit is over.
    pub(crate) fn retry(&self, unit: &LinkName) {
        let mut state = self.state();
        state.reconciler.retry(unit.clone());
        state.touch(unit);
        drop(state);
        self.changed();
    }

    /// A live read of a unit's owner was answered.
    pub(crate) fn answered(&self, unit: LinkName, uid: &str, absence: Absence) {
        self.state().reconciler.answered(unit, [uid.into()].into(), absence);
        self.changed();
    }
}

impl State {
    fn end_applying(&mut self, unit: &LinkName) {
        let Some(Applying { sandbox: Some(sandbox), .. }) = self.applying.remove(unit) else { return };
        if let Some(count) = self.applying_of.get_mut(&sandbox) {
            *count -= 1;
            if *count == 0 {
                self.applying_of.remove(&sandbox);
            }
        }
    }
}

/// Whose a unit is, as its port or link says.
fn owner_of(observed: &Observed, unit: &LinkName) -> (OwnerKind, Option<(String, String)>) {
    match observed.tag(unit) {
        // A link may have no room for the name, which its port has.
        Some(Tag::Holder(holder)) => {
            let port = observed.port(unit).map(|port| &port.tag);
            let of_port = port.and_then(|tag| match tag {
                Tag::Holder(holder) => holder.name.clone(),
                Tag::Sandbox(_) => None,
            });
            (OwnerKind::NetworkAttachment, holder.name.clone().or(of_port))
        }
        _ => {
            let pod = observed.port(unit).and_then(|port| port.pod.split_once('/'));
            (OwnerKind::Pod, pod.map(|(namespace, name)| (namespace.to_owned(), name.to_owned())))
        }
    }
}
