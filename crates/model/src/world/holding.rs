//! What the locks of one interface amount to.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use portolan_api::portolan::{HolderKind, LockAddress};
use portolan_api::{Domain, Family, Mac};
use smol_str::SmolStr;

use super::few::Few;
use crate::attachment::{Attachment, AttachmentId};
use crate::lock::{Lock, PortName};

/// The locks of one interface, and the attachment they make when they are all there.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Holding {
    pub(super) locks: Few<SmolStr>,
    /// Its locks that cannot be read, by name. While there are any, nobody knows what it should have.
    pub(super) unreadable: BTreeSet<SmolStr>,
    pub(super) attachment: Option<Box<Attachment>>,
    /// There are locks beyond those that count.
    pub(super) surplus: bool,
}

impl Holding {
    pub(super) fn is_empty(&self) -> bool {
        self.locks.is_empty() && self.unreadable.is_empty()
    }

    pub(crate) fn attachment(&self) -> Option<&Attachment> {
        self.attachment.as_deref()
    }
}

/// The locks of one interface, sorted out.
#[derive(Clone, Debug, Default)]
pub struct HeldLocks<'w> {
    /// Those that count: as many of each family as were decided, the first created first. Of MACs, the one in use.
    pub counted: Vec<&'w Lock>,
    /// Those that do not, and are to go.
    pub surplus: Vec<&'w Lock>,
    /// True if nothing that was decided is missing.
    pub complete: bool,
    /// The MAC address of the interface, as far as the locks tell.
    pub mac: Option<Mac>,
}

impl<'w> HeldLocks<'w> {
    /// Sorts the locks of one interface out.
    pub(crate) fn of(id: &AttachmentId, locks: impl Iterator<Item = &'w Lock>) -> Self {
        let mut locks: Vec<_> = locks.collect();
        locks.sort_by(|a, b| a.precedence(b));
        // The first lock on an address says what was decided: every decider writes the whole of it into each.
        let Some(&first) = locks.iter().find(|lock| lock.ip().is_some()) else {
            return Self { surplus: Vec::new(), counted: locks, complete: false, mac: None };
        };
        let decided = first.interfaces.iter().find(|decided| decided.interface == id.interface());
        let mut open: Vec<Family> = match decided {
            Some(decided) => decided.families.clone(),
            // A gateway has as many addresses as its Subnet says, and both gateways' while it changes.
            None if id.kind() == HolderKind::Subnet => {
                locks.iter().filter_map(|lock| lock.ip()).map(Family::of).collect()
            }
            None => first.ip().map(Family::of).into_iter().collect(),
        };
        let mut held = Self::default();
        let (ips, macs): (Vec<_>, Vec<_>) = locks.into_iter().partition(|lock| lock.ip().is_some());
        for lock in ips {
            let fits = lock.network == first.network;
            let place = lock.ip().and_then(|ip| open.iter().position(|family| *family == Family::of(ip)));
            match place.filter(|_| fits) {
                Some(place) => {
                    open.remove(place);
                    held.counted.push(lock);
                }
                None => held.surplus.push(lock),
            }
        }
        let wanted = held.wanted_mac(first.domain());
        let (used, unused): (Vec<_>, Vec<_>) = macs
            .into_iter()
            .partition(|lock| lock.domain() == first.domain() && wanted == WantedMac::Asked(lock.address));
        held.complete = open.is_empty() && (!used.is_empty() || matches!(wanted, WantedMac::Derived(_)));
        held.mac = Some(match wanted {
            WantedMac::Derived(mac) | WantedMac::Asked(LockAddress::Mac(mac)) => mac,
            WantedMac::Asked(LockAddress::Ip(_)) => return held, // a wanted MAC is never an IP
        });
        held.counted.extend(used);
        held.surplus.extend(unused);
        held
    }

    /// The IP addresses that count, in the order of the locks.
    pub fn ips(&self) -> impl Iterator<Item = IpAddr> {
        self.counted.iter().filter_map(|lock| lock.ip())
    }

    /// The MAC address that the counted locks ask for.
    ///
    /// One that was derived is derived again from the addresses that came of it: a lock that was made before another one was
    /// lost to a rival still names the MAC of the lost address.
    fn wanted_mac(&self, domain: &Domain) -> WantedMac {
        let vni = match domain {
            Domain::Vni(vni) => Some(*vni),
            Domain::Vpc(_) | Domain::Subnet(_) => None,
        };
        let mut ips: Vec<_> = self.ips().collect();
        ips.sort();
        let has_v4 = ips.first().is_some_and(IpAddr::is_ipv4);
        ips.retain(|ip| ip.is_ipv4() == has_v4);
        let derived: Vec<_> = ips.iter().map(|ip| Mac::derive(*ip, vni)).collect();
        let named = || self.counted.iter().filter_map(|lock| lock.mac);
        let own = |lock: &&Lock| lock.ip().map(|ip| Mac::derive(ip, vni)) == lock.mac;
        let asked = self.counted.iter().filter(|lock| !own(lock)).filter_map(|lock| lock.mac);
        if let Some(mac) = asked.into_iter().find(|mac| !mac.looks_derived(vni) && !derived.contains(mac)) {
            return WantedMac::Asked(LockAddress::Mac(mac));
        }
        let agreed = derived.iter().find(|mac| named().any(|named| named == **mac));
        let mac = agreed.or(derived.first()).copied();
        WantedMac::Derived(mac.unwrap_or(Mac::new([0; 6])))
    }

    /// The attachment that the locks make, if nothing is missing.
    pub(crate) fn attachment(&self, id: &AttachmentId) -> Option<Attachment> {
        // A gateway is a port of the VPC's router.
        let mac = self.mac.filter(|_| self.complete && id.kind() != HolderKind::Subnet)?;
        let locks = || self.counted.iter().filter(|lock| lock.ip().is_some());
        let first = locks().next()?;
        let vni = match first.domain() {
            Domain::Vni(vni) => Some(*vni),
            _ => None,
        };
        let mut addresses: Vec<_> = self.ips().collect();
        addresses.sort_by_key(|ip| (Family::of(*ip), Mac::derive(*ip, vni) != mac, *ip));
        // Locks of a holder that outlives its pods move one by one: the last that moved tells where to.
        let latest = locks().max_by_key(|lock| (lock.generation, &lock.name))?;
        let port = locks().map(|lock| &lock.port).find(|port| **port != PortName::Unsaid);
        let unusual_iface_id = match port {
            Some(PortName::Other(name)) => Some(name.clone()),
            _ => None,
        };
        Some(Attachment {
            id: id.clone(),
            network: Arc::clone(&first.network),
            addresses: addresses.into(),
            mac,
            place: Arc::clone(&latest.place),
            user: latest.user.clone(),
            unusual_iface_id,
        })
    }
}

#[derive(Clone, Copy, PartialEq)]
enum WantedMac {
    /// It follows from the addresses.
    Derived(Mac),
    /// Someone asked for it, and it has a lock of its own.
    Asked(LockAddress),
}
