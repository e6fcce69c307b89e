//! Deciding: from what someone asks for to the locks that give it.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;

use portolan_api::portolan::{
    DecidedInterface, Holder, HolderKind, IPLock, IPLockSpec, LockAddress, LockName, LockUser,
};
use portolan_api::{AddressPair, Domain, Family, FieldError, Mac, Vni};
use portolan_model::{AttachmentId, InterfaceRequest, Lock, Request, Requester, Subnet, Wait, World};

use crate::choice::Search;
use crate::domain::{guest_range, reserved};
use crate::ipam::Ipam;
use crate::release::{Release, releases};

/// What is to be done for someone who asks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// Locks to be created, each of which is one address or MAC address taken. All or nothing: while anything is refused, none.
    pub create: Vec<IPLock>,
    /// Locks of a holder that outlives its pods, to follow the current one.
    pub moves: Vec<Move>,
    /// Locks to be given back, after confirmation.
    pub releases: Vec<Release>,
    /// Why it cannot be, now or ever.
    pub refusals: Vec<Refusal>,
}

/// A lock whose `user`, `node` and `hostIP` are to follow the current pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// The lock's name.
    pub lock: String,
    /// The lock's UID.
    pub uid: String,
    /// The pod that uses it now.
    pub user: LockUser,
    /// The node where it is used.
    pub node: String,
    /// That node's address.
    pub host_ip: Option<IpAddr>,
}

/// Why someone cannot have what was asked for. Its text is for the Events of who asks.
#[derive(Clone, Debug, PartialEq)]
pub enum Refusal {
    /// Something is wrong with the request.
    Problem(FieldError),
    /// Something is not there yet.
    Waiting(Wait),
    /// A subnet has no address of a family left.
    Full {
        /// The subnet.
        subnet: String,
        /// The family.
        family: Family,
    },
    /// None of the addresses to choose from is free.
    PoolTaken {
        /// The subnet.
        subnet: String,
        /// The interface.
        interface: String,
    },
    /// The address that was asked for is someone else's.
    Taken {
        /// The address.
        address: IpAddr,
        /// The domain.
        domain: Domain,
        /// Whose it is.
        by: Holder,
    },
    /// The address that was asked for is not one of the subnet's.
    OutOfRange {
        /// The address.
        address: IpAddr,
        /// The subnet.
        subnet: String,
        /// Its prefixes.
        cidr: String,
    },
    /// The address that was asked for is the gateway's.
    Gateway {
        /// The address.
        address: IpAddr,
        /// The subnet.
        subnet: String,
    },
    /// The address that was asked for is no guest's: the network's own or its broadcast address.
    NotAGuest {
        /// The address.
        address: IpAddr,
        /// The subnet.
        subnet: String,
    },
    /// Two interfaces ask for one address.
    AskedTwice {
        /// The address.
        address: IpAddr,
    },
    /// The MAC address that was asked for is someone else's.
    MacTaken {
        /// The MAC address.
        mac: Mac,
        /// Whose it is.
        by: Holder,
    },
    /// The MAC address that was asked for belongs to another IP address.
    MacOfOther {
        /// The MAC address.
        mac: Mac,
    },
    /// The holder's name or UID is none that Kubernetes could have given.
    BadHolder,
}

