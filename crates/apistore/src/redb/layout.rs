//! The tables, and how a record is written in bytes. Integers are little-endian.

use redb::TableDefinition;

use crate::StoreError;

/// Raised when the tables or records change their meaning. A store of another format is not opened.
pub(super) const FORMAT_VERSION: u64 = 1;

pub(super) const CURRENT: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("current");
pub(super) const LOG: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("log");
pub(super) const ENDED: TableDefinition<'_, (&[u8], u64), ()> = TableDefinition::new("ended");
pub(super) const COUNTS: TableDefinition<'_, &[u8], u64> = TableDefinition::new("counts");
pub(super) const MARKS: TableDefinition<'_, u64, u64> = TableDefinition::new("marks");
pub(super) const LEAPS: TableDefinition<'_, u64, u64> = TableDefinition::new("leaps");
pub(super) const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");

/// The key in `meta` of the format version.
pub(super) const FORMAT: &str = "format";
/// The key in `meta` of the oldest revision that can be listed at or watched from.
pub(super) const OLDEST: &str = "oldest";

/// What a key holds or held: a record of `current`, and the tail of a record of `log`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held<'a> {
    pub(super) created: u64,
    pub(super) modified: u64,
    pub(super) value: &'a [u8],
}

impl<'a> Held<'a> {
    pub(super) fn encode(self, into: &mut Vec<u8>) {
        into.extend_from_slice(&self.created.to_le_bytes());
        into.extend_from_slice(&self.modified.to_le_bytes());
        into.extend_from_slice(self.value);
    }

    pub(super) fn decode(bytes: &'a [u8]) -> Result<Self, StoreError> {
        let (created, bytes) = take_u64(bytes)?;
        let (modified, value) = take_u64(bytes)?;
        Ok(Held { created, modified, value })
    }
}

/// A record of `log`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Logged<'a> {
    /// The bytes of all records up to and with this one, since the store was made.
    pub(super) total: u64,
    pub(super) key: &'a [u8],
    pub(super) what: What<'a>,
}

/// What a change did to its key. What the key holds since is not in the record: see [`crate::redb`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What<'a> {
    Created,
    Updated(Held<'a>),
    Deleted(Held<'a>),
}

const CREATED: u8 = 0;
const UPDATED: u8 = 1;
const DELETED: u8 = 2;

impl<'a> What<'a> {
    /// What the key held before.
    pub(super) fn before(self) -> Option<Held<'a>> {
        match self {
            What::Created => None,
            What::Updated(held) | What::Deleted(held) => Some(held),
        }
    }
}

impl<'a> Logged<'a> {
    /// Writes the record after `total` bytes of records before it; returns the total with it.
    pub(super) fn encode(total: u64, key: &[u8], what: What<'_>, into: &mut Vec<u8>) -> u64 {
        let start = into.len();
        into.extend_from_slice(&[0; 8]);
        into.push(match what {
            What::Created => CREATED,
            What::Updated(_) => UPDATED,
            What::Deleted(_) => DELETED,
        });
        into.extend_from_slice(&(key.len() as u64).to_le_bytes());
        into.extend_from_slice(key);
        if let Some(held) = what.before() {
            held.encode(into);
        }
        let total = total + (into.len() - start) as u64;
        into[start..start + 8].copy_from_slice(&total.to_le_bytes());
        total
    }

    pub(super) fn decode(bytes: &'a [u8]) -> Result<Self, StoreError> {
        let (total, bytes) = take_u64(bytes)?;
        let (kind, bytes) = bytes.split_first().ok_or_else(malformed)?;
        let (length, bytes) = take_u64(bytes)?;
        let length = usize::try_from(length).map_err(|_| malformed())?;
        let (key, rest) = bytes.split_at_checked(length).ok_or_else(malformed)?;
        let what = match *kind {
            CREATED => What::Created,
            UPDATED => What::Updated(Held::decode(rest)?),
            DELETED => What::Deleted(Held::decode(rest)?),
            _ => return Err(malformed()),
        };
        Ok(Logged { total, key, what })
    }
}

/// The failure for what this crate cannot have written.
pub(super) fn malformed() -> StoreError {
    StoreError::Failed("the database holds a malformed record".to_owned())
}

/// What a failure of redb is to a caller of the store.
pub(super) fn failed(error: impl Into<redb::Error>) -> StoreError {
    match error.into() {
        redb::Error::DatabaseClosed => StoreError::Closed,
        error => StoreError::Failed(error.to_string()),
    }
}

/// The first key after all keys with this prefix; none if there is no such key.
pub(super) fn end_of(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

fn take_u64(bytes: &[u8]) -> Result<(u64, &[u8]), StoreError> {
    let (head, rest) = bytes.split_first_chunk().ok_or_else(malformed)?;
    Ok((u64::from_le_bytes(*head), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_read_back_as_written() {
        let held = Held { created: 3, modified: 1 << 40, value: b"value" };
        for what in [What::Created, What::Updated(held), What::Deleted(Held { value: b"", ..held })] {
            for key in [&b""[..], b"a/b", &[0xff; 300]] {
                let mut bytes = Vec::new();
                let total = Logged::encode(7, key, what, &mut bytes);
                assert_eq!(total, 7 + bytes.len() as u64);
                assert_eq!(Logged::decode(&bytes).unwrap(), Logged { total, key, what });
            }
        }
    }

    #[test]
    fn a_cut_record_is_an_error_not_a_panic() {
        let mut bytes = Vec::new();
        let held = Held { created: 1, modified: 2, value: b"" };
        Logged::encode(0, b"key", What::Deleted(held), &mut bytes);
        for length in 0..bytes.len() {
            assert!(Logged::decode(&bytes[..length]).is_err(), "cut to {length}");
        }
        let mut hostile = bytes.clone();
        hostile[9..17].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(Logged::decode(&hostile).is_err());
    }

    #[test]
    fn a_prefix_ends_before_the_next_key_that_lacks_it() {
        assert_eq!(end_of(b"a/").unwrap(), b"a0");
        assert_eq!(end_of(b"a\xff\xff").unwrap(), b"b");
        assert_eq!(end_of(b""), None);
        assert_eq!(end_of(b"\xff\xff"), None);
    }
}
