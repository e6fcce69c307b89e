//! The bookkeeping of one target: which units are dirty, what they wait for, and which may be removed.
//!
//! A target is a place that has to match a plan: OVN's northbound database, a node's Open vSwitch, a node's links and
//! routes. Everything that happens to a target goes the same way, at start-up, after a change and after a failure:
//!
//! ```text
//!  changed, removed ──▶ dirty ──reconcile──▶ Round { changes, confirm, waiting, absent }
//!       ▲   ▲                                  │         │        └─▶ registered under a key; woken by `observed`
//!       │   └── retry, after a pause ◀─────────┤         └─▶ live read of the owner, answered by `answered`
//!       └── observed ◀── target changed ◀──────┘ committed, outdated, refused
//! ```
//!
//! **Removal needs evidence.** That a unit is missing from the desired state proves nothing: a list may have been empty
//! because a server was starting, and another writer may be ahead of our watch. What is observed of such a unit goes only
//! after an explicit event removed it ([`Reconciler::removed`]) or after a live read found none of its owners
//! ([`Reconciler::answered`]).
//!
//! **Failures** do not spin. A unit whose change was outdated is compared again at once; if that fails too, it goes to
//! [`Reconciler::take_retries`], and the caller brings it back with [`Reconciler::retry`] after a pause of its choice.
//!
//! There is no IO, no clock and no randomness here. The cost of every call follows the number of units it names.

mod waiting;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Debug;
use std::hash::Hash;

use ovsdb_core::SmolStr;

use self::waiting::WaitIndex;

/// If more units than this are dirty, as after a start, those that have what they should are sorted out one by one, as if they were not
/// dirty: the plans of all of them are more than should be in memory at once.
const MUCH: usize = 1_000;

/// A place that has to match a plan.
pub trait Target {
    /// The smallest thing that is planned alone.
    type Unit: Clone + Ord + Hash + Debug;
    /// What a unit should have.
    type Desired;
    /// A copy of what the target has.
    type Observed: ?Sized;
    /// A change of one unit that is applied whole or not at all.
    type Change;
    /// What a unit may wait for, such as a row.
    type Key: Clone + Eq + Hash + Debug;
    /// Why a unit cannot be brought about now.
    type Obstacle;

    /// The owners named by what is observed of a unit. Empty if the target has nothing of it.
    fn owners(&self, unit: &Self::Unit, observed: &Self::Observed) -> BTreeSet<SmolStr>;

    /// What has to change for the desired units to have exactly what they should, and for the stale ones to have nothing.
    /// No unit is in both.
    fn compare(
        &self,
        desired: Vec<(Self::Unit, Self::Desired)>,
        stale: Vec<Self::Unit>,
        observed: &Self::Observed,
    ) -> Comparison<Self>;

    /// Whether a unit has exactly what it should, without regard to others.
    fn is_met(&self, _unit: &Self::Unit, _desired: &Self::Desired, _observed: &Self::Observed) -> bool {
        false
    }

    /// What is observed of a unit that others may wait for: it may give way once it is compared, and then they can take its place.
    fn keys_of(&self, _unit: &Self::Unit, _observed: &Self::Observed) -> Vec<Self::Key> {
        Vec::new()
    }

    /// The unit of a change.
    fn unit_of(&self, change: &Self::Change) -> Option<Self::Unit>;
}

/// What a comparison found.
pub struct Comparison<T: Target + ?Sized> {
    /// The changes, in the order in which they must be applied.
    pub changes: Vec<T::Change>,
    /// The units that cannot be brought about now.
    pub waiting: Vec<Waiting<T>>,
}

/// A unit that cannot be brought about now. It is compared again when `until` changes in the target.
pub struct Waiting<T: Target + ?Sized> {
    /// The unit.
    pub unit: T::Unit,
    /// What it waits for.
    pub until: T::Key,
    /// Why.
    pub obstacle: T::Obstacle,
}

