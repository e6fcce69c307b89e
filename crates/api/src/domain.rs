//! Address domains: within one, an address has at most one holder.

use std::fmt;
use std::str::FromStr;

use smol_str::SmolStr;

use crate::field_error::Problem;
use crate::names::is_dns_subdomain;
use crate::vni::Vni;

/// An address domain. Two domains may use the same addresses.
///
/// Its text is `vpc/<name>`, `subnet/<name>` or `vni/<number>`; Kubernetes names have no slash, so the text
/// is one to one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Domain {
    /// A VPC: all its subnets route to each other.
    Vpc(SmolStr),
    /// A subnet without a VPC: an isolated switch.
    Subnet(SmolStr),
    /// A virtual network of the VXLAN fabric.
    Vni(Vni),
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Domain::Vpc(name) => write!(f, "vpc/{name}"),
            Domain::Subnet(name) => write!(f, "subnet/{name}"),
            Domain::Vni(vni) => write!(f, "vni/{vni}"),
        }
    }
}

impl FromStr for Domain {
    type Err = Problem;

    fn from_str(text: &str) -> Result<Self, Problem> {
        match text.split_once('/') {
            Some(("vpc", name)) if is_dns_subdomain(name) => Ok(Domain::Vpc(name.into())),
            Some(("subnet", name)) if is_dns_subdomain(name) => Ok(Domain::Subnet(name.into())),
            Some(("vni", number)) => number.parse().map(Domain::Vni),
            _ => Err(Problem::invalid(
                "is not an address domain; write vpc/<name>, subnet/<name> or vni/<number>",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_one_to_one() {
        for text in ["vpc/a.b", "subnet/vpc", "vni/16777215"] {
            assert_eq!(text.parse::<Domain>().unwrap().to_string(), text);
        }
        for text in ["", "vpc", "vpc/", "vpc/A", "vni/0", "vni/01", "vni/x", "subnet/a/b", "net/a"] {
            assert!(text.parse::<Domain>().is_err(), "{text}");
        }
    }
}
