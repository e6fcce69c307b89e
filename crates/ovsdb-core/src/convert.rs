//! Rust types as column values, and back.

use std::collections::{BTreeMap, BTreeSet};

use smol_str::SmolStr;
use uuid::Uuid;

use crate::atom::Atom;
use crate::datum::{Datum, Map, Set};

/// A Rust type that holds one atom.
pub trait AtomValue: Sized + Ord {
    /// What error messages call this type.
    const EXPECTED: &'static str;
    /// This value as an atom.
    fn to_atom(&self) -> Atom;
    /// The value, if the atom is of this type.
    fn from_atom(atom: &Atom) -> Option<Self>;
}

/// A Rust type that holds a column's value: an atom, an `Option`, a `BTreeSet` or a `BTreeMap` of them.
pub trait ColumnValue: Sized {
    /// This value as a datum.
    fn to_datum(&self) -> Datum;
    /// The value, or what was expected in its place.
    fn from_datum(datum: &Datum) -> Result<Self, &'static str>;
}

/// A floating-point number with a total order, so that reals can be elements of sets.
#[derive(Clone, Copy, Debug, Default)]
pub struct Real(pub f64);

impl Ord for Real {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Real {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Real {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Real {}

macro_rules! atom_value {
    ($ty:ty, $expected:literal, |$v:ident| $to:expr, $pattern:pat => $from:expr) => {
        impl AtomValue for $ty {
            const EXPECTED: &'static str = $expected;
            fn to_atom(&self) -> Atom {
                let $v = self;
                $to
            }
            fn from_atom(atom: &Atom) -> Option<Self> {
                match atom {
                    $pattern => Some($from),
                    _ => None,
                }
            }
        }

        impl ColumnValue for $ty {
            fn to_datum(&self) -> Datum {
                Datum::Atom(self.to_atom())
            }
            fn from_datum(datum: &Datum) -> Result<Self, &'static str> {
                match datum {
                    Datum::Atom(atom) => Self::from_atom(atom).ok_or($expected),
                    _ => Err(concat!("exactly one ", $expected)),
                }
            }
        }
    };
}

atom_value!(i64, "integer", |v| Atom::Integer(*v), Atom::Integer(v) => *v);
atom_value!(Real, "real", |v| Atom::Real(v.0), Atom::Real(v) => Real(*v));
atom_value!(bool, "boolean", |v| Atom::Boolean(*v), Atom::Boolean(v) => *v);
atom_value!(String, "string", |v| Atom::String(SmolStr::new(v)), Atom::String(v) => v.to_string());
atom_value!(SmolStr, "string", |v| Atom::String(v.clone()), Atom::String(v) => v.clone());
atom_value!(Uuid, "uuid", |v| Atom::Uuid(*v), Atom::Uuid(v) => *v);

impl<T: AtomValue> ColumnValue for Option<T> {
    fn to_datum(&self) -> Datum {
        Datum::Set(self.iter().map(AtomValue::to_atom).collect())
    }
    fn from_datum(datum: &Datum) -> Result<Self, &'static str> {
        match datum {
            Datum::Set(set) if set.len() <= 1 => {
                set.iter().next().map(|atom| T::from_atom(atom).ok_or(T::EXPECTED)).transpose()
            }
            _ => Err("at most one value"),
        }
    }
}

impl<T: AtomValue> ColumnValue for BTreeSet<T> {
    fn to_datum(&self) -> Datum {
        Datum::Set(self.iter().map(AtomValue::to_atom).collect::<Set>())
    }
    fn from_datum(datum: &Datum) -> Result<Self, &'static str> {
        match datum {
            Datum::Set(set) => set.iter().map(|atom| T::from_atom(atom).ok_or(T::EXPECTED)).collect(),
            _ => Err("a set"),
        }
    }
}

impl<K: AtomValue, V: AtomValue> ColumnValue for BTreeMap<K, V> {
    fn to_datum(&self) -> Datum {
        Datum::Map(self.iter().map(|(key, value)| (key.to_atom(), value.to_atom())).collect::<Map>())
    }
    fn from_datum(datum: &Datum) -> Result<Self, &'static str> {
        let Datum::Map(map) = datum else { return Err("a map") };
        map.iter()
            .map(|(key, value)| {
                Ok((K::from_atom(key).ok_or(K::EXPECTED)?, V::from_atom(value).ok_or(V::EXPECTED)?))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_round_trip() {
        fn check<T: ColumnValue + PartialEq + std::fmt::Debug>(value: &T) {
            assert_eq!(T::from_datum(&value.to_datum()).as_ref(), Ok(value));
        }
        check(&7_i64);
        check(&"text".to_owned());
        check(&Some(true));
        check(&None::<Uuid>);
        check(&BTreeSet::from([Real(1.5), Real(-0.0)]));
        check(&BTreeMap::from([("k".to_owned(), "v".to_owned())]));
    }

    #[test]
    fn the_wrong_form_says_what_was_expected() {
        assert_eq!(i64::from_datum(&"x".to_owned().to_datum()), Err("integer"));
        assert_eq!(i64::from_datum(&BTreeSet::from([1_i64]).to_datum()), Err("exactly one integer"));
        assert_eq!(
            Option::<i64>::from_datum(&BTreeSet::from([1_i64, 2]).to_datum()),
            Err("at most one value")
        );
    }
}
