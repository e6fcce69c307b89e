//! Ethernet addresses, and the ones that follow from an IP address.
//!
//! A derived MAC saves distributing it: whoever knows the address knows the MAC.
//!
//! | for | bytes | unique within its switch because |
//! |---|---|---|
//! | IPv4 | `0a:58` and the four of the address | it holds the whole address |
//! | IPv4 in a VNI | 14 low bits of the VNI around the flag bits, then the address | it holds the whole address |
//! | IPv6 only | 46 bits of SHA-256 of the address | of 46 hash bits: two of a million addresses clash once in 140 such switches |
//!
//! All have the locally-administered bit set and the multicast bit clear.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};

use crate::field_error::Problem;
use crate::vni::Vni;

/// Locally administered, not multicast: the two flag bits of the first byte.
const LOCAL_UNICAST: u8 = 0b10;
const FLAG_BITS: u8 = 0b11;

/// A 48-bit Ethernet address. Its text is lower case with colons.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mac([u8; 6]);

impl Mac {
    /// The first two bytes of every MAC derived from an IPv4 address outside a VNI.
    pub const IPV4_PREFIX: [u8; 2] = [0x0a, 0x58];

    /// An address of these bytes.
    pub const fn new(bytes: [u8; 6]) -> Self {
        Self(bytes)
    }

    /// The bytes, in wire order.
    pub const fn octets(self) -> [u8; 6] {
        self.0
    }

    /// The MAC of an interface whose first address is `address`, in a VNI or outside.
    ///
    /// An interface with addresses of both families takes the MAC of its IPv4 address.
    pub fn derive(address: IpAddr, vni: Option<Vni>) -> Self {
        match address {
            IpAddr::V4(v4) => Self::from_ipv4(v4, Self::ipv4_prefix(vni)),
            IpAddr::V6(v6) => Self::from_ipv6(v6, vni),
        }
    }

    /// True if a MAC of this shape is derived from *some* IPv4 address, so that no one may ask for it
    /// except the holder of that address.
    pub fn looks_derived(self, vni: Option<Vni>) -> bool {
        self.0[..2] == Self::ipv4_prefix(vni)
    }

    /// True for an address that one interface can have: neither multicast nor all zeros.
    pub fn is_unicast(self) -> bool {
        self.0[0] & 1 == 0 && self.0 != [0; 6]
    }

    fn from_ipv4(address: Ipv4Addr, [first, second]: [u8; 2]) -> Self {
        let [a, b, c, d] = address.octets();
        Self([first, second, a, b, c, d])
    }

    fn ipv4_prefix(vni: Option<Vni>) -> [u8; 2] {
        let Some(vni) = vni else { return Self::IPV4_PREFIX };
        let [_, _, high, low] = vni.get().to_be_bytes();
        [(high << 2) | LOCAL_UNICAST, low]
    }

