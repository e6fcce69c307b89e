//! The gateways of subnets. Each takes locks of its own, so that no guest can have its addresses; and as these name the Subnet by
//! UID, they also show an edit that would move the Subnet into another address domain.

use std::fmt;
use std::net::IpAddr;

use portolan_api::portolan::{Holder, HolderKind, LockAddress, LockName};
use portolan_api::{Domain, Family, FieldError, Reason};

use super::World;
use super::evaluation::Evaluation;
use super::requests::Topic;
use crate::attachment::GATEWAY_INTERFACE;
use crate::dirty::Dirty;
use crate::lock::Lock;
use crate::request::{InterfaceRequest, Requester};
use crate::subnet::{Subnet, Validation};
use crate::unit::{Unit, UnitState};

/// Why a subnet cannot have the gateway that it names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GatewayProblem {
    /// Someone else has the address.
    Taken {
        /// The address.
        address: IpAddr,
        /// Who has it; none if the lock cannot be read.
        by: Option<Holder>,
    },
    /// The address is not locked yet; another one is still in effect.
    Pending {
        /// The address.
        address: IpAddr,
    },
    /// The subnet has locks in another address domain: what decides the domain was edited.
    OtherDomain {
        /// The domain that its addresses are in.
        from: Domain,
        /// The domain that it would be in.
        to: Domain,
    },
}

impl fmt::Display for GatewayProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GatewayProblem::Taken { by: Some(by), .. } => {
                write!(f, "is taken by {by}; choose another gateway, or remove what has the address")
            }
            GatewayProblem::Taken { by: None, .. } => {
                write!(f, "is taken by an IPLock that cannot be read; choose another gateway")
            }
            GatewayProblem::Pending { .. } => write!(f, "is not locked yet"),
            GatewayProblem::OtherDomain { from, to } => {
                write!(
                    f,
                    "would move the Subnet from {from} to {to}, but its addresses are locked in {from}; undo the change and make a new Subnet"
                )
            }
        }
    }
}

impl World {
    /// Why a subnet cannot have the gateway that it names, if it cannot.
    pub fn gateway_problem(&self, subnet: &Subnet) -> Option<GatewayProblem> {
        if !has_locks(subnet) {
            return None;
        }
        let own = || self.gateway_locks(subnet);
        if let Some(lock) = own().find(|lock| *lock.domain() != subnet.domain) {
            let (from, to) = (lock.domain().clone(), subnet.domain.clone());
            return Some(GatewayProblem::OtherDomain { from, to });
        }
        subnet.config.gateway.addresses().find_map(|address| {
            let name = LockName::new(&subnet.domain, LockAddress::Ip(address)).to_string();
            match self.lock(&name) {
                Some(lock) if is_own(lock, subnet) => None,
                Some(lock) => Some(GatewayProblem::Taken { address, by: Some(lock.attachment.holder()) }),
                None if self.unreadable_locks.contains_key(&name) => {
                    Some(GatewayProblem::Taken { address, by: None })
                }
                None => {
                    let of_family = |lock: &Lock| lock.ip().map(Family::of) == Some(Family::of(address));
                    own().any(of_family).then_some(GatewayProblem::Pending { address })
                }
            }
        })
    }

    /// The locks that a subnet has on addresses of its gateway, present or former.
    fn gateway_locks(&self, subnet: &Subnet) -> impl Iterator<Item = &Lock> {
        let ids = self.held_in_name(HolderKind::Subnet, None, &subnet.name);
        let ids: Vec<_> = ids.filter(|id| *id.uid() == subnet.uid).collect();
        let names = ids.into_iter().filter_map(|id| self.holdings.get(id)).flat_map(|holding| &holding.locks);
        names.filter_map(|name| self.lock(name))
    }

