//! The value of one column: an atom, a set or a map.

use std::collections::BTreeMap;
use std::fmt;

use serde::ser::SerializeTuple;
use serde::{Serialize, Serializer};

use crate::atom::Atom;
use crate::schema::ColumnType;

/// The value of a column.
///
/// The column's type decides the form: exactly one atom is `Atom`, every other number of atoms (an optional column
/// too) is `Set`, and key-value pairs are `Map`. Two data of one column are therefore equal iff they mean the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Datum {
    /// The value of a column that holds exactly one atom.
    Atom(Atom),
    /// The value of a set or of an optional column.
    Set(Set),
    /// The value of a map column.
    Map(Map),
}

/// A sorted set of atoms.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Set(Box<[Atom]>);

/// A map from atoms to atoms, sorted by key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Map(Box<[(Atom, Atom)]>);

impl Datum {
    /// The value of a column that nobody set.
    pub fn default_of(column: &ColumnType) -> Datum {
        if column.is_map() {
            Datum::Map(Map::default())
        } else if column.is_scalar() {
            Datum::Atom(Atom::default_of(column.key.atomic_type))
        } else if column.min == 0 {
            Datum::Set(Set::default())
        } else {
            Datum::Set(Set::from_iter([Atom::default_of(column.key.atomic_type)]))
        }
    }

    /// Whether leaving this value out of an insert changes nothing.
    pub fn is_default(&self) -> bool {
        match self {
            Datum::Atom(atom) => atom.is_default(),
            Datum::Set(set) => set.is_empty(),
            Datum::Map(map) => map.is_empty(),
        }
    }

    /// The atoms of this value; a map's keys.
    pub fn keys(&self) -> impl Iterator<Item = &Atom> {
        let (atoms, pairs) = match self {
            Datum::Atom(atom) => (std::slice::from_ref(atom), &[][..]),
            Datum::Set(set) => (&set.0[..], &[][..]),
            Datum::Map(map) => (&[][..], &map.0[..]),
        };
        atoms.iter().chain(pairs.iter().map(|(key, _)| key))
    }

    /// Whether this is one of [`Datum::keys`].
    pub(crate) fn has_key(&self, key: &Atom) -> bool {
        match self {
            Datum::Atom(atom) => atom == key,
            Datum::Set(set) => set.contains(key),
            Datum::Map(map) => map.0.binary_search_by(|(one, _)| one.cmp(key)).is_ok(),
        }
    }

    /// How many elements this value has.
    pub(crate) fn len(&self) -> usize {
        match self {
            Datum::Atom(_) => 1,
            Datum::Set(set) => set.len(),
            Datum::Map(map) => map.len(),
        }
    }

    /// Every atom of this value; of a map, its values.
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut Atom> {
        let (atoms, pairs) = match self {
            Datum::Atom(atom) => (std::slice::from_mut(atom), &mut [][..]),
            Datum::Set(set) => (&mut set.0[..], &mut [][..]),
            Datum::Map(map) => (&mut [][..], &mut map.0[..]),
        };
        atoms.iter_mut().chain(pairs.iter_mut().map(|(_, value)| value))
    }

    /// The value under `key`, if this is a map that has it.
    pub fn map_get(&self, key: &str) -> Option<&Atom> {
        match self {
            Datum::Map(map) => map.get_str(key),
            _ => None,
        }
    }

    /// Applies a column's part of an `update2` notification: the new value itself where the column holds at most one
    /// element, otherwise the elements in which old and new differ.
    pub fn apply_diff(&mut self, diff: Datum, column: &ColumnType) {
        match (&mut *self, diff) {
            (Datum::Set(old), Datum::Set(diff)) if column.is_composite() => old.toggle(diff),
            (Datum::Map(old), Datum::Map(diff)) if column.is_composite() => old.toggle(diff),
            (_, new) => *self = new,
        }
    }

    /// What [`Datum::apply_diff`] needs to make `new` of `self`; the inverse of a server's notification.
    pub fn diff(&self, new: &Datum, column: &ColumnType) -> Datum {
        match (self, new) {
            (Datum::Set(old), Datum::Set(new)) if column.is_composite() => Datum::Set(old.difference(new)),
            (Datum::Map(old), Datum::Map(new)) if column.is_composite() => Datum::Map(old.difference(new)),
            _ => new.clone(),
        }
    }
}

