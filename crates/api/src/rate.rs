//! How much an interface may send and receive.

use std::fmt;
use std::str::FromStr;

use crate::field_error::Problem;

/// Megabits per second, at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u32);

/// The rates of one interface, as the pod sees them. Without one there is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// `ingress_rate`: what the pod receives.
    pub ingress: Option<Rate>,
    /// `egress_rate`: what the pod sends.
    pub egress: Option<Rate>,
}

impl Rate {
    /// The largest: OVN has 32 bits for kilobits per second.
    pub const MAX: u32 = u32::MAX / 1000;

    /// Kilobits per second.
    pub fn kilobits(self) -> i64 {
        i64::from(self.0) * 1000
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl FromStr for Rate {
    type Err = Problem;

    fn from_str(text: &str) -> Result<Self, Problem> {
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        let number = text.parse().ok().filter(|number| digits && (1..=Self::MAX).contains(number));
        number.map(Self).ok_or_else(|| {
            Problem::invalid(format!(
                "is not a rate and limits nothing; write a whole number of Mbit/s from 1 to {}, or remove the annotation for no limit",
                Self::MAX
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_whole_megabits_that_ovn_can_express() {
        for (text, kilobits) in [("1", 1_000), ("020", 20_000), ("4294967", 4_294_967_000)] {
            assert_eq!(text.parse::<Rate>().unwrap().kilobits(), kilobits);
        }
        assert!(i64::from(u32::MAX) >= Rate(Rate::MAX).kilobits());
        let wrong =
            ["", "-1", "+1", "0", "abc", "1e9", "1.5", "10M", "0x10", "4294968", "99999999999999999999999"];
        for text in wrong {
            let problem = text.parse::<Rate>().unwrap_err().to_string();
            assert!(problem.contains("from 1 to 4294967"), "{text}: {problem}");
        }
    }
}
