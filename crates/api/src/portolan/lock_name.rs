//! The name of an `IPLock`: a function of the domain and the address, one to one.
//!
//! Creating the object *is* taking the address, so two different addresses must never share a name, and one
//! address must never have two. The name is
//!
//! ```text
//! <address>.<kind>-<domain's name>
//! 10-0-0-7.vpc-blue
//! fd00-0000-0000-0000-0000-0000-0000-0007.subnet-green
//! 0a-58-0a-00-00-07.vni-12
//! 10-0-0-7.vpcx-<SHA-256 of the name>       a VPC whose name is too long to fit
//! ```
//!
//! The address has no dot, so it ends at the first; the kind has no dash, so it ends at the first after that.
//! Four groups are IPv4, six a MAC, eight IPv6.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use sha2::{Digest, Sha256};

use crate::cidr::{Family, parse_address};
use crate::domain::Domain;
use crate::field_error::Problem;
use crate::mac::Mac;
use crate::names::is_dns_subdomain;
use crate::vni::Vni;

/// Longest domain name written out; a longer one is hashed. With the longest address (39), the longest kind
/// and the separators, the whole stays within the 253 characters of a Kubernetes name.
const MAX_DOMAIN_NAME: usize = 200;

/// What a lock locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockAddress {
    /// An IP address.
    Ip(IpAddr),
    /// A MAC address that someone asked for.
    Mac(Mac),
}

impl LockAddress {
    /// The family of an IP address; none of a MAC address.
    pub fn family(self) -> Option<Family> {
        match self {
            LockAddress::Ip(ip) => Some(Family::of(ip)),
            LockAddress::Mac(_) => None,
        }
    }
}

impl fmt::Display for LockAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LockAddress::Ip(ip) => write!(f, "{ip}"),
            LockAddress::Mac(mac) => write!(f, "{mac}"),
        }
    }
}

impl FromStr for LockAddress {
    type Err = Problem;

    /// Only the canonical text of an address, so that one address has one text.
    fn from_str(text: &str) -> Result<Self, Problem> {
        let address = match text.parse::<Mac>() {
            Ok(mac) => LockAddress::Mac(mac),
            Err(_) => parse_address(text)
                .map(LockAddress::Ip)
                .map_err(|_| Problem::invalid("is neither an IP address nor a MAC address"))?,
        };
        let canonical = address.to_string();
        if canonical == text {
            Ok(address)
        } else {
            Err(Problem::invalid(format!("is not in canonical form; write {canonical}")))
        }
    }
}

/// The domain that a lock's name tells.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LockDomain {
    /// The name tells it whole.
    Exact(Domain),
    /// The name tells only the kind (`vpc` or `subnet`) and a hash of the domain's name.
    Hashed {
        /// The kind.
        kind: &'static str,
        /// The hash, in hexadecimal.
        digest: String,
    },
}

impl LockDomain {
    fn of(domain: &Domain) -> Self {
        match domain {
            Domain::Vpc(name) if name.len() > MAX_DOMAIN_NAME => {
                LockDomain::Hashed { kind: "vpc", digest: digest(name) }
            }
            Domain::Subnet(name) if name.len() > MAX_DOMAIN_NAME => {
                LockDomain::Hashed { kind: "subnet", digest: digest(name) }
            }
            _ => LockDomain::Exact(domain.clone()),
        }
    }
}

/// The name of a lock, in parts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LockName {
    /// What is locked.
    pub address: LockAddress,
    /// Where it is locked.
    pub domain: LockDomain,
}

impl LockName {
    /// The name of the lock on an address of a domain.
    pub fn new(domain: &Domain, address: LockAddress) -> Self {
        Self { address, domain: LockDomain::of(domain) }
    }
}