/// What is to be done about a unit.
#[derive(Clone, Debug, PartialEq)]
pub enum Plan<D> {
    /// It should have exactly this.
    Desired(D),
    /// What it has stays as it is; except that what it has of an `owner` other than this one goes, if one is named: its object
    /// was made again under the same name, and nothing of the former one is protected by the new one.
    Hold {
        /// The UID of the object that the unit comes from now, if that is known.
        owner: Option<SmolStr>,
    },
    /// It should have nothing.
    Remove,
}

/// How soon a change matters to someone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// Nobody waits for it, so it may wait for others to go with it: a removal.
    Deferrable,
    /// Somebody may wait for it.
    Immediate,
}

/// What a live read of a unit's owners found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absence {
    /// None of them is there, or none asks for the unit any more.
    Confirmed,
    /// At least one is there.
    Refuted,
    /// It could not be found out.
    Unknown,
}

/// A unit that is missing from the desired state, and whose owners are to be read live. Answer with
/// [`Reconciler::answered`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confirm<U> {
    /// The unit.
    pub unit: U,
    /// Its owners, as the target names them; usually one.
    pub owners: BTreeSet<SmolStr>,
}

/// What one call of [`Reconciler::reconcile`] came to.
pub struct Round<T: Target> {
    /// The changes, in the order in which they must be applied. Report on each with [`Reconciler::committed`],
    /// [`Reconciler::outdated`] or [`Reconciler::refused`].
    pub changes: Vec<T::Change>,
    /// The live reads to make.
    pub confirm: Vec<Confirm<T::Unit>>,
    /// The units that wait. Nothing is to be done about them: they are registered.
    pub waiting: Vec<Waiting<T>>,
    /// The units that should have nothing, and of which the target has nothing.
    pub absent: Vec<T::Unit>,
}

/// Of which owners it is proven that they are gone.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Gone {
    /// The unit has one owner in all of its life.
    Any,
    /// These. A unit of the same name may have another owner by now.
    Owners(BTreeSet<SmolStr>),
}

/// Which units of a target are dirty, waiting or stale.
#[derive(Debug)]
pub struct Reconciler<T: Target> {
    target: T,
    dirty: BTreeSet<T::Unit>,
    /// The highest urgency among what is dirty.
    urgency: Option<Urgency>,
    waiting: WaitIndex<T::Unit, T::Key>,
    /// Units whose absence is proven: of these owners, or of whichever.
    removable: BTreeMap<T::Unit, Gone>,
    /// Units whose owners are being read, or were found a short while ago; and those owners.
    confirming: BTreeMap<T::Unit, BTreeSet<SmolStr>>,
    /// How often in a row a unit was not written.
    failures: HashMap<T::Unit, u32>,
    retries: BTreeSet<T::Unit>,
    /// See [`MUCH`].
    much: usize,
}

impl<T: Target> Reconciler<T> {
    /// A reconciler to which nothing has happened yet.
    pub fn new(target: T) -> Self {
        Reconciler {
            target,
            dirty: BTreeSet::new(),
            urgency: None,
            waiting: WaitIndex::default(),
            removable: BTreeMap::new(),
            confirming: BTreeMap::new(),
            failures: HashMap::new(),
            retries: BTreeSet::new(),
            much: MUCH,
        }
    }

    /// Sorts out what is as it should be however little is dirty: for tests, which have little.
    #[doc(hidden)]
    pub fn always_sort_out(&mut self) {
        self.much = 0;
    }

    /// The target.
    pub fn target(&self) -> &T {
        &self.target
    }

    /// A unit may have changed: plan and compare it again. If it should have nothing, that needs a live read.
    pub fn changed(&mut self, unit: T::Unit, urgency: Urgency) {
        self.waiting.remove(&unit);
        self.dirty.insert(unit);
        self.urgency = self.urgency.max(Some(urgency));
    }

