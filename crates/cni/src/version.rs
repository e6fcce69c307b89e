//! Versions of the CNI specification.

use std::fmt;

/// A version of the CNI specification that the plugin speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// 0.3.1
    V0_3_1,
    /// 0.4.0, which brought CHECK.
    V0_4_0,
    /// 1.0.0, which took the family out of addresses.
    V1_0_0,
    /// 1.1.0, which brought GC and STATUS.
    V1_1_0,
}

impl Version {
    /// All of them, the oldest first.
    pub const ALL: [Version; 4] = [Version::V0_3_1, Version::V0_4_0, Version::V1_0_0, Version::V1_1_0];

    /// The one that is written so.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|version| version.as_str() == text)
    }

    /// As the specification writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Version::V0_3_1 => "0.3.1",
            Version::V0_4_0 => "0.4.0",
            Version::V1_0_0 => "1.0.0",
            Version::V1_1_0 => "1.1.0",
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