impl Set {
    /// Whether the set has no element.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many elements the set has.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The elements in ascending order.
    pub fn iter(&self) -> std::slice::Iter<'_, Atom> {
        self.0.iter()
    }

    /// Whether `atom` is an element.
    pub fn contains(&self, atom: &Atom) -> bool {
        self.0.binary_search(atom).is_ok()
    }

    /// Takes the elements out of `scratch`, which keeps its capacity for the next value.
    pub(crate) fn drain_from(scratch: &mut Vec<Atom>) -> Self {
        // Servers send sets sorted, so sorting is the exception.
        if !scratch.is_sorted_by(|a, b| a < b) {
            scratch.sort_unstable();
            scratch.dedup();
        }
        Set(scratch.drain(..).collect())
    }

    /// Elements of the diff that are present go, the others come.
    fn toggle(&mut self, diff: Set) {
        let mut merged = Vec::with_capacity(self.len() + diff.len());
        let mut old = std::mem::take(&mut self.0).into_vec().into_iter().peekable();
        for atom in diff.0.into_vec() {
            while let Some(kept) = old.next_if(|o| *o < atom) {
                merged.push(kept);
            }
            if old.next_if_eq(&atom).is_none() {
                merged.push(atom);
            }
        }
        merged.extend(old);
        self.0 = merged.into_boxed_slice();
    }

    fn difference(&self, new: &Set) -> Set {
        let gone = self.iter().filter(|a| !new.contains(a));
        let come = new.iter().filter(|a| !self.contains(a));
        gone.chain(come).cloned().collect()
    }
}

impl FromIterator<Atom> for Set {
    fn from_iter<I: IntoIterator<Item = Atom>>(atoms: I) -> Self {
        Set::drain_from(&mut atoms.into_iter().collect())
    }
}

impl<'a> IntoIterator for &'a Set {
    type Item = &'a Atom;
    type IntoIter = std::slice::Iter<'a, Atom>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl Map {
    /// Whether the map has no pair.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many pairs the map has.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The pairs in ascending order of their keys.
    pub fn iter(&self) -> std::slice::Iter<'_, (Atom, Atom)> {
        self.0.iter()
    }

    /// The value under `key`.
    pub fn get(&self, key: &Atom) -> Option<&Atom> {
        let at = self.0.binary_search_by(|(k, _)| k.cmp(key)).ok()?;
        Some(&self.0[at].1)
    }

    /// The value under the string `key`.
    pub fn get_str(&self, key: &str) -> Option<&Atom> {
        let at = self.0.binary_search_by(|(k, _)| k.as_str().cmp(&Some(key))).ok()?;
        Some(&self.0[at].1)
    }

    /// The pairs whose keys are strings that begin like this, in ascending order. The cost hardly depends on how many others there are.
    pub fn with_prefix(&self, prefix: &str) -> &[(Atom, Atom)] {
        let from = self.0.partition_point(|pair| pair.0.as_str().is_some_and(|key| key < prefix));
        let rest = &self.0[from..];
        let is_one = |pair: &(Atom, Atom)| pair.0.as_str().is_some_and(|key| key.starts_with(prefix));
        &rest[..rest.partition_point(is_one)]
    }

    /// Takes the pairs out of `scratch`, which keeps its capacity for the next value. The last of equal keys wins.
    pub(crate) fn drain_from(scratch: &mut Vec<(Atom, Atom)>) -> Self {
        if scratch.is_sorted_by(|(a, _), (b, _)| a < b) {
            return Map(scratch.drain(..).collect());
        }
        Map(scratch.drain(..).collect::<BTreeMap<_, _>>().into_iter().collect())
    }

    /// Pairs of the diff that are present go, keys that are present with another value change, the others come.
    fn toggle(&mut self, diff: Map) {
        let mut merged = Vec::with_capacity(self.len() + diff.len());
        let mut old = std::mem::take(&mut self.0).into_vec().into_iter().peekable();
        for (key, value) in diff.0.into_vec() {
            while let Some(kept) = old.next_if(|(k, _)| *k < key) {
                merged.push(kept);
            }
            match old.next_if(|(k, _)| *k == key) {
                Some((_, present)) if present == value => {}
                _ => merged.push((key, value)),
            }
        }
        merged.extend(old);
        self.0 = merged.into_boxed_slice();
    }

    fn difference(&self, new: &Map) -> Map {
        let gone = self.iter().filter(|(key, _)| new.get(key).is_none());
        let come = new.iter().filter(|(key, value)| self.get(key) != Some(value));
        gone.chain(come).cloned().collect()
    }
}

impl FromIterator<(Atom, Atom)> for Map {
    fn from_iter<I: IntoIterator<Item = (Atom, Atom)>>(pairs: I) -> Self {
        Map::drain_from(&mut pairs.into_iter().collect())
    }
}