impl Refusal {
    /// The name of the refusal: the reason of an Event, the label of a metric.
    pub fn reason(&self) -> &'static str {
        match self {
            Refusal::Problem(_) => "InvalidRequest",
            Refusal::Waiting(_) => "Waiting",
            Refusal::Full { .. } => "SubnetFull",
            Refusal::PoolTaken { .. } => "PoolTaken",
            Refusal::Taken { .. } => "AddressTaken",
            Refusal::OutOfRange { .. } => "AddressOutOfRange",
            Refusal::Gateway { .. } => "AddressIsGateway",
            Refusal::NotAGuest { .. } => "AddressNotForGuests",
            Refusal::AskedTwice { .. } => "AddressAskedTwice",
            Refusal::MacTaken { .. } => "MacTaken",
            Refusal::MacOfOther { .. } => "MacOfOtherAddress",
            Refusal::BadHolder => "BadHolder",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Problem(problem) => problem.fmt(f),
            Refusal::Waiting(wait) => wait.fmt(f),
            Refusal::Full { subnet, family } => {
                write!(f, "Subnet {subnet} has no {family} address left; waiting for one to become free")
            }
            Refusal::PoolTaken { subnet, interface } => {
                write!(f, "none of the addresses that {interface} may have in Subnet {subnet} is free")
            }
            Refusal::Taken { address, domain, by } => {
                write!(f, "{address} in {domain} is taken by {}; ask for another", Named(by))
            }
            Refusal::OutOfRange { address, subnet, cidr } => {
                write!(f, "{address} is not in Subnet {subnet}, which has {cidr}; ask for another")
            }
            Refusal::Gateway { address, subnet } => {
                write!(f, "{address} is the gateway of Subnet {subnet}; ask for another")
            }
            Refusal::NotAGuest { address, subnet } => {
                write!(f, "{address} is the network or broadcast address of Subnet {subnet}; ask for another")
            }
            Refusal::AskedTwice { address } => {
                write!(f, "{address} is asked for by two interfaces; remove it from one")
            }
            Refusal::MacTaken { mac, by } => write!(f, "{mac} is taken by {}; ask for another", Named(by)),
            Refusal::MacOfOther { mac } => write!(
                f,
                "{mac} is the MAC address that belongs to another IP address than this interface's; ask for another, or for none"
            ),
            Refusal::BadHolder => {
                f.write_str("its name, UID or interface is none that Kubernetes could have given")
            }
        }
    }
}

/// A holder as people read it.
struct Named<'a>(&'a Holder);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.0.kind {
            HolderKind::Pod => "Pod",
            HolderKind::StatefulSet => "StatefulSet ordinal",
            HolderKind::VirtualMachine => "VirtualMachine",
            HolderKind::NetworkAttachment => "NetworkAttachment",
            HolderKind::Node => "Node",
        };
        write!(f, "{kind} ")?;
        if let Some(namespace) = &self.0.namespace {
            write!(f, "{namespace}/")?;
        }
        f.write_str(&self.0.name)
    }
}

impl Decision {
    /// True if there is nothing to do and nothing to say.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The full subnets whose waiters the one who asks should join.
    pub fn full_subnets(&self) -> impl Iterator<Item = String> {
        self.refusals.iter().filter_map(|refusal| match refusal {
            Refusal::Full { subnet, .. } | Refusal::PoolTaken { subnet, .. } => Some(subnet.clone()),
            _ => None,
        })
    }
}

impl Ipam {
    /// What is to be done for someone who asks, or asked.
    pub fn decide(&self, world: &World, requester: &Requester) -> Decision {
        let request = world.request(requester);
        let mut decision =
            Decision { releases: releases(world, requester, request.as_ref()), ..Decision::default() };
        let Some(request) = request else { return decision };
        if !request.is_ready() {
            let problems = request.problems.into_iter().map(Refusal::Problem);
            decision.refusals = problems.chain(request.waits.into_iter().map(Refusal::Waiting)).collect();
            return decision;
        }
        let mut deal =
            Deal { ipam: self, world, request: &request, promised: BTreeSet::new(), refusals: Vec::new() };
        let shares: Vec<_> =
            request.interfaces.iter().filter_map(|interface| deal.share(interface)).collect();
        decision.refusals = deal.refusals;
        if decision.refusals.is_empty() {
            decision.create = locks(&request, &shares);
            decision.moves = moves(world, &request, &shares);
        }
        decision
    }
}

