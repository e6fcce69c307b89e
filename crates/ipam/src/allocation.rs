//! The addresses of one requester: what each of its interfaces has and gets.

use std::collections::BTreeSet;
use std::net::IpAddr;

use portolan_api::portolan::{LockAddress, LockName};
use portolan_api::{AddressPair, Domain, Family, Mac, Vni};
use portolan_model::{AttachmentId, InterfaceRequest, Pool, Request, Subnet, World};

use crate::choice::Search;
use crate::domain::{reserved, reserved_with_pools};
use crate::ipam::{Ipam, Owner};
use crate::pools::guest_ranges;
use crate::refusal::Refusal;

/// What one interface has and gets.
pub(crate) struct Share<'w> {
    pub(crate) id: AttachmentId,
    pub(crate) subnet: &'w Subnet,
    /// Every address it will have, and whether that is locked already.
    pub(crate) addresses: Vec<(IpAddr, Standing)>,
    pub(crate) mac: Mac,
    /// Whether its MAC address has to be locked, because someone asked for it.
    pub(crate) mac_lock: Option<Standing>,
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Standing {
    Held,
    New,
}

/// One decision in the making.
pub(crate) struct Allocation<'a> {
    ipam: &'a Ipam,
    world: &'a World,
    request: &'a Request,
    /// Addresses that this decision gives away, so that none is given twice. Domains are not told apart: at worst a free
    /// address of one is passed over because the other has it.
    promised: BTreeSet<IpAddr>,
    pub(crate) refusals: Vec<Refusal>,
}

impl<'a> Allocation<'a> {
    pub(crate) fn new(ipam: &'a Ipam, world: &'a World, request: &'a Request) -> Self {
        Self { ipam, world, request, promised: BTreeSet::new(), refusals: Vec::new() }
    }

