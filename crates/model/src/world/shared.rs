//! Values that many objects have in common, once in memory.

use std::collections::BTreeSet;
use std::sync::Arc;

/// How many values are kept without asking whether anyone has them still.
const LEAST_ROOM: usize = 64;

/// Values that several objects may have.
#[derive(Debug)]
pub(super) struct Shared<T: ?Sized> {
    known: BTreeSet<Arc<T>>,
    room: usize,
}

impl<T: Ord + ?Sized> Shared<T> {
    /// The same value, in the memory of an earlier one that is equal.
    pub(super) fn share(&mut self, value: &Arc<T>) -> Arc<T> {
        if let Some(known) = self.known.get(&**value) {
            return Arc::clone(known);
        }
        if self.known.len() >= self.room {
            self.known.retain(|known| Arc::strong_count(known) > 1);
            self.room = LEAST_ROOM.max(self.known.len() * 2);
        }
        self.known.insert(Arc::clone(value));
        Arc::clone(value)
    }
}

impl<T: ?Sized> Default for Shared<T> {
    fn default() -> Self {
        Self { known: BTreeSet::new(), room: LEAST_ROOM }
    }
}

impl<T: ?Sized> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self { known: self.known.clone(), room: self.room }
    }
}

/// It says nothing about the World.
impl<T: ?Sized> PartialEq for Shared<T> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_one_and_what_nobody_has_is_forgotten() {
        let mut shared = Shared::<str>::default();
        let first = shared.share(&"one".into());
        assert!(Arc::ptr_eq(&first, &shared.share(&"one".into())));
        for number in 0..10_000 {
            shared.share(&number.to_string().into());
        }
        assert!(shared.known.len() <= 2 * LEAST_ROOM, "{}", shared.known.len());
        assert!(Arc::ptr_eq(&first, &shared.share(&"one".into())));
    }
}
