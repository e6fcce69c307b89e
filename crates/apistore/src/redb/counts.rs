//! How many keys there are below a prefix, without walking over them.
//!
//! The table `counts` has the number of keys below each directory: each part of a key that ends with a `/`. Other
//! prefixes, and keys nested deeper than [`MAX_DEPTH`], are right too, but are counted by walking.

use std::collections::{HashMap, VecDeque};

use bytes::Bytes;
use redb::{ReadableTable, ReadableTableMetadata};

use super::layout::failed;
use super::snapshot::Snapshot;
use crate::StoreError;

const SEPARATOR: u8 = b'/';
const MAX_DEPTH: usize = 8;

/// The directories that a key is in and that are counted.
pub(super) fn directories(key: &Bytes) -> impl Iterator<Item = Bytes> + '_ {
    let ends = key.iter().enumerate().filter(|(_, byte)| **byte == SEPARATOR).take(MAX_DEPTH);
    ends.map(|(end, _)| key.slice(..=end))
}

impl Snapshot {
    /// The number of keys with this prefix now, if it is kept.
    pub(super) fn count(&self, prefix: &[u8]) -> Result<Option<usize>, StoreError> {
        let depth = prefix.iter().filter(|byte| **byte == SEPARATOR).count();
        let count = if prefix.is_empty() {
            self.current.len().map_err(failed)?
        } else if prefix.ends_with(&[SEPARATOR]) && depth <= MAX_DEPTH {
            ReadableTable::get(&self.counts, prefix).map_err(failed)?.map_or(0, |count| count.value())
        } else {
            return Ok(None);
        };
        Ok(usize::try_from(count).ok())
    }
}

/// What the last pages left to be listed. Who asks for the next page of a list is told what remains by subtraction.
#[derive(Debug, Default)]
pub(super) struct Continuations {
    rest: HashMap<Continuation, usize>,
    order: VecDeque<Continuation>,
}

/// A place in a list. What comes after it is the same forever.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Continuation {
    pub(super) at: u64,
    pub(super) prefix: Bytes,
    pub(super) after: Bytes,
}

/// How many places are remembered: more than there are lists under way as a rule.
const MAX_CONTINUATIONS: usize = 1024;

impl Continuations {
    pub(super) fn remember(&mut self, place: Continuation, rest: usize) {
        if self.rest.insert(place.clone(), rest).is_none() {
            self.order.push_back(place);
        }
        if self.order.len() > MAX_CONTINUATIONS
            && let Some(forgotten) = self.order.pop_front()
        {
            self.rest.remove(&forgotten);
        }
    }

    pub(super) fn rest(&self, place: &Continuation) -> Option<usize> {
        self.rest.get(place).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directories_of_a_key_end_with_a_slash() {
        let of = |key: &'static str| directories(&Bytes::from(key)).collect::<Vec<_>>();
        assert_eq!(of("/pods/blue/web"), ["/", "/pods/", "/pods/blue/"]);
        assert_eq!(of("a/"), ["a/"]);
        assert!(of("a").is_empty());
        assert_eq!(of("////////////").len(), MAX_DEPTH);
    }

    #[test]
    fn the_oldest_continuation_is_evicted() {
        let place = |at| Continuation { at, prefix: Bytes::new(), after: Bytes::new() };
        let mut continuations = Continuations::default();
        for at in 0..=MAX_CONTINUATIONS as u64 {
            continuations.remember(place(at), 7);
            continuations.remember(place(at), 8);
        }
        assert_eq!(continuations.rest(&place(0)), None);
        assert_eq!(continuations.rest(&place(1)), Some(8));
        assert_eq!(continuations.rest.len(), continuations.order.len());
    }
}