impl fmt::Display for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            LockAddress::Ip(IpAddr::V4(v4)) => {
                let [a, b, c, d] = v4.octets();
                write!(f, "{a}-{b}-{c}-{d}")?;
            }
            LockAddress::Ip(IpAddr::V6(v6)) => {
                let [a, b, c, d, e, g, h, i] = v6.segments();
                write!(f, "{a:04x}-{b:04x}-{c:04x}-{d:04x}-{e:04x}-{g:04x}-{h:04x}-{i:04x}")?;
            }
            LockAddress::Mac(mac) => {
                let [a, b, c, d, e, g] = mac.octets();
                write!(f, "{a:02x}-{b:02x}-{c:02x}-{d:02x}-{e:02x}-{g:02x}")?;
            }
        }
        match &self.domain {
            LockDomain::Exact(Domain::Vpc(name)) => write!(f, ".vpc-{name}"),
            LockDomain::Exact(Domain::Subnet(name)) => write!(f, ".subnet-{name}"),
            LockDomain::Exact(Domain::Vni(vni)) => write!(f, ".vni-{vni}"),
            LockDomain::Hashed { kind, digest } => write!(f, ".{kind}x-{digest}"),
        }
    }
}

impl FromStr for LockName {
    type Err = Problem;

    fn from_str(text: &str) -> Result<Self, Problem> {
        let problem = || Problem::invalid("is not the name of an IPLock; it is <address>.<kind>-<domain>");
        let (address, domain) = text.split_once('.').ok_or_else(problem)?;
        let (kind, name) = domain.split_once('-').ok_or_else(problem)?;
        let name_fits = || is_dns_subdomain(name) && name.len() <= MAX_DOMAIN_NAME;
        let is_digest =
            || name.len() == 64 && name.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'a'..=b'f'));
        let domain = match kind {
            "vpc" if name_fits() => LockDomain::Exact(Domain::Vpc(name.into())),
            "subnet" if name_fits() => LockDomain::Exact(Domain::Subnet(name.into())),
            "vni" => LockDomain::Exact(Domain::Vni(name.parse::<Vni>().map_err(|_| problem())?)),
            "vpcx" if is_digest() => LockDomain::Hashed { kind: "vpc", digest: name.to_owned() },
            "subnetx" if is_digest() => LockDomain::Hashed { kind: "subnet", digest: name.to_owned() },
            _ => return Err(problem()),
        };
        let name = Self { address: parse_dashed(address).ok_or_else(problem)?, domain };
        // Whatever parses leniently (leading zeros, upper case) is not the name of any lock.
        if name.to_string() == text { Ok(name) } else { Err(problem()) }
    }
}

fn parse_dashed(text: &str) -> Option<LockAddress> {
    let mut groups = [""; 8];
    let mut count = 0;
    for group in text.split('-') {
        *groups.get_mut(count)? = group;
        count += 1;
    }
    let hex = |group: &str| u16::from_str_radix(group, 16).ok();
    match count {
        4 => {
            let mut octets = [0; 4];
            for (octet, group) in octets.iter_mut().zip(groups) {
                *octet = group.parse().ok()?;
            }
            Some(LockAddress::Ip(Ipv4Addr::from(octets).into()))
        }
        6 => {
            let mut bytes = [0; 6];
            for (byte, group) in bytes.iter_mut().zip(groups) {
                *byte = u8::try_from(hex(group)?).ok()?;
            }
            Some(LockAddress::Mac(Mac::new(bytes)))
        }
        8 => {
            let mut segments = [0; 8];
            for (segment, group) in segments.iter_mut().zip(groups) {
                *segment = hex(group)?;
            }
            Some(LockAddress::Ip(Ipv6Addr::from(segments).into()))
        }
        _ => None,
    }
}

