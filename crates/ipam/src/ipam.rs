//! What is taken, in every domain.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use portolan_api::{Domain, Family, IpCount};
use portolan_model::{Lock, Subnet, World};

use crate::domain::{Addresses, Usage};

/// How many addresses that became free are remembered, over all domains.
const REMEMBERED: usize = 16_384;

/// The taken addresses of every domain.
///
/// It is fed with the same locks as the World: [`take`](Self::take) when one appears, [`free`](Self::free) when it goes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ipam {
    pub(crate) domains: BTreeMap<Domain, Addresses>,
    /// How many addresses of each family are taken from each subnet.
    using: BTreeMap<String, [u64; 2]>,
    /// What became free, the oldest first, each with its event's number.
    freed: VecDeque<(u64, Domain, IpAddr)>,
    events: u64,
}

impl Ipam {
    /// Nothing is taken.
    pub fn new() -> Self {
        Self::default()
    }

    /// All locks of a World are taken.
    pub fn of(world: &World) -> Self {
        let mut ipam = Self::new();
        for lock in world.locks() {
            ipam.take(lock);
        }
        ipam
    }

    /// A lock is there.
    pub fn take(&mut self, lock: &Lock) {
        let Some(ip) = lock.ip() else { return };
        let addresses = match self.domains.get_mut(&lock.domain) {
            Some(addresses) => addresses,
            None => self.domains.entry(lock.domain.clone()).or_default(),
        };
        addresses.freed.remove(&ip);
        if addresses.taken.insert(ip) {
            match self.using.get_mut(&lock.subnet) {
                Some(using) => using[family_index(ip)] += 1,
                None => self.using.entry(lock.subnet.clone()).or_default()[family_index(ip)] += 1,
            }
        }
    }

    /// A lock is gone.
    pub fn free(&mut self, lock: &Lock) {
        let Some(ip) = lock.ip() else { return };
        let Some(addresses) = self.domains.get_mut(&lock.domain) else { return };
        if !addresses.taken.remove(ip) {
            return;
        }
        if let Some(using) = self.using.get_mut(&lock.subnet) {
            using[family_index(ip)] = using[family_index(ip)].saturating_sub(1);
            if *using == [0, 0] {
                self.using.remove(&lock.subnet);
            }
        }
        self.events += 1;
        addresses.freed.insert(ip, self.events);
        self.freed.push_back((self.events, lock.domain.clone(), ip));
        if self.freed.len() > REMEMBERED {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        let Some((event, domain, ip)) = self.freed.pop_front() else { return };
        let Some(addresses) = self.domains.get_mut(&domain) else { return };
        // Unless it became free again since.
        if addresses.freed.get(&ip) == Some(&event) {
            addresses.freed.remove(&ip);
        }
        if addresses.taken.is_empty() && addresses.freed.is_empty() {
            self.domains.remove(&domain);
        }
    }

    /// True if the address is taken.
    pub fn is_taken(&self, domain: &Domain, ip: IpAddr) -> bool {
        self.domains.get(domain).is_some_and(|addresses| addresses.taken.contains(ip))
    }

    /// How many addresses of a subnet are taken, and how many are to be had.
    pub fn usage(&self, subnet: &Subnet) -> Usage {
        let [v4, v6] = self.using.get(&subnet.name).copied().unwrap_or_default().map(u128::from);
        let nothing = Addresses::default();
        let addresses = self.domains.get(&subnet.domain).unwrap_or(&nothing);
        Usage {
            v4_using: IpCount(v4),
            v4_available: IpCount(addresses.available(subnet, Family::IPv4, v4)),
            v6_using: IpCount(v6),
            v6_available: IpCount(addresses.available(subnet, Family::IPv6, v6)),
        }
    }
}

fn family_index(ip: IpAddr) -> usize {
    usize::from(ip.is_ipv6())
}
