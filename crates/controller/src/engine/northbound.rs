//! The northbound database: which units are to be compared with it, and what came of writing them.

use std::collections::{BTreeMap, BTreeSet};

use kube::ResourceExt as _;
use ovn_schema::nb::LogicalSwitchPort;
use ovsdb::change::Change as RowChange;
use ovsdb::{Cache, TypedRow as _};
use portolan_model::{Unit, UnitState};
use portolan_plan::northbound::DATABASE;
use portolan_plan::{Absence, Batch, Confirm, Plan, Urgency, batches, plan};

use super::readiness::is_watched;
use super::{Action, Change, Engine};

/// Why something changed in the World.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Evidence {
    /// The objects with these UIDs were seen, or were reported as deleted. What they had and is absent by that is absent.
    Event(BTreeSet<String>),
    /// A list lacks an object, or an object cannot be read. Another server may have it, or this one in a moment: what is absent by
    /// that is to be confirmed by a live read.
    List,
}

impl Evidence {
    pub(super) fn of<K: kube::Resource>(change: &Change<K>) -> Self {
        match change {
            Change::Applied(object) => Evidence::Event(object.uid().into_iter().collect()),
            Change::Deleted(object) => Evidence::Event(object.metadata.uid.clone().into_iter().collect()),
            Change::Unreadable(_) | Change::Listed(_) => Evidence::List,
        }
    }
}

impl Engine {
    /// Marks units that a change of the World made dirty.
    pub(super) fn note_units(&mut self, units: BTreeSet<Unit>, evidence: &Evidence) {
        for unit in units {
            // All units are compared before the first plan of whoever leads.
            if self.stands_by() && !is_watched(&unit) {
                continue;
            }
            let state = self.world.state(&unit);
            self.rows_are_to_change(&unit, state);
            match (state, evidence) {
                // An attachment has the UID of its holder in its name. A VPC or subnet may have been made again under its name, which
                // another writer knows already.
                (UnitState::Absent, Evidence::Event(_)) if matches!(unit, Unit::Attachment(_)) => {
                    self.northbound.removed(unit);
                }
                (UnitState::Absent, Evidence::Event(owners)) => {
                    self.northbound.removed_of(unit, owners.iter().map(Into::into));
                }
                (UnitState::Absent, Evidence::List) => self.northbound.changed(unit, Urgency::Deferrable),
                (UnitState::Live | UnitState::Held, _) => self.northbound.changed(unit, Urgency::Immediate),
            }
        }
    }

    /// Compares as after a start with a great deal: for tests, which have little.
    #[doc(hidden)]
    pub fn compare_like_much(&mut self) {
        self.northbound.always_sort_out();
    }

    /// How urgent it is to call [`Engine::plan`]. None if nothing is to be compared.
    pub fn northbound_urgency(&self) -> Option<Urgency> {
        self.northbound.urgency().filter(|_| self.is_synced() && !self.stands_by())
    }

    /// The transactions that bring about what is to be planned, in their order; and locks whose ports are gone are deleted.
    ///
    /// Whoever sends them reports on each batch with [`Engine::committed`], [`Engine::outdated`], [`Engine::unsent`] or
    /// [`Engine::refused`], and calls this again only when the cache is in step with all of them.
    pub fn plan(&mut self, cache: &Cache, limit: usize) -> Vec<Batch> {
        if !self.is_synced() || self.stands_by() {
            return Vec::new();
        }
        let (world, settings) = (&self.world, &self.plan_settings);
        let (mut compared, blocked) = (Vec::new(), &mut self.blocked);
        let plan = |unit: &Unit| {
            let planned = plan(unit, world, settings);
            blocked.planned(unit, matches!(planned, Plan::Hold { .. }));
            if is_watched(unit) && matches!(planned, Plan::Desired(_)) {
                compared.push(unit.clone());
            }
            planned
        };
        let round = self.northbound.reconcile(plan, cache);
        self.rows_were_compared(compared, &round);
        for Confirm { unit, owners } in round.confirm {
            let owners = owners.iter().map(ToString::to_string).collect();
            let pods = pods_of(&unit, cache);
            self.actions.push(Action::ConfirmAbsence { unit, owners, pods });
        }
        for waiting in round.waiting {
            tracing::debug!(unit = %waiting.unit, obstacle = %waiting.obstacle, "the unit waits");
            self.blocked.waits(waiting.unit, waiting.obstacle.to_string());
        }
        let batches = batches(round.changes, limit);
        let changing = batches.iter().flat_map(units_of).collect();
        self.torn = torn(&batches);
        self.unblock_what_came_about(&changing);
        self.delete_released(cache, &changing);
        batches
    }

