//! Sets that mostly have one element.

use std::borrow::Borrow;
use std::collections::{BTreeSet, btree_set};

/// A sorted set. One element takes no memory besides its own, where a tree takes room for eleven.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Few<T> {
    #[default]
    None,
    One(T),
    /// Invariant: at least two, so that equal sets compare equal.
    Many(BTreeSet<T>),
}

impl<T: Ord> Few<T> {
    pub(crate) fn insert(&mut self, value: T) {
        match self {
            Few::None => *self = Few::One(value),
            Few::One(one) if *one == value => {}
            Few::One(_) => {
                let Few::One(one) = std::mem::take(self) else { return };
                *self = Few::Many(BTreeSet::from([one, value]));
            }
            Few::Many(many) => drop(many.insert(value)),
        }
    }

    pub(crate) fn remove<Q: Ord + ?Sized>(&mut self, value: &Q)
    where
        T: Borrow<Q>,
    {
        match self {
            Few::None => {}
            Few::One(one) if Borrow::<Q>::borrow(one) == value => *self = Few::None,
            Few::One(_) => {}
            Few::Many(many) => {
                many.remove(value);
                if many.len() == 1
                    && let Some(one) = many.pop_first()
                {
                    *self = Few::One(one);
                }
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Few::None => 0,
            Few::One(_) => 1,
            Few::Many(many) => many.len(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        matches!(self, Few::None)
    }

    pub(crate) fn iter(&self) -> Iter<'_, T> {
        self.into_iter()
    }
}

/// The elements in ascending order.
pub(crate) enum Iter<'a, T> {
    One(std::option::IntoIter<&'a T>),
    Many(btree_set::Iter<'a, T>),
}

impl<'a, T> Iterator for Iter<'a, T> {
    type Item = &'a T;

    fn next(&mut self) -> Option<&'a T> {
        match self {
            Iter::One(one) => one.next(),
            Iter::Many(many) => many.next(),
        }
    }
}

impl<'a, T> IntoIterator for &'a Few<T> {
    type Item = &'a T;
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Iter<'a, T> {
        match self {
            Few::None => Iter::One(None.into_iter()),
            Few::One(one) => Iter::One(Some(one).into_iter()),
            Few::Many(many) => Iter::Many(many.iter()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_set(steps in proptest::collection::vec((any::<bool>(), 0_u8..4), 0..40)) {
            let (mut few, mut set) = (Few::default(), BTreeSet::new());
            for (insert, value) in steps {
                if insert {
                    few.insert(value);
                    set.insert(value);
                } else {
                    few.remove(&value);
                    set.remove(&value);
                }
                prop_assert!(few.iter().eq(&set) && few.len() == set.len() && few.is_empty() == set.is_empty());
                prop_assert!(!matches!(&few, Few::Many(many) if many.len() < 2));
            }
        }
    }
}
