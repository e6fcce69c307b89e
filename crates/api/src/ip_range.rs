//! Ranges of addresses: `a` or `a..b`, as in `excludeIps`.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use crate::cidr::{Family, parse_address};
use crate::field_error::Problem;

/// A range of addresses of one family, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IpRange {
    // Invariant: one family, start <= end.
    start: IpAddr,
    end: IpAddr,
}

impl IpRange {
    /// The range from `start` to `end`.
    pub fn new(start: IpAddr, end: IpAddr) -> Result<Self, Problem> {
        if Family::of(start) != Family::of(end) {
            return Err(Problem::invalid("mixes IPv4 and IPv6; both ends must be of one family"));
        }
        if start > end {
            return Err(Problem::invalid(format!("is backwards; write it as {end}..{start}")));
        }
        Ok(Self { start, end })
    }

    /// The first address.
    pub fn start(&self) -> IpAddr {
        self.start
    }

    /// The last address.
    pub fn end(&self) -> IpAddr {
        self.end
    }

    /// The family of all its addresses.
    pub fn family(&self) -> Family {
        Family::of(self.start)
    }

    /// True if the address is in the range.
    pub fn contains(&self, address: IpAddr) -> bool {
        Family::of(address) == self.family() && self.start <= address && address <= self.end
    }

    /// How many addresses; the one range that has 2^128 answers one less.
    pub fn count(&self) -> u128 {
        let bits = |address| match address {
            IpAddr::V4(v4) => u128::from(v4.to_bits()),
            IpAddr::V6(v6) => v6.to_bits(),
        };
        (bits(self.end) - bits(self.start)).saturating_add(1)
    }
}

impl From<IpAddr> for IpRange {
    fn from(address: IpAddr) -> Self {
        Self { start: address, end: address }
    }
}

impl fmt::Display for IpRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.start == self.end {
            write!(f, "{}", self.start)
        } else {
            write!(f, "{}..{}", self.start, self.end)
        }
    }
}

impl FromStr for IpRange {
    type Err = Problem;

    fn from_str(text: &str) -> Result<Self, Problem> {
        let no_range =
            || Problem::invalid("is neither an address nor a range; write 10.0.0.5 or 10.0.0.5..10.0.0.9");
        match text.split_once("..") {
            None => parse_address(text).map(Self::from).map_err(|_| no_range()),
            Some((start, end)) => {
                let start = parse_address(start).map_err(|_| no_range())?;
                let end = parse_address(end).map_err(|_| no_range())?;
                Self::new(start, end)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Result<IpRange, String> {
        text.parse::<IpRange>().map_err(|problem| problem.to_string())
    }

    #[test]
    fn address_or_range() {
        assert_eq!(parse("10.0.0.5").unwrap().count(), 1);
        let range = parse("10.0.0.5..10.0.1.4").unwrap();
        assert_eq!(range.count(), 256);
        assert!(range.contains("10.0.1.0".parse().unwrap()) && !range.contains("10.0.1.5".parse().unwrap()));
        assert!(!parse("10.0.0.0..10.255.255.255").unwrap().contains("::a00:1".parse().unwrap()));
        assert_eq!(parse("::..ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff").unwrap().count(), u128::MAX);
    }

    #[test]
    fn malformed_ranges_say_how_to_fix_them() {
        assert_eq!(parse("10.0.0.9..10.0.0.5").unwrap_err(), "is backwards; write it as 10.0.0.5..10.0.0.9");
        assert_eq!(
            parse("10.0.0.9..fd00::1").unwrap_err(),
            "mixes IPv4 and IPv6; both ends must be of one family"
        );
        for text in ["", "..", "10.0.0.1..", "10.0.0.1...10.0.0.2", "10.0.0.1-10.0.0.2", "10.0.0.0/30"] {
            assert_eq!(
                parse(text).unwrap_err(),
                "is neither an address nor a range; write 10.0.0.5 or 10.0.0.5..10.0.0.9",
                "{text}"
            );
        }
    }

    proptest! {
        #[test]
        fn text_round_trips(a: u128, b: u128, v4: bool) {
            let address = |n: u128| if v4 { IpAddr::from((n as u32).to_be_bytes()) } else { IpAddr::from(n.to_be_bytes()) };
            let (a, b) = (address(a), address(b));
            // The texts of mapped addresses are refused on purpose.
            prop_assume!(parse_address(&a.to_string()).is_ok() && parse_address(&b.to_string()).is_ok());
            let range = IpRange::new(a.min(b), a.max(b)).unwrap();
            prop_assert_eq!(range.to_string().parse::<IpRange>().unwrap(), range);
        }

        #[test]
        fn any_text_is_answered(text in "[0-9a-f.:]{0,40}|\\PC*") {
            let _ = text.parse::<IpRange>();
        }
    }
}
