//! Peerings: two VPCs that name each other.

use portolan_api::InterfacePair;

/// Two different VPCs, in the order of their names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VpcPair {
    // Invariant: first < second.
    first: String,
    second: String,
}

impl VpcPair {
    /// The pair of two VPCs, in either order; none of a VPC with itself.
    pub fn new(a: &str, b: &str) -> Option<Self> {
        match a.cmp(b) {
            std::cmp::Ordering::Less => Some(Self { first: a.to_owned(), second: b.to_owned() }),
            std::cmp::Ordering::Equal => None,
            std::cmp::Ordering::Greater => Some(Self { first: b.to_owned(), second: a.to_owned() }),
        }
    }

    /// The VPC whose name sorts first.
    pub fn first(&self) -> &str {
        &self.first
    }

    /// The other.
    pub fn second(&self) -> &str {
        &self.second
    }
}

/// A connection of two VPCs that both want it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peering {
    /// Which VPCs.
    pub pair: VpcPair,
    /// Their ends, in the order of the pair. The addresses differ and are in one network.
    pub ends: [PeeringEnd; 2],
}

/// One end of a peering.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeeringEnd {
    /// The VPC.
    pub vpc: String,
    /// Whose its rows are.
    pub owner: String,
    /// Its address in the network between the two, with the length of that network.
    pub local_connect: InterfacePair,
}

impl Peering {
    /// Whose its rows are: the first VPC's.
    pub fn owner(&self) -> &str {
        &self.ends[0].owner
    }
}

/// Why a peering that one VPC asks for does not stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeeringProblem {
    /// The other VPC does not exist.
    NoRemote {
        /// The other VPC.
        remote: String,
    },
    /// The other VPC does not name this one.
    OneSided {
        /// This VPC.
        vpc: String,
        /// The other VPC.
        remote: String,
    },
    /// The two sides are not in one network.
    OtherNetwork {
        /// The other VPC.
        remote: String,
        /// What this one says.
        local: InterfacePair,
        /// What the other one says.
        theirs: InterfacePair,
    },
    /// Both sides claim one address.
    SameAddress {
        /// The other VPC.
        remote: String,
        /// The address.
        address: std::net::IpAddr,
    },
}

impl std::fmt::Display for PeeringProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            PeeringProblem::NoRemote { remote } => {
                write!(f, "does not exist yet; the peering is established once VPC {remote} is created")
            }
            PeeringProblem::OneSided { vpc, remote } => {
                write!(
                    f,
                    "does not name {vpc} in its vpcPeerings; the peering is established once {remote} does"
                )
            }
            PeeringProblem::OtherNetwork { remote, local, theirs } => write!(
                f,
                "is not in one network with {theirs}, which {remote} gives as its side; choose {local} or {theirs} anew"
            ),
            PeeringProblem::SameAddress { remote, address } => {
                write!(f, "claims {address}, which {remote} gives as its own side; choose another")
            }
        }
    }
}

impl PeeringEnd {
    /// Whether two ends make a connection: the same families, one network, different addresses.
    pub(crate) fn check(
        local: InterfacePair,
        theirs: InterfacePair,
        remote: &str,
    ) -> Result<(), PeeringProblem> {
        let remote = || remote.to_owned();
        let pairs = || local.nets().zip(theirs.nets());
        if local.families().ne(theirs.families()) || pairs().any(|(a, b)| a.trunc() != b.trunc()) {
            return Err(PeeringProblem::OtherNetwork { remote: remote(), local, theirs });
        }
        match pairs().find(|(a, b)| a.addr() == b.addr()) {
            Some((same, _)) => Err(PeeringProblem::SameAddress { remote: remote(), address: same.addr() }),
            None => Ok(()),
        }
    }
}