    /// True if a subnet that is in effect, or none, has the locks of its gateway and no others.
    pub(super) fn is_gateway_settled(&self, name: &str) -> bool {
        let ids = self.held_in_name(HolderKind::Subnet, None, name);
        let locks = ids.filter_map(|id| self.holdings.get(id));
        let held: usize = locks.map(|holding| holding.locks.len()).sum();
        match self.known_subnet(name).filter(|subnet| is_locked(subnet)) {
            None => held == 0,
            Some(subnet) => {
                let has = |ip| {
                    let lock = self.lock(&LockName::new(&subnet.domain, LockAddress::Ip(ip)).to_string());
                    lock.is_some_and(|lock| is_own(lock, subnet))
                };
                let addresses = || subnet.config.gateway.addresses();
                addresses().all(has) && held == addresses().count()
            }
        }
    }

    pub(super) fn evaluate_subnet(&self, name: &str, requester: &Requester) -> Option<Evaluation<'_>> {
        let subnet = self.known_subnet(name).filter(|subnet| is_locked(subnet))?;
        let mut evaluation = Evaluation::new(self, requester, "", String::new());
        evaluation.topics.clear();
        evaluation.topics.insert(Topic::Subnet(name.to_owned()));
        evaluation.request.holder = Holder {
            kind: HolderKind::Subnet,
            namespace: None,
            name: name.to_owned(),
            uid: subnet.uid.clone(),
            interface: None,
        };
        match self.gateway_problem(subnet) {
            Some(problem @ GatewayProblem::OtherDomain { .. }) => {
                evaluation.request.problems.push(FieldError {
                    path: "spec".to_owned(),
                    value: None,
                    reason: Reason::Forbidden,
                    message: problem.to_string(),
                });
            }
            _ => evaluation.request.interfaces.push(InterfaceRequest {
                addresses: subnet.config.gateway.addresses().collect(),
                path: "spec.gateway".to_owned(),
                ..InterfaceRequest::new(GATEWAY_INTERFACE, name)
            }),
        }
        Some(evaluation)
    }

    /// Keeps the index of gateways, and whether the subnet's can be used.
    pub(super) fn index_gateway(&mut self, name: &str, old: Option<&Subnet>, new: Option<&Subnet>) {
        for lock in old.map(gateway_lock_names).unwrap_or_default() {
            self.subnet_indexes.by_gateway.remove(&lock, name);
        }
        for lock in new.map(gateway_lock_names).unwrap_or_default() {
            self.subnet_indexes.by_gateway.insert(lock, name.to_owned());
        }
        self.block_gateway(name);
    }

    fn block_gateway(&mut self, name: &str) {
        let blocked = self.known_subnet(name).is_some_and(|subnet| self.gateway_problem(subnet).is_some());
        if blocked {
            self.subnet_indexes.blocked_gateways.insert(name.to_owned());
        } else {
            self.subnet_indexes.blocked_gateways.remove(name);
        }
    }

    /// A lock came, changed or went that a subnet's gateway depends on.
    pub(super) fn check_gateway_of(&mut self, name: &str, dirty: &mut Dirty) {
        let before = self.subnet_state(name);
        self.block_gateway(name);
        if before != self.subnet_state(name) {
            dirty.units.insert(Unit::Subnet(name.to_owned()));
            self.dirty_attachments(name, dirty);
            self.publish(&[Topic::Subnet(name.to_owned())], dirty);
        }
        if self.subnet_state(name) != UnitState::Absent {
            self.reconsider(&Requester::subnet(name), dirty);
        }
    }
}

/// Whether the gateway's addresses are locked. Those of a node follow from its prefixes, which never change: no guest is given one.
fn has_locks(subnet: &Subnet) -> bool {
    subnet.node().is_none()
}

fn is_locked(subnet: &Subnet) -> bool {
    has_locks(subnet) && subnet.validation != Validation::Not
}

fn is_own(lock: &Lock, subnet: &Subnet) -> bool {
    let id = &lock.attachment;
    id.kind() == HolderKind::Subnet && id.name() == subnet.name && *id.uid() == subnet.uid
}

fn gateway_lock_names(subnet: &Subnet) -> Vec<String> {
    let addresses = subnet.config.gateway.addresses().filter(|_| has_locks(subnet));
    addresses.map(|ip| LockName::new(&subnet.domain, LockAddress::Ip(ip)).to_string()).collect()
}
