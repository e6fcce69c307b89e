//! Which versions there are, and the one that both ends of a connection use.

use std::fmt;

use crate::message::MessageError;
use crate::property::{properties, write_property};

/// A version of OpenFlow that this crate speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// OpenFlow 1.3.
    V1_3 = 4,
    /// OpenFlow 1.4.
    V1_4 = 5,
    /// OpenFlow 1.5.
    V1_5 = 6,
}

impl Version {
    /// All of them, the best first.
    pub const ALL: [Version; 3] = [Version::V1_5, Version::V1_4, Version::V1_3];

    /// As headers have it.
    pub fn number(self) -> u8 {
        self as u8
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1.{}", self.number() - 1)
    }
}

/// Versions that somebody speaks, one bit for each number. Numbers from 32 on do not exist and are left out.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Versions(u32);

impl Versions {
    /// What this crate speaks.
    pub const OURS: Versions = Versions(1 << 4 | 1 << 5 | 1 << 6);

    /// The best version that both speak.
    pub fn best_common(self, other: Versions) -> Option<Version> {
        Version::ALL.into_iter().find(|version| self.0 & other.0 & (1 << version.number()) != 0)
    }

    /// All versions up to this one, which is what a hello without a bitmap means.
    fn up_to(number: u8) -> Versions {
        Versions(u32::MAX >> 31_u8.saturating_sub(number))
    }
}

impl fmt::Debug for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries((0..32).filter(|number| self.0 & (1 << number) != 0)).finish()
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers = (1..32).filter(|number| self.0 & (1 << number) != 0);
        let names: Vec<String> = numbers.map(|number| format!("1.{}", number - 1)).collect();
        f.write_str(if names.is_empty() { "none" } else { "" })?;
        f.write_str(&names.join(", "))
    }
}

const VERSION_BITMAP: u16 = 1;

/// The first version whose hello may say which versions there are; a body of an older one means nothing.
const FIRST_WITH_ELEMENTS: u8 = 4;

/// The versions that a hello offers whose header has this version.
pub(crate) fn read_hello(version: u8, body: &[u8]) -> Result<Versions, MessageError> {
    let mut versions = Versions::up_to(version);
    if version < FIRST_WITH_ELEMENTS {
        return Ok(versions);
    }
    for property in properties(body) {
        if let (VERSION_BITMAP, bitmap) = property? {
            let Some(first) = bitmap.first_chunk() else { return Err(MessageError::Property) };
            versions = Versions(u32::from_be_bytes(*first));
        }
    }
    Ok(versions)
}

/// Appends the body of a hello.
pub(crate) fn write_hello(out: &mut Vec<u8>, versions: Versions) {
    write_property(out, VERSION_BITMAP, |out| out.extend(versions.0.to_be_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn negotiate(version: u8, body: &[u8]) -> Option<Version> {
        read_hello(version, body).unwrap().best_common(Versions::OURS)
    }

    #[test]
    fn the_best_version_that_both_have_in_their_bitmaps_is_used() {
        assert_eq!(negotiate(6, &[0, 1, 0, 8, 0, 0, 0, 0x7e]), Some(Version::V1_5));
        assert_eq!(negotiate(6, &[0, 1, 0, 8, 0, 0, 0, 0x52]), Some(Version::V1_5));
        assert_eq!(negotiate(7, &[0, 1, 0, 8, 0, 0, 0, 0x92]), Some(Version::V1_3));
        assert_eq!(negotiate(6, &[0, 1, 0, 8, 0, 0, 0, 0x0e]), None);
    }

    #[test]
    fn without_a_bitmap_all_versions_up_to_that_of_the_header_are_offered() {
        assert_eq!(negotiate(5, &[]), Some(Version::V1_4));
        assert_eq!(negotiate(255, &[]), Some(Version::V1_5));
        assert_eq!(negotiate(3, &[]), None);
        assert_eq!(negotiate(0, &[]), None);
    }

    #[test]
    fn elements_that_nobody_knows_and_bodies_of_old_hellos_mean_nothing() {
        assert_eq!(negotiate(6, &[0, 9, 0, 5, 1, 0, 0, 0, 0, 1, 0, 8, 0, 0, 0, 0x10]), Some(Version::V1_3));
        assert_eq!(negotiate(1, &[0, 1, 0, 99]), None);
    }

    #[test]
    fn a_malformed_element_is_refused() {
        for body in [
            &[0, 1][..],
            &[0, 1, 0, 3],
            &[0, 1, 0, 8, 0, 0],
            &[0, 1, 0, 6, 0, 0, 0, 0],
            &[0, 1, 0, 7, 0, 0, 0],
        ] {
            assert_eq!(read_hello(6, body), Err(MessageError::Property), "{body:?}");
        }
    }

    #[test]
    fn versions_are_shown_by_name() {
        assert_eq!(Versions::OURS.to_string(), "1.3, 1.4, 1.5");
        assert_eq!(Versions::default().to_string(), "none");
        assert_eq!(Version::V1_5.to_string(), "1.5");
    }
}
