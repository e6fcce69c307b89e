//! Prefixes and addresses that come alone or as an IPv4/IPv6 pair.
//!
//! The text of a pair is `v4,v6`, as in Kube-OVN's `cidrBlock`, `gateway` and `localConnectIP`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use serde::{Deserialize, Serialize};

use crate::field_error::Problem;

/// An IP address family.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
pub enum Family {
    /// IPv4.
    IPv4,
    /// IPv6.
    IPv6,
}

impl Family {
    /// The family of an address.
    pub fn of(address: IpAddr) -> Self {
        if address.is_ipv4() { Family::IPv4 } else { Family::IPv6 }
    }

    /// The family of a prefix.
    pub fn of_net(net: &IpNet) -> Self {
        Self::of(net.addr())
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Family::IPv4 => "IPv4",
            Family::IPv6 => "IPv6",
        })
    }
}

/// What to do with a prefix such as `10.0.0.5/24`, whose address is not the network's.
///
/// `kubeovn.io` masks, as Kube-OVN does and its clients expect. `portolan.dev` refuses: the two readings
/// (a mistyped length, a mistyped address) are equally likely, and an address plan should not be guessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostBits {
    /// Take the network that the address is in.
    Mask,
    /// Say what the network would be, and refuse.
    Refuse,
}

/// One value of a family, or one of each. Never empty.
///
/// `Pair<Ipv4Net, Ipv6Net>` is a [`CidrBlock`], `Pair<Ipv4Addr, Ipv6Addr>` an [`AddressPair`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pair<A, B> {
    /// IPv4 only.
    V4(A),
    /// IPv6 only.
    V6(B),
    /// Both.
    Dual(A, B),
}

/// The prefixes of a subnet.
pub type CidrBlock = Pair<Ipv4Net, Ipv6Net>;
/// An address per family, such as a subnet's gateway.
pub type AddressPair = Pair<Ipv4Addr, Ipv6Addr>;

impl<A: Copy, B: Copy> Pair<A, B> {
    /// From at most one of each; `None` if there is neither.
    pub fn from_parts(v4: Option<A>, v6: Option<B>) -> Option<Self> {
        match (v4, v6) {
            (Some(a), Some(b)) => Some(Pair::Dual(a, b)),
            (Some(a), None) => Some(Pair::V4(a)),
            (None, Some(b)) => Some(Pair::V6(b)),
            (None, None) => None,
        }
    }

    /// The IPv4 part.
    pub fn v4(&self) -> Option<A> {
        match self {
            Pair::V4(a) | Pair::Dual(a, _) => Some(*a),
            Pair::V6(_) => None,
        }
    }

    /// The IPv6 part.
    pub fn v6(&self) -> Option<B> {
        match self {
            Pair::V6(b) | Pair::Dual(_, b) => Some(*b),
            Pair::V4(_) => None,
        }
    }

    /// True if there is a part of this family.
    pub fn has(&self, family: Family) -> bool {
        match family {
            Family::IPv4 => self.v4().is_some(),
            Family::IPv6 => self.v6().is_some(),
        }
    }

    /// The families there are, IPv4 first.
    pub fn families(&self) -> impl Iterator<Item = Family> + use<A, B> {
        let (v4, v6) = (self.has(Family::IPv4), self.has(Family::IPv6));
        [(Family::IPv4, v4), (Family::IPv6, v6)].into_iter().filter(|(_, has)| *has).map(|(family, _)| family)
    }
}

impl<A: fmt::Display, B: fmt::Display> fmt::Display for Pair<A, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pair::V4(a) => write!(f, "{a}"),
            Pair::V6(b) => write!(f, "{b}"),
            Pair::Dual(a, b) => write!(f, "{a},{b}"),
        }
    }
}

impl CidrBlock {
    /// Parses one prefix, or `v4,v6`.
    pub fn parse(text: &str, host_bits: HostBits) -> Result<Self, Problem> {
        let (v4, v6) = split_pair(text, "block", |part| parse_net(part, host_bits).map(split_net))?;
        Self::from_parts(v4, v6).ok_or_else(no_cidr)
    }

    /// The prefix of this family.
    pub fn net(&self, family: Family) -> Option<IpNet> {
        match family {
            Family::IPv4 => self.v4().map(IpNet::V4),
            Family::IPv6 => self.v6().map(IpNet::V6),
        }
    }

    /// The prefixes, IPv4 first.
    pub fn nets(&self) -> impl Iterator<Item = IpNet> + use<> {
        [self.net(Family::IPv4), self.net(Family::IPv6)].into_iter().flatten()
    }

