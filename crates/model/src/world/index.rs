//! One-to-many indexes that leave no trace of what was removed, so that equal Worlds compare equal.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::ops::RangeBounds;

use super::few::Few;

/// The values of one key, in order.
pub(crate) type Values<'a, V> = std::iter::Flatten<std::option::IntoIter<&'a Few<V>>>;

/// For each key, a set of values; no set is empty.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Index<K, V>(BTreeMap<K, Few<V>>);

impl<K, V> Default for Index<K, V> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord, V: Ord> Index<K, V> {
    pub(crate) fn insert(&mut self, key: K, value: V) {
        self.0.entry(key).or_default().insert(value);
    }

    pub(crate) fn remove<Q: Ord + ?Sized, W: Ord + ?Sized>(&mut self, key: &Q, value: &W)
    where
        K: Borrow<Q>,
        V: Borrow<W>,
    {
        if let Some(values) = self.0.get_mut(key) {
            values.remove(value);
            if values.is_empty() {
                self.0.remove(key);
            }
        }
    }

    pub(crate) fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Values<'_, V>
    where
        K: Borrow<Q>,
    {
        self.0.get(key).into_iter().flatten()
    }

    /// The keys of a range with their values.
    pub(crate) fn range(&self, range: impl RangeBounds<K>) -> impl DoubleEndedIterator<Item = (&K, &Few<V>)> {
        self.0.range(range)
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &K> + Clone {
        self.0.keys()
    }
}
