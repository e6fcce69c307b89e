//! Changes that are committed together or not at all.

use std::collections::HashMap;

use ovsdb_core::{
    Atom as Value, Clause, Datum, Mutation, Mutator, Operation, SmolStr, Transaction, Until, Uuid,
};

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
    // Invariant: not empty.
    atoms: Vec<Atom>,
}

/// Changes, sorted by kind.
#[derive(Clone, Debug, Default, PartialEq)]
struct Changes {
    required: Vec<(&'static str, Uuid)>,
    inserts: Vec<Operation>,
    updates: Vec<Operation>,
    elements: Vec<Element>,
    deletes: Vec<Operation>,
}

/// An element that a set or map of a row gets or loses: a reference, a text, or a key with its value. They sort by row, then by column.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Element {
    table: &'static str,
    row: Uuid,
    column: &'static str,
    change: ElementChange,
    element: Value,
    /// Of a key that a map gets.
    value: Option<Value>,
}

/// Lost before gained: what one unit loses another may gain in the same transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ElementChange {
    Lost,
    Gained,
}

/// Transactions of about `limit` changed rows each, in the order of the atoms. A larger atom is a transaction of its own.
pub fn batches(atoms: Vec<Atom>, limit: usize) -> Vec<Batch> {
    let (mut batches, mut size) = (Vec::<Batch>::new(), 0);
    for atom in atoms {
        let len = atom.changes.len();
        match batches.last_mut() {
            Some(batch) if size + len <= limit => {
                batch.atoms.push(atom);
                size += len;
            }
            _ => {
                batches.push(Batch { atoms: vec![atom] });
                size = len;
            }
        }
    }
    batches
}

impl Batch {
    /// The units that it changes, in the order of the atoms. A unit may come twice.
    pub fn units(&self) -> impl Iterator<Item = &SmolStr> {
        self.atoms.iter().map(Atom::unit)
    }

    /// How many atoms there are.
    pub fn len(&self) -> usize {
        self.atoms.len()
    }

    /// Never: a batch has at least one atom.
    pub fn is_empty(&self) -> bool {
        self.atoms.is_empty()
    }

    /// The transaction.
    pub fn transaction(&self) -> Transaction {
        let mut changes = Changes::default();
        for atom in &self.atoms {
            changes.append(atom.changes.clone());
        }
        changes.into_transaction()
    }

    /// Both halves, in their order; or none if it is a single atom.
    pub fn split(mut self) -> Result<[Batch; 2], Batch> {
        if self.atoms.len() < 2 {
            return Err(self);
        }
        let second = self.atoms.split_off(self.atoms.len() / 2);
        Ok([self, Batch { atoms: second }])
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
        if let Some(parent) = &row.parent {
            self.hold(parent.by, parent.uuid, row.uuid);
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
    pub(super) fn hold(&mut self, by: ParentColumn, parent: Uuid, child: Uuid) {
        self.gain(by, parent, Value::Uuid(child));
    }

    /// `parent` does not refer to `child` any more; a row that nothing refers to is gone.
    pub(super) fn release(&mut self, by: ParentColumn, parent: Uuid, child: Uuid) {
        self.lose(by, parent, Value::Uuid(child));
    }

    /// A set of `row` gets an element.
    pub(super) fn gain(&mut self, by: ParentColumn, row: Uuid, element: Value) {
        self.element(by, row, ElementChange::Gained, element, None);
    }

    /// A map of `row` gets a pair.
    pub(super) fn gain_pair(&mut self, by: ParentColumn, row: Uuid, key: Value, value: Value) {
        self.element(by, row, ElementChange::Gained, key, Some(value));
    }

    /// A set of `row` loses an element, or a map a key.
    pub(super) fn lose(&mut self, by: ParentColumn, row: Uuid, element: Value) {
        self.element(by, row, ElementChange::Lost, element, None);
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

    fn element(
        &mut self,
        by: ParentColumn,
        row: Uuid,
        change: ElementChange,
        element: Value,
        value: Option<Value>,
    ) {
        let ParentColumn { table, column } = by;
        self.changes.elements.push(Element { table, row, column, change, element, value });
    }
}

impl Changes {
    /// How many rows and elements change.
    fn len(&self) -> usize {
        self.inserts.len() + self.updates.len() + self.elements.len() + self.deletes.len()
    }

    /// Adds the changes of a later atom.
    fn append(&mut self, later: Changes) {
        self.required.extend(later.required);
        self.inserts.extend(later.inserts);
        self.updates.extend(later.updates);
        self.elements.extend(later.elements);
        self.deletes.extend(later.deletes);
    }

    fn into_transaction(mut self) -> Transaction {
        let mut transaction = Transaction::new();
        self.required.sort_unstable();
        self.required.dedup();
        for (table, uuid) in self.required {
            transaction.push(require(table, uuid));
        }
        // A row whose sets several atoms change is changed once, and one that comes has its elements from the start.
        self.elements.sort_unstable();
        self.elements.dedup();
        let mut of_new = insert_positions(&self.inserts);
        let mut mutations = Vec::new();
        for elements in self.elements.chunk_by(|a, b| (a.table, a.row) == (b.table, b.row)) {
            match of_new.remove(&(SmolStr::new_static(elements[0].table), elements[0].row)) {
                Some(at) => fill(&mut self.inserts[at], elements),
                None => mutations.push(mutate(elements)),
            }
        }
        for insert in self.inserts {
            transaction.push(insert);
        }
        // Each is about one row by its UUID: another count says that the row is not there.
        for operation in self.updates.into_iter().chain(mutations).chain(self.deletes) {
            transaction.push_counted(operation).expect(1);
        }
        transaction
    }
}

/// Where the rows that come are in `inserts`.
fn insert_positions(inserts: &[Operation]) -> HashMap<(SmolStr, Uuid), usize> {
    let mut positions = HashMap::new();
    for (at, insert) in inserts.iter().enumerate() {
        if let Operation::Insert { table, uuid: Some(uuid), .. } = insert {
            positions.insert((table.clone(), *uuid), at);
        }
    }
    positions
}

/// Gives a row that comes its elements.
fn fill(insert: &mut Operation, elements: &[Element]) {
    let Operation::Insert { row, .. } = insert else { return };
    for elements in elements.chunk_by(|a, b| a.column == b.column) {
        let gained = elements.iter().filter(|element| element.change == ElementChange::Gained);
        row.push((SmolStr::new_static(elements[0].column), datum(gained)));
    }
}

/// A set of elements, or a map of keys with values.
fn datum<'a>(elements: impl Iterator<Item = &'a Element> + Clone) -> Datum {
    let mut pairs =
        elements.clone().filter_map(|one| Some((one.element.clone(), one.value.clone()?))).peekable();
    match pairs.peek() {
        Some(_) => Datum::Map(pairs.collect()),
        None => Datum::Set(elements.map(|one| one.element.clone()).collect()),
    }
}

/// The operation for all the elements that sets of one row get and lose.
fn mutate(elements: &[Element]) -> Operation {
    let Element { table, row, .. } = elements[0];
    let by_column = elements.chunk_by(|a, b| (a.column, a.change) == (b.column, b.change));
    let mutation = |elements: &[Element]| {
        let mutator = match elements[0].change {
            ElementChange::Lost => Mutator::Delete,
            ElementChange::Gained => Mutator::Insert,
        };
        Mutation::new(SmolStr::new_static(elements[0].column), mutator, datum(elements.iter()))
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