    /// True if the address lies in the prefix of its family.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.net(Family::of(address)).is_some_and(|net| net.contains(&address))
    }

    /// The first address of each prefix after the network's own: the gateway where none is named.
    pub fn first_addresses(&self) -> AddressPair {
        let v4 = |net: Ipv4Net| Ipv4Addr::from_bits(net.network().to_bits().saturating_add(1));
        let v6 = |net: Ipv6Net| Ipv6Addr::from_bits(net.network().to_bits().saturating_add(1));
        match *self {
            Pair::V4(a) => Pair::V4(v4(a)),
            Pair::V6(b) => Pair::V6(v6(b)),
            Pair::Dual(a, b) => Pair::Dual(v4(a), v6(b)),
        }
    }
}

impl AddressPair {
    /// The address of this family.
    pub fn address(&self, family: Family) -> Option<IpAddr> {
        match family {
            Family::IPv4 => self.v4().map(IpAddr::V4),
            Family::IPv6 => self.v6().map(IpAddr::V6),
        }
    }

    /// The addresses, IPv4 first.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> + use<> {
        [self.address(Family::IPv4), self.address(Family::IPv6)].into_iter().flatten()
    }
}

impl FromStr for AddressPair {
    type Err = Problem;

    /// One address, or `v4,v6`.
    fn from_str(text: &str) -> Result<Self, Problem> {
        let split = |address| match address {
            IpAddr::V4(v4) => (Some(v4), None),
            IpAddr::V6(v6) => (None, Some(v6)),
        };
        let (v4, v6) = split_pair(text, "address", |part| parse_address(part).map(split))?;
        Self::from_parts(v4, v6).ok_or_else(no_address)
    }
}

/// An interface's address with the length of its network, per family; the host bits count.
///
/// This is what `localConnectIP` of a VPC peering holds.
pub type InterfacePair = Pair<Ipv4Net, Ipv6Net>;

/// Parses `address/length`, or `v4,v6` of them, keeping the host bits.
pub fn parse_interface_pair(text: &str) -> Result<InterfacePair, Problem> {
    let (v4, v6) = split_pair(text, "address", |part| part.parse().map(split_net).map_err(|_| no_cidr()))?;
    InterfacePair::from_parts(v4, v6).ok_or_else(no_cidr)
}

/// Parses one IP address. An IPv4 address in IPv6 clothes (`::ffff:10.0.0.1`) is refused: two texts for one
/// address would be two locks for it.
pub fn parse_address(text: &str) -> Result<IpAddr, Problem> {
    match text.trim().parse() {
        Ok(IpAddr::V6(v6)) if v6.to_ipv4_mapped().is_some() => {
            Err(Problem::invalid("is an IPv4 address written as an IPv6 one; write it in dotted form"))
        }
        Ok(address) => Ok(address),
        Err(_) => Err(no_address()),
    }
}

/// Parses one prefix.
pub fn parse_net(text: &str, host_bits: HostBits) -> Result<IpNet, Problem> {
    let net: IpNet = text.trim().parse().map_err(|_| no_cidr())?;
    let masked = net.trunc();
    if masked != net && host_bits == HostBits::Refuse {
        return Err(Problem::invalid(format!("has host bits set; the network is {masked}")));
    }
    Ok(masked)
}

/// Parses a prefix, or an address as the prefix of that address alone.
pub fn parse_net_or_address(text: &str, host_bits: HostBits) -> Result<IpNet, Problem> {
    if text.contains('/') { parse_net(text, host_bits) } else { parse_address(text).map(IpNet::from) }
}

fn split_net(net: IpNet) -> (Option<Ipv4Net>, Option<Ipv6Net>) {
    match net {
        IpNet::V4(v4) => (Some(v4), None),
        IpNet::V6(v6) => (None, Some(v6)),
    }
}

type Split<A, B> = (Option<A>, Option<B>);

