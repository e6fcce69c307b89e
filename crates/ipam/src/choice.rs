//! How an address is chosen.
//!
//! The search starts at a hash of who asks, so that two deciders propose the same address for one holder, and different ones
//! for different holders. What became free lately is left alone while there is anything else: its last user's peers may still
//! remember it.

use std::collections::BTreeSet;
use std::net::IpAddr;

use portolan_api::{Family, IpRange};
use portolan_model::guest_addresses::guest_range;
use portolan_model::{AttachmentId, Subnet};
use sha2::{Digest, Sha256};

use crate::domain::{Addresses, Taken};

/// Looks for a free address of one family in a subnet.
pub(crate) struct Search<'a> {
    /// The domain; none if nothing in it was ever taken.
    pub(crate) addresses: Option<&'a Addresses>,
    /// Not to be given to who does not ask for it.
    pub(crate) reserved: &'a Taken,
    /// Promised by the same decision.
    pub(crate) promised: &'a BTreeSet<IpAddr>,
}

impl Search<'_> {
    /// The address for an interface.
    pub(crate) fn choose(&self, subnet: &Subnet, family: Family, id: &AttachmentId) -> Option<IpAddr> {
        let range = subnet.config.cidr.net(family).and_then(guest_range)?;
        self.choose_in(range, id)
    }

    /// The address for an interface, in one of these ranges.
    pub(crate) fn choose_among(&self, ranges: &[IpRange], id: &AttachmentId) -> Option<IpAddr> {
        // Two deciders begin at the same range.
        let first = (hash(id) % (ranges.len() as u128).max(1)) as usize;
        let (before, from) = ranges.split_at_checked(first)?;
        let ranges = || from.iter().chain(before);
        let fresh = ranges().find_map(|range| {
            let start = start(*range, id);
            self.next_free(start, range.end()).or_else(|| self.next_free(range.start(), start))
        });
        fresh.or_else(|| ranges().find_map(|range| self.freed_first(*range)))
    }

    /// True if anyone could be given an address of one of these ranges.
    pub(crate) fn has_any_among(&self, ranges: &[IpRange]) -> bool {
        ranges.iter().any(|range| {
            self.next_free(range.start(), range.end()).or_else(|| self.freed_first(*range)).is_some()
        })
    }

    fn choose_in(&self, range: IpRange, id: &AttachmentId) -> Option<IpAddr> {
        let start = start(range, id);
        self.next_free(start, range.end())
            .or_else(|| self.next_free(range.start(), start))
            .or_else(|| self.freed_first(range))
    }

    /// True if anyone could be given an address of this family.
    pub(crate) fn has_any(&self, subnet: &Subnet, family: Family) -> bool {
        let range = subnet.config.cidr.net(family).and_then(guest_range);
        range.is_some_and(|range| {
            self.next_free(range.start(), range.end()).or_else(|| self.freed_first(range)).is_some()
        })
    }

    /// The first free address from one to another, both included.
    fn next_free(&self, from: IpAddr, to: IpAddr) -> Option<IpAddr> {
        let mut address = from;
        // Each round passes a whole range that cannot be had, or one address that became free lately. The latter are few by
        // construction, the ranges that follow each other without a gap fewer.
        while address <= to {
            let taken = self.addresses.and_then(|addresses| addresses.taken.end_of(address));
            let blocked = taken.or_else(|| self.reserved.end_of(address));
            let left_alone = || {
                self.promised.contains(&address)
                    || self.addresses.is_some_and(|addresses| addresses.freed.contains_key(&address))
            };
            match blocked {
                Some(end) => address = next(end)?,
                None if left_alone() => address = next(address)?,
                None => return Some(address),
            }
        }
        None
    }

    /// Of what became free lately, what did so first.
    fn freed_first(&self, range: IpRange) -> Option<IpAddr> {
        let addresses = self.addresses?;
        let freed = addresses.freed.range(range.start()..=range.end());
        let usable = freed.filter(|(address, _)| {
            !self.promised.contains(address)
                && !self.reserved.contains(**address)
                && !addresses.taken.contains(**address)
        });
        usable.min_by_key(|(_, event)| **event).map(|(address, _)| *address)
    }
}

/// Where the search for an interface's address starts.
fn start(range: IpRange, id: &AttachmentId) -> IpAddr {
    let offset = hash(id) % range.count();
    match range.start() {
        // A range of IPv4 addresses has fewer than 2^32.
        IpAddr::V4(v4) => IpAddr::from(v4.to_bits().wrapping_add(offset as u32).to_be_bytes()),
        IpAddr::V6(v6) => IpAddr::from(v6.to_bits().wrapping_add(offset).to_be_bytes()),
    }
}

/// A number that depends on who asks, and on nothing else.
fn hash(id: &AttachmentId) -> u128 {
    let mut hash = Sha256::new();
    hash.update(b"portolan address\0");
    for part in [&*id.uid().to_string(), id.interface()] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    // All ordinals of a StatefulSet have the UID of the set.
    if id.kind().is_sticky() {
        hash.update(id.name());
    }
    let digest = hash.finalize();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    u128::from_be_bytes(bytes)
}

fn next(address: IpAddr) -> Option<IpAddr> {
    match address {
        IpAddr::V4(v4) => v4.to_bits().checked_add(1).map(|bits| IpAddr::from(bits.to_be_bytes())),
        IpAddr::V6(v6) => v6.to_bits().checked_add(1).map(|bits| IpAddr::from(bits.to_be_bytes())),
    }
}
