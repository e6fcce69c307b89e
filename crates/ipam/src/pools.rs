//! Pools: which of their addresses guests can have, and how many are taken.

use std::net::IpAddr;

use portolan_api::kubeovn::IpPoolConfig;
use portolan_api::{Family, IpRange};
use portolan_model::guest_addresses::guest_range;
use portolan_model::{Subnet, World};

use crate::domain::{Addresses, Taken, reserved};
use crate::ipam::Ipam;

/// Which addresses of a pool are taken, and which are available, of one family.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolUsage {
    /// Taken, by whomever.
    pub using: Vec<IpRange>,
    /// To be had by those who choose from the pool.
    pub available: Vec<IpRange>,
}

impl PoolUsage {
    /// How many addresses ranges have that do not overlap.
    pub fn count(ranges: &[IpRange]) -> u128 {
        ranges.iter().map(IpRange::count).fold(0, u128::saturating_add)
    }
}

impl Ipam {
    /// Which addresses of a pool are taken and available. Nothing of one whose subnet is not in effect.
    pub fn pool_usage(&self, world: &World, pool: &IpPoolConfig, family: Family) -> PoolUsage {
        let Some(subnet) = world.subnet(&pool.subnet) else { return PoolUsage::default() };
        let nothing = Addresses::default();
        let taken = &self.domains.get(&subnet.domain).unwrap_or(&nothing).taken;
        let reserved = reserved(subnet);
        let mut usage = PoolUsage::default();
        for range in guest_ranges(&pool.ranges, subnet, family) {
            let (using, free) = split(range, taken);
            usage.using.extend(using);
            usage.available.extend(free.into_iter().flat_map(|range| split(range, &reserved).1));
        }
        usage
    }
}

/// The ranges of one family that guests of a subnet can have, in order, without overlaps.
pub(crate) fn guest_ranges(ranges: &[IpRange], subnet: &Subnet, family: Family) -> Vec<IpRange> {
    let Some(guests) = subnet.config.cidr.net(family).and_then(guest_range) else { return Vec::new() };
    let mut all = Taken::default();
    for range in ranges.iter().filter(|range| range.family() == family) {
        let (start, end) = (range.start().max(guests.start()), range.end().min(guests.end()));
        if let Ok(range) = IpRange::new(start, end) {
            all.insert_range(range);
        }
    }
    all.ranges_within(guests)
}

/// The parts of a range that are in a set, and those that are not.
fn split(range: IpRange, set: &Taken) -> (Vec<IpRange>, Vec<IpRange>) {
    let inside = set.ranges_within(range);
    let (mut outside, mut from) = (Vec::new(), Some(range.start()));
    for part in &inside {
        if let Some(gap) = from.zip(before(part.start())).and_then(|(from, to)| IpRange::new(from, to).ok()) {
            outside.push(gap);
        }
        from = after(part.end());
    }
    outside.extend(from.and_then(|from| IpRange::new(from, range.end()).ok()));
    (inside, outside)
}

fn after(address: IpAddr) -> Option<IpAddr> {
    match address {
        IpAddr::V4(v4) => v4.to_bits().checked_add(1).map(|bits| IpAddr::from(bits.to_be_bytes())),
        IpAddr::V6(v6) => v6.to_bits().checked_add(1).map(|bits| IpAddr::from(bits.to_be_bytes())),
    }
}

fn before(address: IpAddr) -> Option<IpAddr> {
    match address {
        IpAddr::V4(v4) => v4.to_bits().checked_sub(1).map(|bits| IpAddr::from(bits.to_be_bytes())),
        IpAddr::V6(v6) => v6.to_bits().checked_sub(1).map(|bits| IpAddr::from(bits.to_be_bytes())),
    }
}
