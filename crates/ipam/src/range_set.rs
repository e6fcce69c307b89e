//! Sets of numbers that are kept as ranges.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// A number that has neighbours: the bits of an address.
pub trait Number: Copy + Ord {
    /// The next one, if there is one.
    fn next(self) -> Option<Self>;
    /// The one before, if there is one.
    fn previous(self) -> Option<Self>;
    /// How far it is from a smaller one.
    fn minus(self, other: Self) -> u128;
}

impl Number for u32 {
    fn next(self) -> Option<Self> {
        self.checked_add(1)
    }
    fn previous(self) -> Option<Self> {
        self.checked_sub(1)
    }
    fn minus(self, other: Self) -> u128 {
        (self - other).into()
    }
}

impl Number for u128 {
    fn next(self) -> Option<Self> {
        self.checked_add(1)
    }
    fn previous(self) -> Option<Self> {
        self.checked_sub(1)
    }
    fn minus(self, other: Self) -> u128 {
        self - other
    }
}

/// A set of numbers. Every operation costs the logarithm of how many ranges there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeSet<N> {
    /// From the first of each range to its last. Invariant: ranges neither overlap nor touch.
    ranges: BTreeMap<N, N>,
}

impl<N> Default for RangeSet<N> {
    fn default() -> Self {
        Self { ranges: BTreeMap::new() }
    }
}

impl<N: Number> RangeSet<N> {
    /// True if there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The last number of the range that holds this one, if it is in the set.
    pub fn end_of(&self, number: N) -> Option<N> {
        self.ranges.range(..=number).next_back().map(|(_, end)| *end).filter(|end| *end >= number)
    }

    /// True if the number is in the set.
    pub fn contains(&self, number: N) -> bool {
        self.end_of(number).is_some()
    }

    /// The first number of a range at or after this one: where the next gap ends.
    pub fn next_start(&self, number: N) -> Option<N> {
        self.ranges.range(number..).next().map(|(start, _)| *start)
    }

    /// Adds a number; false if it was there.
    pub fn insert(&mut self, number: N) -> bool {
        let before = self.ranges.range_mut(..=number).next_back();
        let joins_before = match before {
            Some((_, end)) if *end >= number => return false,
            Some((_, end)) if end.next() == Some(number) => {
                *end = number;
                true
            }
            _ => false,
        };
        let after = number.next().and_then(|next| self.ranges.remove(&next));
        let last = after.unwrap_or(number);
        if !joins_before {
            self.ranges.insert(number, last);
        } else if after.is_some()
            && let Some((_, end)) = self.ranges.range_mut(..=number).next_back()
        {
            *end = last;
        }
        true
    }

    /// Adds all numbers of a range.
    pub fn insert_range(&mut self, range: RangeInclusive<N>) {
        let (mut start, mut end) = range.into_inner();
        if start > end {
            return;
        }
        // Whatever overlaps or touches becomes part of it.
        let reach = end.next().unwrap_or(end);
        while let Some((&first, &last)) = self.ranges.range(..=reach).next_back() {
            let touches = last >= start || last.next() == Some(start);
            if !touches {
                break;
            }
            self.ranges.remove(&first);
            (start, end) = (start.min(first), end.max(last));
        }
        self.ranges.insert(start, end);
    }

    /// Removes a number; false if it was not there.
    pub fn remove(&mut self, number: N) -> bool {
        let Some((&start, &end)) = self.ranges.range(..=number).next_back() else { return false };
        if end < number {
            return false;
        }
        match number.previous() {
            Some(previous) if previous >= start => {
                self.ranges.insert(start, previous);
            }
            _ => {
                self.ranges.remove(&start);
            }
        }
        if let Some(next) = number.next().filter(|next| *next <= end) {
            self.ranges.insert(next, end);
        }
        true
    }

    /// How many numbers of a range are in the set; costs the number of ranges there.
    pub fn count(&self, range: RangeInclusive<N>) -> u128 {
        let (start, end) = range.into_inner();
        if start > end {
            return 0;
        }
        let head = self.ranges.range(..start).next_back().filter(|(_, last)| **last >= start);
        let inside = self.ranges.range(start..=end);
        let overlap = |(first, last): (&N, &N)| (*last).min(end).minus((*first).max(start)).saturating_add(1);
        head.into_iter().chain(inside).map(overlap).fold(0, u128::saturating_add)
    }

    /// The parts of a range that are in the set, from first to last, in order.
    pub fn parts_of(&self, range: RangeInclusive<N>) -> impl Iterator<Item = (N, N)> {
        let (start, end) = range.into_inner();
        let head = self.ranges.range(..start).next_back().filter(move |(_, last)| **last >= start);
        let inside = self.ranges.range(start..).take_while(move |(first, _)| **first <= end);
        head.into_iter()
            .chain(inside)
            .map(move |(first, last)| ((*first).max(start), (*last).min(end)))
            .filter(|(first, last)| first <= last)
    }

    /// How many ranges there are: what the memory follows.
    pub fn ranges(&self) -> usize {
        self.ranges.len()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_ends_of_the_world_are_numbers_like_others() {
        let mut set = RangeSet::default();
        assert!(set.insert(u32::MAX) && set.insert(0) && !set.insert(0));
        assert_eq!((set.end_of(0), set.end_of(1), set.end_of(u32::MAX)), (Some(0), None, Some(u32::MAX)));
        set.insert_range(1..=u32::MAX - 1);
        assert_eq!((set.ranges(), set.end_of(0), set.count(0..=u32::MAX)), (1, Some(u32::MAX), 1 << 32));
        assert!(set.remove(0) && set.remove(u32::MAX));
        assert_eq!(set.end_of(1), Some(u32::MAX - 1));
    }

    proptest! {
        #[test]
        fn it_is_a_set(steps in prop::collection::vec((0..4_u8, 0..40_u32, 0..6_u32), 0..120)) {
            let mut set = RangeSet::default();
            let mut model = BTreeSet::new();
            for (step, number, length) in steps {
                match step {
                    0 | 1 => prop_assert_eq!(set.insert(number), model.insert(number)),
                    2 => prop_assert_eq!(set.remove(number), model.remove(&number)),
                    _ => {
                        set.insert_range(number..=number + length);
                        model.extend(number..=number + length);
                    }
                }
                let ranges: Vec<_> = set.ranges.iter().map(|(a, b)| (*a, *b)).collect();
                prop_assert!(ranges.iter().all(|(a, b)| a <= b));
                prop_assert!(ranges.windows(2).all(|pair| pair[0].1 + 1 < pair[1].0), "{:?}", ranges);
                prop_assert!((0..50).all(|n| set.contains(n) == model.contains(&n)));
                let parts: Vec<u32> = set.parts_of(5..=20).flat_map(|(a, b)| a..=b).collect();
                prop_assert_eq!(parts, model.range(5..=20).copied().collect::<Vec<_>>());
                let counted = model.range(5..=20).count() as u128;
                prop_assert_eq!(set.count(5..=20), counted);
            }
        }
    }
}
