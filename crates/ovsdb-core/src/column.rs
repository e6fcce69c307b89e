//! Columns as typed names: what is compared, set or mutated is checked by the compiler.

use std::marker::PhantomData;

use crate::atom::Atom;
use crate::convert::{AtomValue, ColumnValue};
use crate::datum::{Datum, Map, Set};
use crate::operation::{Clause, Function, Mutation, Mutator};
use crate::row::TypedRow;

/// A column of the table that `R` stands for, holding a `T`.
///
/// Generated code declares one constant per column, for example
/// `LogicalSwitch::PORTS: Column<LogicalSwitch, BTreeSet<Uuid>>`.
pub struct Column<R, T> {
    name: &'static str,
    marker: PhantomData<fn() -> (R, T)>,
}

// Derived, these would ask the same of `R` and `T`.
impl<R, T> Clone for Column<R, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R, T> Copy for Column<R, T> {}

/// A column with the value that an update gives it.
#[derive(Clone, Debug, PartialEq)]
pub struct Assignment<R> {
    pub(crate) column: &'static str,
    pub(crate) value: Datum,
    marker: PhantomData<fn() -> R>,
}

/// A clause about the rows of `R`'s table.
#[derive(Clone, Debug, PartialEq)]
pub struct ClauseOf<R> {
    pub(crate) clause: Clause,
    marker: PhantomData<fn() -> R>,
}

/// A mutation of the rows of `R`'s table.
#[derive(Clone, Debug, PartialEq)]
pub struct MutationOf<R> {
    pub(crate) mutation: Mutation,
    marker: PhantomData<fn() -> R>,
}

impl<R: TypedRow, T: ColumnValue> Column<R, T> {
    /// Declares a column; for generated code.
    pub const fn new(name: &'static str) -> Self {
        Column { name, marker: PhantomData }
    }

    /// The column's name.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The column gets this value.
    pub fn set(&self, value: &T) -> Assignment<R> {
        Assignment { column: self.name, value: value.to_datum(), marker: PhantomData }
    }

    /// The column has exactly this value.
    pub fn equals(&self, value: &T) -> ClauseOf<R> {
        self.clause(Function::Equal, value)
    }

    /// The column has another value.
    pub fn differs(&self, value: &T) -> ClauseOf<R> {
        self.clause(Function::NotEqual, value)
    }

    /// The column has all the elements of this value.
    pub fn includes(&self, value: &T) -> ClauseOf<R> {
        self.clause(Function::Includes, value)
    }

    /// The column has none of the elements of this value.
    pub fn excludes(&self, value: &T) -> ClauseOf<R> {
        self.clause(Function::Excludes, value)
    }

    fn clause(&self, function: Function, value: &T) -> ClauseOf<R> {
        let clause = Clause::new(self.name, function, value.to_datum());
        ClauseOf { clause, marker: PhantomData }
    }

    fn mutation(&self, mutator: Mutator, value: Datum) -> MutationOf<R> {
        MutationOf { mutation: Mutation::new(self.name, mutator, value), marker: PhantomData }
    }
}

impl<R: TypedRow, T: AtomValue> Column<R, std::collections::BTreeSet<T>>
where
    std::collections::BTreeSet<T>: ColumnValue,
{
    /// The set gets these elements besides those it has.
    pub fn insert(&self, elements: impl IntoIterator<Item = T>) -> MutationOf<R> {
        self.mutation(Mutator::Insert, Datum::Set(elements.into_iter().map(|e| e.to_atom()).collect::<Set>()))
    }

    /// The set loses these elements.
    pub fn delete(&self, elements: impl IntoIterator<Item = T>) -> MutationOf<R> {
        self.mutation(Mutator::Delete, Datum::Set(elements.into_iter().map(|e| e.to_atom()).collect::<Set>()))
    }
}

impl<R: TypedRow, K: AtomValue, V: AtomValue> Column<R, std::collections::BTreeMap<K, V>>
where
    std::collections::BTreeMap<K, V>: ColumnValue,
{
    /// The map gets those of these pairs whose keys it does not have; present keys keep their values.
    pub fn insert(&self, pairs: impl IntoIterator<Item = (K, V)>) -> MutationOf<R> {
        let pairs = pairs.into_iter().map(|(k, v)| (k.to_atom(), v.to_atom()));
        self.mutation(Mutator::Insert, Datum::Map(pairs.collect::<Map>()))
    }

    /// The map loses these keys, whatever their values.
    pub fn delete_keys(&self, keys: impl IntoIterator<Item = K>) -> MutationOf<R> {
        self.mutation(Mutator::Delete, Datum::Set(keys.into_iter().map(|k| k.to_atom()).collect::<Set>()))
    }
}

impl<R: TypedRow> Column<R, i64> {
    /// The number grows by `amount`. A cluster may apply a transaction twice that lost its leader meanwhile, so this suits
    /// counters that need not be exact.
    pub fn add(&self, amount: i64) -> MutationOf<R> {
        self.mutation(Mutator::Add, Datum::Atom(Atom::Integer(amount)))
    }
}

impl<R> ClauseOf<R> {
    /// The clause without its table.
    pub fn into_clause(self) -> Clause {
        self.clause
    }
}
