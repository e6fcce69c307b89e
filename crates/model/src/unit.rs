//! Units: the smallest things that are planned alone.

use std::fmt;
use std::str::FromStr;

use portolan_api::names::is_dns_subdomain;

use crate::attachment::AttachmentId;
use crate::node_subnet::node_of_subnet;
use crate::peering::VpcPair;

/// The smallest thing planned alone.
///
/// Its text is the tag `portolan/unit` of everything planned for it, and reads back:
///
/// ```text
/// vpc/blue
/// subnet/web
/// subnet/node:node-1
/// node/node-1
/// chassis/node-1
/// peering/blue/green
/// attachment/pod/default/web-0/eth0/<uid>
/// attachment/node/node-1/node/<uid>
/// service/default/web
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unit {
    /// A VPC, by name.
    Vpc(String),
    /// A subnet, by name; that of a node too.
    Subnet(String),
    /// What the primary network has for a node beside its subnet and its port, by the node's name.
    Node(String),
    /// What Services of the primary network have for a node's chassis alone, by the node's name.
    Chassis(String),
    /// Two connected VPCs.
    Peering(VpcPair),
    /// One interface.
    Attachment(AttachmentId),
    /// A Service of the primary network.
    Service {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
}

/// What is to be done about what was planned for a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UnitState {
    /// There is no such thing, or it is not to be in effect: what is there of it goes.
    Absent,
    /// There is such a thing, but what it asks for is not known or not allowed right now (a mistake in an edit, a subnet
    /// not validated). What is there of it stays as it is, and nothing is added: a typo must not tear down what works.
    Held,
    /// It is in effect: plan it.
    Live,
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unit::Vpc(name) => write!(f, "vpc/{name}"),
            Unit::Subnet(name) => write!(f, "subnet/{name}"),
            Unit::Node(name) => write!(f, "node/{name}"),
            Unit::Peering(pair) => write!(f, "peering/{}/{}", pair.first(), pair.second()),
            Unit::Attachment(id) => write!(f, "attachment/{id}"),
            Unit::Chassis(name) => write!(f, "chassis/{name}"),
            Unit::Service { namespace, name } => write!(f, "service/{namespace}/{name}"),
        }
    }
}

/// A text that is no unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoUnit;

impl fmt::Display for NoUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("is not a unit")
    }
}

impl std::error::Error for NoUnit {}

impl FromStr for Unit {
    type Err = NoUnit;

    fn from_str(text: &str) -> Result<Self, NoUnit> {
        let (kind, rest) = text.split_once('/').ok_or(NoUnit)?;
        let name = || is_dns_subdomain(rest).then(|| rest.to_owned()).ok_or(NoUnit);
        match kind {
            "vpc" => name().map(Unit::Vpc),
            "subnet" => {
                let name = node_of_subnet(rest).unwrap_or(rest);
                is_dns_subdomain(name).then(|| Unit::Subnet(rest.to_owned())).ok_or(NoUnit)
            }
            "node" => name().map(Unit::Node),
            "chassis" => name().map(Unit::Chassis),
            "service" => {
                let (namespace, name) = rest.split_once('/').ok_or(NoUnit)?;
                let is_one = is_dns_subdomain(namespace) && is_dns_subdomain(name);
                let unit = || Unit::Service { namespace: namespace.to_owned(), name: name.to_owned() };
                is_one.then(unit).ok_or(NoUnit)
            }
            "peering" => {
                let (first, second) = rest.split_once('/').ok_or(NoUnit)?;
                let pair = VpcPair::new(first, second).filter(|pair| pair.first() == first).ok_or(NoUnit)?;
                (is_dns_subdomain(first) && is_dns_subdomain(second))
                    .then_some(Unit::Peering(pair))
                    .ok_or(NoUnit)
            }
            "attachment" => rest.parse().map(Unit::Attachment),
            _ => Err(NoUnit),
        }
    }
}

impl From<AttachmentId> for Unit {
    fn from(id: AttachmentId) -> Self {
        Unit::Attachment(id)
    }
}