    /// An explicit event, such as the deletion of its owner, removed a unit. What the target has of it goes without a
    /// live read, unless the unit is desired again by then.
    pub fn removed(&mut self, unit: T::Unit) {
        self.removable.insert(unit.clone(), Gone::Any);
        self.changed(unit, Urgency::Deferrable);
    }

    /// Like [`Reconciler::removed`], for a unit whose name may come again with another owner: what the target has of owners
    /// other than these is not covered. Another writer may be ahead of the event.
    pub fn removed_of(&mut self, unit: T::Unit, owners: impl IntoIterator<Item = SmolStr>) {
        match self.removable.entry(unit.clone()).or_insert_with(|| Gone::Owners(BTreeSet::new())) {
            Gone::Any => {}
            Gone::Owners(gone) => gone.extend(owners),
        }
        self.changed(unit, Urgency::Deferrable);
    }

    /// The target changed: units whose parts changed are compared again, and so is whatever waits for one of `keys`.
    pub fn observed(
        &mut self,
        units: impl IntoIterator<Item = T::Unit>,
        keys: impl IntoIterator<Item = T::Key>,
    ) {
        for key in keys {
            for unit in self.waiting.wake(&key) {
                self.changed(unit, Urgency::Immediate);
            }
        }
        for unit in units {
            // What is written here is usually the echo of what we wrote ourselves.
            self.changed(unit, Urgency::Deferrable);
        }
    }

    /// A live read of these owners answered a [`Confirm`].
    pub fn answered(&mut self, unit: T::Unit, owners: BTreeSet<SmolStr>, absence: Absence) {
        if self.confirming.get(&unit) != Some(&owners) {
            // Others are asked about by now.
            return;
        }
        match absence {
            Absence::Confirmed => {
                self.confirming.remove(&unit);
                self.removed_of(unit, owners);
            }
            // It is not asked again before the pause is over.
            Absence::Refuted | Absence::Unknown => {
                self.retries.insert(unit);
            }
        }
    }

    /// The pause of a unit from [`Reconciler::take_retries`] is over: plan and compare it again.
    pub fn retry(&mut self, unit: T::Unit) {
        self.confirming.remove(&unit);
        self.changed(unit, Urgency::Immediate);
    }

    /// How urgent it is to call [`Reconciler::reconcile`]. None if nothing is dirty.
    pub fn urgency(&self) -> Option<Urgency> {
        self.urgency
    }

    /// Whether a unit is still to be compared, waits, or failed and is to be tried again: what is observed of it need not be
    /// what it should have.
    pub fn is_pending(&self, unit: &T::Unit) -> bool {
        self.dirty.contains(unit) || self.waiting.contains(unit) || self.failures.contains_key(unit)
    }

    /// How many units are to be compared.
    pub fn dirty(&self) -> usize {
        self.dirty.len()
    }

    /// How many units wait for something in the target.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The units that wait for something in the target, each with that, in no order.
    pub fn waiting_units(&self) -> impl Iterator<Item = (&T::Unit, &T::Key)> {
        self.waiting.iter()
    }

    /// Whoever waits for something that a dirty unit has is compared together with it. Each by itself, units that are to take each
    /// other's places would wait for each other for ever.
    fn take_in_who_waits(&mut self, observed: &T::Observed) {
        if self.waiting.len() == 0 {
            return;
        }
        let mut looked_at: Vec<T::Unit> = self.dirty.iter().cloned().collect();
        while let Some(unit) = looked_at.pop()
            && self.waiting.len() > 0
        {
            for key in self.target.keys_of(&unit, observed) {
                let woken = self.waiting.wake(&key);
                self.dirty.extend(woken.iter().cloned());
                looked_at.extend(woken);
            }
        }
    }