fn digest(name: &str) -> String {
    use fmt::Write as _;
    Sha256::digest(name).iter().fold(String::with_capacity(64), |mut text, byte| {
        let _ = write!(text, "{byte:02x}"); // writing to a String cannot fail
        text
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn name(domain: &str, address: &str) -> String {
        LockName::new(&domain.parse().unwrap(), address.parse().unwrap()).to_string()
    }

    #[test]
    fn names_read_well() {
        assert_eq!(name("vpc/blue", "10.0.0.7"), "10-0-0-7.vpc-blue");
        assert_eq!(name("subnet/a.b", "fd00::7"), "fd00-0000-0000-0000-0000-0000-0000-0007.subnet-a.b");
        assert_eq!(name("vni/12", "0a:58:0a:00:00:07"), "0a-58-0a-00-00-07.vni-12");
        let long = format!("vpc/{}", "a".repeat(201));
        assert_eq!(
            name(&long, "10.0.0.7"),
            "10-0-0-7.vpcx-a92efd82109373e58f9a2056dee01e807e216ce6075f7051207c0a9f7d666e50"
        );
    }

    #[test]
    fn only_the_canonical_text_of_an_address_is_a_lock_address() {
        for text in ["FD00::7", "fd00:0::7", "0A:58:0a:00:00:07", "0a-58-0a-00-00-07", "10.0.0.7/24", ""] {
            assert!(text.parse::<LockAddress>().is_err(), "{text}");
        }
    }

    #[test]
    fn foreign_names_are_not_lock_names() {
        for text in [
            "",
            "10-0-0-7",
            "10-0-0-7.blue",
            "10-0-0-7.vpc-",
            "010-0-0-7.vpc-a",
            "10-0-0-256.vpc-a",
            "10-0-0.vpc-a",
            "10-0-0-7.vni-0",
            "10-0-0-7.vni-07",
            "10-0-0-7.vpcx-abc",
            "10-0-0-7.vpc-A",
            "1-2-3-4-5-6-7-8-9.vpc-a",
            "0A-58-0a-00-00-07.vpc-a",
            "a-58-0a-00-00-07.vpc-a",
            "+10-0-0-7.vpc-a",
        ] {
            assert!(text.parse::<LockName>().is_err(), "{text}");
        }
    }

    fn any_domain() -> impl Strategy<Value = Domain> {
        // Short alphabets make clashes likely, if there are any to be found.
        let names = || {
            prop_oneof![
                "[ab0]([-.]?[ab0x]){0,3}",
                "[0-9a-f]{64}",
                "a{199,203}",
                "(10-0-0-1\\.)?vpcx?-[a-f0-9]{1,3}"
            ]
        };
        prop_oneof![
            names().prop_map(|name| Domain::Vpc(name.into())),
            names().prop_map(|name| Domain::Subnet(name.into())),
            prop_oneof![1..30i64, 1..=i64::from(Vni::MAX)].prop_map(|n| Domain::Vni(Vni::new(n).unwrap())),
        ]
    }

    fn any_address() -> impl Strategy<Value = LockAddress> {
        prop_oneof![
            any::<u32>().prop_map(|n| LockAddress::Ip(Ipv4Addr::from_bits(n).into())),
            (0..4u32).prop_map(|n| LockAddress::Ip(Ipv4Addr::from_bits(n).into())),
            any::<u128>().prop_map(|n| LockAddress::Ip(Ipv6Addr::from_bits(n).into())),
            (0..4u128).prop_map(|n| LockAddress::Ip(Ipv6Addr::from_bits(n).into())),
            any::<[u8; 6]>().prop_map(|bytes| LockAddress::Mac(Mac::new(bytes))),
            (0..4u8).prop_map(|n| LockAddress::Mac(Mac::new([0, 0, 0, 0, 0, n]))),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn different_addresses_have_different_names(d1 in any_domain(), a1 in any_address(), d2 in any_domain(), a2 in any_address()) {
            prop_assert_eq!((&d1, a1) == (&d2, a2), LockName::new(&d1, a1).to_string() == LockName::new(&d2, a2).to_string());
            // The same address in both domains, and both addresses in one.
            prop_assert_eq!(d1 == d2, LockName::new(&d1, a1).to_string() == LockName::new(&d2, a1).to_string());
            prop_assert_eq!(a1 == a2, LockName::new(&d1, a1).to_string() == LockName::new(&d1, a2).to_string());
        }

        #[test]
        fn names_are_kubernetes_names_and_parse_back(domain in any_domain(), address in any_address()) {
            let name = LockName::new(&domain, address);
            let text = name.to_string();
            prop_assert!(is_dns_subdomain(&text), "{}", text);
            prop_assert_eq!(text.parse::<LockName>().unwrap(), name.clone());
            match name.domain {
                LockDomain::Exact(exact) => prop_assert_eq!(exact, domain),
                LockDomain::Hashed { .. } => prop_assert!(domain.to_string().len() > MAX_DOMAIN_NAME),
            }
        }

        #[test]
        fn any_text_is_answered(text in "[0-9a-f-]{0,40}\\.(vpc|subnet|vni|vpcx)-[a-z0-9]{0,5}|\\PC*") {
            if let Ok(name) = text.parse::<LockName>() {
                prop_assert_eq!(name.to_string(), text);
            }
        }
    }
}
