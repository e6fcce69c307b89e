//! A hash for UUIDs, which are random already.

use std::hash::{BuildHasher, Hasher};

/// Hashes a UUID by folding its bits. Nothing but the server and ourselves chooses the UUIDs of rows.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct UuidHash;

/// The state of [`UuidHash`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct UuidHasher(u64);

impl BuildHasher for UuidHash {
    type Hasher = UuidHasher;
    fn build_hasher(&self) -> UuidHasher {
        UuidHasher(0)
    }
}

impl Hasher for UuidHasher {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            // An odd multiplier spreads the bits of UUIDs that were made by counting.
            self.0 = (self.0.rotate_left(23) ^ u64::from_le_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
    }

    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }
}
