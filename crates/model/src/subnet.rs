//! Subnets as the World holds them.

use std::net::IpAddr;

use portolan_api::portolan::HolderKind;
use portolan_api::subnet_config::AllowedNamespaces;
pub use portolan_api::subnet_config::DEFAULT_VPC;
use portolan_api::{Domain, Family, Provider, SubnetConfig};

use crate::group::Group;
use crate::guest_addresses::{AddressProblem, guest_range};
use crate::life::Life;
use crate::lock::Lock;

/// A virtual switch with its prefixes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subnet {
    /// Its name, one space for both API groups.
    pub name: String,
    /// The UID of the object it comes from.
    pub uid: String,
    /// The generation of the object it comes from.
    pub generation: Option<i64>,
    /// The API group of the object it comes from.
    pub group: Group,
    /// What it asks for. `vpc` is filled in where the group has a default.
    pub config: SubnetConfig,
    /// Whether it was found to fit the others.
    pub validation: Validation,
    /// Whether it may vanish.
    pub life: Life,
    /// Where its addresses are unique.
    pub domain: Domain,
}

/// Whether a subnet was found to fit the others: its condition `Validated`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Validation {
    /// It was not, or not yet. Nothing of it is in effect.
    Not,
    /// An earlier generation was. What can clash is immutable, so it stays in effect; no new address is taken until the
    /// current generation is validated.
    Earlier,
    /// It was, as it is now.
    Current,
}

impl Subnet {
    /// The VPC whose router it is attached to, whether or not that exists.
    pub fn vpc(&self) -> Option<&str> {
        self.config.vpc.as_deref()
    }

    /// True if it is in a VPC of a tenant: another one than that of the primary network.
    pub fn is_of_tenant(&self) -> bool {
        self.config.vni.is_none() && self.vpc().is_some_and(|vpc| vpc != DEFAULT_VPC)
    }

    /// True if the pods of the namespaces that it names are on it by that alone. Where it serves a network attachment definition, those who
    /// ask for that are.
    pub fn is_for_namespaces(&self) -> bool {
        !matches!(self.config.provider, Some(Provider::Nad { .. }))
    }

    /// True if new addresses may be taken from it.
    pub fn is_validated(&self) -> bool {
        self.validation == Validation::Current
    }

    /// True if a lock is on an address of this subnet, for someone other than a gateway.
    ///
    /// A subnet may have been made again under its name, elsewhere: what its predecessor gave away is none of its addresses.
    pub fn is_used_by(&self, lock: &Lock) -> bool {
        lock.attachment.kind() != HolderKind::Subnet
            && *lock.subnet() == self.name
            && *lock.domain() == self.domain
            && lock.ip().is_none_or(|ip| self.config.cidr.contains(ip))
    }

    /// Why no guest can have an address, whoever asks for it; none if guests can.
    pub fn address_problem(&self, address: IpAddr) -> Option<AddressProblem> {
        let (subnet, family) = (|| self.name.clone(), Family::of(address));
        let Some(net) = self.config.cidr.net(family).filter(|net| net.contains(&address)) else {
            return Some(AddressProblem::OutOfRange { subnet: subnet(), cidr: self.config.cidr });
        };
        if self.config.gateway.address(family) == Some(address) {
            return Some(AddressProblem::Gateway { subnet: subnet() });
        }
        let is_for_guests = guest_range(net).is_some_and(|range| range.contains(address));
        (!is_for_guests).then(|| AddressProblem::NotAGuest { subnet: subnet() })
    }

    /// The same for a holder of this kind.
    pub fn address_problem_for(&self, holder: HolderKind, address: IpAddr) -> Option<AddressProblem> {
        let is_of_node = holder != HolderKind::Node && self.is_of_node(address);
        let of_node = || AddressProblem::OfNode { subnet: self.name.clone() };
        self.address_problem(address).or_else(|| is_of_node.then(of_node))
    }

    /// The address domain of a subnet of this name.
    pub fn domain_of(name: &str, config: &SubnetConfig) -> Domain {
        match (&config.vpc, config.vni) {
            (_, Some(vni)) => Domain::Vni(vni),
            (Some(vpc), None) => Domain::Vpc(vpc.as_str().into()),
            (None, None) => Domain::Subnet(name.into()),
        }
    }

    /// True if the namespace is one of the subnet's own, or was let in by name.
    ///
    /// A subnet that a VPC gives to its namespaces, or that is the cluster's default, is open to those too; that the
    /// World knows.
    pub fn allows(&self, namespace: &str) -> bool {
        let own = self.config.namespaces.iter().any(|own| own == namespace)
            || matches!(&self.config.provider, Some(Provider::Nad { namespace: own, .. }) if own == namespace);
        own || match &self.config.allowed_namespaces {
            AllowedNamespaces::Own => false,
            AllowedNamespaces::Listed(listed) => listed.iter().any(|listed| listed == namespace),
            AllowedNamespaces::All => true,
        }
    }
}