    /// Nothing is being written, and the cache is in step: locks whose ports are gone are deleted.
    pub fn settled(&mut self, cache: &Cache) {
        self.delete_released(cache, &BTreeSet::new());
    }

    /// A live read of these owners answered an [`Action::ConfirmAbsence`].
    pub fn unit_absence(&mut self, unit: Unit, owners: &BTreeSet<String>, absence: Absence) {
        self.northbound.answered(unit, owners.iter().map(Into::into).collect(), absence);
    }

    /// The time has come to try a unit again.
    pub(super) fn retry_unit(&mut self, unit: Unit) {
        self.northbound.retry(unit);
    }

    /// These batches were committed.
    pub fn committed(&mut self, batch: &Batch) {
        let units = self.completed(batch);
        for unit in &units {
            self.rows_were_committed(unit);
        }
        self.northbound.committed(units.iter().cloned());
        self.unblock(units);
    }

    /// The units that are written whole by now. The others may have atoms in batches that fail.
    fn completed(&mut self, batch: &Batch) -> BTreeSet<Unit> {
        let mut units = units_of(batch);
        if !self.torn.is_empty() {
            for unit in batch.units().filter_map(|unit| unit.parse::<Unit>().ok()) {
                if let Some(left) = self.torn.get_mut(&unit) {
                    *left = left.saturating_sub(1);
                }
            }
            units.retain(|unit| self.torn.get(unit).is_none_or(|left| *left == 0));
        }
        units
    }

    /// The copy of the database was behind when this batch was made: compare its units again.
    pub fn outdated(&mut self, batch: &Batch) {
        self.northbound.outdated(units_of(batch));
    }

    /// This batch was not sent: compare its units again.
    pub fn unsent(&mut self, batch: &Batch) {
        self.northbound.unsent(units_of(batch));
    }

    /// Rows changed: the units they belong to are compared again, whoever changed them, and so are units that wait for
    /// one of these rows.
    pub fn rows_changed(&mut self, changes: &[RowChange], cache: &Cache) {
        let touched = self.northbound.target().database().touched(changes, cache);
        let units = touched.units.iter().filter_map(|unit| unit.parse().ok());
        self.northbound.observed(units, touched.rows);
    }

    /// Everything is compared again: what the World has, and what the database has.
    pub fn compare_all(&mut self, cache: &Cache) {
        for unit in self.world.units() {
            self.northbound.changed(unit, Urgency::Immediate);
        }
        let database = self.northbound.target().database();
        for unit in database.units_in(cache).filter_map(|unit| unit.parse().ok()) {
            self.northbound.changed(unit, Urgency::Deferrable);
        }
    }
}

/// The UIDs of the pods whose interfaces may bind the ports of a unit.
fn pods_of(unit: &Unit, cache: &Cache) -> BTreeSet<String> {
    if !matches!(unit, Unit::Attachment(_)) {
        return BTreeSet::new();
    }
    let rows = DATABASE.rows_of(&unit.to_string(), cache).into_iter();
    let ports = rows.filter(|row| row.table() == LogicalSwitchPort::TABLE);
    let ports = ports.filter_map(|row| LogicalSwitchPort::decode(row).ok());
    ports.filter_map(|mut port| port.options.remove("iface-id-ver")).collect()
}

/// The units with several atoms in these batches, each with how many.
fn torn(batches: &[Batch]) -> BTreeMap<Unit, usize> {
    let mut counts = BTreeMap::<&str, usize>::new();
    for unit in batches.iter().flat_map(Batch::units) {
        *counts.entry(unit.as_str()).or_default() += 1;
    }
    let several = counts.into_iter().filter(|(_, count)| *count > 1);
    several.filter_map(|(unit, count)| Some((unit.parse().ok()?, count))).collect()
}

/// The units of a batch, each once.
pub(super) fn units_of(batch: &Batch) -> BTreeSet<Unit> {
    batch.units().filter_map(|unit| unit.parse().ok()).collect()
}