    fn from_ipv6(address: Ipv6Addr, vni: Option<Vni>) -> Self {
        let mut hash = Sha256::new();
        hash.update(b"portolan mac\0");
        hash.update(vni.map_or(0, Vni::get).to_be_bytes());
        hash.update(address.octets());
        let digest = hash.finalize();
        let mut bytes = [0; 6];
        bytes.copy_from_slice(&digest[..6]);
        bytes[0] = (bytes[0] & !FLAG_BITS) | LOCAL_UNICAST;
        // Keep clear of the MACs that belong to IPv4 addresses.
        if bytes[..2] == Self::ipv4_prefix(vni) {
            bytes[1] ^= 0x80;
        }
        Self(bytes)
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Mac {
    type Err = Problem;

    /// Six pairs of hexadecimal digits of either case, separated by colons or by dashes.
    fn from_str(text: &str) -> Result<Self, Problem> {
        let problem = || {
            Problem::invalid("is not a MAC address; write six hexadecimal bytes, such as 02:00:00:00:00:01")
        };
        let separator = if text.contains('-') { '-' } else { ':' };
        let mut bytes = [0; 6];
        let mut parts = text.split(separator);
        for byte in &mut bytes {
            let part = parts.next().ok_or_else(problem)?;
            // `from_str_radix` alone would take "+f".
            if part.len() != 2 || !part.bytes().all(|b| b.is_ascii_hexdigit()) {
                return Err(problem());
            }
            *byte = u8::from_str_radix(part, 16).map_err(|_| problem())?;
        }
        if parts.next().is_some() { Err(problem()) } else { Ok(Self(bytes)) }
    }
}

/// Parses a MAC that an interface is to have.
pub fn parse_interface_mac(text: &str) -> Result<Mac, Problem> {
    let mac: Mac = text.parse()?;
    if mac.is_unicast() {
        Ok(mac)
    } else {
        Err(Problem::invalid(
            "cannot be an interface's address, as it is multicast or zero; clear the lowest bit of its first byte",
        ))
    }
}

impl Serialize for Mac {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Mac {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn vni(number: i64) -> Option<Vni> {
        Some(Vni::new(number).unwrap())
    }

    #[test]
    fn derived_macs_are_stable() {
        let mac = |address: &str, vni| Mac::derive(address.parse().unwrap(), vni).to_string();
        assert_eq!(mac("10.16.0.7", None), "0a:58:0a:10:00:07");
        assert_eq!(mac("10.16.0.7", vni(1)), "02:01:0a:10:00:07");
        assert_eq!(mac("10.16.0.7", vni(0x00ab_cdef)), "36:ef:0a:10:00:07");
        // Changing these would change the MAC of every living IPv6 port.
        assert_eq!(mac("fd00::7", None), "a6:a9:f3:cb:f9:4f");
        assert_eq!(mac("fd00::7", vni(1)), "26:85:85:3c:6b:73");
    }

    #[test]
    fn text_is_lenient_in_and_canonical_out() {
        for text in ["0A:58:0a:10:00:FF", "0a-58-0A-10-00-ff"] {
            assert_eq!(text.parse::<Mac>().unwrap().to_string(), "0a:58:0a:10:00:ff");
        }
        for text in [
            "",
            "0a:58",
            "0a:58:0a:10:00:ff:00",
            "0a:58:0a:10:00:fg",
            "0a:58:0a:10:00:+f",
            "0a58.0a10.00ff",
            "0a-58:0a:10:00:ff",
        ] {
            assert!(text.parse::<Mac>().is_err(), "{text}");
        }
    }

    #[test]
    fn multicast_and_zero_are_no_interface_addresses() {
        for text in ["01:00:5e:00:00:01", "ff:ff:ff:ff:ff:ff", "00:00:00:00:00:00"] {
            assert!(parse_interface_mac(text).is_err(), "{text}");
        }
        assert!(parse_interface_mac("00:16:3e:00:00:01").is_ok());
    }

    proptest! {
        #[test]
        fn derived_macs_are_local_unicast_and_injective_for_ipv4(a: u32, b: u32, n in prop::option::of(1..=i64::from(Vni::MAX)), v6: u128) {
            let vni = n.map(|n| Vni::new(n).unwrap());
            let (a, b) = (Ipv4Addr::from_bits(a), Ipv4Addr::from_bits(b));
            let (mac_a, mac_b) = (Mac::derive(a.into(), vni), Mac::derive(b.into(), vni));
            prop_assert_eq!(a == b, mac_a == mac_b);
            prop_assert!(mac_a.looks_derived(vni));
            let mac_6 = Mac::derive(Ipv6Addr::from_bits(v6).into(), vni);
            prop_assert!(!mac_6.looks_derived(vni));
            for mac in [mac_a, mac_6] {
                prop_assert_eq!(mac.octets()[0] & FLAG_BITS, LOCAL_UNICAST);
            }
        }

        #[test]
        fn text_round_trips(bytes: [u8; 6]) {
            let mac = Mac::new(bytes);
            prop_assert_eq!(mac.to_string().parse::<Mac>().unwrap(), mac);
        }

        #[test]
        fn any_text_is_answered(text: String) {
            let _ = text.parse::<Mac>();
        }
    }
}