impl<'a> IntoIterator for &'a Map {
    type Item = &'a (Atom, Atom);
    type IntoIter = std::slice::Iter<'a, (Atom, Atom)>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl Serialize for Datum {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut tagged = match self {
            Datum::Atom(atom) => return atom.serialize(serializer),
            Datum::Set(_) | Datum::Map(_) => serializer.serialize_tuple(2)?,
        };
        match self {
            Datum::Set(set) => {
                tagged.serialize_element("set")?;
                tagged.serialize_element(&set.0)?;
            }
            Datum::Map(map) => {
                tagged.serialize_element("map")?;
                tagged.serialize_element(&map.0)?;
            }
            Datum::Atom(_) => {}
        }
        tagged.end()
    }
}

impl fmt::Display for Datum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Datum::Atom(atom) => atom.fmt(f),
            Datum::Set(set) => {
                f.write_str("[")?;
                for (i, atom) in set.iter().enumerate() {
                    write!(f, "{}{atom}", if i == 0 { "" } else { ", " })?;
                }
                f.write_str("]")
            }
            Datum::Map(map) => {
                f.write_str("{")?;
                for (i, (key, value)) in map.iter().enumerate() {
                    write!(f, "{}{key}={value}", if i == 0 { "" } else { ", " })?;
                }
                f.write_str("}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::schema::{AtomicType, BaseType, Max};

    fn set(strings: &[&str]) -> Datum {
        Datum::Set(strings.iter().map(|s| Atom::from(*s)).collect())
    }

    fn string_column(min: u32, max: Max, value: Option<BaseType>) -> ColumnType {
        ColumnType { key: BaseType::plain(AtomicType::String), value, min, max }
    }

    proptest! {
        #[test]
        fn keys_with_a_prefix_are_found_among_others(
            keys in vec("[ab]{0,4}", 0..20), numbers in vec(any::<i64>(), 0..3), prefix in "[abc]{0,3}",
        ) {
            let texts = keys.iter().map(|key| (Atom::from(key.as_str()), Atom::Integer(1)));
            for map in [
                texts.collect::<Map>(),
                numbers.iter().map(|number| (Atom::Integer(*number), Atom::Integer(1))).collect(),
            ] {
                let is_one = |key: &Atom| key.as_str().is_some_and(|key| key.starts_with(&prefix));
                let expected: Vec<_> = map.iter().filter(|(key, _)| is_one(key)).cloned().collect();
                prop_assert_eq!(map.with_prefix(&prefix), &expected);
            }
        }
    }

    #[test]
    fn a_datum_is_as_small_as_an_atom() {
        assert_eq!(size_of::<Datum>(), size_of::<Atom>());
    }

    #[test]
    fn an_optional_column_is_replaced_and_a_set_is_toggled() {
        let optional = string_column(0, Max::Count(1), None);
        let mut value = set(&["old"]);
        value.apply_diff(set(&["new"]), &optional);
        assert_eq!(value, set(&["new"]));

        let many = string_column(0, Max::Unlimited, None);
        value.apply_diff(set(&["new", "other"]), &many);
        assert_eq!(value, set(&["other"]));
    }

    #[test]
    fn sets_are_sorted_and_without_duplicates() {
        assert_eq!(set(&["b", "a", "b"]), set(&["a", "b"]));
        assert_eq!(serde_json::to_string(&set(&["b", "a"])).unwrap(), r#"["set",["a","b"]]"#);
    }

    proptest! {
        #[test]
        fn applying_a_difference_gives_the_new_set(old in vec("[a-f]", 0..8), new in vec("[a-f]", 0..8)) {
            let column = string_column(0, Max::Unlimited, None);
            let make = |v: &[String]| Datum::Set(v.iter().map(Atom::from).collect());
            let (mut value, new) = (make(&old), make(&new));
            let diff = value.diff(&new, &column);
            value.apply_diff(diff, &column);
            prop_assert_eq!(value, new);
        }

        #[test]
        fn applying_a_difference_gives_the_new_map(
            old in vec(("[a-d]", "[x-z]"), 0..6), new in vec(("[a-d]", "[x-z]"), 0..6),
        ) {
            let column = string_column(0, Max::Unlimited, Some(BaseType::plain(AtomicType::String)));
            let make = |v: &[(String, String)]| Datum::Map(v.iter().map(|(k, v)| (k.into(), v.into())).collect());
            let (mut value, new) = (make(&old), make(&new));
            let diff = value.diff(&new, &column);
            value.apply_diff(diff, &column);
            prop_assert_eq!(value, new);
        }
    }
}
