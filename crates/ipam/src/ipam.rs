//! What is taken, in every domain.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;

use portolan_api::portolan::{LockAddress, LockName};
use portolan_api::{Domain, Family, IpCount};
use portolan_model::dirty::LockChange;
use portolan_model::lock::Claim;
use portolan_model::{AttachmentId, Subnet, World};

use crate::choice::Search;
use crate::domain::{Addresses, Usage, reserved, reserved_with_pools};
use crate::pools::guest_ranges;
use crate::refusal::TakenBy;
use crate::waiters::WaitKey;

/// How many addresses that became free are remembered, over all domains.
const REMEMBERED: usize = 16_384;

/// The taken addresses of every domain, and those that were promised: whose locks are being created.
///
/// It is fed with [`Dirty::locks`](portolan_model::Dirty::locks) of the World. A promise counts as taken until the World shows the lock,
/// or it is [withdrawn](Self::withdraw).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ipam {
    pub(crate) domains: BTreeMap<Domain, Addresses>,
    /// How many addresses of each family are taken from each subnet.
    using: BTreeMap<String, [u64; 2]>,
    /// By the name of the lock.
    promises: BTreeMap<String, Promise>,
    /// What became free, the oldest first, each with its event's number.
    freed: VecDeque<(u64, Domain, IpAddr)>,
    events: u64,
}

/// An address whose lock is being created.
#[derive(Clone, Debug, PartialEq)]
struct Promise {
    claim: Claim,
    to: AttachmentId,
}

/// Who has an address, as seen by an interface.
pub(crate) enum Owner {
    /// No one.
    None,
    /// The interface itself.
    Same,
    /// Someone else.
    Other(TakenBy),
}

impl Ipam {
    /// Nothing is taken.
    pub fn new() -> Self {
        Self::default()
    }

    /// All locks of a World are taken.
    pub fn of(world: &World) -> Self {
        let mut ipam = Self::new();
        for claim in world.claims() {
            ipam.take(&claim);
        }
        ipam
    }

    /// A lock was created, changed or deleted. Answers what became free.
    pub fn apply(&mut self, change: &LockChange) -> Option<Claim> {
        let promise = if change.exists { self.promises.remove(&change.lock) } else { None };
        // Of two promised or locked under one name, the lock counts.
        let before = change.before.clone().or(promise.map(|promise| promise.claim));
        let freed = before.filter(|before| change.after.as_ref() != Some(before));
        if let Some(freed) = &freed {
            self.free(freed);
        }
        if let Some(after) = &change.after {
            self.take(after);
        }
        // A lock that was deleted may be promised anew already.
        let promised = self.promises.get(&change.lock).map(|promise| promise.claim.clone());
        if let Some(claim) = &promised {
            self.take(claim);
        }
        let taken = |claim: &Claim| {
            [change.after.as_ref(), promised.as_ref()]
                .into_iter()
                .flatten()
                .any(|other| other.lock == claim.lock)
        };
        freed.filter(|claim| !taken(claim))
    }

    /// A lock is being created for an interface: its address counts as taken. False, and nothing is promised, if it was
    /// promised already.
    #[must_use]
    pub fn promise(&mut self, claim: Claim, to: AttachmentId) -> bool {
        if self.promises.contains_key(&claim.lock) {
            return false;
        }
        self.take(&claim);
        self.promises.insert(claim.lock.clone(), Promise { claim, to });
        true
    }

    /// A lock was not created after all. Answers what became free.
    pub fn withdraw(&mut self, lock: &str) -> Option<Claim> {
        let Promise { claim, .. } = self.promises.remove(lock)?;
        self.free(&claim);
        Some(claim)
    }

    /// True if what someone waits for can be had now.
    pub fn is_free(&self, world: &World, key: &WaitKey) -> bool {
        match key {
            WaitKey::Lock(name) => {
                world.lock(name).is_none()
                    && world.unreadable_lock(name).is_none()
                    && !self.promises.contains_key(name)
            }
            WaitKey::Subnet { name, family } => world.subnet(name).is_some_and(|subnet| {
                let (addresses, nothing) = (self.domains.get(&subnet.domain), BTreeSet::new());
                let reserved = reserved_with_pools(world, subnet);
                let search = Search { addresses, reserved: &reserved, promised: &nothing };
                search.has_any(subnet, *family)
            }),
            WaitKey::Pool { name, family } => {
                let pool = world.ip_pool(name).and_then(|pool| pool.config.as_ref().ok());
                let subnet = pool.and_then(|pool| world.subnet(&pool.subnet));
                pool.zip(subnet).is_some_and(|(pool, subnet)| {
                    let (addresses, nothing) = (self.domains.get(&subnet.domain), BTreeSet::new());
                    let search = Search { addresses, reserved: &reserved(subnet), promised: &nothing };
                    search.has_any_among(&guest_ranges(&pool.ranges, subnet, *family))
                })
            }
        }
    }

    /// Who has an address or MAC address, as seen by an interface.
    pub(crate) fn owner(
        &self,
        world: &World,
        domain: &Domain,
        address: LockAddress,
        id: &AttachmentId,
    ) -> Owner {
        let name = LockName::new(domain, address).to_string();
        let holder = match world.lock(&name) {
            Some(lock) => Some(&lock.attachment),
            None => self.promises.get(&name).map(|promise| &promise.to),
        };
        match holder {
            Some(holder) if holder == id => Owner::Same,
            Some(holder) => Owner::Other(TakenBy::Holder(holder.holder())),
            None if world.unreadable_lock(&name).is_some() => {
                Owner::Other(TakenBy::Unreadable { lock: name })
            }
            None => Owner::None,
        }
    }

    fn take(&mut self, claim: &Claim) {
        let LockAddress::Ip(ip) = claim.address else { return };
        let addresses = match self.domains.get_mut(&claim.domain) {
            Some(addresses) => addresses,
            None => self.domains.entry(claim.domain.clone()).or_default(),
        };
        addresses.freed.remove(&ip);
        if addresses.taken.insert(ip)
            && let Some(subnet) = &claim.subnet
        {
            match self.using.get_mut(subnet) {
                Some(using) => using[family_index(ip)] += 1,
                None => self.using.entry(subnet.clone()).or_default()[family_index(ip)] += 1,
            }
        }
    }

    fn free(&mut self, claim: &Claim) {
        let LockAddress::Ip(ip) = claim.address else { return };
        let Some(addresses) = self.domains.get_mut(&claim.domain) else { return };
        if !addresses.taken.remove(ip) {
            return;
        }
        if let Some(subnet) = &claim.subnet
            && let Some(using) = self.using.get_mut(subnet)
        {
            using[family_index(ip)] = using[family_index(ip)].saturating_sub(1);
            if *using == [0, 0] {
                self.using.remove(subnet);
            }
        }
        self.events += 1;
        addresses.freed.insert(ip, self.events);
        self.freed.push_back((self.events, claim.domain.clone(), ip));
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

    /// How many addresses of a subnet are taken, and how many are available.
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
