//! Pools: addresses of a subnet that are kept for those who name the pool, or whose namespace does.

use std::fmt;

use portolan_api::kubeovn::IpPoolConfig;
use portolan_api::{CidrBlock, FieldError, FieldErrors, FieldPath, IpRange, Reason};

use crate::subnet::Subnet;

/// A pool of addresses.
#[derive(Clone, Debug, PartialEq)]
pub struct IpPool {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// What it says, or what is wrong with it.
    pub config: Result<IpPoolConfig, FieldErrors>,
}

/// Why a pool that can be understood is not in effect, or not for itself alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IpPoolProblem {
    /// Its Subnet does not exist.
    SubnetNotFound {
        /// The Subnet.
        subnet: String,
    },
    /// Its Subnet is not in effect.
    SubnetNotReady {
        /// The Subnet.
        subnet: String,
    },
    /// It has addresses that are not the Subnet's.
    OutOfSubnet {
        /// The first range with such addresses.
        range: IpRange,
        /// The Subnet.
        subnet: String,
        /// The Subnet's prefixes.
        cidr: CidrBlock,
    },
    /// It has addresses of another pool. Both are used all the same.
    Overlaps {
        /// The first range with such addresses.
        range: IpRange,
        /// The other pool.
        other: String,
    },
}

impl IpPoolProblem {
    /// The name of the problem: the reason of a condition and of an Event.
    pub fn reason(&self) -> &'static str {
        match self {
            IpPoolProblem::SubnetNotFound { .. } => "SubnetNotFound",
            IpPoolProblem::SubnetNotReady { .. } => "SubnetNotReady",
            IpPoolProblem::OutOfSubnet { .. } => "OutOfSubnet",
            IpPoolProblem::Overlaps { .. } => "Overlaps",
        }
    }

    /// Whether a pool of this subnet has addresses that are not the subnet's.
    pub(crate) fn out_of(subnet: &Subnet, config: &IpPoolConfig) -> Option<Self> {
        let cidr = subnet.config.cidr;
        let is_outside = |range: &&IpRange| !cidr.contains(range.start()) || !cidr.contains(range.end());
        let range = *config.ranges.iter().find(is_outside)?;
        Some(IpPoolProblem::OutOfSubnet { range, subnet: subnet.name.clone(), cidr })
    }
}

/// Without the field: [`FieldError`] has it.
impl fmt::Display for IpPoolProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IpPoolProblem::SubnetNotFound { subnet } => write!(f, "there is no Subnet {subnet:?}"),
            IpPoolProblem::SubnetNotReady { subnet } => {
                write!(f, "Subnet {subnet:?} is not in effect; see its conditions")
            }
            IpPoolProblem::OutOfSubnet { range, subnet, cidr } => {
                write!(f, "{range} is not in Subnet {subnet}, which has {cidr}")
            }
            IpPoolProblem::Overlaps { range, other } => write!(
                f,
                "{range} overlaps IPPool {other}; both are used, and share these addresses; remove them from one"
            ),
        }
    }
}

impl From<&IpPoolProblem> for FieldError {
    fn from(problem: &IpPoolProblem) -> Self {
        let (field, reason) = match problem {
            IpPoolProblem::SubnetNotFound { .. } | IpPoolProblem::SubnetNotReady { .. } => {
                ("subnet", Reason::Invalid)
            }
            IpPoolProblem::OutOfSubnet { .. } => ("ips", Reason::Invalid),
            IpPoolProblem::Overlaps { .. } => ("ips", Reason::Duplicate),
        };
        let path = FieldPath::SPEC.field(field).to_string();
        FieldError { path, value: None, reason, message: problem.to_string() }
    }
}
