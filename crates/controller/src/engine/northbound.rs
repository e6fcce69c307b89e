//! Units: which are to be planned, what their rows should be, and which rows are no one's any more.

use ovsdb::change::Change;
use ovsdb::{Cache, SmolStr};
use portolan_model::Unit;
use portolan_plan::{Batch, Plan, Rows, diff, plan, tag};

use super::{Action, Engine, Retry};

impl Engine {
    /// The transactions that bring about what is to be planned, in their order; and locks whose ports are gone are deleted.
    ///
    /// Whoever sends them answers with [`Engine::not_written`] about what was not committed, once the cache is in step.
    /// About what was committed there is nothing to say: the cache shows it.
    pub fn plan(&mut self, cache: &Cache, limit: usize) -> Vec<Batch> {
        if !self.is_synced() {
            return Vec::new();
        }
        self.units.append(&mut self.waiting);
        let (mut wanted, mut stale): (Vec<Rows>, Vec<SmolStr>) = (Vec::new(), Vec::new());
        for unit in std::mem::take(&mut self.units) {
            match plan(&unit, &self.world, &self.plan_settings) {
                Plan::Rows(rows) => {
                    self.gone.remove(&unit);
                    self.held.insert(unit);
                    wanted.push(rows);
                }
                Plan::Hold => {}
                Plan::Remove(_) if owner_in(cache, &unit).is_none() => {
                    self.held.remove(&unit);
                    self.gone.remove(&unit);
                }
                Plan::Remove(text) if self.held.contains(&unit) || self.gone.contains(&unit) => {
                    stale.push(text);
                }
                Plan::Remove(_) => self.ask_for_owner(unit, cache),
            }
        }
        let difference = diff(&wanted, &stale, cache);
        self.waiting = difference.waiting.iter().filter_map(|waiting| waiting.unit.parse().ok()).collect();
        for waiting in &difference.waiting {
            tracing::debug!(unit = %waiting.unit, obstacle = %waiting.obstacle, "waits");
        }
        let batches = difference.into_batches(limit);
        if batches.is_empty() {
            self.delete_released(cache);
        }
        batches
    }

    /// Another writer may be ahead of our watch: what this World never held goes only once its owner is known to be gone.
    fn ask_for_owner(&mut self, unit: Unit, cache: &Cache) {
        let Some(owner) = owner_in(cache, &unit) else { return };
        if self.asked.insert(unit.clone()) {
            self.actions.push(Action::ConfirmOwner { unit, owner });
        }
    }

    /// A live read answered whether the owner of a unit is gone.
    pub fn owner_gone(&mut self, unit: &Unit, gone: bool) {
        self.asked.remove(unit);
        if gone {
            self.gone.insert(unit.clone());
            self.units.insert(unit.clone());
        } else {
            self.retries.insert(Retry::Unit(unit.clone()));
        }
    }

    /// These units were not written, or no one knows: compare them again.
    pub fn not_written(&mut self, units: impl IntoIterator<Item = SmolStr>) {
        self.units.extend(units.into_iter().filter_map(|unit| unit.parse().ok()));
    }

    /// These units cannot be written as they are: compare them again after a while.
    pub fn refused(&mut self, units: impl IntoIterator<Item = SmolStr>) {
        let units = units.into_iter().filter_map(|unit| unit.parse().ok());
        self.retries.extend(units.map(Retry::Unit));
    }

    /// Rows changed: the units they belong to are compared again, whoever changed them.
    pub fn rows_changed(&mut self, changes: &[Change]) {
        for row in changes.iter().flat_map(|change| [&change.old, &change.new]).flatten() {
            self.units.extend(tag::unit_of(row).and_then(|unit| unit.parse().ok()));
        }
    }

    /// Everything is compared again: what the World has, and what the database has.
    pub fn compare_all(&mut self, cache: &Cache) {
        let units: Vec<Unit> = self.world.units().collect();
        self.units.extend(units);
        let rows = cache.tables().iter().flat_map(ovsdb::Table::iter);
        self.units.extend(rows.filter_map(|row| tag::unit_of(row)?.parse().ok()));
    }
}

/// The owner that a unit's rows name.
fn owner_in(cache: &Cache, unit: &Unit) -> Option<String> {
    let tag = unit.to_string();
    let rows = cache.tables().iter().flat_map(|table| {
        let key = ovsdb::Atom::String(tag.as_str().into());
        table.find(tag::BY_UNIT, &key).cloned().collect::<Vec<_>>()
    });
    rows.filter_map(|row| tag::owner_of(&row).map(ToString::to_string)).next()
}
