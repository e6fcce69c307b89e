//! The taken addresses of one domain.

use std::collections::BTreeMap;
use std::net::IpAddr;

use portolan_api::{Family, IpCount, IpRange};
use portolan_model::guest_addresses::guest_range;
use portolan_model::{Subnet, World};

use crate::range_set::RangeSet;

/// The addresses of one domain that are taken, and those that became free lately.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Addresses {
    pub(crate) taken: Taken,
    /// With the number of the event by which each became free.
    pub(crate) freed: BTreeMap<IpAddr, u64>,
}

/// A set of addresses of both families.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    v4: RangeSet<u32>,
    v6: RangeSet<u128>,
}

impl Taken {
    pub(crate) fn v4(&self) -> &RangeSet<u32> {
        &self.v4
    }

    pub(crate) fn v6(&self) -> &RangeSet<u128> {
        &self.v6
    }

    /// Adds an address; false if it was there.
    pub fn insert(&mut self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(v4) => self.v4.insert(v4.to_bits()),
            IpAddr::V6(v6) => self.v6.insert(v6.to_bits()),
        }
    }

    /// Removes an address; false if it was not there.
    pub fn remove(&mut self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(v4) => self.v4.remove(v4.to_bits()),
            IpAddr::V6(v6) => self.v6.remove(v6.to_bits()),
        }
    }

    /// Adds a range of addresses.
    pub fn insert_range(&mut self, range: IpRange) {
        match (range.start(), range.end()) {
            (IpAddr::V4(a), IpAddr::V4(b)) => self.v4.insert_range(a.to_bits()..=b.to_bits()),
            (IpAddr::V6(a), IpAddr::V6(b)) => self.v6.insert_range(a.to_bits()..=b.to_bits()),
            _ => {} // a range has one family
        }
    }

    /// True if the address is in the set.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.end_of(address).is_some()
    }

    /// The last address of the range that holds this one, if it is in the set.
    pub fn end_of(&self, address: IpAddr) -> Option<IpAddr> {
        match address {
            IpAddr::V4(v4) => self.v4.end_of(v4.to_bits()).map(|bits| IpAddr::from(bits.to_be_bytes())),
            IpAddr::V6(v6) => self.v6.end_of(v6.to_bits()).map(|bits| IpAddr::from(bits.to_be_bytes())),
        }
    }

    /// How many addresses of a range are in the set.
    pub fn count(&self, range: IpRange) -> u128 {
        match (range.start(), range.end()) {
            (IpAddr::V4(a), IpAddr::V4(b)) => self.v4.count(a.to_bits()..=b.to_bits()),
            (IpAddr::V6(a), IpAddr::V6(b)) => self.v6.count(a.to_bits()..=b.to_bits()),
            _ => 0,
        }
    }

    /// The parts of a range that are in the set, in order.
    pub fn ranges_within(&self, range: IpRange) -> Vec<IpRange> {
        let of = |(start, end): (IpAddr, IpAddr)| IpRange::new(start, end).ok();
        match (range.start(), range.end()) {
            (IpAddr::V4(a), IpAddr::V4(b)) => {
                let parts = self.v4.parts_of(a.to_bits()..=b.to_bits());
                let address = |bits: u32| IpAddr::from(bits.to_be_bytes());
                parts.filter_map(|(start, end)| of((address(start), address(end)))).collect()
            }
            (IpAddr::V6(a), IpAddr::V6(b)) => {
                let parts = self.v6.parts_of(a.to_bits()..=b.to_bits());
                let address = |bits: u128| IpAddr::from(bits.to_be_bytes());
                parts.filter_map(|(start, end)| of((address(start), address(end)))).collect()
            }
            _ => Vec::new(), // a range has one family
        }
    }

    /// True if there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.v4.is_empty() && self.v6.is_empty()
    }
}

/// What is given only to those who ask for it, and what is given to no one: to those who choose from no pool.
pub(crate) fn reserved_with_pools(world: &World, subnet: &Subnet) -> Taken {
    let mut reserved = reserved(subnet);
    for range in world.pooled_ranges(&subnet.name) {
        reserved.insert_range(range);
    }
    reserved
}

/// What is given only to those who ask for it, and what is given to no one.
pub(crate) fn reserved(subnet: &Subnet) -> Taken {
    let mut reserved = Taken::default();
    for range in &subnet.config.exclude {
        reserved.insert_range(*range);
    }
    for gateway in subnet.config.gateway.addresses() {
        reserved.insert(gateway);
    }
    reserved
}

/// How many addresses of a subnet are taken, and how many are available.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// IPv4 addresses taken.
    pub v4_using: IpCount,
    /// IPv4 addresses that anyone can still be given.
    pub v4_available: IpCount,
    /// IPv6 addresses taken.
    pub v6_using: IpCount,
    /// IPv6 addresses that anyone can still be given.
    pub v6_available: IpCount,
}

impl Addresses {
    /// How many addresses of one family of a subnet are available, when so many of it are taken.
    pub(crate) fn available(&self, subnet: &Subnet, family: Family, using: u128) -> u128 {
        let Some(range) = subnet.config.cidr.net(family).and_then(guest_range) else { return 0 };
        let reserved = reserved(subnet);
        // Someone asked for these, so they count as taken and as reserved.
        let both =
            subnet.config.exclude.iter().filter(|r| r.family() == family).map(|r| self.taken.count(*r));
        let both: u128 = both.sum();
        (range.count() + both).saturating_sub(reserved.count(range)).saturating_sub(using)
    }
}
