//! Which addresses of a subnet are taken, and which are available, as ranges for people to read.
//!
//! Guests get addresses from all over their subnet, so a large one has thousands of ranges. Only the first ones are listed, and
//! finding them costs no more than that.

use std::fmt::{Display, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use portolan_api::{Family, IpRange};
use portolan_model::Subnet;
use portolan_model::guest_addresses::guest_range;

use crate::domain::{Addresses, reserved};
use crate::ipam::Ipam;
use crate::range_set::{Number, RangeSet};

/// How many ranges are listed: more than anyone reads, and a few KiB at most.
const MOST: usize = 64;

/// The addresses of one family of a subnet, such as `10.0.0.2-10.0.0.5,10.0.0.9`. A list that is not complete ends in `,...`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranges {
    /// Those that are taken.
    pub using: String,
    /// Those that anyone can still be given.
    pub available: String,
}

impl Ipam {
    /// Which addresses of one family of a subnet are taken, and which are available.
    pub fn ranges(&self, subnet: &Subnet, family: Family) -> Ranges {
        let Some(range) = subnet.config.cidr.net(family).and_then(guest_range) else {
            return Ranges::default();
        };
        let nothing = Addresses::default();
        let taken = &self.domains.get(&subnet.domain).unwrap_or(&nothing).taken;
        let reserved = reserved(subnet);
        let gateway = subnet.config.gateway.address(family);
        match (range.start(), range.end()) {
            (IpAddr::V4(first), IpAddr::V4(last)) => {
                let within = (first.to_bits(), last.to_bits());
                let gateway = gateway.and_then(|address| match address {
                    IpAddr::V4(v4) => Some(v4.to_bits()),
                    IpAddr::V6(_) => None,
                });
                of(taken.v4(), reserved.v4(), within, gateway, Ipv4Addr::from_bits)
            }
            (IpAddr::V6(first), IpAddr::V6(last)) => {
                let within = (first.to_bits(), last.to_bits());
                let gateway = gateway.and_then(|address| match address {
                    IpAddr::V6(v6) => Some(v6.to_bits()),
                    IpAddr::V4(_) => None,
                });
                of(taken.v6(), reserved.v6(), within, gateway, Ipv6Addr::from_bits)
            }
            _ => Ranges::default(), // a range has one family
        }
    }
}

fn of<N: Number, A: Display + PartialEq>(
    taken: &RangeSet<N>,
    reserved: &RangeSet<N>,
    within: (N, N),
    gateway: Option<N>,
    address: impl Fn(N) -> A,
) -> Ranges {
    // The gateway is locked like a guest's address, and is no guest's.
    let using = in_set(taken, within).flat_map(|range| without(range, gateway));
    let available = in_neither(taken, reserved, within);
    Ranges { using: list(using, &address), available: list(available, &address) }
}

/// The ranges of a set, as far as they lie within two numbers.
fn in_set<N: Number>(set: &RangeSet<N>, (first, last): (N, N)) -> impl Iterator<Item = (N, N)> {
    let mut at = Some(first);
    std::iter::from_fn(move || {
        let from = at.filter(|from| *from <= last)?;
        let start =
            if set.contains(from) { from } else { set.next_start(from).filter(|start| *start <= last)? };
        let end = set.end_of(start).unwrap_or(start).min(last);
        at = end.next();
        Some((start, end))
    })
}

/// The ranges between two numbers that are in neither set.
fn in_neither<N: Number>(
    one: &RangeSet<N>,
    other: &RangeSet<N>,
    (first, last): (N, N),
) -> impl Iterator<Item = (N, N)> {
    let mut at = Some(first);
    std::iter::from_fn(move || {
        loop {
            let start = at.filter(|start| *start <= last)?;
            if let Some(end) = one.end_of(start).max(other.end_of(start)) {
                at = end.next();
                continue;
            }
            let next = [one.next_start(start), other.next_start(start)].into_iter().flatten().min();
            let end = next.and_then(Number::previous).unwrap_or(last).min(last);
            at = end.next();
            return Some((start, end));
        }
    })
}

/// A range without one number.
fn without<N: Number>((start, end): (N, N), number: Option<N>) -> impl Iterator<Item = (N, N)> {
    let Some(number) = number.filter(|number| start <= *number && *number <= end) else {
        return [Some((start, end)), None].into_iter().flatten();
    };
    let before = number.previous().filter(|last| *last >= start).map(|last| (start, last));
    let after = number.next().filter(|first| *first <= end).map(|first| (first, end));
    [before, after].into_iter().flatten()
}

/// Ranges as a status has them, as in [`Ranges`].
pub fn list_ranges(ranges: &[IpRange]) -> String {
    list(ranges.iter().map(|range| (range.start(), range.end())), |address| address)
}

fn list<N: Copy, A: Display + PartialEq>(
    mut ranges: impl Iterator<Item = (N, N)>,
    address: impl Fn(N) -> A,
) -> String {
    let mut text = String::new();
    for (start, end) in ranges.by_ref().take(MOST) {
        let separator = if text.is_empty() { "" } else { "," };
        let (start, end) = (address(start), address(end));
        // Writing to a String does not fail.
        let _ = if start == end {
            write!(text, "{separator}{start}")
        } else {
            write!(text, "{separator}{start}-{end}")
        };
    }
    if ranges.next().is_some() {
        text.push_str(",...");
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn numbers(ranges: impl Iterator<Item = (u32, u32)>) -> BTreeSet<u32> {
        ranges.flat_map(|(start, end)| start..=end).collect()
    }

    proptest! {
        #[test]
        fn every_number_is_in_one_of_them(
            taken in prop::collection::btree_set(0..60_u32, 0..40),
            reserved in prop::collection::btree_set(0..60_u32, 0..10),
            first in 0..30_u32,
            length in 0..30_u32,
        ) {
            let set = |numbers: &BTreeSet<u32>| {
                let mut set = RangeSet::default();
                numbers.iter().for_each(|number| { set.insert(*number); });
                set
            };
            let (last, all) = (first + length, first..=first + length);
            let using = numbers(in_set(&set(&taken), (first, last)));
            let expected: BTreeSet<u32> = taken.iter().copied().filter(|n| all.contains(n)).collect();
            prop_assert_eq!(&using, &expected);
            let free = numbers(in_neither(&set(&taken), &set(&reserved), (first, last)));
            let expected: BTreeSet<u32> = all.filter(|n| !taken.contains(n) && !reserved.contains(n)).collect();
            prop_assert_eq!(free, expected);
        }
    }

    #[test]
    fn a_long_list_is_cut_and_says_so() {
        let mut set = RangeSet::default();
        (0..1000_u32).for_each(|n| {
            set.insert(n * 2);
        });
        let text = list(in_set(&set, (0, u32::MAX)), |n| n);
        assert!(text.starts_with("0,2,4,") && text.ends_with(",126,..."), "{text}");
        assert_eq!(list(in_set(&set, (0, 126)), |n| n).split(',').count(), MOST, "it is complete");
    }

    #[test]
    fn the_ends_of_the_numbers_are_numbers_like_others() {
        let mut set = RangeSet::default();
        set.insert(u32::MAX);
        set.insert(0);
        assert_eq!(
            in_neither(&set, &RangeSet::default(), (0, u32::MAX)).collect::<Vec<_>>(),
            [(1, u32::MAX - 1)]
        );
        assert_eq!(in_set(&set, (0, u32::MAX)).collect::<Vec<_>>(), [(0, 0), (u32::MAX, u32::MAX)]);
        assert_eq!(without((0_u32, 0), Some(0)).count(), 0);
    }
}