fn split_pair<A: fmt::Display, B: fmt::Display>(
    text: &str,
    what: &str,
    parse: impl Fn(&str) -> Result<Split<A, B>, Problem>,
) -> Result<Split<A, B>, Problem> {
    let Some((first, second)) = text.split_once(',') else {
        return parse(text.trim());
    };
    if second.contains(',') {
        return Err(Problem::invalid(format!(
            "has more than two parts; give one {what}, or an IPv4 and an IPv6 {what} separated by a comma"
        )));
    }
    match (parse(first.trim())?, parse(second.trim())?) {
        ((Some(a), _), (_, Some(b))) => Ok((Some(a), Some(b))),
        ((_, Some(b)), (Some(a), _)) => {
            Err(Problem::invalid(format!("has the IPv6 {what} first; write it as \"{a},{b}\"")))
        }
        ((Some(_), _), _) => {
            Err(Problem::invalid(format!("has two IPv4 {what}s; give one, or one of each family")))
        }
        _ => Err(Problem::invalid(format!("has two IPv6 {what}s; give one, or one of each family"))),
    }
}

fn no_cidr() -> Problem {
    Problem::invalid("is not a CIDR; write an address and a prefix length, such as 10.0.0.0/24")
}

fn no_address() -> Problem {
    Problem::invalid("is not an IP address")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn refused(text: &str) -> String {
        CidrBlock::parse(text, HostBits::Refuse).unwrap_err().to_string()
    }

    #[test]
    fn one_prefix_or_a_pair() {
        for text in ["10.0.0.0/24", "fd00::/64", "10.0.0.0/24,fd00::/64"] {
            assert_eq!(CidrBlock::parse(text, HostBits::Refuse).unwrap().to_string(), text);
        }
        let spaced = CidrBlock::parse("10.0.0.0/24, fd00::/64", HostBits::Refuse).unwrap();
        assert_eq!(spaced.to_string(), "10.0.0.0/24,fd00::/64");
        assert_eq!(spaced.families().collect::<Vec<_>>(), [Family::IPv4, Family::IPv6]);
    }

    #[test]
    fn malformed_blocks_say_how_to_fix_them() {
        let no_cidr = "is not a CIDR; write an address and a prefix length, such as 10.0.0.0/24";
        for text in ["", "10.0.0.0", "10.0.0.0/33", "10.0.0/24", "x/8", "10.0.0.0/24,", ",fd00::/64"] {
            assert_eq!(refused(text), no_cidr, "{text}");
        }
        assert_eq!(
            refused("fd00::/64,10.0.0.0/24"),
            "has the IPv6 block first; write it as \"10.0.0.0/24,fd00::/64\""
        );
        assert_eq!(
            refused("10.0.0.0/24,10.1.0.0/24"),
            "has two IPv4 blocks; give one, or one of each family"
        );
        assert_eq!(refused("fd00::/64,fd01::/64"), "has two IPv6 blocks; give one, or one of each family");
        assert_eq!(
            refused("10.0.0.0/24,fd00::/64,fd01::/64"),
            "has more than two parts; give one block, or an IPv4 and an IPv6 block separated by a comma"
        );
    }

    #[test]
    fn host_bits_are_masked_or_refused() {
        assert_eq!(refused("10.0.0.5/24"), "has host bits set; the network is 10.0.0.0/24");
        let masked = CidrBlock::parse("10.0.0.5/24,fd00::5/64", HostBits::Mask).unwrap();
        assert_eq!(masked.to_string(), "10.0.0.0/24,fd00::/64");
        assert_eq!(parse_interface_pair("169.254.0.1/30").unwrap().to_string(), "169.254.0.1/30");
    }

    #[test]
    fn one_address_has_one_text() {
        assert!(parse_address("::ffff:10.0.0.1").is_err());
        assert!(parse_address("10.0.0.01").is_err(), "octal or decimal? refused by the standard library");
        assert_eq!("10.0.0.1,FD00::1".parse::<AddressPair>().unwrap().to_string(), "10.0.0.1,fd00::1");
    }

    #[test]
    fn first_address_follows_the_network() {
        let block = CidrBlock::parse("10.0.0.0/24,fd00::/64", HostBits::Refuse).unwrap();
        assert_eq!(block.first_addresses().to_string(), "10.0.0.1,fd00::1");
    }

    proptest! {
        #[test]
        fn any_text_is_answered(text in "[0-9a-f.:/, ]{0,80}|\\PC*") {
            let _ = CidrBlock::parse(&text, HostBits::Refuse);
            let _ = parse_interface_pair(&text);
            if let Ok(pair) = text.parse::<AddressPair>() {
                prop_assert_eq!(pair.to_string().parse::<AddressPair>().unwrap(), pair);
            }
            if let Ok(block) = CidrBlock::parse(&text, HostBits::Mask) {
                prop_assert_eq!(CidrBlock::parse(&block.to_string(), HostBits::Refuse).unwrap(), block);
            }
        }
    }
}
