//! Changes that are committed together or not at all.

use ovsdb_core::{
    Atom as Value, Clause, Datum, Mutation, Mutator, Operation, SmolStr, Transaction, Until, Uuid,
};

use super::Diff;
use crate::rows::DesiredRow;
use crate::table::{ParentColumn, Table};

/// Changes that are committed together or not at all: those of one unit.
#[derive(Clone, Debug, PartialEq)]
pub struct Atom {
    unit: SmolStr,
    changes: Changes,
}

/// Consecutive atoms as one transaction.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// The units that it changes, in the order of the atoms.
    pub units: Vec<SmolStr>,
    /// The operations.
    pub transaction: Transaction,
}

/// Changes, sorted by kind.
#[derive(Clone, Debug, Default, PartialEq)]
struct Changes {
    required: Vec<(&'static str, Uuid)>,
    inserts: Vec<Operation>,
    updates: Vec<Operation>,
    references: Vec<Reference>,
    deletes: Vec<Operation>,
}

/// A reference that a row gets or loses. They sort by row, then by column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Reference {
    table: &'static str,
    row: Uuid,
    column: &'static str,
    change: ReferenceChange,
    to: Uuid,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ReferenceChange {
    Lost,
    Gained,
}

impl Diff {
    /// Transactions of about `limit` changed rows each. A larger atom is a transaction of its own.
    pub fn into_batches(self, limit: usize) -> Vec<Batch> {
        let mut batches = Vec::new();
        let mut units = Vec::new();
        let mut changes = Changes::default();
        for atom in self.atoms {
            if !units.is_empty() && changes.len() + atom.changes.len() > limit {
                batches.push(Batch::new(&mut units, &mut changes));
            }
            units.push(atom.unit);
            changes.append(atom.changes);
        }
        if !units.is_empty() {
            batches.push(Batch::new(&mut units, &mut changes));
        }
        batches
    }
}

impl Batch {
    fn new(units: &mut Vec<SmolStr>, changes: &mut Changes) -> Self {
        Batch { units: std::mem::take(units), transaction: std::mem::take(changes).into_transaction() }
    }
}

impl Atom {
    pub(super) fn new(unit: SmolStr) -> Self {
        Atom { unit, changes: Changes::default() }
    }

    /// The unit that it changes.
    pub fn unit(&self) -> &SmolStr {
        &self.unit
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.changes.len() == 0
    }

    /// The atom as a transaction of its own.
    pub fn transaction(&self) -> Transaction {
        self.changes.clone().into_transaction()
    }

    /// Adds a row, with the reference that keeps it alive.
    pub(super) fn insert(&mut self, row: &DesiredRow) {
        let columns = row.columns().filter(|(_, value)| !value.is_default());
        let columns = columns.map(|(column, value)| (SmolStr::new_static(column), value.clone())).collect();
        self.changes.inserts.push(Operation::Insert {
            table: SmolStr::new_static(row.table.name),
            uuid: Some(row.uuid),
            uuid_name: None,
            row: columns,
        });
        if let (Some(held_by), Some(parent)) = (row.table.parent, row.parent) {
            self.hold(held_by, parent, row.uuid);
        }
    }

    /// Changes columns of a row.
    pub(super) fn update(
        &mut self,
        table: &'static str,
        uuid: Uuid,
        assignments: Vec<(SmolStr, Datum)>,
        mutations: Vec<Mutation>,
    ) {
        let (table, condition) = (SmolStr::new_static(table), vec![Clause::uuid(uuid)]);
        if !assignments.is_empty() {
            let (table, condition) = (table.clone(), condition.clone());
            self.changes.updates.push(Operation::Update { table, condition, row: assignments });
        }
        if !mutations.is_empty() {
            self.changes.updates.push(Operation::Mutate { table, condition, mutations });
        }
    }

    /// `parent` refers to `child`.
    pub(super) fn hold(&mut self, held_by: ParentColumn, parent: Uuid, child: Uuid) {
        self.refer(held_by, parent, ReferenceChange::Gained, child);
    }

    /// `parent` does not refer to `child` any more; a row that nothing refers to is gone.
    pub(super) fn release(&mut self, held_by: ParentColumn, parent: Uuid, child: Uuid) {
        self.refer(held_by, parent, ReferenceChange::Lost, child);
    }

    /// Nothing happens unless the row exists.
    pub(super) fn require(&mut self, table: &'static str, uuid: Uuid) {
        self.changes.required.push((table, uuid));
    }

    /// Removes a row of a root table.
    pub(super) fn delete(&mut self, table: &Table, uuid: Uuid) {
        let table = SmolStr::new_static(table.name);
        self.changes.deletes.push(Operation::Delete { table, condition: vec![Clause::uuid(uuid)] });
    }

    fn refer(&mut self, held_by: ParentColumn, row: Uuid, change: ReferenceChange, to: Uuid) {
        let ParentColumn { table, column } = held_by;
        self.changes.references.push(Reference { table, row, column, change, to });
    }
}

impl Changes {
    /// How many rows and references change.
    fn len(&self) -> usize {
        self.inserts.len() + self.updates.len() + self.references.len() + self.deletes.len()
    }

    /// Adds the changes of a later atom.
    fn append(&mut self, later: Changes) {
        self.required.extend(later.required);
        self.inserts.extend(later.inserts);
        self.updates.extend(later.updates);
        self.references.extend(later.references);
        self.deletes.extend(later.deletes);
    }

    fn into_transaction(mut self) -> Transaction {
        let mut transaction = Transaction::new();
        self.required.sort_unstable();
        self.required.dedup();
        for (table, uuid) in self.required {
            transaction.push(require(table, uuid));
        }
        for insert in self.inserts {
            transaction.push(insert);
        }
        // A row that several atoms give references to is changed once.
        self.references.sort_unstable();
        let by_row = self.references.chunk_by(|a, b| (a.table, a.row) == (b.table, b.row));
        // Each is about one row by its UUID: another count says that the row is not there.
        for operation in self.updates.into_iter().chain(by_row.map(change_references)).chain(self.deletes) {
            transaction.push_counted(operation).expect(1);
        }
        transaction
    }
}

/// The operation for all the references that one row gets and loses.
fn change_references(references: &[Reference]) -> Operation {
    let Reference { table, row, .. } = references[0];
    let by_column = references.chunk_by(|a, b| (a.column, a.change) == (b.column, b.change));
    let mutation = |references: &[Reference]| {
        let mutator = match references[0].change {
            ReferenceChange::Lost => Mutator::Delete,
            ReferenceChange::Gained => Mutator::Insert,
        };
        let uuids = references.iter().map(|reference| Value::Uuid(reference.to));
        Mutation::elements(SmolStr::new_static(references[0].column), mutator, uuids)
    };
    Operation::Mutate {
        table: SmolStr::new_static(table),
        condition: vec![Clause::uuid(row)],
        mutations: by_column.map(mutation).collect(),
    }
}

/// Aborts the transaction unless the row exists.
fn require(table: &'static str, uuid: Uuid) -> Operation {
    let column = SmolStr::new_static("_uuid");
    Operation::Wait {
        table: SmolStr::new_static(table),
        condition: vec![Clause::uuid(uuid)],
        columns: vec![column.clone()],
        until: Until::Equal,
        rows: vec![vec![(column, Datum::Atom(Value::Uuid(uuid)))]],
        timeout_ms: Some(0),
    }
}