/// What one interface has and gets.
struct Share<'w> {
    id: AttachmentId,
    subnet: &'w Subnet,
    /// Every address it will have, and whether that is locked already.
    addresses: Vec<(IpAddr, Standing)>,
    mac: Mac,
    /// Whether its MAC address has to be locked, because someone asked for it.
    mac_lock: Option<Standing>,
}

#[derive(Clone, Copy, PartialEq)]
enum Standing {
    Held,
    New,
}

/// One decision in the making.
struct Deal<'a> {
    ipam: &'a Ipam,
    world: &'a World,
    request: &'a Request,
    /// Addresses that this decision gives away, so that none is given twice. Domains are not told apart: at worst a free
    /// address of one is passed over because the other has it.
    promised: BTreeSet<IpAddr>,
    refusals: Vec<Refusal>,
}

impl<'a> Deal<'a> {
    fn share(&mut self, interface: &InterfaceRequest) -> Option<Share<'a>> {
        let Some(id) = AttachmentId::new(&self.request.holder, &interface.interface) else {
            self.refusals.push(Refusal::BadHolder);
            return None;
        };
        // A request that is ready has subnets that are in effect.
        let subnet = self.world.subnet(&interface.subnet)?;
        let held = self.world.held_locks(&id);
        let held =
            held.counted.iter().filter(|lock| lock.subnet == subnet.name && lock.domain == subnet.domain);
        let held: Vec<IpAddr> = held.filter_map(|lock| lock.ip()).collect();
        let refused = self.refusals.len();
        let mut addresses = Vec::new();
        let outside =
            interface.addresses.iter().filter(|address| !subnet.config.cidr.has(Family::of(**address)));
        for address in outside {
            self.refuse_address(*address, subnet);
        }
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
            } else if let Some(held) = held.iter().find(of_family) {
                addresses.push((*held, Standing::Held));
            } else if pooled.is_some() || interface.pool.is_empty() || !interface.addresses.is_empty() {
                addresses.extend(self.any(family, subnet, &id).map(|address| (address, Standing::New)));
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
        if !self.is_for_guests(address, subnet) {
            self.refuse_address(address, subnet);
            return None;
        }
        match self.holder_of(&subnet.domain, LockAddress::Ip(address)) {
            Some(lock) if lock.attachment == *id => Some((address, Standing::Held)),
            Some(lock) => {
                let (domain, by) = (subnet.domain.clone(), lock.attachment.holder());
                self.refusals.push(Refusal::Taken { address, domain, by });
                None
            }
            None if self.promised.insert(address) => Some((address, Standing::New)),
            None => {
                self.refusals.push(Refusal::AskedTwice { address });
                None
            }
        }
    }

    /// Any address of a family.
    fn any(&mut self, family: Family, subnet: &Subnet, id: &AttachmentId) -> Option<IpAddr> {
        let search = Search {
            addresses: self.ipam.domains.get(&subnet.domain),
            reserved: &reserved(subnet),
            promised: &self.promised,
        };
        let chosen = search.choose(subnet, family, id);
        match chosen {
            Some(address) => {
                self.promised.insert(address);
            }
            None => self.refusals.push(Refusal::Full { subnet: subnet.name.clone(), family }),
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
        if interface.pool.is_empty() {
            return None;
        }
        let free = |address: IpAddr| {
            let mine = |lock: &Lock| lock.attachment == *id;
            self.is_for_guests(address, subnet)
                && !self.promised.contains(&address)
                && self.holder_of(&subnet.domain, LockAddress::Ip(address)).is_none_or(mine)
        };
        let holds = |pair: &&AddressPair| pair.addresses().all(|address| held.contains(&address));
        let can_have = |pair: &&AddressPair| pair.addresses().all(free);
        let found =
            interface.pool.iter().find(holds).or_else(|| interface.pool.iter().find(can_have)).copied();
        if found.is_none() {
            let (subnet, interface) = (subnet.name.clone(), interface.interface.clone());
            self.refusals.push(Refusal::PoolTaken { subnet, interface });
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
        match self.holder_of(&subnet.domain, LockAddress::Mac(asked)) {
            Some(lock) if lock.attachment == *id => Some((asked, Some(Standing::Held))),
            Some(lock) => {
                self.refusals.push(Refusal::MacTaken { mac: asked, by: lock.attachment.holder() });
                None
            }
            None => Some((asked, Some(Standing::New))),
        }
    }

    fn holder_of(&self, domain: &Domain, address: LockAddress) -> Option<&'a Lock> {
        self.world.lock(&LockName::new(domain, address).to_string())
    }

    fn is_for_guests(&self, address: IpAddr, subnet: &Subnet) -> bool {
        let range = subnet.config.cidr.net(Family::of(address)).and_then(guest_range);
        range.is_some_and(|range| range.contains(address))
            && subnet.config.gateway.address(Family::of(address)) != Some(address)
    }

    fn refuse_address(&mut self, address: IpAddr, subnet: &Subnet) {
        let name = subnet.name.clone();
        self.refusals.push(if !subnet.config.cidr.contains(address) {
            Refusal::OutOfRange { address, subnet: name, cidr: subnet.config.cidr.to_string() }
        } else if subnet.config.gateway.addresses().any(|gateway| gateway == address) {
            Refusal::Gateway { address, subnet: name }
        } else {
            Refusal::NotAGuest { address, subnet: name }
        });
    }
}

