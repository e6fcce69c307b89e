//! VXLAN network identifiers.

use std::fmt;
use std::str::FromStr;

use crate::field_error::Problem;

/// A VXLAN network identifier: 24 bits, zero excluded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Vni(u32);

impl Vni {
    /// The largest identifier.
    pub const MAX: u32 = (1 << 24) - 1;

    /// The identifier, if the number is one.
    pub fn new(number: i64) -> Result<Self, Problem> {
        u32::try_from(number)
            .ok()
            .filter(|n| (1..=Self::MAX).contains(n))
            .map(Self)
            .ok_or_else(|| Problem::invalid("is not a VXLAN network identifier; use 1 to 16777215"))
    }

    /// The identifier as a number.
    pub fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for Vni {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl FromStr for Vni {
    type Err = Problem;
    fn from_str(text: &str) -> Result<Self, Problem> {
        // Only the canonical form, so that text and number are one to one: no sign, no leading zero.
        let canonical = !text.starts_with(['0', '+', '-']);
        Self::new(text.parse().ok().filter(|_| canonical).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_is_24_bits_without_zero() {
        assert!(Vni::new(0).is_err());
        assert!(Vni::new(-1).is_err());
        assert_eq!(Vni::new(1).unwrap().get(), 1);
        assert_eq!(Vni::new(16_777_215).unwrap().get(), Vni::MAX);
        assert!(Vni::new(16_777_216).is_err());
    }

    #[test]
    fn only_canonical_text_is_accepted() {
        assert_eq!("7".parse::<Vni>().unwrap().get(), 7);
        for text in ["", "07", "+7", "-7", "7 ", "0x7", "99999999999999999999"] {
            assert!(text.parse::<Vni>().is_err(), "{text}");
        }
    }
}
