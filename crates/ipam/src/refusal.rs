//! Why a requester cannot have what it asks for, and what it waits for.

use std::fmt;
use std::net::IpAddr;

use portolan_api::portolan::{Holder, LockAddress, LockName};
use portolan_api::{Domain, Family, FieldError, FieldErrors, Mac};
use portolan_model::{AddressProblem, Wait};

use crate::waiters::WaitKey;

/// Why a requester cannot have what it asks for. Its text is for the Events of the requester.
#[derive(Clone, Debug, PartialEq)]
pub enum Refusal {
    /// Something is wrong with the request.
    Problem(FieldError),
    /// Something does not exist yet.
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
        /// The names of the locks on those addresses.
        locks: Vec<String>,
    },
    /// Pools have no address of a family left.
    PoolFull {
        /// The `IPPool`s.
        pools: Vec<String>,
        /// The subnet.
        subnet: String,
        /// The family.
        family: Family,
    },
    /// The address that was asked for is taken.
    Taken {
        /// The address.
        address: IpAddr,
        /// The domain.
        domain: Domain,
        /// By whom.
        by: TakenBy,
    },
    /// No guest can have the address that was asked for.
    Address {
        /// The address.
        address: IpAddr,
        /// Why not.
        problem: AddressProblem,
    },
    /// Two interfaces ask for one address.
    AskedTwice {
        /// The address.
        address: IpAddr,
    },
    /// The MAC address that was asked for is taken.
    MacTaken {
        /// The MAC address.
        mac: Mac,
        /// The domain.
        domain: Domain,
        /// By whom.
        by: TakenBy,
    },
    /// The MAC address that was asked for belongs to another IP address.
    MacOfOther {
        /// The MAC address.
        mac: Mac,
    },
    /// A lock that the holder has cannot be read: what it has is not known, and not to be changed.
    UnreadableLock {
        /// The lock's name.
        lock: String,
        /// What is wrong with it.
        errors: FieldErrors,
    },
    /// The holder's name or UID is none that Kubernetes could have given.
    BadHolder,
}

/// Who has an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TakenBy {
    /// The holder of a lock, or one for whom a lock is being created.
    Holder(Holder),
    /// A lock that cannot be read.
    Unreadable {
        /// The lock's name.
        lock: String,
    },
}

impl fmt::Display for TakenBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TakenBy::Holder(holder) => holder.fmt(f),
            TakenBy::Unreadable { lock } => write!(f, "IPLock {lock}, which cannot be read"),
        }
    }
}

impl Refusal {
    /// The name of the refusal: the reason of an Event, the label of a metric.
    pub fn reason(&self) -> &'static str {
        match self {
            Refusal::Problem(_) => "InvalidRequest",
            Refusal::Waiting(_) => "Waiting",
            Refusal::Full { .. } => "SubnetFull",
            Refusal::PoolTaken { .. } => "PoolTaken",
            Refusal::PoolFull { .. } => "PoolFull",
            Refusal::Taken { .. } => "AddressTaken",
            Refusal::Address { problem: AddressProblem::OutOfRange { .. }, .. } => "AddressOutOfRange",
            Refusal::Address { problem: AddressProblem::Gateway { .. }, .. } => "AddressIsGateway",
            Refusal::Address { problem: AddressProblem::OfNode { .. }, .. } => "AddressOfNode",
            Refusal::Address { problem: AddressProblem::NotAGuest { .. }, .. } => "AddressNotForGuests",
            Refusal::AskedTwice { .. } => "AddressAskedTwice",
            Refusal::MacTaken { .. } => "MacTaken",
            Refusal::MacOfOther { .. } => "MacOfOtherAddress",
            Refusal::UnreadableLock { .. } => "UnreadableLock",
            Refusal::BadHolder => "BadHolder",
        }
    }

    /// What the requester waits for, beside changes of the objects that it names: each of these may become free.
    pub fn waits_for(&self) -> Vec<WaitKey> {
        let lock = |domain: &Domain, address| WaitKey::Lock(LockName::new(domain, address).to_string());
        match self {
            Refusal::Full { subnet, family } => {
                vec![WaitKey::Subnet { name: subnet.clone(), family: *family }]
            }
            Refusal::PoolFull { pools, family, .. } => {
                let key = |name: &String| WaitKey::Pool { name: name.clone(), family: *family };
                pools.iter().map(key).collect()
            }
            Refusal::PoolTaken { locks, .. } => locks.iter().cloned().map(WaitKey::Lock).collect(),
            // It may not say whose it is, so that its end concerns nobody in particular.
            Refusal::UnreadableLock { lock, .. } => vec![WaitKey::Lock(lock.clone())],
            Refusal::Taken { address, domain, .. } => vec![lock(domain, LockAddress::Ip(*address))],
            Refusal::MacTaken { mac, domain, .. } => vec![lock(domain, LockAddress::Mac(*mac))],
            Refusal::Problem(_)
            | Refusal::Waiting(_)
            | Refusal::Address { .. }
            | Refusal::AskedTwice { .. }
            | Refusal::MacOfOther { .. }
            | Refusal::BadHolder => Vec::new(),
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
            Refusal::PoolFull { pools, subnet, family } => write!(
                f,
                "IPPool {} of Subnet {subnet} has no {family} address left; waiting for one to become free",
                pools.join(", ")
            ),
            Refusal::PoolTaken { subnet, interface, .. } => write!(
                f,
                "none of the addresses that {interface} may have in Subnet {subnet} is free; waiting for one"
            ),
            Refusal::Taken { address, domain, by } => {
                write!(f, "{address} in {domain} is taken by {by}; waiting for it, or ask for another")
            }
            Refusal::Address { address, problem } => write!(f, "{address} {problem}"),
            Refusal::AskedTwice { address } => {
                write!(f, "{address} is asked for by two interfaces; remove it from one")
            }
            Refusal::MacTaken { mac, domain, by } => {
                write!(f, "{mac} in {domain} is taken by {by}; waiting for it, or ask for another")
            }
            Refusal::MacOfOther { mac } => write!(
                f,
                "{mac} is the MAC address that belongs to another IP address than this interface's; ask for another, or for none"
            ),
            Refusal::UnreadableLock { lock, errors } => {
                write!(
                    f,
                    "its IPLock {lock} cannot be read: {errors}; correct the lock; if you cannot, delete the pod first and then the lock"
                )
            }
            Refusal::BadHolder => {
                f.write_str("its name, UID or interface is none that Kubernetes could have given")
            }
        }
    }
}
