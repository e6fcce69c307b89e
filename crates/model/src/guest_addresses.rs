//! Which addresses of a subnet guests can have.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use portolan_api::{CidrBlock, IpRange};

/// Why no guest can have an address of a subnet, whoever asks for it. Its text goes on where the address ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddressProblem {
    /// It is not one of the subnet's.
    OutOfRange {
        /// The subnet.
        subnet: String,
        /// Its prefixes.
        cidr: CidrBlock,
    },
    /// It is the gateway's.
    Gateway {
        /// The subnet.
        subnet: String,
    },
    /// It is the node's own.
    OfNode {
        /// The node's subnet.
        subnet: String,
    },
    /// It is the network's own or its broadcast address.
    NotAGuest {
        /// The subnet.
        subnet: String,
    },
}

impl fmt::Display for AddressProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AddressProblem::OutOfRange { subnet, cidr } => {
                write!(f, "is not in Subnet {subnet}, which has {cidr}; ask for another")
            }
            AddressProblem::Gateway { subnet } => {
                write!(f, "is the gateway of Subnet {subnet}; ask for another")
            }
            AddressProblem::OfNode { subnet } => {
                write!(f, "is the node's own address in Subnet {subnet}; ask for another")
            }
            AddressProblem::NotAGuest { subnet } => {
                write!(f, "is the network or broadcast address of Subnet {subnet}; ask for another")
            }
        }
    }
}

/// The addresses of a prefix that guests can have: neither the network's own nor, of IPv4, the broadcast address.
pub fn guest_range(net: IpNet) -> Option<IpRange> {
    let (first, last) = match net {
        IpNet::V4(v4) => {
            let last = v4.broadcast().to_bits().checked_sub(1)?;
            let first = v4.network().to_bits().checked_add(1)?;
            (IpAddr::from(first.to_be_bytes()), IpAddr::from(last.to_be_bytes()))
        }
        IpNet::V6(v6) => {
            let first = v6.network().to_bits().checked_add(1)?;
            (IpAddr::from(first.to_be_bytes()), IpAddr::V6(v6.broadcast()))
        }
    };
    IpRange::new(first, last).ok()
}
