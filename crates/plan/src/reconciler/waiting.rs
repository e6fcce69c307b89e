//! Who waits for what. Lookups by hash: the cost does not depend on how many wait.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

/// Units that wait, each for one key.
#[derive(Debug)]
pub(super) struct WaitIndex<U, K> {
    by_key: HashMap<K, HashSet<U>>,
    by_unit: HashMap<U, K>,
}

impl<U, K> Default for WaitIndex<U, K> {
    fn default() -> Self {
        WaitIndex { by_key: HashMap::new(), by_unit: HashMap::new() }
    }
}

impl<U: Clone + Eq + Hash, K: Clone + Eq + Hash> WaitIndex<U, K> {
    /// `unit` waits for `key`, and for nothing else any more.
    pub(super) fn insert(&mut self, unit: U, key: K) {
        self.remove(&unit);
        self.by_key.entry(key.clone()).or_default().insert(unit.clone());
        self.by_unit.insert(unit, key);
    }

    /// `unit` waits no more.
    pub(super) fn remove(&mut self, unit: &U) {
        let Some(key) = self.by_unit.remove(unit) else { return };
        if let Some(units) = self.by_key.get_mut(&key) {
            units.remove(unit);
            if units.is_empty() {
                self.by_key.remove(&key);
            }
        }
    }

    /// The units that waited for `key`. They wait no more.
    pub(super) fn wake(&mut self, key: &K) -> Vec<U> {
        let units: Vec<U> = self.by_key.remove(key).into_iter().flatten().collect();
        for unit in &units {
            self.by_unit.remove(unit);
        }
        units
    }

    pub(super) fn contains(&self, unit: &U) -> bool {
        self.by_unit.contains_key(unit)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&U, &K)> {
        self.by_unit.iter()
    }

    pub(super) fn len(&self) -> usize {
        self.by_unit.len()
    }
}