    /// Plans every dirty unit and compares it with what is observed. Nothing is dirty afterwards.
    ///
    /// Call it only when `observed` includes the outcome of every change that was handed out before.
    pub fn reconcile(
        &mut self,
        mut plan: impl FnMut(&T::Unit) -> Plan<T::Desired>,
        observed: &T::Observed,
    ) -> Round<T> {
        let (mut desired, mut stale) = (Vec::new(), Vec::new());
        let (mut confirm, mut absent) = (Vec::new(), Vec::new());
        self.take_in_who_waits(observed);
        let dirty = std::mem::take(&mut self.dirty);
        self.urgency = None;
        let is_much = dirty.len() > self.much;
        for unit in &dirty {
            let owners = match plan(unit) {
                Plan::Desired(wanted) => {
                    self.removable.remove(unit);
                    if !(is_much && self.target.is_met(unit, &wanted, observed)) {
                        desired.push((unit.clone(), wanted));
                    }
                    continue;
                }
                Plan::Hold { owner } => {
                    let owners = self.target.owners(unit, observed);
                    let former = owner.is_some_and(|owner| !owners.is_empty() && !owners.contains(&owner));
                    if !former {
                        self.removable.remove(unit);
                        continue;
                    }
                    owners
                }
                Plan::Remove => self.target.owners(unit, observed),
            };
            if owners.is_empty() {
                self.removable.remove(unit);
                absent.push(unit.clone());
            } else if self.is_removable(unit, &owners) {
                stale.push(unit.clone());
            } else if !self.confirming.contains_key(unit) {
                self.confirming.insert(unit.clone(), owners.clone());
                confirm.push(Confirm { unit: unit.clone(), owners });
            }
        }
        let Comparison { changes, waiting } = self.target.compare(desired, stale, observed);
        for waiting in &waiting {
            self.waiting.insert(waiting.unit.clone(), waiting.until.clone());
        }
        self.forget_failures(&dirty, &changes);
        Round { changes, confirm, waiting, absent }
    }

    fn is_removable(&self, unit: &T::Unit, owners: &BTreeSet<SmolStr>) -> bool {
        match self.removable.get(unit) {
            None => false,
            Some(Gone::Any) => true,
            Some(Gone::Owners(gone)) => owners.is_subset(gone),
        }
    }

    /// What needs no change has not failed.
    fn forget_failures(&mut self, compared: &BTreeSet<T::Unit>, changes: &[T::Change]) {
        if self.failures.is_empty() {
            return;
        }
        let changing: BTreeSet<_> = changes.iter().filter_map(|change| self.target.unit_of(change)).collect();
        for unit in compared.difference(&changing) {
            self.failures.remove(unit);
        }
    }

    /// The changes of these units were applied.
    pub fn committed(&mut self, units: impl IntoIterator<Item = T::Unit>) {
        for unit in units {
            self.failures.remove(&unit);
        }
    }

    /// The changes of these units were not applied, or nobody knows, because `observed` was behind: they are compared
    /// again. At once the first time, after a pause if that happens again.
    pub fn outdated(&mut self, units: impl IntoIterator<Item = T::Unit>) {
        for unit in units {
            let failures = self.failures.entry(unit.clone()).or_default();
            *failures += 1;
            if *failures == 1 {
                self.changed(unit, Urgency::Immediate);
            } else {
                self.retries.insert(unit);
            }
        }
    }

    /// The changes of these units were not sent: they are compared again at once.
    pub fn unsent(&mut self, units: impl IntoIterator<Item = T::Unit>) {
        for unit in units {
            self.changed(unit, Urgency::Immediate);
        }
    }

    /// The target refuses the change of this unit: it is compared again after a pause, or when it changes.
    pub fn refused(&mut self, unit: T::Unit) {
        *self.failures.entry(unit.clone()).or_default() += 1;
        self.retries.insert(unit);
    }

    /// The units that failed since this was called last. Give each to [`Reconciler::retry`] after a pause that grows as
    /// long as it goes on failing.
    pub fn take_retries(&mut self) -> BTreeSet<T::Unit> {
        std::mem::take(&mut self.retries)
    }
}

#[cfg(test)]
mod tests;