fn vni(domain: &Domain) -> Option<Vni> {
    match domain {
        Domain::Vni(vni) => Some(*vni),
        Domain::Vpc(_) | Domain::Subnet(_) => None,
    }
}

/// The locks that are not there yet.
fn locks(request: &Request, shares: &[Share<'_>]) -> Vec<IPLock> {
    let interfaces: Vec<_> = shares
        .iter()
        .map(|share| DecidedInterface {
            interface: share.id.interface().to_owned(),
            families: share.addresses.iter().map(|(address, _)| Family::of(*address)).collect(),
        })
        .collect();
    let mut locks = Vec::new();
    for share in shares {
        let spec = IPLockSpec {
            subnet: share.subnet.name.clone(),
            mac: Some(share.mac.to_string()),
            holder: share.id.holder(),
            node: Some(request.node.clone()),
            host_ip: request.host_ip.map(|ip| ip.to_string()),
            user: request.user.clone(),
            iface_id: Some(share.id.iface_id()),
            interfaces: interfaces.clone(),
            ..IPLockSpec::default()
        };
        let domain = &share.subnet.domain;
        let first = share.addresses.first().map(|(address, _)| *address);
        for (address, _) in share.addresses.iter().filter(|(_, standing)| *standing == Standing::New) {
            // A MAC that follows from another IPv6 address is told by that one's lock alone: if it is lost to a rival, no one
            // could tell that the MAC is stale.
            let tell =
                share.mac_lock.is_some() || first == Some(*address) || first.is_some_and(|a| a.is_ipv4());
            let mac = spec.mac.clone().filter(|_| tell);
            locks.push(IPLock::of(domain, LockAddress::Ip(*address), IPLockSpec { mac, ..spec.clone() }));
        }
        if share.mac_lock == Some(Standing::New) {
            locks.push(IPLock::of(domain, LockAddress::Mac(share.mac), spec));
        }
    }
    locks
}

/// The locks that are to follow the current pod.
fn moves(world: &World, request: &Request, shares: &[Share<'_>]) -> Vec<Move> {
    let Some(user) = &request.user else { return Vec::new() };
    let held = shares.iter().flat_map(|share| world.held_locks(&share.id).counted);
    let behind = held.filter(|lock| {
        lock.user.as_ref() != Some(user)
            || lock.node.as_deref() != Some(&request.node)
            || lock.host_ip != request.host_ip
    });
    behind
        .map(|lock| Move {
            lock: lock.name.clone(),
            uid: lock.uid.clone(),
            user: user.clone(),
            node: request.node.clone(),
            host_ip: request.host_ip,
        })
        .collect()
}
