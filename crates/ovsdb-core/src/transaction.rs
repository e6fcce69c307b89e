//! Transactions: operations in order, with what the caller expects of each.

use std::marker::PhantomData;

use smol_str::SmolStr;
use uuid::Uuid;

use crate::atom::Atom;
use crate::column::{Assignment, ClauseOf, MutationOf};
use crate::datum::Datum;
use crate::operation::{Clause, Operation, Until};
use crate::row::TypedRow;

/// Operations that are applied together or not at all.
///
/// ```
/// # use ovsdb_core::{Transaction, Operation};
/// let mut txn = Transaction::new();
/// txn.push(Operation::Comment("why".into()));
/// txn.assert_lock("writer");
/// assert_eq!(txn.operations().len(), 2);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Transaction {
    operations: Vec<Operation>,
    expected: Vec<(usize, u64)>,
}

/// The operation just added, whose count the caller may state.
#[must_use = "call `expect` to have the count checked, or `any` to say that it does not matter"]
pub struct Counted<'a> {
    transaction: &'a mut Transaction,
}

/// Rows of one table, chosen by conditions or by UUID.
#[derive(Clone, Debug, PartialEq)]
pub struct Rows<R> {
    condition: Vec<Clause>,
    marker: PhantomData<fn() -> R>,
}

impl<R: TypedRow> Rows<R> {
    /// The row with this UUID.
    pub fn uuid(uuid: Uuid) -> Self {
        Rows { condition: vec![Clause::uuid(uuid)], marker: PhantomData }
    }

    /// The rows for which all the clauses hold.
    pub fn matching(clauses: impl IntoIterator<Item = ClauseOf<R>>) -> Self {
        Rows { condition: clauses.into_iter().map(|c| c.clause).collect(), marker: PhantomData }
    }
}

impl Transaction {
    /// A transaction without operations.
    pub fn new() -> Self {
        Self::default()
    }

    /// The operations in their order.
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// The counts that the caller stated, by the operation's position.
    pub fn expected_counts(&self) -> &[(usize, u64)] {
        &self.expected
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Adds any operation, and returns its position.
    pub fn push(&mut self, operation: Operation) -> usize {
        self.operations.push(operation);
        self.operations.len() - 1
    }

    /// Adds an operation whose count may be stated.
    pub fn push_counted(&mut self, operation: Operation) -> Counted<'_> {
        self.push(operation);
        Counted { transaction: self }
    }

    /// Appends another transaction.
    pub fn append(&mut self, other: Transaction) {
        let offset = self.operations.len();
        self.operations.extend(other.operations);
        self.expected.extend(other.expected.into_iter().map(|(at, count)| (at + offset, count)));
    }

    /// Inserts `row` under `uuid`. Columns that have their defaults are left to the server.
    pub fn insert<R: TypedRow>(&mut self, uuid: Uuid, row: &R) {
        let columns = R::COLUMNS.iter().map(|name| SmolStr::new_static(name));
        let needed = |name: &SmolStr| R::NON_EMPTY.contains(&name.as_str());
        let row =
            columns.zip(row.encode()).filter(|(name, datum)| !datum.is_default() || needed(name)).collect();
        self.push(Operation::Insert { table: R::TABLE.into(), uuid: Some(uuid), uuid_name: None, row });
    }

    /// Gives columns of the rows new values.
    pub fn update<R: TypedRow>(
        &mut self,
        rows: Rows<R>,
        assignments: impl IntoIterator<Item = Assignment<R>>,
    ) -> Counted<'_> {
        let row = assignments.into_iter().map(|a| (SmolStr::new_static(a.column), a.value)).collect();
        self.push_counted(Operation::Update { table: R::TABLE.into(), condition: rows.condition, row })
    }

    /// Changes columns of the rows relative to their present values.
    pub fn mutate<R: TypedRow>(
        &mut self,
        rows: Rows<R>,
        mutations: impl IntoIterator<Item = MutationOf<R>>,
    ) -> Counted<'_> {
        let mutations = mutations.into_iter().map(|m| m.mutation).collect();
        self.push_counted(Operation::Mutate { table: R::TABLE.into(), condition: rows.condition, mutations })
    }

    /// Removes the rows.
    pub fn delete<R: TypedRow>(&mut self, rows: Rows<R>) -> Counted<'_> {
        self.push_counted(Operation::Delete { table: R::TABLE.into(), condition: rows.condition })
    }

    /// Aborts the transaction unless the row exists. Unlike a stated count, which is checked when it is too late,
    /// this keeps the transaction from doing half of what was meant.
    pub fn require<R: TypedRow>(&mut self, uuid: Uuid) {
        let column = SmolStr::new_static("_uuid");
        self.push(Operation::Wait {
            table: R::TABLE.into(),
            condition: vec![Clause::uuid(uuid)],
            columns: vec![column.clone()],
            until: Until::Equal,
            rows: vec![vec![(column, Datum::Atom(Atom::Uuid(uuid)))]],
            timeout_ms: Some(0),
        });
    }

    /// Aborts the transaction unless this client holds the lock.
    pub fn assert_lock(&mut self, lock: impl Into<SmolStr>) {
        self.push(Operation::Assert { lock: lock.into() });
    }

    /// Leaves a remark in the server's log.
    pub fn comment(&mut self, text: impl Into<String>) {
        self.push(Operation::Comment(text.into()));
    }
}

impl Counted<'_> {
    /// The operation has to touch exactly `count` rows; another count is an error when the reply comes.
    pub fn expect(self, count: u64) {
        self.transaction.expected.push((self.transaction.operations.len() - 1, count));
    }

    /// The operation may touch any number of rows.
    pub fn any(self) {}
}
