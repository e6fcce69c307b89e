//! The addresses and ports that services are given.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

/// The addresses and ports that services are given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceRanges {
    pub(super) addresses: Vec<AddressRange>,
    pub(super) ports: RangeInclusive<u16>,
}

/// A network that services cannot be given addresses from.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no network for services: one network, or one of each family, with room for addresses")]
pub struct BadRange(pub String);

impl ServiceRanges {
    /// Addresses of one network, or of one for each family; the first is of the family that services have if they do not say.
    ///
    /// # Errors
    /// If a text is not a network such as `10.96.0.0/16`, or there are two of a family.
    pub fn new(networks: &[&str]) -> Result<ServiceRanges, BadRange> {
        let addresses: Vec<_> =
            networks.iter().map(|text| AddressRange::parse(text)).collect::<Result<_, _>>()?;
        match &addresses[..] {
            [_] => {}
            [first, second] if first.is_ipv4() != second.is_ipv4() => {}
            _ => return Err(BadRange(networks.join(","))),
        }
        Ok(ServiceRanges { addresses, ..ServiceRanges::default() })
    }

    /// With these ports on nodes.
    pub fn node_ports(mut self, ports: RangeInclusive<u16>) -> ServiceRanges {
        self.ports = ports;
        self
    }
}

impl Default for ServiceRanges {
    /// `10.96.0.0/16`, and the ports from 30000 to 32767.
    fn default() -> Self {
        let addresses = AddressRange { first: Ipv4Addr::new(10, 96, 0, 0).into(), size: 1 << 16 };
        ServiceRanges { addresses: vec![addresses], ports: 30000..=32767 }
    }
}

/// A network, of which at most so many addresses are given out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AddressRange {
    first: IpAddr,
    size: u64,
}

/// More addresses of a network than this are never needed.
const MOST: u64 = 1 << 32;

impl AddressRange {
    fn parse(text: &str) -> Result<AddressRange, BadRange> {
        let bad = || BadRange(text.into());
        let (address, prefix) = text.split_once('/').ok_or_else(bad)?;
        let (address, prefix): (IpAddr, u32) =
            (address.parse().map_err(|_| bad())?, prefix.parse().map_err(|_| bad())?);
        let bits: u32 = if address.is_ipv4() { 32 } else { 128 };
        // The first address and, of IPv4, the last stand for the network itself.
        let rest = bits.checked_sub(prefix).filter(|rest| *rest >= 2).ok_or_else(bad)?;
        let size = 1u64.checked_shl(rest).map_or(MOST, |size| size.min(MOST));
        let first = match address {
            IpAddr::V4(v4) => {
                let mask = u32::MAX.checked_shl(rest).unwrap_or(0);
                Ipv4Addr::from(u32::from(v4) & mask).into()
            }
            IpAddr::V6(v6) => {
                let mask = u128::MAX.checked_shl(rest).unwrap_or(0);
                Ipv6Addr::from(u128::from(v6) & mask).into()
            }
        };
        Ok(AddressRange { first, size })
    }

    pub(super) fn is_ipv4(&self) -> bool {
        self.first.is_ipv4()
    }

    /// The address that stands for the network itself.
    pub(super) fn network(&self) -> IpAddr {
        self.first
    }

    /// How many addresses can be given out.
    pub(super) fn room(&self) -> u64 {
        if self.is_ipv4() { self.size - 2 } else { self.size - 1 }
    }

    /// The address at a place among those that can be given out.
    pub(super) fn at(&self, place: u64) -> IpAddr {
        let offset = place + 1;
        match self.first {
            IpAddr::V4(v4) => {
                let offset = u32::try_from(offset).expect("the room of an IPv4 network is below 2^32");
                Ipv4Addr::from(u32::from(v4) + offset).into()
            }
            IpAddr::V6(v6) => Ipv6Addr::from(u128::from(v6) + u128::from(offset)).into(),
        }
    }

    /// The place of an address among those that can be given out.
    pub(super) fn place(&self, address: IpAddr) -> Option<u64> {
        let offset = match (self.first, address) {
            (IpAddr::V4(first), IpAddr::V4(address)) => {
                u64::from(u32::from(address).checked_sub(u32::from(first))?)
            }
            (IpAddr::V6(first), IpAddr::V6(address)) => {
                u64::try_from(u128::from(address).checked_sub(u128::from(first))?).ok()?
            }
            _ => return None,
        };
        offset.checked_sub(1).filter(|place| *place < self.room())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_gives_what_lies_inside() {
        let range = AddressRange::parse("10.0.0.5/30").unwrap();
        assert_eq!((range.network(), range.room()), ("10.0.0.4".parse().unwrap(), 2));
        assert_eq!([range.at(0), range.at(1)].map(|address| address.to_string()), ["10.0.0.5", "10.0.0.6"]);
        for (address, place) in [
            ("10.0.0.4", None),
            ("10.0.0.5", Some(0)),
            ("10.0.0.6", Some(1)),
            ("10.0.0.7", None),
            ("::1", None),
        ] {
            assert_eq!(range.place(address.parse().unwrap()), place, "{address}");
        }
        let range = AddressRange::parse("fd00::/112").unwrap();
        assert_eq!((range.at(0).to_string(), range.room()), ("fd00::1".into(), 65535));
        assert_eq!(AddressRange::parse("::/0").unwrap().room(), MOST - 1);
        assert_eq!(AddressRange::parse("0.0.0.0/0").unwrap().room(), MOST - 2);
    }

    #[test]
    fn ranges_are_one_of_each_family() {
        assert!(ServiceRanges::new(&["10.0.0.0/16", "fd00::/108"]).is_ok());
        for bad in [
            &["10.0.0.0/16", "10.1.0.0/16"][..],
            &[],
            &["10.0.0.0/31"],
            &["10.0.0.0"],
            &["x/8"],
            &["10.0.0.0/33"],
        ] {
            assert!(ServiceRanges::new(bad).is_err(), "{bad:?}");
        }
    }
}
