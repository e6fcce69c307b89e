//! What changed in a cache.

use std::collections::HashMap;
use std::sync::Arc;

use smol_str::SmolStr;
use uuid::Uuid;

use crate::row::Row;

/// A row that came, went or changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The row before; none if it came.
    pub old: Option<Arc<Row>>,
    /// The row after; none if it went.
    pub new: Option<Arc<Row>>,
}

/// The changes of one transaction, or of several when the consumer was slow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// The cache's revision after these changes.
    pub revision: u64,
    /// The changes, at most one per row.
    pub changes: Vec<Change>,
}

impl Change {
    /// The row, in its newest version.
    pub fn row(&self) -> &Arc<Row> {
        self.new.as_ref().or(self.old.as_ref()).expect("invariant: a change has an old or a new row")
    }

    /// The row's table.
    pub fn table(&self) -> &SmolStr {
        self.row().table()
    }

    /// The row's UUID.
    pub fn uuid(&self) -> Uuid {
        self.row().uuid()
    }
}

/// Folds batches into one that says the same in sum, so that a consumer that falls behind costs memory for the rows
/// that changed and not for the number of changes.
#[derive(Debug, Default)]
pub struct Coalescer {
    revision: u64,
    changes: HashMap<(SmolStr, Uuid), Change>,
}

impl Coalescer {
    /// Adds a later batch.
    pub fn add(&mut self, batch: &Batch) {
        self.revision = batch.revision;
        for change in &batch.changes {
            let key = (change.table().clone(), change.uuid());
            let old = match self.changes.remove(&key) {
                Some(earlier) => earlier.old,
                None => change.old.clone(),
            };
            if old != change.new {
                self.changes.insert(key, Change { old, new: change.new.clone() });
            }
        }
    }

    /// The sum of what was added.
    pub fn into_batch(self) -> Batch {
        Batch { revision: self.revision, changes: self.changes.into_values().collect() }
    }
}