    pub(crate) fn share(&mut self, interface: &InterfaceRequest) -> Option<Share<'a>> {
        let Some(id) = AttachmentId::new(self.request.holder_of(interface), &interface.interface) else {
            self.refusals.push(Refusal::BadHolder);
            return None;
        };
        // A request that is ready has subnets that are in effect.
        let subnet = self.world.subnet(&interface.subnet)?;
        let held = self.world.held_locks(&id);
        let held = held
            .counted
            .iter()
            .filter(|lock| *lock.subnet() == subnet.name && *lock.domain() == subnet.domain);
        let held: Vec<IpAddr> = held.filter_map(|lock| lock.ip()).collect();
        let refused = self.refusals.len();
        let mut addresses = Vec::new();
        let outside =
            interface.addresses.iter().filter(|address| !subnet.config.cidr.has(Family::of(**address)));
        let refuse = |address: &IpAddr| {
            Some(Refusal::Address { address: *address, problem: subnet.address_problem(*address)? })
        };
        self.refusals.extend(outside.filter_map(refuse));
        let has_asked = !interface.addresses.is_empty();
        let pooled =
            if interface.addresses.is_empty() { self.pooled(interface, subnet, &id, &held) } else { None };
        for family in subnet.config.cidr.families() {
            let of_family = |address: &&IpAddr| Family::of(**address) == family;
            let asked: Vec<IpAddr> = match pooled {
                Some(pair) => pair.addresses().filter(|address| of_family(&address)).collect(),
                None => interface.addresses.iter().filter(of_family).copied().collect(),
            };
            if !asked.is_empty() {
                addresses.extend(
                    asked.into_iter().filter_map(|address| self.exactly(address, subnet, &id, &held)),
                );
                continue;
            }
            let kept: Vec<_> = held.iter().filter(of_family).take(interface.count).collect();
            let may_choose = pooled.is_some() || !matches!(interface.pool, Pool::Listed(_)) || has_asked;
            let missing = if kept.is_empty() && !may_choose { 0 } else { interface.count - kept.len() };
            addresses.extend(kept.into_iter().map(|held| (*held, Standing::Held)));
            for _ in 0..missing {
                let chosen = self.any(family, subnet, &id, &interface.pool);
                addresses.extend(chosen.map(|address| (address, Standing::New)));
            }
        }
        if self.refusals.len() > refused {
            return None;
        }
        let (mac, mac_lock) = self.mac(interface, subnet, &id, &addresses)?;
        Some(Share { id, subnet, addresses, mac, mac_lock })
    }

    /// Exactly this address, if it can be had.
    fn exactly(
        &mut self,
        address: IpAddr,
        subnet: &Subnet,
        id: &AttachmentId,
        held: &[IpAddr],
    ) -> Option<(IpAddr, Standing)> {
        if held.contains(&address) {
            return Some((address, Standing::Held));
        }
        if let Some(problem) = subnet.address_problem_for(id.kind(), address) {
            self.refusals.push(Refusal::Address { address, problem });
            return None;
        }
        match self.ipam.owner(self.world, &subnet.domain, LockAddress::Ip(address), id) {
            Owner::Same => Some((address, Standing::Held)),
            Owner::Other(by) => {
                self.refusals.push(Refusal::Taken { address, domain: subnet.domain.clone(), by });
                None
            }
            Owner::None if self.promised.insert(address) => Some((address, Standing::New)),
            Owner::None => {
                self.refusals.push(Refusal::AskedTwice { address });
                None
            }
        }
    }

    /// Any address of a family, of a pool if it has such.
    fn any(&mut self, family: Family, subnet: &Subnet, id: &AttachmentId, pool: &Pool) -> Option<IpAddr> {
        let named = match pool {
            Pool::Named { names, ranges } => {
                let has_family = ranges.iter().any(|range| range.family() == family);
                has_family.then(|| (names, guest_ranges(ranges, subnet, family)))
            }
            Pool::Any | Pool::Listed(_) => None,
        };
        let reserved =
            if named.is_some() { reserved(subnet) } else { reserved_with_pools(self.world, subnet) };
        let chosen = loop {
            let addresses = self.ipam.domains.get(&subnet.domain);
            let search = Search { addresses, reserved: &reserved, promised: &self.promised };
            let chosen = match &named {
                Some((_, ranges)) => search.choose_among(ranges, id),
                None => search.choose(subnet, family, id),
            };
            // A lock that cannot be read, in a domain whose name is too long to be in it, takes its address all the same.
            let free = |ip| {
                let name = LockName::new(&subnet.domain, LockAddress::Ip(ip)).to_string();
                self.world.unreadable_lock(&name).is_none()
            };
            match chosen.filter(|_| self.world.has_unreadable_locks()) {
                Some(ip) if !free(ip) => self.promised.insert(ip),
                _ => break chosen,
            };
        };
        match chosen {
            Some(address) => {
                self.promised.insert(address);
            }
            None => {
                let subnet = subnet.name.clone();
                self.refusals.push(match named {
                    Some((names, _)) => Refusal::PoolFull { pools: names.clone(), subnet, family },
                    None => Refusal::Full { subnet, family },
                });
            }
        }
        chosen
    }

    /// The first of the addresses to choose from that can be had whole.
    fn pooled(
        &mut self,
        interface: &InterfaceRequest,
        subnet: &Subnet,
        id: &AttachmentId,
        held: &[IpAddr],
    ) -> Option<AddressPair> {
        let Pool::Listed(pool) = &interface.pool else { return None };
        let free = |address: IpAddr| {
            let owner = self.ipam.owner(self.world, &subnet.domain, LockAddress::Ip(address), id);
            subnet.address_problem_for(id.kind(), address).is_none()
                && !self.promised.contains(&address)
                && !matches!(owner, Owner::Other(_))
        };
        let holds = |pair: &&AddressPair| pair.addresses().all(|address| held.contains(&address));
        let can_have = |pair: &&AddressPair| pair.addresses().all(free);
        let found = pool.iter().find(holds).or_else(|| pool.iter().find(can_have)).copied();
        if found.is_none() {
            let addresses = pool.iter().flat_map(AddressPair::addresses);
            let name = |ip| LockName::new(&subnet.domain, LockAddress::Ip(ip)).to_string();
            let locks = addresses.map(name).collect();
            let (subnet, interface) = (subnet.name.clone(), interface.interface.clone());
            self.refusals.push(Refusal::PoolTaken { subnet, interface, locks });
        }
        found
    }

    /// The interface's MAC address, and whether it has to be locked.
    fn mac(
        &mut self,
        interface: &InterfaceRequest,
        subnet: &Subnet,
        id: &AttachmentId,
        addresses: &[(IpAddr, Standing)],
    ) -> Option<(Mac, Option<Standing>)> {
        let vni = vni(&subnet.domain);
        // IPv4 stands first wherever there is some.
        let derived: Vec<_> = addresses.iter().map(|(address, _)| Mac::derive(*address, vni)).collect();
        let Some(asked) = interface.mac else { return derived.first().map(|mac| (*mac, None)) };
        if derived.first() == Some(&asked) || (asked.looks_derived(vni) && derived.contains(&asked)) {
            return Some((asked, None));
        }
        if asked.looks_derived(vni) {
            self.refusals.push(Refusal::MacOfOther { mac: asked });
            return None;
        }
        match self.ipam.owner(self.world, &subnet.domain, LockAddress::Mac(asked), id) {
            Owner::Same => Some((asked, Some(Standing::Held))),
            Owner::Other(by) => {
                self.refusals.push(Refusal::MacTaken { mac: asked, domain: subnet.domain.clone(), by });
                None
            }
            Owner::None => Some((asked, Some(Standing::New))),
        }
    }
}

fn vni(domain: &Domain) -> Option<Vni> {
    match domain {
        Domain::Vni(vni) => Some(*vni),
        Domain::Vpc(_) | Domain::Subnet(_) => None,
    }
}
